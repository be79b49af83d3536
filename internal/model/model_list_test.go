package model_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

func TestModelsAreListedForEveryClient(t *testing.T) {
	s := open(t, dialect.OpenAI, modeltest.Script{}, func(a *model.Access) {
		a.Connector.Models, a.Aliases = []string{"small", "*"}, map[string]string{"sonnet": "small"}
	})
	get := func(path string) string {
		t.Helper()
		r, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 || !json.Valid(b) {
			t.Fatalf("%s: %d %s, %v", path, r.StatusCode, b, err)
		}
		return string(b)
	}
	for path, words := range map[string][]string{
		"/v1/models":               {`"object":"list"`, `"has_more":false`, `"id":"big"`, `"id":"small"`, `"id":"sonnet"`, `"type":"model"`, `"display_name"`},
		"/models":                  {`"id":"big"`},
		"/v1/models/big":           {`"id":"big"`, `"object":"model"`},
		"/v1beta/models":           {`"name":"models/big"`, "generateContent"},
		"/v1beta/models/whichever": {`"name":"models/whichever"`},
	} {
		text := get(path)
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %s in %s", path, w, text)
			}
		}
	}
	if n := len(s.api.Requests()); n != 0 {
		t.Errorf("%d requests reached the API", n)
	}
}

func TestTokensAreCountedWithoutTheAPI(t *testing.T) {
	s := open(t, dialect.OpenAI, modeltest.Script{}, nil)
	for path, body := range map[string]string{
		"/v1/messages/count_tokens":    `{"model":"x","messages":[{"role":"user","content":"` + strings.Repeat("word ", 80) + `"}]}`,
		"/v1beta/models/x:countTokens": `{"contents":[{"role":"user","parts":[{"text":"` + strings.Repeat("word ", 80) + `"}]}]}`,
		"/v1/models/x:countTokens":     `{"generateContentRequest":{"contents":[{"role":"user","parts":[{"text":"` + strings.Repeat("word ", 80) + `"}]}]}}`,
	} {
		status, text := s.post(t, path, body)
		var n struct {
			Input int64 `json:"input_tokens"`
			Total int64 `json:"totalTokens"`
		}
		if err := json.Unmarshal([]byte(text), &n); err != nil || status != 200 || n.Input+n.Total < 80 || n.Input+n.Total > 140 {
			t.Errorf("%s: %d %s, %v", path, status, text, err)
		}
	}
	if u := s.Usage(); u.Requests != 0 {
		t.Errorf("spent %+v", u)
	}
}
