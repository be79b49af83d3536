package model_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// sendRaw sends bytes unchanged and returns the status line and the rest of the answer.
func (s *testEndpoint) sendRaw(t *testing.T, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", r.StatusCode, b)
}

const small = `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`

func postRequest(target, headers string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", target, len(small), headers, small)
}

func TestOnlyKnownPathsReachTheAPI(t *testing.T) {
	s := open(t, dialect.Anthropic, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, nil)
	for _, path := range []string{
		"//v1/messages", "/v1//messages", "/v1/messages/", "/v1/messages/batches", "/v1/%6dessages", "/v1/messages%2f..%2ffiles", "/v1/../v1/messages",
		"/v1/messages/../files", "/%2e%2e/v1/messages", "/v1/files", "/v1/organizations/api_keys", "/v1/messages;x=1", "/v1/messages%00", "/V1/messages",
		"/v1beta/models/x:batchGenerateContent", "/v1beta/models/:generateContent", "/v1/embeddings", "/v1/responses/resp_1", "/admin",
	} {
		if got := s.sendRaw(t, postRequest(path, "")); !strings.HasPrefix(got, "404") && !strings.HasPrefix(got, "400") {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT"} {
		if got := s.sendRaw(t, strings.Replace(postRequest("/v1/messages", ""), "POST", method, 1)); !strings.HasPrefix(got, "40") {
			t.Errorf("%s: %s", method, got)
		}
	}
	if n := len(s.api.Requests()); n != 0 {
		t.Fatalf("%d requests reached the API", n)
	}
	// The host of an absolute form says nothing: the connector's API is asked.
	if got := s.sendRaw(t, postRequest("http://evil.example/v1/messages", "")); !strings.HasPrefix(got, "200") {
		t.Errorf("absolute form: %s", got)
	}
	if n := len(s.api.Requests()); n != 1 {
		t.Errorf("%d requests reached the API", n)
	}
}

func TestHeadersOfTheClientStayBehind(t *testing.T) {
	s := open(t, dialect.Anthropic, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, nil)
	got := s.sendRaw(t, postRequest("/v1/messages?beta=true&x=1", "X-Api-Key: mine\r\nAuthorization: Bearer mine\r\nCookie: mine\r\nX-Goog-Api-Key: mine\r\nConnection: x-api-key\r\n"+
		"X-Forwarded-For: mine\r\nProxy-Authorization: mine\r\nAnthropic-Beta: one\r\nX-Other: mine\r\nAnthropic-Version: 2023-06-01\r\n"))
	if !strings.HasPrefix(got, "200") {
		t.Fatal(got)
	}
	r := s.api.Requests()[0]
	if fmt.Sprint(r.Header) != strings.ReplaceAll(fmt.Sprint(r.Header), "mine", "") {
		t.Errorf("%v", r.Header)
	}
	if r.Header.Get("X-Api-Key") != key || r.Header.Get("Anthropic-Beta") != "one" {
		t.Errorf("%v", r.Header)
	}
	for _, smuggled := range []string{"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "X-Api-Key : a\r\n"} {
		if got := s.sendRaw(t, postRequest("/v1/messages", smuggled)); !strings.HasPrefix(got, "40") && !strings.HasPrefix(got, "501") {
			t.Errorf("%q: %s", smuggled, got)
		}
	}
	if n := len(s.api.Requests()); n != 1 {
		t.Errorf("%d requests reached the API", n)
	}
}

func TestModelsAreThoseOfTheConnector(t *testing.T) {
	script := modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}
	for _, c := range []struct {
		name, model string
		models      []string
		body        string
		status      int
		asked       string
	}{
		{"OthersBecomeTheConnectors", "big", nil, `"model":"huge"`, 200, `"model":"big"`},
		{"AllowedOnesStay", "big", []string{"small"}, `"model":"small"`, 200, `"model":"small"`},
		{"AnyStays", "", []string{"*"}, `"model":"whatever"`, 200, `"model":"whatever"`},
		{"NotAllowed", "", []string{"small"}, `"model":"huge"`, 403, ""},
		{"NoneNamed", "", []string{"small"}, `"max_tokens":1`, 400, ""},
		{"Aliases", "", []string{"small"}, `"model":"sonnet"`, 200, `"model":"small"`},
		{"Twice", "", []string{"small"}, `"model":"small","model":"huge"`, 400, ""},
		{"TwiceEscaped", "", []string{"small"}, `"model":"small","mod\u0065l":"huge"`, 400, ""},
		{"OtherCase", "", []string{"small"}, `"model":"small","Model":"huge"`, 400, ""},
		{"NotAText", "big", nil, `"model":{"a":1}`, 200, `"model":"big"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, dialect.Anthropic, script, func(a *model.Access) {
				a.Connector.Model, a.Connector.Models, a.Aliases = c.model, c.models, map[string]string{"sonnet": "small"}
			})
			status, text := s.post(t, "/v1/messages", `{`+c.body+`,"messages":[{"role":"user","content":"hi"}]}`)
			if status != c.status {
				t.Fatalf("%d: %s", status, text)
			}
			r := s.api.Requests()
			if c.asked == "" && len(r) > 0 || c.asked != "" && (len(r) != 1 || !strings.Contains(string(r[0].Body), c.asked)) {
				t.Errorf("asked %d times: %+v", len(r), r)
			}
		})
	}
}

func TestBodiesAreBounded(t *testing.T) {
	s := open(t, dialect.Anthropic, modeltest.Script{}, nil)
	for name, text := range map[string]string{
		"told":   fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", model.MaxRequest+1),
		"packed": "POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
		"empty":  "POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"list":   "POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]",
		"more":   "POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\n{}{}",
	} {
		if got := s.sendRaw(t, text); !strings.HasPrefix(got, "4") || !strings.Contains(got, "invalid_request_error") {
			t.Errorf("%s: %s", name, got)
		}
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/messages", io.LimitReader(letters{}, model.MaxRequest+10))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err == nil {
		defer r.Body.Close()
		if r.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("chunked: %d", r.StatusCode)
		}
	}
	if n := len(s.api.Requests()); n != 0 {
		t.Errorf("%d requests reached the API", n)
	}
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// newHostileAPI returns an endpoint for an API that a function implements.
func newHostileAPI(t *testing.T, api dialect.Name, serve http.HandlerFunc, change func(*model.Access)) *testEndpoint {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body) // else nobody sees a client leave
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		serve(w, r)
	}))
	t.Cleanup(func() { up.CloseClientConnections(); up.Close() })
	return open(t, api, modeltest.Script{}, func(a *model.Access) {
		a.Connector.Base = up.URL
		if change != nil {
			change(a)
		}
	})
}

func TestTheKeyIsNeverEchoed(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen := r.Header.Get("X-Api-Key") + r.Header.Get("Authorization") + r.Header.Get("X-Goog-Api-Key")
		status := 400
		switch {
		case bytes.Contains(b, []byte("as-401")):
			status = 401
			seen = "Incorrect API key: sk-rea***6789"
		case bytes.Contains(b, []byte("as-200")):
			status = 200
		case bytes.Contains(b, []byte("as-stream")):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n", seen)
			return
		}
		w.Header().Set("Request-Id", "r1")
		w.Header().Set("X-Secret", seen)
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"type":"x","message":%q},"content":[{"type":"text","text":%q}],"choices":[{"message":{"content":%q}}]}`, seen, seen, seen)
	}
	for _, api := range []dialect.Name{dialect.Anthropic, dialect.OpenAI, dialect.Responses, dialect.Gemini} {
		for client, q := range questions {
			s := newHostileAPI(t, api, echo, nil)
			for _, as := range []string{"as-400", "as-401", "as-200", "as-stream"} {
				b := strings.Replace(q.stream, "hi", as, 1)
				r, err := http.Post(s.url+pathOf(q.path, true), "application/json", strings.NewReader(b))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if all := fmt.Sprint(r.Header, string(text), err); strings.Contains(all, key) || strings.Contains(all, "6789") {
					t.Errorf("%s to %s, %s: %s", client, api, as, all)
				}
				if as == "as-401" && r.StatusCode != 401 {
					t.Errorf("%s to %s: %d", client, api, r.StatusCode)
				}
			}
		}
	}
}

