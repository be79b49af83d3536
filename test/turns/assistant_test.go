package turns

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/skill"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

// jsonObject is a JSON object.
type jsonObject = map[string]any

func userMessage(text string) jsonObject { return jsonObject{"role": "user", "content": text} }

// completion has the fields of an OpenAI chat completion that the tests check.
type completion struct {
	Choices []struct {
		Message struct {
			Content string
			Calls   []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
	}
	Error struct{ Message, Code string }
}

func (s *testServer) requestCompletion(body jsonObject, headers ...string) (completion, *http.Response) {
	s.Helper()
	resp, text := s.postJSON("/v1/chat/completions", body, headers...)
	var c completion
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		s.Fatalf("%d %s: %v", resp.StatusCode, text, err)
	}
	if resp.StatusCode == http.StatusOK && len(c.Choices) != 1 {
		s.Fatalf("%d %s", resp.StatusCode, text)
	}
	return c, resp
}

// TestAssistantWithoutSandbox checks that a request to an assistant without a sandbox
// reaches its model with its prompts, in both API dialects, whole and as a stream, and
// that the response reports the usage.
func TestAssistantWithoutSandbox(t *testing.T) {
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{{Text: "Hello there."}}}})
	s.app.Assistants["greeter"] = &assistant.Assistant{
		ID: "greeter", Connector: "test", Prompts: []dialect.Message{{Role: dialect.System, Parts: []dialect.Part{{Type: dialect.TextPart, Text: "Be polite."}}}},
	}
	c, resp := s.requestCompletion(jsonObject{"model": "greeter", "messages": []jsonObject{userMessage("hi")}})
	if resp.StatusCode != 200 || c.Choices[0].Message.Content != "Hello there." || c.Choices[0].Finish != "stop" || c.Usage.Prompt == 0 || resp.Header.Get("X-Atoll-Chat") == "" {
		t.Errorf("%d %+v", resp.StatusCode, c)
	}
	asked := s.model.Requests()
	if last := string(asked[len(asked)-1].Body); !strings.Contains(last, "Be polite.") || !strings.Contains(last, "hi") {
		t.Errorf("the model was asked %s", last)
	}
	if got := asked[len(asked)-1].Header.Get("Authorization"); got != "Bearer sk-secret" {
		t.Errorf("with the key %q", got)
	}
	resp, text := s.postJSON("/v1/chat/completions", jsonObject{"model": "greeter", "stream": true, "stream_options": jsonObject{"include_usage": true}, "messages": []jsonObject{userMessage("hi")}})
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") || !strings.Contains(text, "data: [DONE]") || joinStreamText(text) != "Hello there." || !strings.Contains(text, `"prompt_tokens"`) {
		t.Errorf("%v %s", resp.Header, text)
	}
	resp, text = s.postJSON("/anthropic/v1/messages", jsonObject{"model": "greeter", "max_tokens": 100, "messages": []jsonObject{userMessage("hi")}}, "Authorization: ", "X-Api-Key: "+s.token)
	if resp.StatusCode != 200 || !strings.Contains(text, "Hello there.") || !strings.Contains(text, `"end_turn"`) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	_, text = s.postJSON("/v1/messages", jsonObject{"model": "greeter", "max_tokens": 100, "stream": true, "messages": []jsonObject{userMessage("hi")}})
	if !strings.Contains(text, "event: message_stop") || !strings.Contains(text, "text_delta") {
		t.Errorf("%s", text)
	}
}

// joinStreamText returns the text of a stream of completions.
func joinStreamText(stream string) string {
	var b strings.Builder
	for in := bufio.NewScanner(strings.NewReader(stream)); in.Scan(); {
		var c struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && json.Unmarshal([]byte(data), &c) == nil && len(c.Choices) > 0 {
			b.WriteString(c.Choices[0].Delta.Content)
		}
	}
	return b.String()
}

