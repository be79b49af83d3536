package model

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// route is the operation of a request.
type route struct {
	api    dialect.Name
	kind   string // "answer", "count", "models", "model", "hello"; empty: unknown
	model  string // from the path
	stream bool   // from the path
}

// routes are the exact paths of operations. A path is never forwarded to an API.
var routes = map[string]route{
	"POST /v1/messages":              {api: dialect.Anthropic, kind: "answer"},
	"POST /messages":                 {api: dialect.Anthropic, kind: "answer"},
	"POST /v1/messages/count_tokens": {api: dialect.Anthropic, kind: "count"},
	"POST /messages/count_tokens":    {api: dialect.Anthropic, kind: "count"},
	"POST /v1/chat/completions":      {api: dialect.OpenAI, kind: "answer"},
	"POST /chat/completions":         {api: dialect.OpenAI, kind: "answer"},
	"POST /v1/responses":             {api: dialect.Responses, kind: "answer"},
	"POST /responses":                {api: dialect.Responses, kind: "answer"},
	"GET /v1/models":                 {kind: "models"},
	"GET /models":                    {kind: "models"},
	"GET /v1beta/models":             {api: dialect.Gemini, kind: "models"},
	"GET /":                          {kind: "hello"},
	"HEAD /":                         {kind: "hello"},
}

// geminiMethods are the suffixes of Gemini's paths.
var geminiMethods = map[string]route{
	"generateContent":       {api: dialect.Gemini, kind: "answer"},
	"streamGenerateContent": {api: dialect.Gemini, kind: "answer", stream: true},
	"countTokens":           {api: dialect.Gemini, kind: "count"},
}

// routeOf returns the operation of a request's path.
func routeOf(method string, u *url.URL) route {
	path := u.EscapedPath()
	if r, ok := routes[method+" "+path]; ok {
		return r
	}
	for _, prefix := range []string{"/v1beta/models/", "/v1/models/", "/models/"} {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		name, err := url.PathUnescape(rest)
		if err != nil || len(name) > maxName {
			return route{}
		}
		if method == http.MethodGet {
			return route{kind: "model", model: name}
		}
		i := strings.LastIndexByte(name, ':')
		if i <= 0 || method != http.MethodPost {
			return route{}
		}
		r := geminiMethods[name[i+1:]]
		r.model = name[:i]
		return r
	}
	return route{}
}

const maxName = 256 // bytes of a model's name
