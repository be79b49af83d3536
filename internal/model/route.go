package model

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// route is what a path asks for.
type route struct {
	api    dialect.Name
	what   string // "answer", "count", "models", "model", "hello"; empty: nothing that is known
	model  string // of the path
	stream bool   // of the path
}

// paths are those that may be asked for, each exactly so. Nothing of a path is
// ever passed on.
var paths = map[string]route{
	"POST /v1/messages":              {api: dialect.Anthropic, what: "answer"},
	"POST /messages":                 {api: dialect.Anthropic, what: "answer"},
	"POST /v1/messages/count_tokens": {api: dialect.Anthropic, what: "count"},
	"POST /messages/count_tokens":    {api: dialect.Anthropic, what: "count"},
	"POST /v1/chat/completions":      {api: dialect.OpenAI, what: "answer"},
	"POST /chat/completions":         {api: dialect.OpenAI, what: "answer"},
	"POST /v1/responses":             {api: dialect.Responses, what: "answer"},
	"POST /responses":                {api: dialect.Responses, what: "answer"},
	"GET /v1/models":                 {what: "models"},
	"GET /models":                    {what: "models"},
	"GET /v1beta/models":             {api: dialect.Gemini, what: "models"},
	"GET /":                          {what: "hello"},
	"HEAD /":                         {what: "hello"},
}

// verbs are what Gemini's paths end with.
var verbs = map[string]route{
	"generateContent":       {api: dialect.Gemini, what: "answer"},
	"streamGenerateContent": {api: dialect.Gemini, what: "answer", stream: true},
	"countTokens":           {api: dialect.Gemini, what: "count"},
}

// routeOf reads a path as it was sent.
func routeOf(method string, u *url.URL) route {
	path := u.EscapedPath()
	if r, ok := paths[method+" "+path]; ok {
		return r
	}
	for _, prefix := range []string{"/v1beta/models/", "/v1/models/", "/models/"} {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		name, err := url.PathUnescape(rest)
		if err != nil || len(name) > mostName {
			return route{}
		}
		if method == http.MethodGet {
			return route{what: "model", model: name}
		}
		i := strings.LastIndexByte(name, ':')
		if i <= 0 || method != http.MethodPost {
			return route{}
		}
		r := verbs[name[i+1:]]
		r.model = name[:i]
		return r
	}
	return route{}
}

const mostName = 256 // bytes of a model's name
