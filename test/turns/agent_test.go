package turns

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// scriptedAgent is an agent whose program is a shell script. It has sessions and
// requests permissions.
type scriptedAgent struct{}

func (scriptedAgent) Name() string { return "double" }

func (scriptedAgent) Features() agent.Features {
	return agent.Features{Approvals: true, Interrupt: true, Resume: true, System: true, Tools: true}
}

// agentScript reads its prompt as one line; the first word selects what it does.
const agentScript = `
read -r prompt
case "$prompt" in
ask*) echo ask; read -r answer; echo "text the answer was $answer";;
wait*) echo text waiting; read -r answer; echo "text $answer"; echo interrupted; exit;;
tool*) echo "text $(atoll-tool call weather '{"city":"Rome"}')";;
*) echo "text $SESSION: $prompt"; find . -name '*conversation*' | sed 's/^/text has /'; echo "text knows $(cat $STATE/said 2>/dev/null)";;
esac
mkdir -p $STATE; echo "$prompt" >>$STATE/said
echo done
`

func (scriptedAgent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	p := &agent.Plan{Args: []string{"sh", "-c", agentScript}, Env: []string{"SESSION=" + t.Session, "STATE=" + at.State}}
	if t.Session == "gone" {
		p.Args = []string{"sh", "-c", "echo lost"}
	}
	return p, nil
}

func (scriptedAgent) NewConversation(t *agent.Turn, _ agent.Environment) agent.Conversation {
	return &scriptedConversation{t: t}
}

// scriptedConversation converts the output of agentScript to events.
type scriptedConversation struct {
	t    *agent.Turn
	text []string
	res  agent.Result
}

func (k *scriptedConversation) Begin(x agent.Exchange) {
	line, _, _ := strings.Cut(agent.PlainText(k.t.Prompt), "\n")
	x.Send([]byte(line + "\n"))
}

func (k *scriptedConversation) HandleLine(x agent.Exchange, line []byte) {
	word, rest, _ := strings.Cut(string(line), " ")
	switch word {
	case "text":
		k.text = append(k.text, rest)
		x.Emit(agent.Event{Type: agent.TextDone, Text: rest})
	case "ask":
		x.Emit(agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: "p1", Tool: agent.ToolCall{ID: "t1", Name: "rm"}}})
	case "lost":
		k.res = agent.Result{Outcome: agent.Failed, Code: "session_not_found"}
	case "interrupted":
		k.res = agent.Result{Outcome: agent.Aborted}
	case "done":
		k.res = agent.Result{Outcome: agent.OK, Text: strings.Join(k.text, "\n"), Session: "s1"}
	}
}

func (k *scriptedConversation) Prompt(agent.Exchange, []agent.Content) error {
	return atoll.ErrUnsupported
}

func (k *scriptedConversation) Decide(x agent.Exchange, _ string, d agent.Decision) error {
	answer := "no " + d.Message
	if d.Allow {
		answer = "yes"
	}
	x.Send([]byte(answer + "\n"))
	return nil
}

func (k *scriptedConversation) Interrupt(x agent.Exchange) bool {
	x.Send([]byte("stop\n"))
	return true
}

func (k *scriptedConversation) IsFinished() bool                { return k.res.Outcome != "" }
func (k *scriptedConversation) Result(*agent.Exit) agent.Result { return k.res }

func scriptedAgents() map[string]agent.Agent {
	return map[string]agent.Agent{"double": scriptedAgent{}}
}

func newRequest(prompt string) agent.Request {
	return agent.Request{Agent: "double", Turn: agent.Turn{Prompt: agent.Text(prompt), Ask: true}}
}

