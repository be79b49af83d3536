package turn

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// startKept starts a turn that keeps itself, emits events, and waits to be left; it also has a journal.
func startKept(t *testing.T, d *Registry, events ...agent.Event) *Turn {
	t.Helper()
	begun := make(chan struct{})
	x := start(t, d, func(ctx context.Context, x *Turn) (agent.Result, error) {
		x.Emit(textEvent("before"))
		journal, err := x.Keep(map[string]string{"state": "saved"})
		if err != nil {
			return agent.Result{}, err
		}
		writeJournal(t, journal)
		for _, e := range events {
			x.Emit(e)
		}
		x.emitEvent(agent.Event{Type: agent.ClientToolCalled}) // not of the session
		close(begun)
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	})
	<-begun
	return x
}

func writeJournal(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "start.json"), []byte("{}"), 0o600); err != nil {
		t.Error(err)
	}
}

// TestResume closes a registry with a turn that keeps itself, and continues the turn in another: the events that were told
// are not told again.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	first := open(t, Options{Dir: dir, Keep: true})
	x := startKept(t, first, textEvent("one"), textEvent("two"))
	first.closeNow(t)
	if r, err := first.Get(alice, x.ID()); err != nil || r.State == Finished {
		t.Fatalf("a turn that was left is %+v, %v", r, err)
	}
	second := open(t, Options{Dir: dir, Keep: true})
	if list, err := second.List(alice, Filter{}); err != nil || len(list) != 1 || list[0].State == Finished {
		t.Fatalf("before it is continued: %+v, %v", list, err)
	}
	second.Resume(func(l Left) (Work, error) {
		var state map[string]string
		if err := json.Unmarshal(l.State, &state); err != nil || state["state"] != "saved" || l.Record.ID != x.ID() {
			t.Errorf("the state of %s is %q, %v", l.Record.ID, l.State, err)
		}
		return func(_ context.Context, again *Turn) (agent.Result, error) {
			again.Emit(agent.Event{Type: agent.Warning, Text: "of its own"})
			again.SkipReplayedEvents()
			for _, text := range []string{"one", "two", "three"} {
				again.Emit(textEvent(text))
			}
			return agent.Result{Text: "done"}, nil
		}, nil
	})
	var told []string
	events := second.readEvents(t, x.ID(), 0)
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		if e.Text != "" {
			told = append(told, e.Text)
		}
	}
	if want := []string{"before", "one", "two", "of its own", "three"}; !slices.Equal(told, want) {
		t.Errorf("the events tell %q, not %q", told, want)
	}
	if r := events[len(events)-1].Result; r == nil || r.Outcome != agent.OK || r.Text != "done" {
		t.Errorf("the turn ended with %+v", r)
	}
	second.closeNow(t)
	if _, err := os.Stat(second.keptDir(turnKey{alice, x.ID()})); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was kept is left: %v", err)
	}
}

// TestResumeOfLaterTurn opens the next registry before the former one is closed, as a rollout does: a turn is continued once it was
// left.
func TestResumeOfLaterTurn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first, second := open(t, Options{Dir: dir, Keep: true}), open(t, Options{Dir: dir, Keep: true})
		var continued atomic.Int64
		second.Resume(func(Left) (Work, error) {
			continued.Add(1)
			return func(context.Context, *Turn) (agent.Result, error) { return agent.Result{Text: "done"}, nil }, nil
		})
		x := startKept(t, first)
		time.Sleep(3 * resumeInterval)
		if continued.Load() != 0 {
			t.Error("a turn of a living process was continued")
		}
		first.closeNow(t)
		time.Sleep(2 * resumeInterval)
		events := second.readEvents(t, x.ID(), 0)
		if r := events[len(events)-1].Result; continued.Load() != 1 || r == nil || r.Text != "done" {
			t.Errorf("the turn was continued %d times, and ended with %+v", continued.Load(), r)
		}
		second.closeNow(t)
	})
}

