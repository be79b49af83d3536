package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

var ann = atoll.Owner{App: "app", User: "ann"}

// newRecord returns the record of a turn that begins.
func newRecord(turn string) agent.SessionRecord {
	return agent.SessionRecord{ID: "c1", Owner: ann, Agent: "claude", Turn: turn}
}

// TestJournalOutlivesProcess checks that another process finds all that was recorded of a turn, at each moment, and
// that usage of requests in flight is counted once.
func TestJournalOutlivesProcess(t *testing.T) {
	dir := t.TempDir()
	j := Open(Options{Dir: dir}).Begin(newRecord("t1"))
	read := func() agent.SessionRecord {
		t.Helper()
		r, err := Open(Options{Dir: dir}).Get(ann, "c1")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := read(); r.State != agent.SessionStarting || r.Turn != "t1" || r.Turns != 1 {
		t.Errorf("at the start: %+v", r)
	}
	j.NoteEvent(&agent.Event{Type: agent.Started, Session: "s1"})
	if r := read(); r.State != agent.SessionWorking || r.Session != "s1" {
		t.Errorf("when the agent has started: %+v", r)
	}
	j.NoteEvent(&agent.Event{Type: agent.TextDone, Text: "of a subagent", Parent: "c0"})
	j.NoteEvent(&agent.Event{Type: agent.TextDone, Text: "I look." + strings.Repeat("ä", maxText)})
	if r := read(); !strings.HasPrefix(r.Text, "I look.ä") || len(r.Text) > maxText || !utf8.ValidString(r.Text) {
		t.Errorf("its last message: %.20q, %d bytes", r.Text, len(r.Text))
	}
	j.NoteEvent(&agent.Event{Type: agent.PermissionRequested, Session: "s1", Permission: &agent.Permission{ID: "p1"}})
	if r := read(); r.State != agent.SessionWaitingApproval || len(r.Permissions) != 1 || r.Permissions[0].ID != "p1" {
		t.Errorf("with a request: %+v", r)
	}
	j.NoteEvent(&agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{ID: "p1"}})
	j.SetState(agent.SessionWaitingInput)
	if r := read(); r.State != agent.SessionWaitingInput || len(r.Permissions) != 0 {
		t.Errorf("while a client's tool runs: %+v", r)
	}
	j.SetState(agent.SessionWorking)
	j.NoteUsage(1, agent.Usage{Input: 10, Output: 1, Requests: 1})
	j.AddUsage(1, agent.Usage{Input: 10, Output: 5, Requests: 1})
	j.NoteUsage(2, agent.Usage{Input: 20, Output: 2, Requests: 1})
	j.NoteAnswer(agent.ModelAnswer{Status: 200})

	next := Open(Options{Dir: dir}).Reopen(ann, "c1", "t1")
	if sum := next.AdoptPending(); sum.Input != 20 || sum.Output != 2 {
		t.Errorf("in flight: %+v", sum)
	}
	if sum := next.AdoptPending(); sum != (agent.Usage{}) {
		t.Errorf("in flight, again: %+v", sum)
	}
	end := next.Ending()
	want := agent.Ending{Session: "s1", Usage: agent.Usage{Input: 30, Output: 7, Requests: 2, Counted: true}, Answer: agent.ModelAnswer{Status: 200}}
	if diff := cmp.Diff(want, end); diff != "" {
		t.Errorf("the ending:\n%s", diff)
	}
	next.Finish(end.Result(), true)
	if r := read(); r.State != agent.SessionIdle || r.Outcome != agent.Crashed || r.Sandbox != "" || r.TurnUsage.Input != 30 {
		t.Errorf("at the end: %+v", r)
	}
	Open(Options{Dir: dir}).Begin(newRecord("t2"))
	if r := read(); r.Session != "s1" || r.Usage.Input != 30 || r.TurnUsage != (agent.Usage{}) || r.Turns != 2 || r.Outcome != "" {
		t.Errorf("the next turn: %+v", r)
	}
	if Open(Options{Dir: dir}).Reopen(ann, "c1", "t1") != nil {
		t.Error("a turn that is not the last one is settled")
	}
}

// TestContinuedTurnKeepsItsUsage checks that a turn that begins again in another process goes on counting.
func TestContinuedTurnKeepsItsUsage(t *testing.T) {
	dir := t.TempDir()
	Open(Options{Dir: dir}).Begin(newRecord("t1")).AddUsage(1, agent.Usage{Input: 10, Requests: 1})
	j := Open(Options{Dir: dir}).Begin(newRecord("t1"))
	j.AddUsage(1, agent.Usage{Input: 5, Requests: 1})
	if r := j.Record(); r.TurnUsage.Input != 15 || r.Usage.Input != 15 || r.Turns != 1 {
		t.Errorf("%+v", r)
	}
}

// TestSessionsOfOwners checks that owners see only their own sessions, and that broken journals are left out.
func TestSessionsOfOwners(t *testing.T) {
	dir := t.TempDir()
	s := Open(Options{Dir: dir})
	s.Begin(newRecord("t1"))
	bob := atoll.Owner{App: "app", User: "bob"}
	if _, err := s.Get(bob, "c1"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("another owner: %v", err)
	}
	for _, id := range []string{"", "..", "../ann/c1", "none"} {
		if _, err := s.Get(ann, id); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("session %q: %v", id, err)
		}
	}
	broken := filepath.Join(dir, "app", "ann", "c2")
	if err := errors.Join(os.MkdirAll(broken, 0o700), os.WriteFile(filepath.Join(broken, fileName), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]int{"": 1, agent.SessionStarting: 1, agent.SessionIdle: 0} {
		if all, err := s.List(ann, Filter{State: state}); err != nil || len(all) != want {
			t.Errorf("state %q: %v, %v", state, all, err)
		}
	}
	if all, err := s.List(bob, Filter{}); err != nil || len(all) != 0 {
		t.Errorf("another owner: %v, %v", all, err)
	}
}
