package model

import (
	"slices"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// knownAPI is an API that needs no connector file.
type knownAPI struct {
	name    string
	api     dialect.Name
	base    string
	keyEnv  string // environment variable of the key
	baseEnv string // environment variable of the base
}

var knownAPIs = []knownAPI{
	{"anthropic", dialect.Anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
	{"openai", dialect.OpenAI, "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"},
	{"responses", dialect.Responses, "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"},
	{"gemini", dialect.Gemini, "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"},
	{"deepseek", dialect.OpenAI, "https://api.deepseek.com", "DEEPSEEK_API_KEY", ""},
}

func knownAPIOf(name string) (knownAPI, bool) {
	i := slices.IndexFunc(knownAPIs, func(m knownAPI) bool { return m.name == name })
	if i < 0 {
		return knownAPI{}, false
	}
	return knownAPIs[i], true
}

// Default is the name of the connector from the ATOLL_MODEL_* variables, which is
// preferred where no connector is named.
const Default = "default"

// KnownConnectors returns the connectors whose keys are in the environment: anthropic,
// openai, responses, gemini and deepseek, with any model; and default, from
// ATOLL_MODEL_API (one of these names), ATOLL_MODEL_BASE, ATOLL_MODEL_KEY and ATOLL_MODEL.
func KnownConnectors(env func(string) (string, bool)) map[string]Connector {
	all := map[string]Connector{}
	get := func(name string) string {
		if name == "" {
			return ""
		}
		v, _ := env(name)
		return v
	}
	for _, m := range knownAPIs {
		c := Connector{Name: m.name, API: m.api, Base: m.base, Key: get(m.keyEnv), Models: []string{"*"}, Source: "$" + m.keyEnv}
		if b := get(m.baseEnv); b != "" {
			c.Base = b
		}
		if c.Key != "" {
			all[m.name] = c
		}
	}
	kind := get("ATOLL_MODEL_API")
	m, ok := knownAPIOf(kind)
	if !ok {
		return all
	}
	c := Connector{
		Name: Default, API: m.api, Base: m.base, Key: get("ATOLL_MODEL_KEY"), Model: get("ATOLL_MODEL"), Source: "$ATOLL_MODEL_API",
	}
	if c.Model == "" {
		c.Models = []string{"*"}
	}
	if b := get("ATOLL_MODEL_BASE"); b != "" {
		c.Base = b
	}
	if c.Key == "" {
		c.Key = get(m.keyEnv)
	}
	all[Default] = c
	return all
}
