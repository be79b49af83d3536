package model_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

func withBudget(b agent.Budget) func(*model.Access) {
	return func(a *model.Access) { a.Limits = []model.Limit{{Caller: model.Caller{Turn: "t"}, Budget: b}} }
}

// longAnswer returns a handler that calls begin for each request and then answers with 10,000 tokens.
func longAnswer(begin func()) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		begin()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":10000}}`)
	}
}

func TestHostedToolsInDisguiseStayBehind(t *testing.T) {
	const anthropic, chat, responses, gemini = "/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/big:generateContent"
	for law, c := range map[string]struct {
		api        dialect.Name
		path, body string
		status     int
	}{
		"TypeInAnotherCase": {dialect.Anthropic, anthropic, `{"messages":[],"tools":[{"type":"web_evil","name":"a","Type":"custom"}]}`, 400},
		"TypeTwice":         {dialect.Anthropic, anthropic, `{"messages":[],"tools":[{"type":"web_evil","name":"a","type":"custom"}]}`, 400},
		"NameTwice":         {dialect.Responses, responses, `{"input":"x","tools":[{"type":"function","name":"a","Name":"evil"}]}`, 400},
		"ServersDisguised":  {dialect.Responses, responses, `{"input":"x","tools":[{"type":"mcp","server_url":"evil","Type":"function"}]}`, 400},
		"Namespace":         {dialect.Responses, responses, `{"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"mcp","server_url":"evil"},{"type":"function","name":"a"}]}]}`, 200},
		"AnObject":          {dialect.Gemini, gemini, `{"contents":[],"tools":{"evil":{}}}`, 400},
		"SameLength":        {dialect.Gemini, gemini, `{"contents":[],"tools":[{"functionDeclarations":[{"name":"a","description":"<<<<<<"}],"evil":{}}]}`, 200},
		"ToolsUpper":        {dialect.OpenAI, chat, `{"messages":[],"Tools":[{"type":"evil"}]}`, 400},
		"SearchUpper":       {dialect.OpenAI, chat, `{"messages":[],"Web_Search_Options":{"evil":1}}`, 400},
		"PluginsUpper":      {dialect.OpenAI, chat, `{"messages":[],"Plugins":["evil"]}`, 400},
		"Prefix":            {dialect.OpenAI, chat, `{"messages":[],"tools":[{"type":"function_evil"}]}`, 200},
		"Tier":              {dialect.OpenAI, chat, `{"messages":[],"service_tier":"evil"}`, 200},
	} {
		t.Run(law, func(t *testing.T) {
			s := open(t, c.api, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, nil)
			if status, text := s.post(t, c.path, c.body); status != c.status {
				t.Errorf("%d: %s", status, text)
			}
			for _, r := range s.api.Requests() {
				if strings.Contains(string(r.Body), "evil") {
					t.Errorf("sent %s", r.Body)
				}
			}
		})
	}
}

