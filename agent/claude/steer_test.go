package claude_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
)

// sentExchange records what a Conversation sends, and the states of messages.
type sentExchange struct {
	sent   []string
	states []string
}

func (x *sentExchange) Emit(e agent.Event) {
	if e.Message != nil {
		x.states = append(x.states, e.Message.ID+" "+string(e.Message.State))
	}
}
func (x *sentExchange) Send(b []byte) { x.sent = append(x.sent, string(b)) }
func (*sentExchange) Close()          {}

const steerInit = `{"type":"system","subtype":"init","session_id":"s","claude_code_version":"2","model":"m","capabilities":["msg_lifecycle_v1"]}`

func state(id, s string) string {
	return `{"type":"command_lifecycle","command_uuid":"` + id + `","state":"` + s + `"}`
}

// TestSteer has a prompt go on until each message has its answer, and has no effect of messages that were dropped.
func TestSteer(t *testing.T) {
	for name, c := range map[string]struct {
		lines  []string // after the message m
		states []string
		done   []bool // after each line
	}{
		"BetweenSteps": {
			[]string{state("m", "queued"), state("m", "started"), state("m", "completed"), good},
			[]string{"m read"},
			[]bool{false, false, false, true},
		},
		"AfterTheResult": {
			[]string{good, state("m", "queued"), state("m", "started"), steerInit, good, state("m", "completed")},
			[]string{"m read"},
			[]bool{false, false, false, false, true, true},
		},
		"Dropped": {
			[]string{state("m", "queued"), good, state("m", "cancelled")},
			[]string{"m dropped"},
			[]bool{false, false, true},
		},
		"OfAnother": {
			[]string{state("n", "started"), good, state("m", "started"), good},
			[]string{"m read"},
			[]bool{false, false, false, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := &sentExchange{}
			conv := claude.Agent{}.NewConversation(&agent.Turn{Prompt: agent.Text("go")}, agent.Environment{}).(agent.Steerer)
			conv.Begin(x)
			m := agent.Message{ID: "m", Prompt: agent.Text("hurry")}
			if err := conv.Steer(x, m); !errors.Is(err, atoll.ErrState) {
				t.Errorf("before the init line: %v", err)
			}
			conv.HandleLine(x, []byte(steerInit))
			if err := conv.Steer(x, m); err != nil {
				t.Fatal(err)
			}
			if last := x.sent[len(x.sent)-1]; !strings.Contains(last, `"uuid":"m"`) || !strings.Contains(last, "hurry") {
				t.Errorf("sent: %s", last)
			}
			for i, line := range c.lines {
				conv.HandleLine(x, []byte(line))
				if conv.IsFinished() != c.done[i] {
					t.Errorf("after line %d it is finished: %v", i+1, conv.IsFinished())
				}
			}
			if !slices.Equal(x.states, c.states) {
				t.Errorf("the messages: %q", x.states)
			}
		})
	}
}

// TestSteerOldVersion refuses messages to a program that does not report which ones it has read, and drops unread ones before an
// interrupt.
func TestSteerOldVersion(t *testing.T) {
	x := &sentExchange{}
	conv := claude.Agent{}.NewConversation(&agent.Turn{Prompt: agent.Text("go")}, agent.Environment{}).(agent.Steerer)
	conv.Begin(x)
	conv.HandleLine(x, []byte(initMessage))
	m := agent.Message{ID: "m", Prompt: agent.Text("hurry")}
	if err := conv.Steer(x, m); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("an old version: %v", err)
	}
	conv.HandleLine(x, []byte(steerInit))
	if err := conv.Steer(x, m); err != nil {
		t.Fatal(err)
	}
	n := len(x.sent)
	conv.Interrupt(x)
	if got := x.sent[n:]; len(got) != 2 || !strings.Contains(got[0], "cancel_async_message") || !strings.Contains(got[1], "interrupt") {
		t.Errorf("an interrupt sends %q", got)
	}
	if err := conv.Steer(x, m); !errors.Is(err, atoll.ErrState) {
		t.Errorf("after an interrupt: %v", err)
	}
}
