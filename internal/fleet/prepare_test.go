package fleet

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

func TestPrepare(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	must(t, errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "lib"})))
	lib := reopenFiles(t, a, "lib")
	must(t, lib.Import(t.Context(), "/", makeArchive(t, fileHeader("src/a/b", "ab"), tar.Header{Name: "src/run", Linkname: "echo ran", Mode: 0o755})))
	sb, err := a.Create(t.Context(), atoll.Config{
		Secrets: map[string]string{"TOKEN": "hush-hush"},
		Prepare: []atoll.Step{
			{File: &atoll.StepFile{Path: "/made/for/it", Content: "$HOME 'as is'\n", Mode: 0o600}},
			{Exec: []string{"cp", "/made/for/it", "/copied it"}},
			{Shell: `echo "$TOKEN" >/secret; exit 7`, IgnoreError: true},
			{Copy: &atoll.StepCopy{Workspace: "lib", From: "src", To: "/opt"}},
			{Copy: &atoll.StepCopy{Workspace: "lib", From: "/src/a/b", To: "/opt/one"}},
			{Shell: "sh /opt/src/run >/ran"},
		},
	})
	must(t, err)
	got := shellOutput(t, sb, `cat "/copied it" /secret /opt/src/a/b; echo; cat /opt/one/b; echo; cat /ran; stat -c %a /made/for/it`)
	if got != "$HOME 'as is'\nhush-hush\nab\nab\nran\n600\n" {
		t.Errorf("inside: %q", got)
	}
}

func TestPrepareThatFails(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	must(t, errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "mine"})))
	other := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "other"}, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}})
	must(t, errorOf(other.CreateWorkspace(t.Context(), atoll.Workspace{Name: "theirs"})))
	noise := "i=0; while [ $i -lt 500 ]; do echo early noise $i >&2; i=$((i+1)); done; "
	for name, c := range map[string]struct {
		step atoll.Step
		kind error
		says []string
		not  string
	}{
		"ExitStatus":   {atoll.Step{Name: "install", Shell: noise + "echo no such package >&2; exit 3"}, atoll.ErrInvalid, []string{`prepare[1] "install"`, "exit status 3", "no such package"}, "noise 100 "},
		"Secret":       {atoll.Step{Shell: `echo "bad token $TOKEN" >&2; false`}, atoll.ErrInvalid, []string{"prepare[1]", "exit status 1", "bad token " + hidden}, "hush-hush"},
		"Missing":      {atoll.Step{Exec: []string{"no-such-program"}}, atoll.ErrInvalid, []string{"exit status 127"}, ""},
		"Timeout":      {atoll.Step{Shell: "echo started >&2; sleep 60", Timeout: 50 * time.Millisecond}, atoll.ErrTimeout, []string{"prepare[1]", "started"}, ""},
		"NotThere":     {atoll.Step{Copy: &atoll.StepCopy{Workspace: "mine", From: "none", To: "/x"}}, atoll.ErrNotFound, []string{"prepare[1]", "none"}, ""},
		"Others":       {atoll.Step{Copy: &atoll.StepCopy{Workspace: "theirs", To: "/x"}}, atoll.ErrNotFound, []string{"prepare[1]", "theirs"}, ""},
		"OverAFile":    {atoll.Step{Copy: &atoll.StepCopy{Workspace: "mine", To: "/first/x"}}, nil, []string{"prepare[1]"}, ""},
		"FileOverRoot": {atoll.Step{File: &atoll.StepFile{Path: "/"}}, nil, []string{"prepare[1]"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Create(t.Context(), atoll.Config{
				Secrets: map[string]string{"TOKEN": "hush-hush"}, Prepare: []atoll.Step{{Shell: "echo 1 >/first"}, c.step, {Shell: "exit 99"}},
			})
			if err == nil || c.kind != nil && !errors.Is(err, c.kind) {
				t.Fatalf("%v, want %v", err, c.kind)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v: does not say %q", err, part)
				}
			}
			if c.not != "" && strings.Contains(err.Error(), c.not) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v: too long", err)
			}
		})
	}
	if list, err := a.List(t.Context(), Filter{}); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	all, err := f.opts.Drivers[0].List(t.Context())
	if err != nil || len(all) != 0 {
		t.Errorf("left of the driver: %v, %v", all, err)
	}
}

// TestPrepareOnce counts in the workspace how often a step ran.
func TestPrepareOnce(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	create := func(workspace string, s atoll.Step) error {
		cfg := atoll.Config{Workspaces: []atoll.WorkspaceMount{{Workspace: "ro", Target: "/ro", ReadOnly: true}, {Workspace: workspace}}, Prepare: []atoll.Step{s}}
		sb, err := a.Create(context.Background(), cfg)
		if err != nil {
			return err
		}
		return sb.Destroy(context.Background())
	}
	count := func(workspace string) int {
		return strings.Count(readTestFile(t, reopenFiles(t, a, workspace), "/log"), "x")
	}
	step := atoll.Step{Shell: "echo x >>/workspace/log", Once: true}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := create("a", step); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := count("a"); n != 1 {
		t.Errorf("8 sandboxes at once did it %d times", n)
	}
	renamed := step
	renamed.Name, renamed.Timeout = "for people", time.Minute
	must(t, create("a", renamed))
	if n := count("a"); n != 1 {
		t.Errorf("another name made it another step: %d", n)
	}
	changed := step
	changed.Shell += " # another"
	must(t, create("a", changed))
	must(t, create("b", step))
	must(t, create("a", atoll.Step{Shell: step.Shell})) // not once
	if n, m := count("a"), count("b"); n != 3 || m != 1 {
		t.Errorf("%d and %d times, want 3 and 1", n, m)
	}
	failing := atoll.Step{Shell: "echo x >>/workspace/log; test -e /workspace/ok", Once: true}
	checkError(t, "a step that fails", create("c", failing), atoll.ErrInvalid)
	writeTestFile(t, reopenFiles(t, a, "c"), "/ok", "")
	must(t, create("c", failing))
	must(t, create("c", failing))
	if n := count("c"); n != 2 {
		t.Errorf("a step that failed was done %d times, want it again until it succeeds: 2", n)
	}
	must(t, a.RemoveWorkspace(t.Context(), "b"))
	must(t, create("b", step))
	if n := count("b"); n != 1 {
		t.Errorf("a new workspace of the same name: %d", n)
	}
	for range 2 { // no workspace: once for each sandbox
		sb, err := a.Create(t.Context(), atoll.Config{Prepare: []atoll.Step{{Shell: "echo x >>/log", Once: true}, {Shell: "echo x >>/log", Once: true}}})
		must(t, err)
		if got := shellOutput(t, sb, "cat /log"); got != "x\n" {
			t.Errorf("in a sandbox: %q", got)
		}
		must(t, sb.Destroy(t.Context()))
	}
	var n int
	must(t, f.registry.DB.QueryRowContext(t.Context(), "select count(*) from prepared where place like 'sandbox %'").Scan(&n))
	if n != 0 {
		t.Errorf("%d notes are left of sandboxes that are destroyed", n)
	}
}

func TestTail(t *testing.T) {
	var w tailBuffer
	for i := range 5000 {
		_, _ = fmt.Fprintln(&w, i)
	}
	if got := w.lastLines(); !strings.HasSuffix(got, "| 4998 | 4999") || len(got) > 2*tailBytes {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
	_, _ = w.Write([]byte(strings.Repeat("y", 3*tailBytes)))
	if got := w.lastLines(); got != strings.Repeat("y", tailBytes) {
		t.Errorf("one long write: %d bytes", len(got))
	}
}