// TestResumeFails ends a turn that can't be continued as crashed.
func TestResumeFails(t *testing.T) {
	dir := t.TempDir()
	first := open(t, Options{Dir: dir, Keep: true})
	x := startKept(t, first)
	first.closeNow(t)
	second := open(t, Options{Dir: dir, Keep: true})
	second.Resume(func(Left) (Work, error) { return nil, errors.New("its assistant is gone") })
	defer second.closeNow(t)
	if r, err := second.Get(alice, x.ID()); err != nil || r.Result == nil || r.Result.Outcome != agent.Crashed {
		t.Errorf("the turn is %+v, %v", r, err)
	}
}

// TestNotKept: without a server the turns of a process end with it, and those that a server left are ended when their agents
// have ended.
func TestNotKept(t *testing.T) {
	dir := t.TempDir()
	alone := open(t, Options{Dir: dir})
	x := start(t, alone, func(ctx context.Context, x *Turn) (agent.Result, error) {
		journal, err := x.Keep("state")
		if err != nil || journal != "" {
			t.Errorf("Keep: %q, %v", journal, err)
		}
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	})
	alone.closeNow(t)
	if r, err := alone.Get(alice, x.ID()); err != nil || r.Result == nil || r.Result.Outcome != agent.Aborted {
		t.Errorf("the turn is %+v, %v", r, err)
	}

	server := open(t, Options{Dir: dir, Keep: true})
	left := startKept(t, server)
	server.closeNow(t)
	state := func(now time.Time) string {
		d := open(t, Options{Dir: dir, Now: func() time.Time { return now }})
		defer d.closeNow(t)
		r, err := d.Get(alice, left.ID())
		if err != nil {
			t.Fatal(err)
		}
		return r.State
	}
	if s := state(time.Now()); s == Finished {
		t.Error("a turn that its server left a moment ago was ended by another process")
	}
	if s := state(time.Now().Add(2 * resumeTime)); s != Finished {
		t.Errorf("a turn that nobody continued is %s", s)
	}
	if _, err := os.Stat(server.keptDir(turnKey{atoll.Owner{App: "app", User: "alice"}, left.ID()})); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was kept is left: %v", err)
	}
}

// kill makes a registry leave its turns as a killed process does: their locks are free, and nothing is written any more.
func (d *Registry) kill(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.running {
		x.log.mu.Lock()
		if err := x.log.file.Close(); err != nil {
			t.Error(err)
		}
		x.log.mu.Unlock()
	}
}

// TestKilledAfterResult kills a process after a turn has stored its result, while its sandbox is removed: the turn has this result. A
// server does the rest, as soon as it starts; another process only ends the turn.
func TestKilledAfterResult(t *testing.T) {
	for name, keep := range map[string]bool{"Resumed": true, "AgentNotKept": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stored, killed := make(chan struct{}), make(chan struct{})
			first := open(t, Options{Dir: dir, Keep: keep})
			x := start(t, first, func(context.Context, *Turn) (agent.Result, error) {
				x := first.onlyTurn()
				if keep {
					journal, err := x.Keep("of the agent")
					if err != nil {
						return agent.Result{}, err
					}
					writeJournal(t, journal)
				}
				x.Emit(textEvent("answer"))
				err := x.KeepResult(agent.Result{Outcome: agent.OK, Text: "answer"}, "of the end")
				close(stored)
				<-killed
				return agent.Result{Outcome: agent.Failed, Text: "of the dead process"}, err
			})
			<-stored
			first.kill(t)
			second := open(t, Options{Dir: dir, Keep: keep})
			rest := 0
			second.Resume(func(l Left) (Work, error) {
				rest++
				if l.Result == nil || l.Result.Text != "answer" || string(l.State) != `"of the end"` {
					t.Errorf("left is %+v", l)
				}
				return func(context.Context, *Turn) (agent.Result, error) { return *l.Result, nil }, nil
			})
			events := second.readEvents(t, x.ID(), 0)
			if r := events[len(events)-1].Result; len(events) != 2 || r == nil || r.Outcome != agent.OK || r.Text != "answer" {
				t.Errorf("the turn ended with %+v after %d events", r, len(events))
			}
			if keep != (rest == 1) {
				t.Errorf("the rest was done %d times", rest)
			}
			second.closeNow(t)
			if _, err := os.Stat(second.keptDir(turnKey{alice, x.ID()})); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what was kept is left: %v", err)
			}
			close(killed)
			<-x.Done()
		})
	}
}

