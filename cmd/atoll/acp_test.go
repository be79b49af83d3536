package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/acp"
	"github.com/atoll-sandbox/atoll/cmd/internal/program"
	"github.com/atoll-sandbox/atoll/internal/cli"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

// editor is a client of the protocol that drives 'atoll acp' with some
// arguments in a directory of its own.
type editor struct {
	*testing.T
	box    *agenttest.Sandbox
	events []agent.Event
}

func newEditor(t *testing.T) *editor {
	t.Helper()
	t.Setenv("ATOLL_HOME", filepath.Join(t.TempDir(), "home"))
	t.Setenv("HOME", t.TempDir())
	e := &editor{T: t, box: agenttest.NewSandbox(t)}
	e.box.Programs["atoll"] = func(ctx context.Context, p *agenttest.Process) int {
		return cli.Run(ctx, p.Args[1:], tty.Streams{In: p.Stdin, Out: p.Stdout, Err: p.Stderr}, program.Wiring())
	}
	return e
}

// prompt says one prompt, in a session of its own.
func (e *editor) prompt(d agent.Decision, args ...string) agent.Result {
	e.Helper()
	e.events = nil
	r, err := agent.Run(e.Context(), agent.Job{
		Sandbox: e.box, Agent: acp.Agent{}, Dir: e.box.Dir(), State: e.box.State(),
		Turn:   agent.Turn{Prompt: agent.Text("do the task"), Ask: true, Command: append([]string{"atoll", "acp"}, args...)},
		Decide: func(context.Context, agent.Permission) (agent.Decision, error) { return d, nil },
		Emit:   func(ev agent.Event) { e.events = append(e.events, ev) },
	})
	if err != nil {
		e.Fatal(err)
	}
	return r
}

func (e *editor) typed(kind agent.Type) []agent.Event {
	var list []agent.Event
	for _, ev := range e.events {
		if ev.Type == kind {
			list = append(list, ev)
		}
	}
	return list
}

// TestACPPassesEverythingOn lets an editor drive an agent that says what one has
// said: both speak the protocol, with atoll between them.
func TestACPPassesEverythingOn(t *testing.T) {
	e := newEditor(t)
	script := string(agenttest.Script(t, "../../agent/acp/testdata/gemini"))
	r := e.prompt(agent.Decision{Allow: true}, "acp", "--driver", "virtual", "--", "sh", "-c", script)
	if r.Outcome != agent.OK || r.Text != "Done." || r.Usage.Output == 0 {
		t.Fatalf("%+v", r)
	}
	var texts []string
	for _, ev := range e.typed(agent.TextDone) {
		texts = append(texts, ev.Text)
	}
	if got := strings.Join(texts, "|"); got != "I will write the file.|Run it.|Done." {
		t.Errorf("the texts: %q", got)
	}
	if asked := e.typed(agent.PermissionRequested); len(asked) != 2 || asked[0].Permission.Tool.Title != "Writing to hello.py" || len(asked[0].Permission.Tool.Diffs) != 1 {
		t.Errorf("it was asked: %+v", asked)
	}
	if calls := e.typed(agent.ToolFinished); len(calls) != 2 || calls[0].Tool.Status != agent.Completed || calls[1].Tool.Kind != agent.Execute {
		t.Errorf("the tools: %+v", calls)
	}
}

// TestACPBringsTheProject checks what of the editor's directory is inside.
func TestACPBringsTheProject(t *testing.T) {
	e := newEditor(t)
	e.write("a.txt", "outside\n")
	args := []string{"command", "--driver", "virtual"}
	change := []string{"--", "sh", "-c", "cat >/dev/null; cat a.txt; echo inside > a.txt"}

	r := e.prompt(agent.Decision{}, append(args, change...)...)
	if r.Outcome != agent.OK || strings.TrimSpace(r.Text) != "outside" {
		t.Errorf("%+v", r)
	}
	if got := e.read("a.txt"); got != "outside\n" {
		t.Errorf("the editor's file became %q", got)
	}
	r = e.prompt(agent.Decision{}, append(append(args, "--in-place"), change...)...)
	if r.Outcome != agent.OK || strings.TrimSpace(r.Text) != "outside" {
		t.Errorf("with --in-place: %+v", r)
	}
	if got := e.read("a.txt"); got != "inside\n" {
		t.Errorf("with --in-place, the editor's file is %q", got)
	}
}

func (e *editor) write(name, text string) {
	e.Helper()
	if err := os.WriteFile(filepath.Join(e.box.Dir(), name), []byte(text), 0o644); err != nil {
		e.Fatal(err)
	}
}

func (e *editor) read(name string) string {
	e.Helper()
	b, err := os.ReadFile(filepath.Join(e.box.Dir(), name))
	if err != nil {
		e.Fatal(err)
	}
	return string(b)
}

func TestACPFailuresAreErrors(t *testing.T) {
	e := newEditor(t)
	r := e.prompt(agent.Decision{}, "command", "--driver", "virtual", "--", "sh", "-c", "cat >/dev/null; echo broken >&2; exit 3")
	if r.Outcome != agent.Failed || r.Message == "" {
		t.Errorf("%+v", r)
	}
	if r := e.prompt(agent.Decision{}, "no-such-agent"); r.Outcome != agent.Crashed {
		t.Errorf("an agent that is not there: %+v", r)
	}
}

// TestACPCancelEndsTheTurn gives up a prompt in the middle.
func TestACPCancelEndsTheTurn(t *testing.T) {
	e := newEditor(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := agent.Run(ctx, agent.Job{
		Sandbox: e.box, Agent: acp.Agent{}, Dir: e.box.Dir(), State: e.box.State(),
		Turn: agent.Turn{Prompt: agent.Text("wait"), Command: []string{
			"atoll", "acp", "command", "--driver", "virtual", "--", "sh", "-c", "cat >/dev/null; echo begun; sleep 1000",
		}},
		Emit: func(ev agent.Event) {
			if ev.Type == agent.TextDelta || ev.Type == agent.TextDone {
				cancel()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != agent.Aborted || r.Exit == nil {
		t.Errorf("%+v", r)
	}
}