func TestTheAPIFetchesAndRemembersNothingForASandbox(t *testing.T) {
	for law, c := range map[string]struct {
		client     dialect.Name
		body, says string
	}{
		"Document":     {dialect.Anthropic, `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://evil/?d=S"}}]}]}`, "url"},
		"Image":        {dialect.OpenAI, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://evil/?d=S"}}]}]}`, "url"},
		"InAResult":    {dialect.Anthropic, `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"url","url":"https://evil/?d=S"}}]}]}]}`, "url"},
		"File":         {dialect.Responses, `{"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://evil/?d=S"}]}]}`, "file_url"},
		"FileURI":      {dialect.Gemini, `{"contents":[{"parts":[{"fileData":{"fileUri":"https://evil/x"}}]}]}`, "fileuri"},
		"Answer":       {dialect.Responses, `{"input":"hi","previous_response_id":"resp_other"}`, "previous_response_id"},
		"Conversation": {dialect.Responses, `{"input":"hi","conversation":"conv_other"}`, "conversation"},
		"Prompt":       {dialect.Responses, `{"input":"hi","prompt":{"id":"pmpt_other"}}`, "prompt"},
		"Cache":        {dialect.Gemini, `{"contents":[{"parts":[{"text":"hi"}]}],"cachedContent":"cachedContents/other"}`, "cachedContent"},
	} {
		t.Run(law, func(t *testing.T) {
			for api := range questions {
				s := open(t, api, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, nil)
				if status, text := s.post(t, questions[c.client].path, c.body); status != 400 || !strings.Contains(text, c.says) {
					t.Errorf("to %s: %d: %s", api, status, text)
				}
				if n := len(s.api.Requests()); n > 0 {
					t.Errorf("to %s: %d requests reached the API", api, n)
				}
			}
		})
	}
}

func TestAURLThatAToolWasGivenIsNotFetched(t *testing.T) {
	s := open(t, dialect.Anthropic, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, nil)
	if status, text := s.post(t, "/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"see https://a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"fetch","input":{"url":"https://a"}}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"https://a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`); status != 200 {
		t.Errorf("%d: %s", status, text)
	}
}

func TestAUsersOwnPictureMayBeElsewhere(t *testing.T) {
	s := open(t, dialect.OpenAI, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, nil)
	_, err := s.Ask(t.Context(), &dialect.Request{User: "app/user", Messages: []dialect.Message{{Role: dialect.User, Parts: []dialect.Part{{Type: dialect.ImagePart, URL: "https://fine/a.png"}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sent := string(s.api.Requests()[0].Body)
	if !strings.Contains(sent, "https://fine/a.png") {
		t.Errorf("sent %s", sent)
	}
	if strings.Contains(sent, "app/user") {
		t.Errorf("whom it is for was told: %s", sent)
	}
}

func TestParallelAnswersDontPassABudgetOfOutput(t *testing.T) {
	for _, client := range []dialect.Name{dialect.OpenAI, dialect.Anthropic} {
		const requests = 20
		var answers, decided atomic.Int64
		allDecided := make(chan struct{}) // closed when each request has reached the API or was refused
		decide := func() {
			if decided.Add(1) == requests {
				close(allDecided)
			}
		}
		s := newHostileAPI(t, dialect.OpenAI, longAnswer(func() {
			answers.Add(1)
			decide()
			<-allDecided
		}), withBudget(agent.Budget{Output: 100}))
		var g sync.WaitGroup
		for range requests {
			g.Go(func() {
				status, text := s.post(t, questions[client].path, strings.Replace(questions[client].whole, `"max_tokens":100`, `"max_tokens":1000`, 1))
				switch status {
				case 200:
				case 429, 403:
					decide()
				default:
					decide()
					t.Errorf("%d: %s", status, text)
				}
			})
		}
		g.Wait()
		if n := answers.Load(); n != 1 {
			t.Errorf("%s: %d answers, spent %+v", client, n, s.Usage())
		}
	}
}

func TestNoMoreIsAskedForThanIsLeft(t *testing.T) {
	for client, q := range map[dialect.Name]string{
		dialect.OpenAI:    `{"messages":[{"role":"user","content":"hi"}],"max_tokens":5000}`,
		dialect.Anthropic: `{"messages":[{"role":"user","content":"hi"}],"max_tokens":5000}`,
	} {
		s := open(t, dialect.OpenAI, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, withBudget(agent.Budget{Output: 70}))
		if status, text := s.post(t, questions[client].path, q); status != 200 {
			t.Fatalf("%d: %s", status, text)
		}
		if sent := string(s.api.Requests()[0].Body); !strings.Contains(sent, `:70`) || strings.Contains(sent, "5000") {
			t.Errorf("%s: sent %s", client, sent)
		}
	}
}

func TestWhoHangsUpPays(t *testing.T) {
	for _, client := range []dialect.Name{dialect.OpenAI, dialect.Anthropic} {
		for _, stream := range []bool{false, true} {
			var asked atomic.Int64
			s := newHostileAPI(t, dialect.OpenAI, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if stream { // and thinks on
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}, withBudget(agent.Budget{Output: 40}))
			body := questions[client].whole
			if stream {
				body = questions[client].stream
			}
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+questions[client].path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if r, err := http.DefaultClient.Do(q); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
				}
				cancel()
			}
			if n := asked.Load(); n > 9 || !stream && n > 3 {
				t.Errorf("%s, stream %v: %d requests of nobody were let through, spent %+v", client, stream, n, s.Usage())
			}
		}
	}
}

func TestNothingIsReadOnceABudgetIsUsedUp(t *testing.T) {
	s := open(t, dialect.Anthropic, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, func(a *model.Access) {
		withBudget(agent.Budget{Requests: 1})(a)
		a.Connector.Base = ""
		a.Connector.Timeout = time.Minute
	})
	s.Connector.Base = s.api.URL
	if status, text := s.post(t, "/v1/messages", small); status != 200 {
		t.Fatalf("%d: %s", status, text)
	}
	if got := s.sendRaw(t, fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n{", 60<<20)); !strings.HasPrefix(got, "403") {
		t.Errorf("%s", got)
	}
	if status, text := s.post(t, "/v1/messages/count_tokens", small); status != 403 {
		t.Errorf("count: %d: %s", status, text)
	}
}

func TestBodiesUnderWayAreBoundedInAll(t *testing.T) {
	s := open(t, dialect.Anthropic, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	chunk := strings.Repeat(" ", 1<<20)
	var all []net.Conn
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	var g sync.WaitGroup
	for range 6 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		g.Go(func() {
			_ = c.SetWriteDeadline(time.Now().Add(3 * time.Second))
			fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 60<<20)
			for range 59 {
				if _, err := io.WriteString(c, chunk); err != nil {
					return
				}
			}
		})
	}
	g.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapAlloc-before.HeapAlloc) >> 20; n > 120 { // 96, and the rest of it all
		t.Errorf("%d MiB of bodies are in hand", n)
	}
	for _, c := range all {
		_ = c.Close()
	}
	deadline := time.After(time.Minute)
	for { // what the closed connections held is free again soon
		status, text := s.post(t, "/v1/messages", small)
		if status == 200 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%d: %s", status, text)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// bounded is a Ledger that knows a limit of owners.
type bounded struct {
	model.Ledger
	limit model.Limit
}

func (b bounded) Limits(context.Context, atoll.Owner) ([]model.Limit, error) {
	return []model.Limit{b.limit}, nil
}

func TestAnOwnersTimeEndsASilentStream(t *testing.T) {
	s := newHostileAPI(t, dialect.Anthropic, dripAnswer(nil), func(a *model.Access) {
		a.Ledger = bounded{model.NewLedger(), model.Limit{Caller: model.Caller{Owner: atoll.Local}, Budget: agent.Budget{Time: 100 * time.Millisecond}}}
		a.Connector.Timeout = 5 * time.Second
	})
	if _, text := s.post(t, questions[dialect.Anthropic].path, questions[dialect.Anthropic].stream); !strings.Contains(text, "used up: 100ms") {
		t.Errorf("%s", text)
	}
}
