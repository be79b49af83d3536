package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// steerableAgent is a fake agent that reads messages while it works: a line {"text":"read ID"} means that it has read one.
type steerableAgent struct{ fakeAgent }

func (d steerableAgent) NewConversation(t *agent.Turn, _ agent.Environment) agent.Conversation {
	return &steerableTalk{doubleTalk{turn: t, features: d.features}}
}

type steerableTalk struct{ doubleTalk }

func (k *steerableTalk) Steer(x agent.Exchange, m agent.Message) error {
	if text := agent.PlainText(m.Prompt); text == "no" {
		return atoll.ErrState
	}
	sendLine(x, map[string]string{"message": agent.PlainText(m.Prompt), "id": m.ID})
	return nil
}

func (k *steerableTalk) HandleLine(x agent.Exchange, b []byte) {
	var l fakeLine
	if json.Unmarshal(b, &l) == nil {
		if id, ok := strings.CutPrefix(l.Text, "read "); ok {
			x.Emit(agent.Event{Type: agent.MessageChanged, Message: &agent.Message{ID: id, State: agent.MessageRead}})
			return
		}
	}
	k.doubleTalk.HandleLine(x, b)
}

// steeredProgram reads a prompt and two messages before its result, and reports that it has read the first one.
func steeredProgram(_ context.Context, p script) int {
	if p.readInput() == nil {
		return 1
	}
	p.printLine(fakeLine{Text: "working"})
	first, second := p.readInput(), p.readInput()
	if first == nil || second == nil {
		return 1
	}
	p.printLine(fakeLine{Text: "read " + first["id"].(string)})
	p.printLine(fakeLine{Result: first["message"].(string) + ", " + second["message"].(string)})
	p.readInput()
	return 0
}

// messageStates returns the states of messages in events, in order.
func messageStates(events []agent.Event) []string {
	var list []string
	for _, e := range events {
		if e.Message != nil {
			list = append(list, e.Message.ID+" "+string(e.Message.State)+" "+e.Text)
		}
	}
	return list
}

// TestSteer sends messages to a working agent: in order, each once, and each with its end in the events.
func TestSteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, allFeatures(), steeredProgram)
		s.job.Agent = steerableAgent{fakeAgent{features: allFeatures()}}
		ses, err := agent.StartSession(t.Context(), s.job)
		if err != nil {
			t.Fatal(err)
		}
		defer ses.Close()
		synctest.Wait()
		for _, text := range []string{"one", "no", "two"} {
			err := ses.Steer(t.Context(), agent.Message{ID: text, Prompt: agent.Text(text)})
			if errors.Is(err, atoll.ErrState) != (text == "no") || err != nil && text != "no" {
				t.Errorf("message %s: %v", text, err)
			}
		}
		r, err := ses.Wait(t.Context())
		if err != nil || r.Text != "one, two" {
			t.Errorf("%+v %v", r, err)
		}
		want := []string{"one sent one", "two sent two", "one read ", "two dropped "}
		if got := messageStates(s.events); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if err := ses.Steer(t.Context(), agent.Message{Prompt: agent.Text("late")}); !errors.Is(err, atoll.ErrState) {
			t.Errorf("a message after the result: %v", err)
		}
		if err := ses.Steer(t.Context(), agent.Message{}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("an empty message: %v", err)
		}
	})
}

// TestSteerUnsupported refuses a message to an agent that reads none while it works.
func TestSteerUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, allFeatures(), steeredProgram)
		ses, err := agent.StartSession(t.Context(), s.job)
		if err != nil {
			t.Fatal(err)
		}
		defer ses.Close()
		synctest.Wait()
		if err := ses.Steer(t.Context(), agent.Message{Prompt: agent.Text("hello")}); !errors.Is(err, atoll.ErrUnsupported) {
			t.Errorf("the message: %v", err)
		}
	})
}

// TestResumeSteered leaves a session after a message was accepted. The next process sends the agent the same bytes, each
// once, and emits the same events.
func TestResumeSteered(t *testing.T) {
	stage, job := newResumable(t)
	job.Agent, job.Turn.Ask = steerableAgent{fakeAgent{features: allFeatures()}}, false
	var received strings.Builder
	stage.program = func(p *keptProcess) int {
		in := make([]byte, 0, 1000)
		line := func() string {
			for {
				if head, rest, ok := strings.Cut(string(in), "\n"); ok {
					in = []byte(rest)
					received.WriteString(head + "\n")
					return head
				}
				b := make([]byte, 9)
				n, err := p.Read(b)
				if in = append(in, b[:n]...); err != nil {
					return ""
				}
			}
		}
		line()
		_, _ = p.Write([]byte(`{"text":"working"}` + "\n"))
		line()
		_, _ = p.Write([]byte(`{"text":"read m1"}` + "\n" + `{"result":"done"}` + "\n"))
		line()
		return 0
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	working := make(chan bool, 1)
	var mu sync.Mutex
	var told, again []string
	job.Emit = func(e agent.Event) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, formatEvent(e))
		if e.Text == "working" {
			working <- true
		}
		if e.Message != nil && e.Message.State == agent.MessageSent {
			cancel(atoll.ErrLeft)
		}
	}
	s, err := agent.StartSession(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	<-working
	if err := s.Steer(t.Context(), agent.Message{ID: "m1", Prompt: agent.Text("hurry")}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Wait(context.WithoutCancel(ctx))
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	job.Turn = agent.Turn{}
	job.Emit = func(e agent.Event) { again = append(again, formatEvent(e)) }
	if s, err = agent.ResumeSession(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(t.Context())
	if err = errors.Join(err, s.Close()); err != nil || r.Text != "done" {
		t.Fatalf("%+v %v", r, err)
	}
	if want := "{\"prompt\":\"hello\"}\n{\"id\":\"m1\",\"message\":\"hurry\"}\n"; received.String() != want {
		t.Errorf("the agent has received %q, want %q", received.String(), want)
	}
	if len(told) > len(again) || !slices.Equal(told, again[:len(told)]) {
		t.Errorf("events %q, after the change %q", told, again)
	}
}

// TestMessageLimits refuses messages that would grow the journal of one process without end. A message that was sent is sent again
// without an error, and without a new count.
func TestMessageLimits(t *testing.T) {
	large := strings.Repeat("x", 30<<20)
	for name, c := range map[string]struct {
		text string
		most int
	}{"number": {"m", 1000}, "bytes": {large, 2}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, allFeatures(), func(_ context.Context, p script) int {
				p.readInput()
				p.printLine(fakeLine{Text: "working"})
				for p.readInput() != nil {
				}
				return 0
			})
			s.job.Agent = steerableAgent{fakeAgent{features: allFeatures()}}
			ses, err := agent.StartSession(t.Context(), s.job)
			if err != nil {
				t.Fatal(err)
			}
			defer ses.Close()
			synctest.Wait()
			send := func(id string) error {
				return ses.Steer(t.Context(), agent.Message{ID: id, Prompt: agent.Text(c.text)})
			}
			for i := range c.most {
				if err := send(fmt.Sprint(i)); err != nil {
					t.Fatalf("%s: message %d: %v", name, i, err)
				}
			}
			if err := send("one more"); !errors.Is(err, atoll.ErrState) {
				t.Errorf("%s: one more: %v", name, err)
			}
			if err := send("0"); err != nil {
				t.Errorf("%s: the first one again: %v", name, err)
			}
		})
	}
}
