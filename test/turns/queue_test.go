package turns

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

// steeredAgent is a talkingAgent that reads messages while it works.
type steeredAgent struct{ talkingAgent }

func (steeredAgent) NewConversation(t *agent.Turn, _ agent.Environment) agent.Conversation {
	return &steeredConversation{talkingConversation{scriptedConversation{t: t}}}
}

type steeredConversation struct{ talkingConversation }

func (k *steeredConversation) Steer(x agent.Exchange, m agent.Message) error {
	x.Send([]byte(agent.PlainText(m.Prompt) + "\n"))
	x.Emit(agent.Event{Type: agent.MessageChanged, Message: &agent.Message{ID: m.ID, State: agent.MessageRead}})
	return nil
}

// TestQueue queues turns of a chat while one is under way: they run in their order, one can be cancelled, and without queue the
// chat is busy.
func TestQueue(t *testing.T) {
	s := newWarmServer(t, time.Hour)
	start := func(prompt string, queue bool) (agent.Record, error) {
		r := newRequest(prompt)
		r.Chat, r.Queue = "talk", queue
		return s.client.StartTurn(t.Context(), r)
	}
	first, err := start("ask", true)
	s.must(err)
	p := s.waitForEvent(first.ID, agent.PermissionRequested).Permission
	if _, err := start("not queued", false); !errors.Is(err, atoll.ErrState) {
		t.Errorf("a turn of a busy chat: %v", err)
	}
	var queued []agent.Record
	for i := range 4 {
		rec, err := start(fmt.Sprint("number ", i), true)
		s.must(err)
		if rec.State != "queued" {
			t.Errorf("turn %d is %s", i, rec.State)
		}
		queued = append(queued, rec)
	}
	if _, err := start("not queued", false); !errors.Is(err, atoll.ErrState) {
		t.Errorf("a turn of a busy chat: %v", err)
	}
	list, err := s.client.Turns(t.Context(), client.TurnFilter{State: "queued"})
	if s.must(err); len(list) != 4 {
		t.Errorf("%d turns are queued", len(list))
	}
	s.must(s.client.CancelTurn(t.Context(), queued[1].ID))
	s.must(s.client.InterruptTurn(t.Context(), queued[2].ID))
	s.must(s.client.DecideTurn(t.Context(), first.ID, p.ID, agent.Decision{Allow: true}))
	for i, want := range []string{"prompt 2", "", "", "prompt 3"} {
		rec, events := s.waitForEnd(queued[i].ID)
		if want == "" {
			if rec.Result.Outcome != agent.Aborted || len(events) != 1 {
				t.Errorf("turn %d: %+v", i, rec.Result)
			}
			continue
		}
		s.expectText(rec, agent.OK, want)
	}
	if _, err := s.client.StartTurn(t.Context(), func() agent.Request { r := newRequest("x"); r.Queue = true; return r }()); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a queued turn without a chat: %v", err)
	}
	s.expectText(s.ask("talk", "again", nil), agent.OK, "prompt 4")
}

// TestMessages sends messages to turns: to an agent that reads while it works, and to one that does not.
func TestMessages(t *testing.T) {
	agents := map[string]agent.Agent{"double": talkingAgent{}, "steered": steeredAgent{}}
	s := newTestServer(t, serverOptions{agents: agents, idle: time.Hour})
	for name, want := range map[string]string{"steered": "sent", "double": "queued"} {
		r := newRequest("ask")
		r.Agent, r.Chat = name, name
		rec, err := s.client.StartTurn(t.Context(), r)
		s.must(err)
		p := s.waitForEvent(rec.ID, agent.PermissionRequested).Permission
		id := agent.NewMessageID()
		d, err := s.client.SendMessage(t.Context(), rec.ID, id, agent.Text("hurry"))
		s.must(err)
		if d.State != want || d.ID != id || (d.Turn != nil) != (want == "queued") || (d.Reason != "") != (want == "queued") {
			t.Errorf("%s: %+v", name, d)
		}
		again, err := s.client.SendMessage(t.Context(), rec.ID, id, agent.Text("hurry"))
		s.must(err)
		if again.State != want || d.Turn != nil && again.Turn.ID != d.Turn.ID {
			t.Errorf("%s, repeated: %+v", name, again)
		}
		if want == "queued" {
			s.must(s.client.DecideTurn(t.Context(), rec.ID, p.ID, agent.Decision{Allow: true}))
		}
		ended, events := s.waitForEnd(rec.ID)
		var states []string
		for _, e := range events {
			if e.Message != nil {
				states = append(states, string(e.Message.State)+" "+e.Text)
			}
		}
		if want == "sent" {
			s.expectText(ended, agent.OK, "the answer was hurry")
			if !slices.Equal(states, []string{"sent hurry", "read "}) {
				t.Errorf("the events of messages are %q", states)
			}
		} else {
			next, _ := s.waitForEnd(d.Turn.ID)
			s.expectText(next, agent.OK, "prompt 2")
		}
		if _, err := s.client.SendMessage(t.Context(), rec.ID, "", agent.Text("late")); !errors.Is(err, atoll.ErrState) {
			t.Errorf("a message to an ended turn: %v", err)
		}
	}
}

