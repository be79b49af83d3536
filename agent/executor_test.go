package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// newExecutor returns an executor whose agent runs a program, and counts its processes.
func newExecutor(t *testing.T, f agent.Features, program func(context.Context, script) int) (e *agent.Executor, sessions *[]string) {
	t.Helper()
	sessions = &[]string{}
	s := newStage(t, f, program)
	j := s.job
	j.Turn.Prompt, j.Emit = nil, nil
	j.Agent = fakeAgent{features: f, plan: func(turn *agent.Turn, _ agent.Environment) *agent.Plan {
		*sessions = append(*sessions, turn.Session)
		return &agent.Plan{Args: []string{"double"}}
	}}
	e, err := agent.NewExecutor(j)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return e, sessions
}

// TestExecutor runs prompts in one process, one of which is left in the middle.
func TestExecutor(t *testing.T) {
	e, sessions := newExecutor(t, allFeatures(), talkingProgram)
	for _, p := range []string{"one", "two"} {
		if r, err := e.Execute(t.Context(), agent.Text(p)); err != nil || r.Outcome != agent.OK || r.Text != p {
			t.Errorf("%s: %+v, %v", p, r, err)
		}
	}
	for v, err := range e.Stream(t.Context(), agent.Text("wait")) {
		if err != nil || v.Text != "waiting" {
			t.Errorf("the first event is %+v, %v", v, err)
		}
		if _, err := e.Execute(t.Context(), agent.Text("too early")); !errors.Is(err, atoll.ErrState) {
			t.Errorf("a prompt while one runs: %v", err)
		}
		break
	}
	var types []agent.Type
	for v, err := range e.Stream(t.Context(), agent.Text("three")) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, v.Type)
	}
	if want := []agent.Type{agent.TextDelta, agent.Finished}; !slices.Equal(types, want) {
		t.Errorf("events %v, want %v", types, want)
	}
	if len(*sessions) != 1 {
		t.Errorf("%d processes, want one", len(*sessions))
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := e.Execute(t.Context(), agent.Text("late")); !errors.Is(err, atoll.ErrState) {
		t.Errorf("a prompt after Close: %v", err)
	}
}

// TestExecutorResumes gives each prompt a process that resumes the session, for an agent that accepts one prompt.
func TestExecutorResumes(t *testing.T) {
	e, sessions := newExecutor(t, agent.Features{Resume: true, Interrupt: true}, talkingProgram)
	for _, p := range []string{"one", "two"} {
		if r, err := e.Execute(t.Context(), agent.Text(p)); err != nil || r.Text != p {
			t.Errorf("%s: %+v, %v", p, r, err)
		}
	}
	if !slices.Equal(*sessions, []string{"", "s1"}) {
		t.Errorf("the processes had the sessions %q", *sessions)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Execute(ctx, agent.Text("cancelled")); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled prompt: %v", err)
	}
}
