package codex_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/codex"
)

// appProgram is the other side of a conversation with the app server.
type appProgram struct {
	calls  []string // methods, with their ids
	last   map[string]json.RawMessage
	input  []string
	states []string
}

func (p *appProgram) Emit(e agent.Event) {
	if e.Message != nil {
		p.states = append(p.states, e.Message.ID+" "+string(e.Message.State))
	}
}
func (*appProgram) Close() {}
func (p *appProgram) Send(b []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(b, &m)
	if p.last == nil {
		p.last = make(map[string]json.RawMessage)
	}
	p.last[m.Method] = m.ID
	p.calls, p.input = append(p.calls, m.Method), append(p.input, string(b))
}

// TestSteerTooLate has messages that the ending turn refused, or whose response comes after its end, begin another turn of the agent.
func TestSteerTooLate(t *testing.T) {
	p := &appProgram{}
	turn := &agent.Turn{Prompt: agent.Text("go"), Arguments: map[string]any{"server": true}}
	conv, ok := codex.Agent{}.NewConversation(turn, agent.Environment{Dir: "/w"}).(agent.Steerer)
	if !ok {
		t.Fatal("the app server reads no messages")
	}
	reply := func(method, result string) {
		conv.HandleLine(p, fmt.Appendf(nil, `{"id":%s,%s}`, p.last[method], result))
	}
	event := func(method, params string) {
		conv.HandleLine(p, fmt.Appendf(nil, `{"method":%q,"params":{%s}}`, method, params))
	}
	conv.Begin(p)
	reply("initialize", `"result":{}`)
	reply("thread/start", `"result":{"thread":{"id":"th"}}`)
	event("turn/started", `"threadId":"th","turn":{"id":"t1"}`)
	for _, id := range []string{"a", "b"} {
		if err := conv.Steer(p, agent.Message{ID: id, Prompt: agent.Text("message " + id)}); err != nil {
			t.Fatal(err)
		}
		if id == "a" {
			reply("turn/steer", `"result":{"turnId":"t1"}`)
			event("item/completed", `"threadId":"th","item":{"type":"userMessage","id":"i","clientId":"a"}`)
		}
	}
	event("turn/completed", `"threadId":"th","turn":{"id":"t1","status":"completed"}`)
	if conv.IsFinished() {
		t.Error("it is finished before the response to a message")
	}
	reply("turn/steer", `"error":{"code":-32600,"message":"no active turn"}`)
	if conv.IsFinished() || strings.Count(strings.Join(p.calls, " "), "turn/start") != 2 || !strings.Contains(p.input[len(p.input)-1], "message b") {
		t.Errorf("the calls are %q, the last one %s", p.calls, p.input[len(p.input)-1])
	}
	event("turn/started", `"threadId":"th","turn":{"id":"t2"}`)
	event("turn/completed", `"threadId":"th","turn":{"id":"t2","status":"completed"}`)
	if !conv.IsFinished() || conv.Result(nil).Outcome != agent.OK {
		t.Errorf("the result is %+v", conv.Result(nil))
	}
	if want := []string{"a read", "b read"}; !slices.Equal(p.states, want) {
		t.Errorf("the messages: %q", p.states)
	}
}