// onlyTurn returns the running turn.
func (d *Registry) onlyTurn() *Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.running {
		return x
	}
	return nil
}

// TestKilledAfterDecision kills a process that has acknowledged a decision before the agent has received it: the next process tells
// it to the agent, once.
func TestKilledAfterDecision(t *testing.T) {
	dir := t.TempDir()
	first := open(t, Options{Dir: dir, Keep: true})
	request := func(id string) agent.Event {
		return agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: id}}
	}
	resolved := agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{ID: "received"}}
	x := startKept(t, first, request("received"), request("lost"))
	for _, id := range []string{"received", "lost"} {
		if err := first.Decide(t.Context(), alice, x.ID(), id, "alice", agent.Decision{Allow: true, Message: id}); err != nil {
			t.Fatal(err)
		}
	}
	x.Emit(resolved)
	first.kill(t)
	second := open(t, Options{Dir: dir, Keep: true, PermissionTimeout: 20 * time.Second})
	second.Resume(func(Left) (Work, error) {
		return func(ctx context.Context, again *Turn) (agent.Result, error) {
			again.SkipReplayedEvents()
			for _, e := range []agent.Event{request("received"), request("lost"), resolved} {
				again.Emit(e)
			}
			d, err := again.Decide(ctx, agent.Permission{ID: "lost"})
			if err != nil || !d.Allow || d.Message != "lost" {
				t.Errorf("the decision is %+v, %v", d, err)
			}
			for _, id := range []string{"received", "lost"} { // an agent may use an id again: that is another request
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				if d, _ := again.Decide(ctx, agent.Permission{ID: id}); d.Allow { // fails with ctx
					t.Errorf("a decision was used for another request: %+v", d)
				}
			}
			return agent.Result{Text: "done"}, nil
		}, nil
	})
	events := second.readEvents(t, x.ID(), 0)
	if r := events[len(events)-1].Result; r == nil || r.Text != "done" {
		t.Errorf("the turn ended with %+v", r)
	}
	second.closeNow(t)
	first.cancelAll(atoll.ErrLeft)
	<-x.Done()
}

// TestKilledAfterInterrupt kills a process that has acknowledged an interrupt before the agent has received it: the next process
// interrupts the agent, also where the agent's session began after the interrupt.
func TestKilledAfterInterrupt(t *testing.T) {
	for name, early := range map[string]bool{"while the agent works": false, "before its session": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := open(t, Options{Dir: dir, Keep: true})
			x := startKept(t, first)
			if early {
				x.kept.Store(false)
			}
			if err := first.Interrupt(t.Context(), alice, x.ID()); err != nil {
				t.Fatal(err)
			}
			if early {
				journal, err := x.Keep("again")
				if err != nil {
					t.Fatal(err)
				}
				writeJournal(t, journal)
			}
			first.kill(t)
			second := open(t, Options{Dir: dir, Keep: true})
			second.Resume(func(Left) (Work, error) {
				return func(ctx context.Context, again *Turn) (agent.Result, error) {
					select {
					case <-again.Interrupted():
						return agent.Result{Text: "interrupted"}, nil
					case <-time.After(20 * time.Second):
						return agent.Result{Text: "went on"}, nil
					}
				}, nil
			})
			events := second.readEvents(t, x.ID(), 0)
			if r := events[len(events)-1].Result; r == nil || r.Text != "interrupted" {
				t.Errorf("the turn ended with %+v", r)
			}
			second.closeNow(t)
			first.cancelAll(atoll.ErrLeft)
			<-x.Done()
		})
	}
}