func TestTheKeyGoesNowhereElse(t *testing.T) {
	var seen []string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header.Get("X-Api-Key")) }))
	defer thief.Close()
	s := newHostileAPI(t, dialect.Anthropic, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+"/v1/messages", http.StatusTemporaryRedirect)
	}, nil)
	status, text := s.post(t, "/v1/messages", small)
	if status != http.StatusBadGateway || len(seen) > 0 {
		t.Errorf("%d: %s; the other got %q", status, text, seen)
	}
}

func TestUpstreamsThatMisbehave(t *testing.T) {
	stream := func(f func(w io.Writer)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			f(w)
		}
	}
	for _, c := range []struct {
		name   string
		serve  http.HandlerFunc
		status []int
		says   string
	}{
		{"GarbageAsJSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, []int{502, 200}, ""},
		{"Gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.Copy(z, io.LimitReader(letters{}, 1<<28))
			_ = z.Close()
		}, []int{502}, "compressed"},
		{"Hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, []int{504}, "was silent"},
		{"HangsInTheMiddle", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, []int{200, 504}, "error"},
		{"InfiniteLine", stream(func(w io.Writer) {
			_, _ = io.WriteString(w, "data: ")
			_, _ = io.Copy(w, io.LimitReader(letters{}, 1<<27))
		}), []int{502, 504, 200}, "error"},
		{"InfiniteComments", stream(func(w io.Writer) {
			for range 200_000 {
				if _, err := io.WriteString(w, ": keep\n\n"); err != nil {
					return
				}
			}
		}), []int{502, 200}, ""},
		{"Closes", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, []int{502}, ""},
		{"HugeAnswer", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, io.LimitReader(letters{}, 1<<27)) }, []int{502}, ""},
		{"ErrorWithoutEnd", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.Copy(w, io.LimitReader(letters{}, 1<<27))
		}, []int{500}, ""},
	} {
		for _, client := range []dialect.Name{dialect.Anthropic, dialect.OpenAI} {
			t.Run(c.name+" "+string(client), func(t *testing.T) {
				s := newHostileAPI(t, dialect.Anthropic, c.serve, func(a *model.Access) {
					if a.Connector.Timeout = time.Minute; strings.HasPrefix(c.name, "Hangs") {
						a.Connector.Timeout = 200 * time.Millisecond
					}
				})
				status, text := s.post(t, questions[client].path, questions[client].stream)
				if len(text) > 2<<20 {
					t.Errorf("%d bytes came", len(text))
				}
				if !slices.Contains(c.status, status) || !strings.Contains(text, c.says) {
					t.Errorf("%d: %.300s", status, text)
				}
			})
		}
	}
}

