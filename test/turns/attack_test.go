package turns

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
)

// deafAgent is an agent that accepts messages and never reads them.
type deafAgent struct{ talkingAgent }

func (deafAgent) NewConversation(t *agent.Turn, _ agent.Environment) agent.Conversation {
	return &deafConversation{talkingConversation{scriptedConversation{t: t}}}
}

type deafConversation struct{ talkingConversation }

func (*deafConversation) Steer(agent.Exchange, agent.Message) error { return nil }

// messageStates returns the states of the messages in the events of a turn.
func messageStates(events []agent.Event) []string {
	var states []string
	for _, e := range events {
		if e.Message != nil {
			states = append(states, string(e.Message.State))
		}
	}
	return states
}

// TestDroppedMessage ends turns whose agent has not read its messages: they are queued again, each once, but after an interrupt.
func TestDroppedMessage(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: map[string]agent.Agent{"double": deafAgent{}}, idle: time.Hour})
	for _, c := range []struct {
		name, prompt string
		want         agent.Outcome
		queued       bool
		end          func(rec agent.Record, permission string) error
	}{
		{"its prompt ends", "ask", agent.OK, true, func(rec agent.Record, p string) error {
			return s.client.DecideTurn(t.Context(), rec.ID, p, agent.Decision{Allow: true})
		}},
		{"its time is over", "wait", agent.Timeout, true, func(agent.Record, string) error { return nil }},
		{"it is interrupted, and answers", "ask", agent.OK, false, func(rec agent.Record, _ string) error { return s.client.InterruptTurn(t.Context(), rec.ID) }},
		{"it is interrupted", "wait", agent.Aborted, false, func(rec agent.Record, _ string) error { return s.client.InterruptTurn(t.Context(), rec.ID) }},
		{"it is cancelled", "wait", agent.Aborted, false, func(rec agent.Record, _ string) error { return s.client.CancelTurn(t.Context(), rec.ID) }},
	} {
		r := newRequest(c.prompt)
		r.Chat = assistant.ChatKey(c.name)
		if c.want == agent.Timeout {
			r.Timeout = 3 * time.Second
		}
		rec, err := s.client.StartTurn(t.Context(), r)
		s.must(err)
		permission := ""
		if c.prompt == "ask" {
			permission = s.waitForEvent(rec.ID, agent.PermissionRequested).Permission.ID
		} else {
			s.waitForEvent(rec.ID, agent.TextDone)
		}
		id := agent.NewMessageID()
		for range 2 {
			d, err := s.client.SendMessage(t.Context(), rec.ID, id, agent.Text("count"))
			if s.must(err); d.State != "sent" {
				t.Errorf("%s: %+v", c.name, d)
			}
		}
		s.must(c.end(rec, permission))
		ended, events := s.waitForEnd(rec.ID)
		want := []string{"sent", "dropped", "queued"}
		if !c.queued {
			want = want[:2]
		}
		if got := messageStates(events); ended.Result.Outcome != c.want || !slices.Equal(got, want) {
			t.Errorf("%s: %s, messages %q, want %s, %q", c.name, ended.Result.Outcome, got, c.want, want)
		}
		list, err := s.client.Turns(t.Context(), client.TurnFilter{Chat: r.Chat})
		s.must(err)
		if len(list) != len(want)-1 {
			t.Errorf("%s: the chat has %d turns, want %d", c.name, len(list), len(want)-1)
			continue
		}
		if len(list) == 2 {
			next, _ := s.waitForEnd(list[1].ID)
			s.expectText(next, agent.OK, "prompt")
		}
	}
}

// TestMessageEvadesNoHook sends a message to an agent of an assistant whose hook Create rejects it: the agent does not get it.
func TestMessageEvadesNoHook(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: map[string]agent.Agent{"double": steeredAgent{}}, idle: time.Hour})
	s.app.Assistants["guarded"] = &assistant.Assistant{
		ID: "guarded", Sandbox: &assistant.Sandbox{Command: "double", Ask: true},
		Hooks: compileHook(t, `function Create(ctx, messages) {
			const last = messages[messages.length - 1]
			if (JSON.stringify(last).includes("forbidden")) throw new Error("not that")
		}`),
	}
	rec, err := s.client.StartTurn(t.Context(), agent.Request{Assistant: "guarded", Chat: "talk", Turn: agent.Turn{Prompt: agent.Text("ask")}})
	s.must(err)
	p := s.waitForEvent(rec.ID, agent.PermissionRequested).Permission
	d, err := s.client.SendMessage(t.Context(), rec.ID, "", agent.Text("forbidden"))
	s.must(err)
	if d.State != "queued" || !strings.Contains(d.Reason, "hook") {
		t.Errorf("the message: %+v", d)
	}
	s.must(s.client.DecideTurn(t.Context(), rec.ID, p.ID, agent.Decision{Allow: true}))
	ended, events := s.waitForEnd(rec.ID)
	if s.expectText(ended, agent.OK, "the answer was yes"); messageStates(events) != nil {
		t.Errorf("the agent has had messages: %q", messageStates(events))
	}
	if next, _ := s.waitForEnd(d.Turn.ID); next.Result.Code != "denied" {
		t.Errorf("the queued turn: %+v", next.Result)
	}
}

