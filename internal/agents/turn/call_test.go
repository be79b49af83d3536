package turn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// openTwo opens two registries on one directory, as two servers have them. They are closed when the test ends.
func openTwo(t *testing.T) (here, there *Registry) {
	t.Helper()
	dir := t.TempDir()
	here, there = open(t, Options{Dir: dir}), open(t, Options{Dir: dir})
	t.Cleanup(func() {
		here.closeNow(t)
		there.closeNow(t)
	})
	return here, there
}

// TestCallsOfAnotherProcess steers a turn from a process that does not run it: each call has the effect and the error that it has
// where the turn runs, and leaves no file.
func TestCallsOfAnotherProcess(t *testing.T) {
	here, there := openTwo(t)
	ctx := t.Context()
	var got []string
	x := start(t, here, func(ctx context.Context, x *Turn) (agent.Result, error) {
		x.Receive(func(_ context.Context, m agent.Message) error {
			if agent.PlainText(m.Prompt) == "refuse" {
				return fmt.Errorf("%w: not now", atoll.ErrState)
			}
			got = append(got, agent.PlainText(m.Prompt))
			return nil
		})
		x.Emit(agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: "p1"}})
		d, err := x.Decide(ctx, agent.Permission{ID: "p1"})
		if err != nil || !d.Allow || d.Message != "why" {
			return agent.Result{}, fmt.Errorf("the decision is %+v: %w", d, err)
		}
		text, failed, err := x.CallClientTool(ctx, agent.ToolCall{ID: "c1"})
		if err != nil || failed || text != "noon" {
			return agent.Result{}, fmt.Errorf("the tool says %q, %v: %w", text, failed, err)
		}
		select {
		case <-x.Interrupted():
		case <-ctx.Done():
		}
		return agent.Result{Text: "done"}, nil
	})
	var seen []agent.Type
	err := there.Follow(ctx, alice, x.ID(), 0, func(e agent.Event) error { // what happens is seen as it happens
		seen = append(seen, e.Type)
		switch e.Type {
		case agent.PermissionRequested:
			for _, text := range []string{"one", "two"} {
				if err := there.Send(ctx, alice, x.ID(), agent.Message{ID: text, Prompt: agent.Text(text)}); err != nil {
					t.Errorf("message %s: %v", text, err)
				}
			}
			if err := there.Send(ctx, alice, x.ID(), agent.Message{ID: "r", Prompt: agent.Text("refuse")}); !errors.Is(err, atoll.ErrState) {
				t.Errorf("a refused message: %v", err)
			}
			if r, err := there.Get(alice, x.ID()); err != nil || r.State != Waiting || len(r.Permissions) != 1 || r.Permissions[0].ID != "p1" {
				t.Errorf("the turn that waits for a decision is %+v, %v", r, err)
			}
			if err := there.Decide(ctx, alice, x.ID(), "p9", "bob", agent.Decision{}); !errors.Is(err, atoll.ErrNotFound) {
				t.Errorf("a decision about nothing: %v", err)
			}
			if err := there.Decide(ctx, alice, x.ID(), "p1", "bob", agent.Decision{Allow: true, Message: "why"}); err != nil {
				t.Error(err)
			}
		case agent.ClientToolCalled:
			if list, err := there.List(alice, Filter{State: Waiting}); err != nil || len(list) != 1 || len(list[0].Permissions) != 0 {
				t.Errorf("the turns that wait are %+v, %v", list, err)
			}
			if err := there.AnswerTurn(ctx, alice, x.ID(), "c9", ToolAnswer{}); !errors.Is(err, atoll.ErrNotFound) {
				t.Errorf("the result of no call: %v", err)
			}
			if err := there.AnswerTurn(ctx, bob, x.ID(), "c1", ToolAnswer{Text: "midnight"}); !errors.Is(err, atoll.ErrNotFound) {
				t.Errorf("the result of another owner: %v", err)
			}
			if err := there.AnswerTurn(ctx, alice, x.ID(), "c1", ToolAnswer{Text: "noon"}); err != nil {
				t.Error(err)
			}
			if err := there.Interrupt(ctx, alice, x.ID()); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil || !slices.Equal(seen, []agent.Type{agent.PermissionRequested, agent.ClientToolCalled, agent.Finished}) {
		t.Errorf("the events are %v, %v", seen, err)
	}
	if r, err := there.Get(alice, x.ID()); err != nil || r.Result == nil || r.Result.Text != "done" {
		t.Errorf("the turn ended as %+v, %v", r.Result, err)
	}
	if !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("the agent was told %q", got)
	}
	for op, err := range map[string]error{
		"Send": there.Send(ctx, alice, x.ID(), agent.Message{ID: "m"}), "Interrupt": there.Interrupt(ctx, alice, x.ID()),
		"Decide": there.Decide(ctx, alice, x.ID(), "p1", "", agent.Decision{}),
	} {
		if !errors.Is(err, atoll.ErrState) {
			t.Errorf("%s after the end: %v", op, err)
		}
	}
	checkNoCalls(t, here)
}

// TestCancelByAnotherProcess cancels a turn from a process that does not run it, which returns once it has ended.
func TestCancelByAnotherProcess(t *testing.T) {
	here, there := openTwo(t)
	x := start(t, here, func(ctx context.Context, _ *Turn) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	})
	if err := there.Cancel(t.Context(), alice, x.ID()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-x.Done():
	default:
		t.Error("it runs still")
	}
	if err := there.Cancel(t.Context(), alice, x.ID()); err != nil { // removes it
		t.Error(err)
	}
	if _, err := here.Get(alice, x.ID()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("it is there still: %v", err)
	}
	checkNoCalls(t, here)
}