func TestAClientThatLeavesEndsTheRequest(t *testing.T) {
	for _, client := range []dialect.Name{dialect.Anthropic, dialect.OpenAI} {
		gone := make(chan bool, 1)
		s := newHostileAPI(t, dialect.Anthropic, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n"+
				"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"0123456789012345678901234567890123456789\"}}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			gone <- true
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+questions[client].path, strings.NewReader(questions[client].stream))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(r.Body).ReadString('9'); err != nil {
			t.Fatal(err)
		}
		cancel()
		_ = r.Body.Close()
		<-gone
		testenv.WaitFor(t, "the handler ends", func() bool { return s.Usage().Requests > 0 })
		if u := s.Usage(); u.Input != 5 || u.Output < 10 {
			t.Errorf("%s: what it read is not counted: %+v", client, u)
		}
	}
}

func TestTheAPIDoesNotReachOutForAClient(t *testing.T) {
	for _, c := range []struct {
		api       dialect.Name
		path      string
		body      string
		goes, not []string
	}{
		{
			dialect.Anthropic, "/v1/messages",
			`{"messages":[],"mcp_servers":[{"url":"http://evil"}],"tools":[{"name":"mine","input_schema":{"type":"object"}},{"type":"web_fetch_20250910","name":"web_fetch"},{"type":"bash_20250124","name":"bash"}]}`,
			[]string{"mine", "bash_20250124"},
			[]string{"web_fetch", "evil"},
		},
		{
			dialect.Anthropic, "/v1/messages",
			`{"messages":[],"tool_choice":{"type":"any"},"tools":[{"type":"web_search_20250305","name":"web_search"}]}`,
			[]string{"messages"},
			[]string{"web_search", "tool_choice"},
		},
		{
			dialect.OpenAI, "/v1/chat/completions",
			`{"messages":[],"web_search_options":{},"plugins":[{"id":"web"}],"tools":[{"type":"function","function":{"name":"mine"}}]}`,
			[]string{"mine"},
			[]string{"web_search", "plugins"},
		},
		{
			dialect.Responses, "/v1/responses",
			`{"input":"x","background":true,"tools":[{"type":"web_search"},{"type":"mcp","server_url":"http://evil"},{"type":"function","name":"mine"},{"type":"namespace","name":"ns","tools":[]}]}`,
			[]string{"mine", "namespace"},
			[]string{"web_search", "evil", "background"},
		},
		{
			dialect.Gemini, "/v1beta/models/m:generateContent",
			`{"contents":[],"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"mine"}],"urlContext":{}}]}`,
			[]string{"mine"},
			[]string{"googleSearch", "urlContext"},
		},
	} {
		for _, hosted := range []bool{false, true} {
			s := open(t, c.api, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, func(a *model.Access) { a.Connector.Hosted = hosted })
			if status, text := s.post(t, c.path, c.body); status != 200 {
				t.Fatalf("%d: %s", status, text)
			}
			sent := string(s.api.Requests()[0].Body)
			for _, word := range c.goes {
				if !strings.Contains(sent, word) {
					t.Errorf("%s: no %s in %s", c.api, word, sent)
				}
			}
			for _, word := range c.not {
				if strings.Contains(sent, word) != hosted {
					t.Errorf("%s: hosted %v: %s in %s", c.api, hosted, word, sent)
				}
			}
		}
	}
}

func TestWhomItIsForIsNobodysBusiness(t *testing.T) {
	for client, q := range questions {
		for api := range questions {
			s := open(t, api, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, nil)
			body := strings.Replace(q.stream, "{", `{"metadata":{"user_id":"the-user"},"user":"the-user",`, 1)
			if client == dialect.Responses || client == dialect.OpenAI {
				body = strings.Replace(q.stream, "{", `{"user":"the-user","safety_identifier":"the-user",`, 1)
			}
			if status, text := s.post(t, pathOf(q.path, true), body); status != 200 {
				t.Fatalf("%s to %s: %d: %s", client, api, status, text)
			}
			if sent := string(s.api.Requests()[0].Body); strings.Contains(sent, "the-user") {
				t.Errorf("%s to %s: %s", client, api, sent)
			}
		}
	}
}
