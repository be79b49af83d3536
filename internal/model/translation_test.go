package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

const key = "sk-real-secret-0123456789"

// testEndpoint is an endpoint with a model behind it.
type testEndpoint struct {
	*model.Access
	api *modeltest.Server
	url string
}

func open(t *testing.T, api dialect.Name, s modeltest.Script, change func(*model.Access)) *testEndpoint {
	t.Helper()
	up := modeltest.New(t, s)
	a := &model.Access{
		Connector: model.Connector{Name: "test", API: api, Base: up.URL, Key: key, Model: "big"},
		Caller:    model.Caller{Owner: atoll.Local, Chat: "c", Assistant: "a", Turn: "t"},
	}
	if change != nil {
		change(a)
	}
	srv := httptest.NewServer(a.Endpoint())
	t.Cleanup(srv.Close)
	return &testEndpoint{Access: a, api: up, url: srv.URL}
}

func (s *testEndpoint) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", "dummy")
	q.Header.Set("Authorization", "Bearer dummy")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%v after %q", err, b)
	}
	return r.StatusCode, string(b)
}

// questions are one question in each dialect.
var questions = map[dialect.Name]struct{ path, whole, stream string }{
	dialect.Anthropic: {
		"/v1/messages",
		`{"model":"claude","max_tokens":100,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"get","input_schema":{"type":"object"}}]}`,
		`{"model":"claude","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"get","input_schema":{"type":"object"}}]}`,
	},
	dialect.OpenAI: {
		"/v1/chat/completions",
		`{"model":"gpt","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"get","parameters":{"type":"object"}}}]}`,
		`{"model":"gpt","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"get","parameters":{"type":"object"}}}]}`,
	},
	dialect.Responses: {
		"/v1/responses",
		`{"model":"gpt","input":"hi","tools":[{"type":"function","name":"get","parameters":{"type":"object"}}]}`,
		`{"model":"gpt","input":"hi","stream":true,"tools":[{"type":"function","name":"get","parameters":{"type":"object"}}]}`,
	},
	dialect.Gemini: {
		"/v1beta/models/pro:generateContent",
		`{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"get"}]}]}`,
		`{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"get"}]}]}`,
	},
}

func pathOf(path string, stream bool) string {
	if stream {
		path = strings.Replace(path, ":generateContent", ":streamGenerateContent?alt=sse", 1)
	}
	return path
}

// read reads an answer in a dialect.
func read(t *testing.T, n dialect.Name, stream bool, text string) *dialect.Response {
	t.Helper()
	d, err := dialect.Of(n)
	if err != nil {
		t.Fatal(err)
	}
	if !stream {
		a, err := d.ReadResponse(&http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(text))})
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return a
	}
	var g dialect.ResponseBuilder
	if err := d.ReadStream(strings.NewReader(text), func(d dialect.Delta) error { g.Add(d); return nil }); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return &g.Response
}

func TestEveryDialectAnswersForEveryOther(t *testing.T) {
	for client, q := range questions {
		for api := range questions {
			for _, stream := range []bool{false, true} {
				name := string(client) + " to " + string(api)
				body := q.whole
				if stream {
					name, body = name+", streamed", q.stream
				}
				t.Run(name, func(t *testing.T) {
					s := open(t, api, modeltest.Script{Turns: []modeltest.Turn{{
						Text: "hello <world>", Thinking: "hm", Input: 70, Output: 9,
						Tools: []modeltest.Use{{Name: "get", Input: json.RawMessage(`{"a":1}`)}, {Name: "get", Input: json.RawMessage(`{"b":[2]}`)}},
					}}}, nil)
					status, text := s.post(t, pathOf(q.path, stream), body)
					if status != 200 {
						t.Fatalf("%d: %s", status, text)
					}
					a := read(t, client, stream, text)
					var said []string
					for _, p := range a.Parts {
						switch p.Type {
						case dialect.TextPart:
							said = append(said, p.Text)
						case dialect.ToolUse:
							said = append(said, p.Name+string(p.Input))
						}
					}
					if got := strings.Join(said, "|"); got != `hello <world>|get{"a":1}|get{"b":[2]}` {
						t.Errorf("said %s", got)
					}
					if a.Stop != dialect.StopTool {
						t.Errorf("stopped for %q", a.Stop)
					}
					if u := a.Usage; u.Input != 70 || u.Output != 9 {
						t.Errorf("used %+v", u)
					}
					if u := s.Usage(); u.Input != 70 || u.Output != 9 || u.Requests != 1 {
						t.Errorf("spent %+v", u)
					}
					s.keySeen(t)
				})
			}
		}
	}
}

// keySeen wants the API to have seen the key, and nothing of the client's.
func (s *testEndpoint) keySeen(t *testing.T) {
	t.Helper()
	for _, r := range s.api.Requests() {
		h, err := json.Marshal(r.Header)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(h, []byte(key)) || bytes.Contains(h, []byte("dummy")) {
			t.Errorf("headers %s", h)
		}
	}
}

func TestBudgetIsRefusedInTheClientsDialect(t *testing.T) {
	for client, q := range questions {
		for api := range questions {
			t.Run(string(client)+" to "+string(api), func(t *testing.T) {
				s := open(t, api, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, func(a *model.Access) {
					a.Limits = []model.Limit{{Caller: model.Caller{Turn: "t"}, Budget: agent.Budget{Requests: 2}}}
				})
				for range 2 {
					if status, text := s.post(t, pathOf(q.path, true), q.stream); status != 200 {
						t.Fatalf("%d: %s", status, text)
					}
				}
				status, text := s.post(t, pathOf(q.path, true), q.stream)
				if status != 403 || !strings.Contains(text, "atoll: budget of the turn used up: 2 requests") {
					t.Errorf("%d: %s", status, text)
				}
				if n := len(s.api.Requests()); n != 2 {
					t.Errorf("%d requests reached the API", n)
				}
			})
		}
	}
}

func TestAsk(t *testing.T) {
	for api := range questions {
		t.Run(string(api), func(t *testing.T) {
			s := open(t, api, modeltest.Script{Turns: []modeltest.Turn{{Text: "hello"}, {Text: "again"}}}, func(a *model.Access) {
				a.Limits = []model.Limit{{Budget: agent.Budget{Requests: 2}}}
			})
			q := &dialect.Request{Messages: []dialect.Message{{Role: dialect.User, Parts: []dialect.Part{{Type: dialect.TextPart, Text: "hi"}}}}}
			var text string
			a, err := s.Ask(t.Context(), q, func(d dialect.Delta) error {
				if d.Type == dialect.TextDelta {
					text += d.Text
				}
				return nil
			})
			if err != nil || text != "hello" || len(a.Parts) != 1 || a.Parts[0].Text != "hello" {
				t.Fatalf("%v, %q, %+v", err, text, a)
			}
			if a, err = s.Ask(t.Context(), q, nil); err != nil || a.Parts[0].Text != "again" {
				t.Fatalf("%v, %+v", err, a)
			}
			_, err = s.Ask(t.Context(), q, nil)
			var e *dialect.Error
			if !errors.As(err, &e) || e.Code != "budget" || !errors.Is(err, atoll.ErrQuota) {
				t.Errorf("%v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Ask(ctx, q, nil); err == nil {
				t.Error("no error")
			}
		})
	}
}