// TestCallOfKilledProcess calls a turn whose process was killed: the call ends, says so, and leaves nothing that a later process
// would do. The file of a caller that was killed is no obstacle.
func TestCallOfKilledProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		there := open(t, Options{Dir: dir})
		r := agent.Record{ID: "t1", Owner: alice, State: Running, Started: time.Now()}
		if err := os.MkdirAll(there.ownerDir(alice), 0o700); err != nil {
			t.Fatal(err)
		}
		there.save(r)
		begun := time.Now()
		if err := there.Cancel(t.Context(), alice, "t1"); !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("a call of a killed process: %v", err)
		}
		if took := time.Since(begun); took > callPatience+time.Second {
			t.Errorf("it took %s", took)
		}
		checkNoCalls(t, there)
		there.closeNow(t)
	})
}

// checkNoCalls fails if the file of a call is left.
func checkNoCalls(t *testing.T, d *Registry) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(d.ownerDir(alice), "*.calls"))
	if err != nil || len(left) > 0 {
		t.Errorf("calls are left: %q, %v", left, err)
	}
}

// TestToolResultReachesAnyProcess: the client of a chat API comes back with the results of its tools to a process that does not run
// the turn, which passes them on and has the rest of the turn; or it continues without them.
func TestToolResultReachesAnyProcess(t *testing.T) {
	here, there := openTwo(t)
	ctx := t.Context()
	ask := func(ctx context.Context, x *Turn) (agent.Result, error) {
		text, _, err := x.CallClientTool(ctx, agent.ToolCall{ID: "c1"})
		return agent.Result{Text: text}, err
	}
	x := start(t, here, ask)
	var called int64
	waits := errors.New("it waits for a tool")
	err := there.Follow(ctx, alice, x.ID(), 0, func(e agent.Event) error {
		if called = e.Seq; e.Type == agent.ClientToolCalled {
			return waits
		}
		return nil
	})
	if !errors.Is(err, waits) {
		t.Fatal(err)
	}
	err = there.PauseResponse(ctx, alice, x.ID(), called)
	for errors.Is(err, atoll.ErrState) { // the turn learns the number of its event after those who follow it
		err = there.PauseResponse(ctx, alice, x.ID(), called)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := there.AnswerToolCall(ctx, bob, "c1", ToolAnswer{Text: "rain"}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("somebody else's answer was taken: %v", err)
	}
	r, seen, err := there.AnswerToolCall(ctx, alice, "c1", ToolAnswer{Text: "noon"})
	if err != nil || r.ID != x.ID() || seen != called {
		t.Fatalf("%+v, after event %d, %v; want turn %s after %d", r, seen, err, x.ID(), called)
	}
	var res *agent.Result
	if err := there.Follow(ctx, alice, r.ID, seen, func(e agent.Event) error {
		res = e.Result
		return nil
	}); err != nil || res == nil || res.Text != "noon" {
		t.Errorf("the rest of the turn: %+v, %v", res, err)
	}
	if err := there.PauseResponse(ctx, alice, x.ID(), called); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a turn that has ended is paused: %v", err)
	}
	if _, _, err := there.AnswerToolCall(ctx, alice, "c1", ToolAnswer{}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a second answer was taken: %v", err)
	}
	there.Abandon(alice, x.ID(), errAbandoned)
	if _, err := there.Get(alice, x.ID()); err != nil {
		t.Errorf("a turn that has ended is removed with its client: %v", err)
	}

	for what, end := range map[string]func(id string){
		"the client continues without the results": func(string) {
			if there.CancelWaiting(ctx, alice, "another") || there.CancelWaiting(ctx, bob, "c") || !there.CancelWaiting(ctx, alice, "c") {
				t.Error("not just the chat's turn is cancelled")
			}
		},
		"the client disconnects": func(id string) { there.Abandon(alice, id, errAbandoned) },
	} {
		y, err := here.Start(agent.Record{ID: atoll.NewID(), Owner: alice, Chat: "c"}, ask)
		if err != nil {
			t.Fatal(err)
		}
		if err := there.Follow(ctx, alice, y.ID(), 0, func(e agent.Event) error {
			if e.Type == agent.ClientToolCalled {
				end(y.ID())
			}
			res = e.Result
			return nil
		}); err != nil || res == nil || res.Outcome != agent.Aborted {
			t.Errorf("%s: %+v, %v", what, res, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(here.ownerDir(alice), "tool-calls", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestRequestsDoNotMakeRecordUnreadable: a turn with large requests for permission can be read by other processes, and goes on.
func TestRequestsDoNotMakeRecordUnreadable(t *testing.T) {
	here, there := openTwo(t)
	ctx := t.Context()
	large, path := strings.Repeat("<", 2<<20), strings.Repeat("<", 100<<10) // "<" has six bytes in JSON
	x := start(t, here, func(ctx context.Context, x *Turn) (agent.Result, error) {
		for i := range 3 {
			call := agent.ToolCall{ID: fmt.Sprint("t", i), Name: "Write", Title: large, Input: []byte(`"` + large + `"`), Locations: []string{path, "f"}, Diffs: []agent.Diff{{New: large}}}
			x.Emit(agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: fmt.Sprint("p", i), Tool: call}})
		}
		d, err := x.Decide(ctx, agent.Permission{ID: "p2"})
		return agent.Result{Text: d.Message}, err
	})
	var res *agent.Result
	err := there.Follow(ctx, alice, x.ID(), 0, func(e agent.Event) error {
		if res = e.Result; e.Permission == nil || e.Permission.ID != "p2" {
			return nil
		}
		r, err := there.Get(alice, x.ID())
		if err != nil || r.State != Waiting || len(r.Permissions) != 3 || r.Permissions[2].Tool.Name != "Write" {
			t.Errorf("%d requests in state %q, %v", len(r.Permissions), r.State, err)
		}
		return there.Decide(ctx, alice, x.ID(), "p2", "bob", agent.Decision{Allow: true, Message: "why"})
	})
	if err != nil || res == nil || res.Text != "why" {
		t.Errorf("%+v, %v", res, err)
	}
	if info, err := os.Stat(here.recordName(turnKey{alice, x.ID()})); err != nil || info.Size() > 64<<10 {
		t.Errorf("the record at the end: %v, %v", info, err)
	}
}

// TestLeftCallEndsNoOtherTurn: the file of a call of a killed process is removed, and the turn's record stays.
func TestLeftCallEndsNoOtherTurn(t *testing.T) {
	here, there := openTwo(t)
	ctx := t.Context()
	x, err := here.Start(agent.Record{ID: "x", Owner: alice, Chat: "c"}, func(context.Context, *Turn) (agent.Result, error) { return agent.Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	<-x.Done()
	files := func() int {
		list, err := filepath.Glob(filepath.Join(here.waitingDir(alice), "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for _, id := range []string{"x", "removed"} {
		here.addWaiting(agent.Record{ID: id, Owner: alice, Chat: "c"}, "call of "+id)
		here.addWaiting(agent.Record{ID: id, Owner: alice, Chat: "c"}, "another call of "+id)
	}
	if there.CancelWaiting(ctx, alice, "c") || files() != 0 {
		t.Errorf("turns that have ended were cancelled, or %d files are left", files())
	}
	here.addWaiting(agent.Record{ID: "x", Owner: alice, Chat: "c"}, "call of x")
	there.removeExpired(alice)
	if _, err := here.Get(alice, "x"); err != nil || files() != 0 {
		t.Errorf("the turn that has ended: %v; %d files are left", err, files())
	}
}

// TestPauseWaitsForAllCalls: a response does not end while a call that its client has not received waits.
func TestPauseWaitsForAllCalls(t *testing.T) {
	here, there := openTwo(t)
	ctx := t.Context()
	x := start(t, here, func(ctx context.Context, x *Turn) (agent.Result, error) {
		var calls sync.WaitGroup
		for _, id := range []string{"c1", "c2"} {
			calls.Go(func() { _, _, _ = x.CallClientTool(ctx, agent.ToolCall{ID: id}) }) // its end is what is waited for
		}
		calls.Wait()
		return agent.Result{Text: "done"}, nil
	})
	var seen []int64
	err := there.Follow(ctx, alice, x.ID(), 0, func(e agent.Event) error {
		if e.Type != agent.ClientToolCalled {
			return nil
		}
		if seen = append(seen, e.Seq); len(seen) < 2 {
			return nil
		}
		if err := there.PauseResponse(ctx, alice, x.ID(), seen[0]); !errors.Is(err, atoll.ErrState) {
			t.Errorf("the response ends after one of two calls: %v", err)
		}
		err := there.PauseResponse(ctx, alice, x.ID(), seen[1])
		for errors.Is(err, atoll.ErrState) { // the turn learns the number of its event after those who follow it
			err = there.PauseResponse(ctx, alice, x.ID(), seen[1])
		}
		if err != nil {
			t.Errorf("the response does not end after both calls: %v", err)
		}
		for _, id := range []string{"c1", "c2"} {
			if err := there.AnswerTurn(ctx, alice, x.ID(), id, ToolAnswer{}); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil || len(seen) != 2 {
		t.Errorf("%d calls, %v", len(seen), err)
	}
}
