package agenttest_test

import (
	"context"
	"errors"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// The fake sandbox can run real agents.
func TestRealAgent(t *testing.T) {
	program := testenv.Program(t, "claude", "ATOLL_CLAUDE")
	m := modeltest.New(t, modeltest.Script{Turns: []modeltest.Turn{
		{Text: "I write it.", Tools: []modeltest.Use{{Name: "Write", Input: []byte(`{"file_path":"hello.txt","content":"hello"}`)}}},
		{Text: "Done."},
	}})
	base, err := url.Parse(m.URL)
	if err != nil {
		t.Fatal(err)
	}
	sb := agenttest.NewSandbox(t)
	var events []agent.Event
	r, err := agent.Run(t.Context(), agent.Job{
		Sandbox: sb, Agent: claude.Agent{}, Dir: sb.Dir(), State: sb.State(), Path: []string{filepath.Dir(program)},
		Turn:  agent.Turn{Prompt: agent.Text("write hello.txt")},
		Model: &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(base) }, FlushInterval: -1},
		Emit:  func(e agent.Event) { events = append(events, e) },
	})
	if err != nil || r.Outcome != agent.OK || r.Text != "Done." {
		t.Fatalf("%+v %v", r, err)
	}
	agenttest.Laws(t, events, 1)
	if b, err := os.ReadFile(filepath.Join(sb.Dir(), "hello.txt")); err != nil || string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
}

func TestHostPrograms(t *testing.T) {
	sb := agenttest.NewSandbox(t)
	t.Setenv("SECRET", "of the host")
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "cat; env | grep -c SECRET; exit 3", Stdin: strings.NewReader("in\n")})
	if err != nil || exit.Code != 3 || string(exit.Stdout) != "in\n0\n" {
		t.Errorf("%+v %v", exit, err)
	}
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"nothing-of-this-name"}}); err != nil || exit.Code != 127 {
		t.Errorf("%+v %v", exit, err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, atoll.ErrTimeout)
	defer cancel()
	if _, err := sb.Exec(ctx, atoll.Cmd{Shell: "(setsid sleep 60 &) ; sleep 60"}); !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("a command that is ended: %v", err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a command after the end: %v", err)
	}
}

// Laws finds broken laws.
func TestBroken(t *testing.T) {
	done := agent.Event{Type: agent.Finished, Result: &agent.Result{Outcome: agent.OK}}
	tool := func(typ agent.Type, s agent.Status) agent.Event {
		return agent.Event{Type: typ, Tool: &agent.ToolCall{ID: "1", Status: s}}
	}
	text := func(typ agent.Type, s string) agent.Event { return agent.Event{Type: typ, Text: s} }
	asked := agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: "p"}}
	for name, c := range map[string]struct {
		events []agent.Event
		broken int
	}{
		"NothingIsWrong":     {[]agent.Event{text(agent.TextDelta, "a"), text(agent.TextDelta, "b"), text(agent.TextDone, "ab"), tool(agent.ToolStarted, ""), tool(agent.ToolFinished, agent.Completed), done}, 0},
		"NoResult":           {[]agent.Event{text(agent.TextDelta, "a")}, 2},
		"TwoResults":         {[]agent.Event{done, done}, 1},
		"NotTheLast":         {[]agent.Event{done, text(agent.TextDelta, "a")}, 1},
		"NoOutcome":          {[]agent.Event{{Type: agent.Finished, Result: &agent.Result{}}}, 1},
		"TextIsLost":         {[]agent.Event{text(agent.TextDelta, "a"), text(agent.TextDone, "ab"), done}, 1},
		"ToolNotStarted":     {[]agent.Event{tool(agent.ToolFinished, agent.Completed), done}, 1},
		"ToolTwice":          {[]agent.Event{tool(agent.ToolStarted, ""), tool(agent.ToolStarted, ""), done}, 1},
		"ToolEndsTwice":      {[]agent.Event{tool(agent.ToolStarted, ""), tool(agent.ToolFinished, agent.Completed), tool(agent.ToolFinished, agent.Completed), done}, 1},
		"NoStatus":           {[]agent.Event{tool(agent.ToolStarted, ""), tool(agent.ToolFinished, ""), done}, 1},
		"RawIsNotJSON":       {[]agent.Event{{Type: agent.Raw, Raw: []byte("{")}, done}, 2},
		"NotAnswered":        {[]agent.Event{asked, done}, 1},
		"UnknownType":        {[]agent.Event{{Type: "surprise"}, done}, 1},
		"WhatItTellsOfLacks": {[]agent.Event{{Type: agent.UsageReported}, done}, 1},
	} {
		for i := range c.events {
			c.events[i].Seq = int64(i + 1)
		}
		if got := agenttest.Broken(c.events, 1); len(got) != c.broken {
			t.Errorf("%s: %q, want %d", name, got, c.broken)
		}
	}
	if got := agenttest.Broken([]agent.Event{done}, 1); len(got) != 1 {
		t.Errorf("a gap in the numbers: %q", got)
	}
}
