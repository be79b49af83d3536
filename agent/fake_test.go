package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

// fakeAgent is a fake agent: its program is a function, its protocol a few JSON objects.
type fakeAgent struct {
	features agent.Features
	plan     func(*agent.Turn, agent.Environment) *agent.Plan // nil: only the program
}

func (fakeAgent) Name() string               { return "double" }
func (d fakeAgent) Features() agent.Features { return d.features }
func (d fakeAgent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	if d.plan != nil {
		return d.plan(t, at), nil
	}
	return &agent.Plan{Args: []string{"double"}}, nil
}

func (d fakeAgent) NewConversation(t *agent.Turn, _ agent.Environment) agent.Conversation {
	return &doubleTalk{turn: t, features: d.features}
}

// fakeLine is a line of the program; one field is set.
type fakeLine struct {
	Text    string `json:"text,omitempty"`
	Result  string `json:"result,omitempty"`  // the prompt's
	Session string `json:"session,omitempty"` // with Result; empty: s1
	Failed  bool   `json:"failed,omitempty"`  // it is none
	Busy    int    `json:"busy,omitempty"`    // tasks that have begun, or ended
	Ask     string `json:"ask,omitempty"`
	Panic   string `json:"panic,omitempty"`
}

type doubleTalk struct {
	turn     *agent.Turn
	features agent.Features
	result   agent.Result
	busy     int
}

func sendLine(x agent.Exchange, v any) {
	b, _ := json.Marshal(v)
	x.Send(append(b, '\n'))
}

func (k *doubleTalk) Begin(x agent.Exchange) {
	sendLine(x, map[string]string{"prompt": agent.PlainText(k.turn.Prompt)})
	if !k.features.Turns && !k.features.Approvals && !k.features.Interrupt {
		x.Close()
	}
}

func (k *doubleTalk) HandleLine(x agent.Exchange, b []byte) {
	var l fakeLine
	if json.Unmarshal(b, &l) != nil {
		raw, _ := json.Marshal(string(b))
		x.Emit(agent.Event{Type: agent.Raw, Raw: raw})
		return
	}
	k.busy += l.Busy
	switch {
	case l.Text != "":
		x.Emit(agent.Event{Type: agent.TextDelta, Text: l.Text})
	case l.Result != "":
		k.result = agent.Result{Outcome: agent.OK, Text: l.Result, Session: "s1"}
		if l.Session != "" {
			k.result.Session = l.Session
		}
		if l.Failed {
			k.result.Outcome = agent.Failed
		}
	case l.Ask != "":
		x.Emit(agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: l.Ask, Tool: agent.ToolCall{ID: l.Ask, Name: "Bash"}}})
	case l.Panic != "":
		panic(l.Panic)
	}
}

func (k *doubleTalk) Prompt(x agent.Exchange, p []agent.Content) error {
	k.result = agent.Result{}
	sendLine(x, map[string]string{"prompt": agent.PlainText(p)})
	return nil
}

func (k *doubleTalk) Decide(x agent.Exchange, id string, d agent.Decision) error {
	sendLine(x, map[string]any{"decided": id, "allow": d.Allow, "message": d.Message})
	return nil
}

func (k *doubleTalk) Interrupt(x agent.Exchange) bool {
	sendLine(x, map[string]bool{"interrupt": true})
	return k.features.Interrupt
}

func (k *doubleTalk) IsFinished() bool                { return k.result.Outcome != "" && k.busy == 0 }
func (k *doubleTalk) Result(*agent.Exit) agent.Result { return k.result }

// script is the fake agent's program in a test.
type script struct {
	*agenttest.Process

	in *bufio.Reader
}

// printLine writes a line.
func (p script) printLine(l fakeLine) bool {
	b, _ := json.Marshal(l)
	_, err := p.Stdout.Write(append(b, '\n'))
	return err == nil
}

// readInput waits for a line of input; nil at the end.
func (p script) readInput() map[string]any {
	line, err := p.in.ReadBytes('\n')
	if err != nil && len(line) == 0 {
		return nil
	}
	var m map[string]any
	_ = json.Unmarshal(line, &m)
	return m
}

// fakeRun is a sandbox in which the fake agent's program is a function, with the emitted
// events.
type fakeRun struct {
	*agenttest.Sandbox
	job agent.Job

	mu     sync.Mutex
	events []agent.Event
	notify chan agent.Event // receives every event, if a test has set it
}

func newStage(t *testing.T, f agent.Features, program func(ctx context.Context, p script) int) *fakeRun {
	t.Helper()
	s := &fakeRun{Sandbox: agenttest.NewSandbox(t)}
	s.Programs["double"] = func(ctx context.Context, p *agenttest.Process) int {
		return program(ctx, script{p, bufio.NewReader(p.Stdin)})
	}
	s.Programs["sh"] = func(_ context.Context, p *agenttest.Process) int {
		fmt.Fprintf(p.Stdout, "1000\n%s\n/usr/bin:/bin\n", s.Dir())
		return 0
	}
	s.job = agent.Job{
		Sandbox: s, Agent: fakeAgent{features: f}, Turn: agent.Turn{Prompt: agent.Text("hello")}, Dir: s.Dir(), State: s.State(),
		Emit: func(e agent.Event) {
			s.mu.Lock()
			s.events = append(s.events, e)
			s.mu.Unlock()
			if s.notify != nil {
				s.notify <- e
			}
		},
	}
	return s
}

// run does the turn, and checks the laws of what was told.
func (s *fakeRun) run(ctx context.Context, t *testing.T) agent.Result {
	t.Helper()
	r, err := agent.Run(ctx, s.job)
	if err != nil {
		t.Fatal(err)
	}
	agenttest.Laws(t, s.events, 1)
	if last := s.events[len(s.events)-1]; last.Result == nil || last.Result.Outcome != r.Outcome {
		t.Errorf("the last event is %+v, Run returned %+v", last, r)
	}
	return r
}

// countEvents returns how many events of a type there were.
func (s *fakeRun) countEvents(typ agent.Type) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.events {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func wantResult(t *testing.T, r agent.Result, o agent.Outcome, message string) {
	t.Helper()
	if r.Outcome != o || !strings.Contains(r.Message, message) {
		t.Errorf("outcome %s, code %q, message %q; want %s and %q", r.Outcome, r.Code, r.Message, o, message)
	}
}