// TestErrorFormats checks that errors have the format of the API that was called.
func TestErrorFormats(t *testing.T) {
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{{Status: 429, Error: "slow down"}}}})
	s.app.Assistants["greeter"] = &assistant.Assistant{ID: "greeter", Connector: "test"}
	c, resp := s.requestCompletion(jsonObject{"model": "nobody", "messages": []jsonObject{userMessage("hi")}})
	if resp.StatusCode != 404 || c.Error.Message == "" {
		t.Errorf("an unknown assistant: %d %+v", resp.StatusCode, c)
	}
	if c, resp = s.requestCompletion(jsonObject{"model": "greeter", "messages": []jsonObject{userMessage("hi")}}); resp.StatusCode != 429 || !strings.Contains(c.Error.Message, "slow down") {
		t.Errorf("a busy model: %d %+v", resp.StatusCode, c)
	}
	if c, resp = s.requestCompletion(jsonObject{"model": "greeter", "messages": []jsonObject{userMessage("hi")}}, "Authorization: Bearer atoll_wrong"); resp.StatusCode != 401 || c.Error.Message == "" {
		t.Errorf("a wrong token: %d %+v", resp.StatusCode, c)
	}
	resp, text := s.postJSON("/v1/messages", jsonObject{"model": "greeter", "max_tokens": 5, "messages": []jsonObject{userMessage("hi")}}, "Authorization: ", "X-Api-Key: wrong")
	if resp.StatusCode != 401 || !strings.Contains(text, `"authentication_error"`) {
		t.Errorf("a wrong key: %d %s", resp.StatusCode, text)
	}
	resp, text = s.postJSON("/v1/messages", "nonsense")
	if resp.StatusCode != 400 || !strings.Contains(text, `"invalid_request_error"`) {
		t.Errorf("no request: %d %s", resp.StatusCode, text)
	}
	reader := s.createToken("reader", atoll.ScopeRead)
	if c, resp = s.requestCompletion(jsonObject{"model": "greeter", "messages": []jsonObject{userMessage("hi")}}, "Authorization: Bearer "+reader); resp.StatusCode != 403 {
		t.Errorf("a token with only the scope read: %d %+v", resp.StatusCode, c)
	}
}

// newClockTool returns a tool of the host that records its callers.
func newClockTool(called *[]tool.Caller) tool.Tool {
	return tool.Tool{Server: "clock", Name: "time", Description: "the time", Call: func(_ context.Context, c tool.Call) (tool.Result, error) {
		*called = append(*called, c.Caller)
		return tool.Result{Text: "it is noon"}, nil
	}}
}

// TestToolsOfHostAndClient checks that the assistant can call tools of the host, read
// skills, and call tools of the client, and that the results of host tools are kept
// until the client sends its results.
func TestToolsOfHostAndClient(t *testing.T) {
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{
		{Tools: []modeltest.Use{{Name: "time", Input: json.RawMessage(`{}`)}}},
		{Tools: []modeltest.Use{{Name: "skill", Input: json.RawMessage(`{"name":"greet"}`)}}},
		{Text: "Let me ask.", Tools: []modeltest.Use{{Name: "weather", Input: json.RawMessage(`{"city":"Rome"}`)}}},
		{Text: "All done."},
	}}})
	var called []tool.Caller
	s.app.Tools = tool.NewServers(map[string][]tool.Tool{"clock": {newClockTool(&called)}})
	s.app.Assistants["helper"] = &assistant.Assistant{
		ID: "helper", Connector: "test", Tools: []assistant.ServerTools{{Server: "clock"}},
		Skills: []skill.Skill{{Name: "greet", Description: "How to greet.", Body: "Bow deeply."}},
	}
	weather := jsonObject{"type": "function", "function": jsonObject{"name": "weather", "parameters": jsonObject{"type": "object"}}}
	ask := jsonObject{"model": "helper", "messages": []jsonObject{userMessage("go")}, "tools": []jsonObject{weather}}
	c, resp := s.requestCompletion(ask)
	if resp.StatusCode != 200 || c.Choices[0].Finish != "tool_calls" || len(c.Choices[0].Message.Calls) != 1 || c.Choices[0].Message.Calls[0].Function.Name != "weather" {
		t.Fatalf("%d %+v", resp.StatusCode, c)
	}
	if len(called) != 1 || called[0].Owner.User != "alice" || called[0].Assistant != "helper" || called[0].Turn == "" || called[0].Chat == "" {
		t.Errorf("the tool was called by %+v", called)
	}
	id := c.Choices[0].Message.Calls[0].ID
	ask["messages"] = []jsonObject{
		userMessage("go"),
		{"role": "assistant", "content": "Let me ask.", "tool_calls": []jsonObject{{"id": id, "type": "function", "function": jsonObject{"name": "weather", "arguments": `{"city":"Rome"}`}}}},
		{"role": "tool", "tool_call_id": id, "content": "sunny"},
	}
	turnID := resp.Header.Get("X-Atoll-Turn")
	mallory := s.createToken("mallory", atoll.ScopeRead, atoll.ScopeRun)
	s.requestCompletion(ask, "Authorization: Bearer "+mallory) // starts a separate turn
	if r, err := s.client.Turn(t.Context(), turnID); err != nil || r.State != "waiting" {
		t.Errorf("after another's answer the turn is %+v, %v", r, err)
	}
	s.model.Play(modeltest.Script{Turns: []modeltest.Turn{{Text: "All done."}}})
	c, resp = s.requestCompletion(ask)
	if resp.StatusCode != 200 || c.Choices[0].Message.Content != "All done." || c.Choices[0].Finish != "stop" || resp.Header.Get("X-Atoll-Turn") != turnID {
		t.Fatalf("%d %+v, turn %s of %s", resp.StatusCode, c, resp.Header.Get("X-Atoll-Turn"), turnID)
	}
	asked := s.model.Requests()
	for _, want := range []string{"it is noon", "Bow deeply.", "sunny"} {
		if last := string(asked[len(asked)-1].Body); !strings.Contains(last, want) {
			t.Errorf("the request to the model does not contain %q: %s", want, last)
		}
	}
}