// TestForeignMessages has other callers send messages to a turn, repeat it and answer its tools; and its owner's messages with parts that
// requests must not have.
func TestForeignMessages(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: map[string]agent.Agent{"double": steeredAgent{}}})
	rec, err := s.client.StartTurn(t.Context(), newRequest("ask"))
	s.must(err)
	p := s.waitForEvent(rec.ID, agent.PermissionRequested).Permission
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"another owner":      {s.createToken("mallory", atoll.ScopeRun, atoll.ScopeRead), atoll.ErrNotFound},
		"a viewer":           {s.createToken("ann", atoll.ScopeRead), atoll.ErrDenied},
		"another's operator": {s.createToken("mallory", atoll.ScopeOperate, atoll.ScopeRun, atoll.ScopeRead), atoll.ErrNotFound},
	} {
		other, err := client.New(client.Options{Host: s.url, Token: c.token})
		s.must(err)
		defer other.Close()
		_, err = other.SendMessage(t.Context(), rec.ID, "", agent.Text("rm"))
		if !errors.Is(err, c.want) {
			t.Errorf("%s sends a message: %v, want %v", name, err, c.want)
		}
		if _, err = other.RetryTurn(t.Context(), rec.ID); !errors.Is(err, c.want) {
			t.Errorf("%s repeats the turn: %v, want %v", name, err, c.want)
		}
		if err = other.AnswerToolCall(t.Context(), rec.ID, agent.ToolAnswer{Call: "call_" + rec.ID + "_1"}); !errors.Is(err, c.want) {
			t.Errorf("%s answers a tool: %v, want %v", name, err, c.want)
		}
	}
	for _, id := range []string{"../" + rec.ID, "..%2f..%2fchats", ".id", rec.ID + "/../" + rec.ID, strings.Repeat("x", 4000), "a\x00b"} {
		if _, err := s.client.SendMessage(t.Context(), id, "", agent.Text("x")); err == nil {
			t.Errorf("a message to %.40q", id)
		}
		if _, err := s.client.RetryTurn(t.Context(), id); err == nil {
			t.Errorf("a repetition of %.40q", id)
		}
	}
	for i, prompt := range [][]agent.Content{nil, {{}}, {{Text: "x", Path: "/etc/passwd"}}, {{Data: []byte("x"), Name: "a", Path: "/root/.ssh/id"}}} {
		if _, err := s.client.SendMessage(t.Context(), rec.ID, "", prompt); err == nil || errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	s.must(s.client.DecideTurn(t.Context(), rec.ID, p.ID, agent.Decision{Allow: true}))
	ended, _ := s.waitForEnd(rec.ID)
	s.expectText(ended, agent.OK, "the answer was yes")
}

// TestManyQueuedChats queues turns of many chats at once: no more of them run than the owner may have.
func TestManyQueuedChats(t *testing.T) {
	o := serverOptions{agents: scriptedAgents()}
	o.registry.PerOwner = 2
	s := newTestServer(t, o)
	var all []agent.Record
	for i := range 6 {
		r := newRequest("wait")
		r.Chat, r.Queue = fmt.Sprint("chat", i), true
		rec, err := s.client.StartTurn(t.Context(), r)
		s.must(err)
		all = append(all, rec)
	}
	for i := range all {
		s.waitForEvent(all[i].ID, agent.TextDone)
		list, err := s.client.Turns(t.Context(), client.TurnFilter{State: "running"})
		if s.must(err); len(list) > 2 {
			t.Errorf("%d turns run at once", len(list))
		}
		s.must(s.client.InterruptTurn(t.Context(), all[i].ID))
		s.waitForEnd(all[i].ID)
	}
}
