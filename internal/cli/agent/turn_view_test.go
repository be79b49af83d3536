package agent

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// turnEvents are those of a turn that has a bit of everything, some of it
// hostile.
func turnEvents() []agent.Event {
	one := 1
	old := "a\nb\n"
	return []agent.Event{
		{Type: agent.Started, Started: &agent.Start{Agent: "claude", Version: "2.1.329", Model: "opus", MCP: []agent.MCPServer{{Name: "x", Status: "failed"}}}},
		{Type: agent.ThoughtDelta, Text: "let me think"},
		{Type: agent.TextDelta, Text: "I will **write**"},
		{Type: agent.TextDelta, Text: " it."},
		{Type: agent.TextDone, Text: "I will **write** it."},
		{Type: agent.ToolStarted, Tool: &agent.ToolCall{ID: "1", Name: "Edit", Kind: agent.Edit, Title: "main.go"}},
		{Type: agent.ToolFinished, Tool: &agent.ToolCall{ID: "1", Name: "Edit", Kind: agent.Edit, Status: agent.Completed, Diffs: []agent.Diff{{Path: "main.go", Old: &old, New: "a\nc\nd\n"}}}},
		{Type: agent.ToolStarted, Tool: &agent.ToolCall{ID: "2", Name: "Bash", Kind: agent.Execute, Title: "go test\n./..."}},
		{Type: agent.ToolFinished, Tool: &agent.ToolCall{ID: "2", Name: "Bash", Kind: agent.Execute, Status: agent.ToolFailed, Exit: &one, Output: "\x1b]0;evil\x07FAIL\nx\n"}},
		{Type: agent.ToolFinished, Tool: &agent.ToolCall{ID: "3", Name: "mcp__atoll__echo", Kind: agent.MCP, Title: "echo", Status: agent.Completed, Input: json.RawMessage(`{"a":1}`), Output: "1\n2\n3\n4\n5\n"}},
		{Type: agent.Retrying, Retry: &agent.Retry{Attempt: 1, Status: 529, Message: "overloaded", Delay: time.Second}},
		{Type: agent.TextDone, Text: "Done."},
		{Type: agent.Finished, Result: &agent.Result{Outcome: agent.OK, Text: "Done.", Usage: agent.Usage{Input: 1234, Output: 56, Requests: 3, Cost: 0.0123}, Duration: 2100 * time.Millisecond}},
	}
}

func TestTurnView(t *testing.T) {
	var out, err bytes.Buffer
	a := commands{&app.App{Streams: tty.Streams{Out: &out, Err: &err}}}
	v := a.newTurnView(false)
	for _, e := range turnEvents() {
		if err := v.handleEvent(e); err != nil {
			t.Fatal(err)
		}
	}
	v.close()
	if want := "I will **write** it.\nDone.\n"; out.String() != want {
		t.Errorf("what it said:\n%q\nwant\n%q", out.String(), want)
	}
	want := strings.TrimLeft(`
● claude 2.1.329 · opus · tools of x failed
  ✎ main.go
      +2 −1
  $ go test …
      ✗ exit 1
      ·]0;evil·FAIL
      x
  ⚙ echo {"a":1}
      1
      2
      3
      … 2 more lines
⟳ the model does not answer (529 overloaded): try 2 in 1s
✓ done · 3 requests · 1.2k in, 56 out · $0.0123 · 2.1s
`, "\n")
	if err.String() != want {
		t.Errorf("what it did:\n%s\nwant\n%s", err.String(), want)
	}
}

func TestTurnViewQuietTellsOfFailure(t *testing.T) {
	var out, err bytes.Buffer
	a := commands{&app.App{Streams: tty.Streams{Out: &out, Err: &err}, Quiet: true}}
	v := a.newTurnView(false)
	events := turnEvents()
	last := events[len(events)-1].Result
	last.Outcome, last.Message = agent.BudgetExceeded, "1,000 tokens of 1,000 are used up"
	for _, e := range events {
		if err := v.handleEvent(e); err != nil {
			t.Fatal(err)
		}
	}
	if got := err.String(); !strings.HasPrefix(got, "✗ its budget is used up: 1,000 tokens of 1,000 are used up · ") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}

func TestTurnViewForPrograms(t *testing.T) {
	var out, errs bytes.Buffer
	a := commands{&app.App{Streams: tty.Streams{Out: &out, Err: &errs}, JSON: true}}
	v := a.newTurnView(false)
	for _, e := range turnEvents() {
		if err := v.handleEvent(e); err != nil {
			t.Fatal(err)
		}
	}
	dec := json.NewDecoder(&out)
	for i, want := range turnEvents() {
		var got agent.Event
		if err := dec.Decode(&got); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if got.Type != want.Type {
			t.Errorf("event %d is %s, not %s", i, got.Type, want.Type)
		}
	}
	if errs.Len() > 0 {
		t.Errorf("standard error: %q", errs.String())
	}
}

func TestTurnViewShowsWhatIsAsked(t *testing.T) {
	var out, err bytes.Buffer
	a := commands{&app.App{Streams: tty.Streams{Out: &out, Err: &err}}}
	v := a.newTurnView(false)
	v.printPermission("t1", agent.Permission{ID: "p1", Tool: agent.ToolCall{
		Name: "Write", Kind: agent.Edit, Title: "a.sh", Input: json.RawMessage(`{"file_path":"a.sh","content":"echo \u001b[31mhi\nrm -rf x\n"}`),
	}})
	want := "? may it use Write: a.sh\n    echo ·[31mhi\n    rm -rf x\n  'atoll turn decide t1 p1 allow' or deny\n"
	if err.String() != want {
		t.Errorf("got\n%s\nwant\n%s", err.String(), want)
	}
}