// waitForEvent waits for an event of a type and returns it.
func (s *testServer) waitForEvent(id string, typ agent.Type) agent.Event {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	var found agent.Event
	err := s.client.TurnEvents(ctx, id, 0, func(e agent.Event) error {
		if e.Type == typ {
			found = e
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		s.Fatalf("no event %s: %v", typ, err)
	}
	return found
}

// TestApprovals checks that only the owner can answer a permission request over the
// network, and that a request without an answer is denied.
func TestApprovals(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	rec, err := s.client.StartTurn(t.Context(), newRequest("ask"))
	s.must(err)
	p := s.waitForEvent(rec.ID, agent.PermissionRequested).Permission
	if err := s.newClient(s.createToken("mallory", atoll.ScopeRun)).DecideTurn(t.Context(), rec.ID, p.ID, agent.Decision{Allow: true}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("another owner decides: %v", err)
	}
	if err := s.newClient(s.createToken("alice", atoll.ScopeRead)).DecideTurn(t.Context(), rec.ID, p.ID, agent.Decision{Allow: true}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a token with only the scope read decides: %v", err)
	}
	s.must(s.client.DecideTurn(t.Context(), rec.ID, p.ID, agent.Decision{Allow: true}))
	if rec, _ = s.waitForEnd(rec.ID); rec.Result.Text != "the answer was yes" {
		t.Errorf("allowed: %+v", rec.Result)
	}
	s.checkNoSandboxes()
	s = newTestServer(t, serverOptions{agents: scriptedAgents(), registry: turn.Options{PermissionTimeout: 200 * time.Millisecond}})
	if rec, _ = s.runTurn(newRequest("ask")); !strings.HasPrefix(rec.Result.Text, "the answer was no") {
		t.Errorf("without an answer: %+v", rec.Result)
	}
	s.checkNoSandboxes()
}

// TestInterrupt checks that an interrupt stops the agent and that the turn's result is
// Aborted.
func TestInterrupt(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	rec, err := s.client.StartTurn(t.Context(), newRequest("wait"))
	s.must(err)
	s.waitForEvent(rec.ID, agent.TextDone)
	s.must(s.client.InterruptTurn(t.Context(), rec.ID))
	if rec, _ = s.waitForEnd(rec.ID); rec.Result.Outcome != agent.Aborted {
		t.Errorf("%+v", rec.Result)
	}
	if err := s.client.InterruptTurn(t.Context(), rec.ID); !errors.Is(err, atoll.ErrState) {
		t.Errorf("after the end: %v", err)
	}
	s.checkNoSandboxes()
}

// TestChats checks that a chat resumes the agent's session in a new sandbox, that a
// lost session is replaced by a new one with the conversation as a file, and that a
// chat refuses a second turn at once.
func TestChats(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	r := newRequest("one")
	r.Chat = "Any Name will do/…"
	first, _ := s.runTurn(r)
	if !strings.HasPrefix(first.Result.Text, ": one") {
		t.Errorf("%+v", first.Result)
	}
	r.Prompt = agent.Text("two")
	second, _ := s.runTurn(r)
	if second.Chat != first.Chat || !strings.HasPrefix(second.Result.Text, "s1: two") || !strings.HasSuffix(second.Result.Text, "knows one") || strings.Contains(second.Result.Text, "conversation") {
		t.Errorf("%+v", second.Result)
	}
	r.Prompt, r.Session = agent.Text("three"), "gone"
	third, events := s.runTurn(r)
	if !strings.HasPrefix(third.Result.Text, ": three") || !strings.Contains(third.Result.Text, "conversation.md") {
		t.Errorf("%+v", third.Result)
	}
	warned := false
	for _, e := range events {
		warned = warned || e.Type == agent.Warning && strings.Contains(e.Text, "session does not exist")
	}
	if !warned {
		t.Errorf("no warning about the missing session: %+v", events)
	}
	r.Session, r.Prompt = "", agent.Text("wait")
	rec, err := s.client.StartTurn(t.Context(), r)
	s.must(err)
	if _, err := s.client.StartTurn(t.Context(), r); !errors.Is(err, atoll.ErrState) {
		t.Errorf("two at once: %v", err)
	}
	s.waitForEvent(rec.ID, agent.TextDone)
	s.must(s.client.CancelTurn(t.Context(), rec.ID))
	s.checkNoSandboxes()
}

// TestChatStaysInItsWorkspace checks that all turns of a chat use the workspace of its
// first turn.
func TestChatStaysInItsWorkspace(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	r := newRequest("one")
	r.Workspace = "project"
	first, _ := s.runTurn(r)
	r = newRequest("two")
	r.Chat = first.Chat
	second, _ := s.runTurn(r)
	if first.Workspace != "project" || second.Workspace != "project" || !strings.HasPrefix(second.Result.Text, "s1: two") {
		t.Errorf("first in %q, then in %q: %+v", first.Workspace, second.Workspace, second.Result)
	}
	s.checkNoSandboxes()
}

// TestHistorySelectsChat checks that a client that repeats the whole conversation
// continues its chat, and that a changed history starts another one.
func TestHistorySelectsChat(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	s.app.Assistants["coder"] = &assistant.Assistant{ID: "coder", Sandbox: &assistant.Sandbox{Command: "double"}}
	messages := []jsonObject{{"role": "system", "content": "Be brief."}, userMessage("one")}
	c, resp := s.requestCompletion(jsonObject{"model": "coder", "messages": messages})
	chat, text := resp.Header.Get("X-Atoll-Chat"), c.Choices[0].Message.Content
	for i, space := range []string{"\n", "\n\n "} { // the comparison ignores spaces
		messages = append(messages, jsonObject{"role": "assistant", "content": strings.ReplaceAll(text, "\n", space)}, userMessage("two"))
		c, resp = s.requestCompletion(jsonObject{"model": "coder", "messages": messages})
		if got := c.Choices[0].Message.Content; resp.Header.Get("X-Atoll-Chat") != chat || !strings.HasPrefix(got, "s1: two") {
			t.Fatalf("turn %d in chat %s, not %s: %s", i+2, resp.Header.Get("X-Atoll-Chat"), chat, got)
		}
		text = c.Choices[0].Message.Content
	}
	messages[2]["content"] = "I never said that."
	c, resp = s.requestCompletion(jsonObject{"model": "coder", "messages": append(messages, jsonObject{"role": "assistant", "content": text}, userMessage("three"))})
	if got := c.Choices[0].Message.Content; resp.Header.Get("X-Atoll-Chat") == chat || !strings.HasPrefix(got, ": three") || !strings.Contains(got, "conversation.md") {
		t.Errorf("another history in chat %s: %s", resp.Header.Get("X-Atoll-Chat"), got)
	}
	mallory := "Authorization: Bearer " + s.createToken("mallory", atoll.ScopeRun)
	if _, resp = s.requestCompletion(jsonObject{"model": "coder", "messages": messages}, mallory); resp.Header.Get("X-Atoll-Chat") == chat {
		t.Error("another owner continues the chat")
	}
	s.checkNoSandboxes()
}

// TestClientToolsOfAgent checks that an agent can call the client's tools over the
// client's own requests: the response ends with the call, the next request brings the
// result, and the agent continues.
func TestClientToolsOfAgent(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	s.app.Assistants["coder"] = &assistant.Assistant{ID: "coder", Sandbox: &assistant.Sandbox{Command: "double"}}
	body := jsonObject{"model": "coder", "max_tokens": 100, "messages": []jsonObject{userMessage("tool")}, "tools": []jsonObject{{
		"name": "weather", "input_schema": jsonObject{"type": "object", "properties": jsonObject{"city": jsonObject{"type": "string"}}},
	}}}
	resp, text := s.postJSON("/v1/messages", body)
	var m struct {
		Content []struct {
			Type, ID, Name, Text string
			Input                json.RawMessage
		}
		Stop string `json:"stop_reason"`
	}
	s.must(json.Unmarshal([]byte(text), &m))
	if resp.StatusCode != 200 || m.Stop != "tool_use" || len(m.Content) != 1 || m.Content[0].Name != "weather" || !strings.Contains(string(m.Content[0].Input), "Rome") {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	body["messages"] = []jsonObject{
		userMessage("tool"),
		{"role": "assistant", "content": []jsonObject{{"type": "tool_use", "id": m.Content[0].ID, "name": "weather", "input": jsonObject{"city": "Rome"}}}},
		{"role": "user", "content": []jsonObject{{"type": "tool_result", "tool_use_id": m.Content[0].ID, "content": "sunny"}}},
	}
	turnID := resp.Header.Get("X-Atoll-Turn")
	chat := "X-Atoll-Chat: " + resp.Header.Get("X-Atoll-Chat")
	if resp, text = s.postJSON("/v1/messages", body); resp.StatusCode != 200 || resp.Header.Get("X-Atoll-Turn") != turnID || !strings.Contains(text, "sunny") || !strings.Contains(text, "end_turn") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	body["messages"] = []jsonObject{userMessage("tool")}
	resp, _ = s.postJSON("/v1/messages", body, chat)
	left := resp.Header.Get("X-Atoll-Turn")
	body["messages"] = []jsonObject{userMessage("something else")}
	if resp, text = s.postJSON("/v1/messages", body, chat); resp.StatusCode != 200 || !strings.Contains(text, "something else") {
		t.Errorf("after a call that was left without a result: %d %s", resp.StatusCode, text)
	}
	if rec, _ := s.waitForEnd(left); rec.Result.Outcome != agent.Aborted {
		t.Errorf("the turn that was left: %+v", rec.Result)
	}
	s.checkNoSandboxes()
}

// TestDisconnectEndsTurn checks that a turn ends when the client of the OpenAI API
// disconnects.
func TestDisconnectEndsTurn(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	s.app.Assistants["coder"] = &assistant.Assistant{ID: "coder", Sandbox: &assistant.Sandbox{Command: "double"}}
	ctx, cancel := context.WithCancel(t.Context())
	b, _ := json.Marshal(jsonObject{"model": "coder", "stream": true, "messages": []jsonObject{userMessage("wait")}})
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/chat/completions", strings.NewReader(string(b)))
	s.must(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(r) //nolint:bodyclose // the client disconnects
	s.must(err)
	cancel()
	_ = resp.Body.Close()
	if rec, _ := s.waitForEnd(resp.Header.Get("X-Atoll-Turn")); rec.Result.Outcome != agent.Aborted {
		t.Errorf("%+v", rec.Result)
	}
	s.checkNoSandboxes()
}

// TestRevokedTokenEndsTurns checks that revoking a token ends the turns that it
// started.
func TestRevokedTokenEndsTurns(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	tok, err := s.adminAccount().CreateToken(t.Context(), atoll.Token{Owner: atoll.Owner{App: "app", User: "alice"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	s.must(err)
	rec, err := s.newClient(tok.Secret).StartTurn(t.Context(), newRequest("wait"))
	s.must(err)
	s.waitForEvent(rec.ID, agent.TextDone)
	s.must(s.adminAccount().RevokeToken(t.Context(), tok.ID))
	if rec, _ = s.waitForEnd(rec.ID); rec.Result.Outcome != agent.Aborted {
		t.Errorf("%+v", rec.Result)
	}
	s.checkNoSandboxes()
}

// TestScopes checks that a caller cannot get more from the sandbox of a turn than from
// any other sandbox.
func TestScopes(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	for name, change := range map[string]func(r *agent.Request){
		"Mounts": func(r *agent.Request) {
			r.Config = &atoll.Config{Spec: atoll.Spec{Mounts: []atoll.Mount{{Source: "/root", Target: "/mnt/x"}}}}
		},
		"Network": func(r *agent.Request) {
			r.Config = &atoll.Config{Spec: atoll.Spec{Network: atoll.Network{Mode: atoll.NetworkOpen}}}
		},
		"Project": func(r *agent.Request) { r.Config = &atoll.Config{Project: &atoll.Project{Path: "/root"}} },
		"Image":   func(r *agent.Request) { r.Config = &atoll.Config{Spec: atoll.Spec{Image: "example.com/evil"}} },
	} {
		r := newRequest("hello")
		change(&r)
		rec, _ := s.runTurn(r)
		if rec.Result.Outcome != agent.Failed || rec.Result.Code != "denied" {
			t.Errorf("%s: %+v", name, rec.Result)
		}
	}
	if _, err := s.newClient(s.createToken("alice", atoll.ScopeRead)).StartTurn(t.Context(), newRequest("hello")); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a token with only the scope read: %v", err)
	}
	for name, r := range map[string]agent.Request{
		"Nothing": {}, "Both": {Agent: "double", Assistant: "x"}, "NoPrompt": {Agent: "double"}, "NoChat": {Agent: "double", Workspace: "../x", Turn: agent.Turn{Prompt: agent.Text("a")}},
	} {
		if _, err := s.client.StartTurn(t.Context(), r); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.client.StartTurn(t.Context(), agent.Request{Agent: "nobody", Turn: agent.Turn{Prompt: agent.Text("a")}}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("an unknown agent: %v", err)
	}
	s.checkNoSandboxes()
}

// TestExampleHooks checks that the example hooks of an assistant work unchanged with an
// agent in a real sandbox.
func TestExampleHooks(t *testing.T) {
	dir := "../../examples/assistants/coder/src"
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	hooks, err := hook.Compile(os.DirFS(dir), "index.ts")
	if err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, serverOptions{})
	s.app.Assistants["coder"] = &assistant.Assistant{ID: "coder", Hooks: hooks, Sandbox: &assistant.Sandbox{
		Command: "command", Program: []string{"sh", "-c", `cat .env; mkdir -p output src tmp; echo '{"made":1}' >output/result.json; echo x >src/a.js; touch tmp/x`},
	}}
	rec, events := s.runTurn(agent.Request{Assistant: "coder", Turn: agent.Turn{Prompt: agent.Text("hello")}})
	ready := strings.Contains(formatEvents(events), "Sandbox ready")
	if rec.Result.Code == "denied" && strings.Contains(rec.Result.Message, "Node.js is required") {
		t.Skip("no node in the sandbox")
	}
	if rec.Result.Outcome != agent.OK || !strings.Contains(rec.Result.Text, "NODE_ENV=development") || !ready {
		t.Errorf("%+v\n%s", rec.Result, formatEvents(events))
	}
	b, err := os.ReadFile(filepath.Join(s.home, "chats", "app", "alice", rec.Chat, "context-coder.json"))
	if err != nil || !strings.Contains(string(b), `"generated_result":{"value":{"made":1}`) {
		t.Errorf("the hook has stored %s, %v", b, err)
	}
	if _, err := s.client.Files(rec.Workspace).StatFile(t.Context(), "/tmp/x"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("the hook has not removed its files: %v", err)
	}
	s.checkNoSandboxes()
}

func formatEvents(events []agent.Event) string {
	b, _ := json.MarshalIndent(events, "", " ")
	return string(b)
}

// TestRemovesSandboxesOfDeadServer checks that a server removes the sandboxes of turns
// that a dead server left, but no sandbox that is in use or was not created for a turn.
func TestRemovesSandboxesOfDeadServer(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents()})
	alice := s.fleet.Account(fleet.Caller{Owner: atoll.Owner{App: "app", User: "alice"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	made := func(labels map[string]string, policy atoll.Policy) string {
		cfg := atoll.Config{Spec: atoll.Spec{Labels: labels}, Lifecycle: atoll.Lifecycle{Policy: policy}}
		sb, err := alice.Create(t.Context(), cfg)
		s.must(err)
		return sb.ID()
	}
	held := make(chan struct{})
	x, err := s.registry.Start(agent.Record{Owner: atoll.Owner{App: "app", User: "alice"}}, func(context.Context, *turn.Turn) (agent.Result, error) {
		<-held
		return agent.Result{}, nil
	})
	s.must(err)
	gone := made(map[string]string{assistant.TurnLabel: "tgone", assistant.RegistryLabel: s.registry.ID()}, atoll.PolicyOneshot)
	kept := []string{
		made(map[string]string{assistant.TurnLabel: x.ID()}, atoll.PolicyOneshot), made(map[string]string{assistant.TurnLabel: "tgone"}, atoll.PolicyPersistent), made(nil, atoll.PolicyOneshot),
		made(map[string]string{assistant.TurnLabel: "tother", assistant.RegistryLabel: "of another server"}, atoll.PolicyOneshot),
	}
	s.must(s.server.ReconcileTurns())
	close(held)
	<-x.Done()
	if _, err := s.adminAccount().Open(t.Context(), gone); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a sandbox of the dead server is left: %v", err)
	}
	for _, id := range kept {
		sb, err := s.adminAccount().Open(t.Context(), id)
		s.must(err)
		s.must(sb.Destroy(t.Context()))
	}
}