// TestRetryTurn repeats turns of a model whose API is overloaded: as the request says, and by hand. The usage of all
// attempts is the turn's.
func TestRetryTurn(t *testing.T) {
	busy := func(seconds int) modeltest.Turn {
		return modeltest.Turn{Status: http.StatusTooManyRequests, Retry: seconds}
	}
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{busy(1), {Text: "at last"}, busy(7200), {Text: "by hand"}}}})
	s.app.Assistants["qa"] = &assistant.Assistant{ID: "qa", Connector: "test"}
	r := agent.Request{Assistant: "qa", Chat: "talk", Retries: 2, Turn: agent.Turn{Prompt: agent.Text("hello")}}
	rec, events := s.runTurn(r)
	s.expectText(rec, agent.OK, "at last")
	if n := slices.IndexFunc(events, func(e agent.Event) bool { return e.Retry != nil && e.Retry.Status == http.StatusTooManyRequests }); n < 0 {
		t.Errorf("no event of the retry: %+v", events)
	}
	if rec.Result.Usage.Requests != 1 && rec.Result.Usage.Requests != 2 {
		t.Errorf("the usage is %+v", rec.Result.Usage)
	}
	rec, _ = s.runTurn(r) // the API names a time that is too long to wait
	if rec.Result.Code != "rate_limit" || rec.Result.RetryAfter != 7200 {
		t.Fatalf("the turn ended with %+v", rec.Result)
	}
	again, err := s.client.RetryTurn(t.Context(), rec.ID)
	s.must(err)
	if again.RetryOf != rec.ID || again.Chat != rec.Chat {
		t.Errorf("the retry is %+v", again)
	}
	done, _ := s.waitForEnd(again.ID)
	s.expectText(done, agent.OK, "by hand")
	if _, err := s.client.RetryTurn(t.Context(), again.ID); !errors.Is(err, atoll.ErrState) {
		t.Errorf("the retry of a turn that has ended well: %v", err)
	}
}

// TestStructuredAnswer has a model correct answers that do not follow the schema. Clients receive only the final one.
func TestStructuredAnswer(t *testing.T) {
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{
		{Text: "It is 7."},
		{Text: `{"n":"seven"}`},
		{Text: "```json\n{\"n\":7}\n```"},
		{Text: "no"},
		{Text: "no"},
		{Text: "no"},
	}}})
	s.app.Assistants["qa"] = &assistant.Assistant{ID: "qa", Connector: "test"}
	r := agent.Request{Assistant: "qa", Turn: agent.Turn{Prompt: agent.Text("how many?"), Schema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}}
	rec, events := s.runTurn(r)
	if string(rec.Result.Structured) != `{"n":7}` || rec.Result.Outcome != agent.OK {
		t.Errorf("the result is %+v", rec.Result)
	}
	var text strings.Builder
	for _, e := range events {
		if e.Type == agent.TextDelta {
			text.WriteString(e.Text)
		}
	}
	if text.String() != `{"n":7}` {
		t.Errorf("the client has received %q", text.String())
	}
	if q := s.model.Requests(); !strings.Contains(string(q[len(q)-1].Body), "does not follow") {
		t.Errorf("the correction was not asked for: %s", q[len(q)-1].Body)
	}
	if rec, _ = s.runTurn(r); rec.Result.Outcome != agent.Failed || rec.Result.Code != "structured_output" {
		t.Errorf("a model that does not follow the schema: %+v", rec.Result)
	}
	r.Schema = []byte(`{"type":"nothing"}`)
	if rec, _ = s.runTurn(r); rec.Result.Outcome == agent.OK {
		t.Errorf("an invalid schema: %+v", rec.Result)
	}
}

// TestClientTools has a turn's client run tools of its own: for an agent in a sandbox, and for a model.
func TestClientTools(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: map[string]agent.Agent{"double": talkingAgent{}}, script: modeltest.Script{Turns: []modeltest.Turn{
		{Tools: []modeltest.Use{{Name: "time"}}}, {Text: "it is noon"},
	}}})
	s.app.Assistants["qa"] = &assistant.Assistant{ID: "qa", Connector: "test"}
	for name, r := range map[string]agent.Request{"agent": newRequest("tool"), "model": {Assistant: "qa", Turn: agent.Turn{Prompt: agent.Text("when is it?")}}} {
		r.ClientTools = []agent.ClientTool{{Name: "time", Description: "Tells the time."}}
		rec, err := s.client.StartTurn(t.Context(), r)
		s.must(err)
		call := s.waitForEvent(rec.ID, agent.ClientToolCalled).Tool
		if call.Name != "time" {
			t.Errorf("%s: the call is %+v", name, call)
		}
		if err := s.client.AnswerToolCall(t.Context(), rec.ID, agent.ToolAnswer{Call: "another", Text: "x"}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("%s: the answer to no call: %v", name, err)
		}
		s.must(s.client.AnswerToolCall(t.Context(), rec.ID, agent.ToolAnswer{Call: call.ID, Text: "it is noon"}))
		done, _ := s.waitForEnd(rec.ID)
		s.expectText(done, agent.OK, "noon")
	}
}