// TestHooksAroundAnAgent checks that hooks run in the agent's sandbox: the agent reads
// a file of the Create hook, and the Next hook reads a file of the agent.
func TestHooksAroundAnAgent(t *testing.T) {
	s := newTestServer(t, serverOptions{})
	hooks := compileHook(t, `
function Create(ctx, messages, options) {
  const id = ctx.SendStream({type: "loading", props: {message: "Preparing"}});
  ctx.sandbox.WriteFile(".env", "DEBUG=true");
  const who = ctx.sandbox.Exec(["sh", "-c", "echo ok"]);
  ctx.Replace(id, {type: "text", props: {content: "Sandbox ready " + who.trim()}});
  ctx.End(id);
  const n = (ctx.memory.chat.Get("n") || 0) + 1;
  ctx.memory.chat.Set("n", n);
  messages.push({role: "user", content: "and more"});
  return {messages};
}
function Next(ctx, payload, options) {
  if (payload.error) { return null; }
  const left = ctx.sandbox.ReadFile("out.txt");
  return {data: {content: payload.completion.content.trim() + " / " + left.trim() + " / " + ctx.memory.chat.Get("n")}};
}`)
	s.app.Assistants["coder"] = &assistant.Assistant{
		ID: "coder", Hooks: hooks, Sandbox: &assistant.Sandbox{Command: "command", Program: []string{"sh", "-c", "cat .env; echo left >out.txt; cat"}},
	}
	r := agent.Request{Assistant: "coder", Turn: agent.Turn{Prompt: agent.Text("hello")}}
	rec, events := s.runTurn(r)
	if rec.Result.Outcome != agent.OK || !strings.HasPrefix(rec.Result.Text, "DEBUG=true") || !strings.Contains(rec.Result.Text, "and more") || !strings.HasSuffix(rec.Result.Text, "/ left / 1") {
		t.Errorf("%+v", rec.Result)
	}
	if !slices.ContainsFunc(events, func(e agent.Event) bool { return e.Type == agent.TextDone && e.Text == "Sandbox ready ok" }) {
		t.Errorf("the hook's message is not in the events: %+v", events)
	}
	r.Chat = rec.Chat
	if rec, _ = s.runTurn(r); !strings.HasSuffix(rec.Result.Text, "/ left / 2") {
		t.Errorf("the second turn: %+v", rec.Result)
	}
	s.checkNoSandboxes()
}

func compileHook(t *testing.T, text string) *hook.Script {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.ts"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := hook.Compile(os.DirFS(dir), "index.ts")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFailedHooksLeaveNothing checks that no sandbox is left after a hook that throws
// or loops and after a program that panics, hangs or is cancelled.
func TestFailedHooksLeaveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		hooks string
		shell string
		want  agent.Outcome
		code  string
	}{
		"HookThrows":    {hooks: `function Create() { throw new Error("Node.js is required") }`, want: agent.Failed, code: "denied"},
		"HookLoops":     {hooks: `function Create() { for (;;) {} }`, want: agent.Timeout},
		"NextThrows":    {hooks: `function Next() { throw new Error("no") }`, shell: "true", want: agent.OK},
		"AgentFails":    {shell: "exit 3", want: agent.Failed},
		"AgentHangs":    {shell: "sleep 100 & sleep 100", want: agent.Timeout},
		"AgentIsKilled": {shell: "kill -9 $$", want: agent.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			var o serverOptions
			if c.want == agent.Timeout && c.shell != "" {
				o.timeout = 3 * time.Second
			}
			s := newTestServer(t, o)
			a := &assistant.Assistant{ID: "x", Sandbox: &assistant.Sandbox{Command: "command", Program: []string{"sh", "-c", c.shell}}}
			if c.want == agent.Timeout {
				a.HookLimits.Time = 300 * time.Millisecond
			}
			if c.hooks != "" {
				a.Hooks = compileHook(t, c.hooks)
			}
			s.app.Assistants["x"] = a
			rec, _ := s.runTurn(agent.Request{Assistant: "x", Turn: agent.Turn{Prompt: agent.Text("hello")}})
			if rec.Result.Outcome != c.want || c.code != "" && rec.Result.Code != c.code {
				t.Errorf("%+v", rec.Result)
			}
			if name == "HookThrows" && !strings.Contains(rec.Result.Message, "Node.js is required") {
				t.Errorf("the result does not contain the hook's error: %+v", rec.Result)
			}
			s.checkNoSandboxes()
		})
	}
}

// TestCancelled checks that a turn and its sandbox end at once when the owner cancels
// the turn or the client of the OpenAI API disconnects.
func TestCancelled(t *testing.T) {
	s := newTestServer(t, serverOptions{})
	rec, err := s.client.StartTurn(t.Context(), shellRequest("echo begun; sleep 100"))
	s.must(err)
	err = s.client.TurnEvents(t.Context(), rec.ID, 0, func(e agent.Event) error {
		if e.Type == agent.TextDelta || e.Type == agent.TextDone {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		t.Fatal(err)
	}
	s.must(s.client.CancelTurn(t.Context(), rec.ID))
	rec, _ = s.waitForEnd(rec.ID)
	if rec.Result.Outcome != agent.Aborted {
		t.Errorf("%+v", rec.Result)
	}
	s.checkNoSandboxes()
	s.must(s.client.CancelTurn(t.Context(), rec.ID)) // removes its record
	if _, err := s.client.Turn(t.Context(), rec.ID); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a removed turn: %v", err)
	}
}

var errSeen = errors.New("seen")

// TestBudget checks that a request over its budget is refused and that the turn reports
// it.
func TestBudget(t *testing.T) {
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{{Text: "Hello."}}}})
	s.app.Assistants["greeter"] = &assistant.Assistant{ID: "greeter", Connector: "test", Budget: assistant.Budgets{Chat: model.Budget{Requests: 1}}}
	r := agent.Request{Assistant: "greeter", Chat: "mine", Budget: agent.Budget{Requests: 5}, Turn: agent.Turn{Prompt: agent.Text("hi")}}
	if rec, _ := s.runTurn(r); rec.Result.Outcome != agent.OK || !rec.Result.Usage.Counted || rec.Result.Usage.Requests != 1 || rec.Chat != "mine" {
		t.Errorf("%+v %+v", rec, rec.Result)
	}
	if rec, _ := s.runTurn(r); rec.Result.Outcome != agent.BudgetExceeded || rec.Result.Code != "budget" {
		t.Errorf("past the budget of the chat: %+v", rec.Result)
	}
	c, resp := s.requestCompletion(jsonObject{"model": "greeter", "messages": []jsonObject{userMessage("hi")}}, "X-Atoll-Chat: mine")
	if resp.StatusCode != http.StatusForbidden || c.Error.Message == "" {
		t.Errorf("past the budget: %d %+v", resp.StatusCode, c)
	}
	if c, resp := s.requestCompletion(jsonObject{"model": "greeter", "messages": []jsonObject{userMessage("hi")}}); resp.StatusCode != http.StatusOK {
		t.Errorf("in another chat: %d %+v", resp.StatusCode, c)
	}
}

// TestModels checks that both APIs list the assistants as models to callers with the
// right scope.
func TestModels(t *testing.T) {
	s := newTestServer(t, serverOptions{})
	s.app.Assistants["team.greeter"] = &assistant.Assistant{ID: "team.greeter", Name: "Greeter", Connector: "test"}
	get := func(path string, headers ...string) string {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
		s.must(err)
		r.Header.Set("Authorization", "Bearer "+s.token)
		for _, h := range headers {
			k, v, _ := strings.Cut(h, ": ")
			r.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(r)
		s.must(err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		s.must(err)
		return resp.Status + " " + string(b)
	}
	for _, c := range []struct{ path, header, want string }{
		{"/v1/models", "X: y", `"object":"list"`},
		{"/openai/v1/models", "X: y", `"object":"model"`},
		{"/v1/models/team.greeter", "X: y", `"id":"team.greeter"`},
		{"/v1/models", "Anthropic-Version: 2023-06-01", `"display_name":"Greeter"`},
		{"/anthropic/v1/models", "X: y", `"has_more":false`},
		{"/v1/models/none", "X: y", "404"},
		{"/anthropic/v1/models/none", "X: y", `"not_found_error"`},
	} {
		if got := get(c.path, c.header); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s", c.path, c.header, got)
		}
	}
	_, text := s.postJSON("/v1/messages/count_tokens", jsonObject{"model": "team.greeter", "messages": []jsonObject{userMessage("eight letters and more")}})
	var n struct {
		Input int `json:"input_tokens"`
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil || n.Input < 5 || n.Input > 50 {
		t.Errorf("%s, %v", text, err)
	}
	all, err := s.client.Assistants(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != "team.greeter" {
		t.Errorf("%+v, %v", all, err)
	}
	agents, err := s.client.Agents(t.Context())
	if err != nil || len(agents) != 1 || agents[0].Name != "command" {
		t.Errorf("%+v, %v", agents, err)
	}
}
