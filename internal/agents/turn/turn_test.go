package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

var (
	alice = atoll.Owner{App: "app", User: "alice"}
	bob   = atoll.Owner{App: "app", User: "bob"}
)

func open(t *testing.T, o Options) *Registry {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Registry) closeNow(t *testing.T) {
	t.Helper()
	if err := d.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// readEvents returns all events of a turn, once it has ended.
func (d *Registry) readEvents(t *testing.T, id string, after int64) []agent.Event {
	t.Helper()
	var list []agent.Event
	if err := d.Follow(context.Background(), alice, id, after, func(e agent.Event) error {
		list = append(list, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

func start(t *testing.T, d *Registry, work Work) *Turn {
	t.Helper()
	x, err := d.Start(agent.Record{Owner: alice, Agent: "double"}, work)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func textEvent(s string) agent.Event { return agent.Event{Type: agent.TextDelta, Text: s} }

// Events are numbered without gaps, and the last, which is the turn's own, is the
// only one of its type.
func TestOneEnd(t *testing.T) {
	for name, c := range map[string]struct {
		work Work
		want agent.Outcome
		code string
	}{
		"Good": {func(_ context.Context, x *Turn) (agent.Result, error) {
			x.Emit(textEvent("a"))
			x.Emit(agent.Event{Type: agent.Finished, Result: &agent.Result{Outcome: agent.Failed}})
			return agent.Result{Text: "a"}, nil
		}, agent.OK, ""},
		"Error": {func(context.Context, *Turn) (agent.Result, error) {
			return agent.Result{}, fmt.Errorf("it: %w", atoll.ErrDenied)
		}, agent.Failed, "denied"},
		"Panic":   {func(context.Context, *Turn) (agent.Result, error) { panic("the secret is 42") }, agent.Crashed, "internal"},
		"Timeout": {func(context.Context, *Turn) (agent.Result, error) { return agent.Result{}, atoll.ErrTimeout }, agent.Timeout, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{})
			defer d.closeNow(t)
			x := start(t, d, c.work)
			<-x.Done()
			x.Emit(textEvent("late"))
			list := d.readEvents(t, x.ID(), 0)
			for i, e := range list {
				if e.Seq != int64(i+1) || e.Turn != x.ID() || e.Time.IsZero() || (e.Type == agent.Finished) != (i == len(list)-1) {
					t.Errorf("event %d of %d: %+v", i+1, len(list), e)
				}
			}
			last := list[len(list)-1].Result
			if last == nil || last.Outcome != c.want || last.Code != c.code || strings.Contains(last.Message, "the secret") {
				t.Errorf("%+v", last)
			}
			r, err := d.Get(alice, x.ID())
			if err != nil || r.State != Finished || r.Result.Outcome != c.want || r.Events != int64(len(list)) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// A follower receives all events after the number it names, including logged ones,
// however slow it is, and delays nothing.
func TestListeners(t *testing.T) {
	d := open(t, Options{})
	defer d.closeNow(t)
	const n = 2000
	half, release := make(chan struct{}), make(chan struct{})
	x := start(t, d, func(context.Context, *Turn) (agent.Result, error) { return agent.Result{}, nil })
	<-x.Done()
	x = start(t, d, func(_ context.Context, x *Turn) (agent.Result, error) {
		for i := range n {
			if i == n/2 {
				close(half)
				<-release
			}
			x.Emit(textEvent(strings.Repeat("x", i%300)))
		}
		return agent.Result{}, nil
	})
	<-half
	slow := make(chan struct{})
	var wg sync.WaitGroup
	for _, after := range []int64{0, 1, n / 2, n - 1, n, n + 1, n + 7} {
		wg.Go(func() {
			want := after
			err := d.Follow(t.Context(), alice, x.ID(), after, func(e agent.Event) error {
				if want++; e.Seq != want {
					t.Errorf("after %d came %d, not %d", after, e.Seq, want)
				}
				if after == 1 {
					<-slow
				}
				return nil
			})
			if err != nil || want < n+1 {
				t.Errorf("after %d: up to %d, %v", after, want, err)
			}
		})
	}
	close(release)
	<-x.Done()
	close(slow)
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	y := start(t, d, func(ctx context.Context, _ *Turn) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	})
	if err := d.Follow(ctx, alice, y.ID(), 0, func(agent.Event) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("who goes away: %v", err)
	}
}

// A permission is denied at the deadline, when the turn ends, and when it can't be
// requested; the first answer decides.
func TestPermissions(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Options{Dir: dir, PermissionTimeout: time.Minute})
		got := make(chan agent.Decision, 3)
		x := start(t, d, func(ctx context.Context, x *Turn) (agent.Result, error) {
			for _, id := range []string{"p1", "p2"} {
				a, err := x.Decide(ctx, agent.Permission{ID: id, Tool: agent.ToolCall{Name: "rm"}})
				if err != nil {
					t.Error(err)
				}
				got <- a
			}
			a, err := x.Decide(ctx, agent.Permission{ID: "p3"})
			if err == nil {
				t.Error("no error of a turn that ends")
			}
			got <- a
			return agent.Result{}, ctx.Err()
		})
		synctest.Wait()
		r, err := d.Get(alice, x.ID())
		if err != nil || r.State != Waiting || len(r.Permissions) != 1 || r.Permissions[0].ID != "p1" || r.Permissions[0].Deadline.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
		if err := d.Decide(t.Context(), bob, x.ID(), "p1", "bob", agent.Decision{Allow: true}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("another owner decides: %v", err)
		}
		if err := d.Decide(t.Context(), alice, x.ID(), "p9", "alice", agent.Decision{Allow: true}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("what nobody asks: %v", err)
		}
		if err := d.Decide(t.Context(), alice, x.ID(), "p1", "alice", agent.Decision{Allow: true, Input: map[string]any{"a": 1}}); err != nil {
			t.Error(err)
		}
		if a := <-got; !a.Allow || a.Input["a"] != 1 {
			t.Errorf("allowed: %+v", a)
		}
		if a := <-got; a.Allow || a.Message == "" { // after a minute
			t.Errorf("nobody answered: %+v", a)
		}
		synctest.Wait()
		if err := d.Cancel(t.Context(), alice, x.ID()); err != nil {
			t.Error(err)
		}
		if a := <-got; a.Allow {
			t.Errorf("the turn ended: %+v", a)
		}
		if err := d.Decide(t.Context(), alice, x.ID(), "p3", "alice", agent.Decision{Allow: true}); !errors.Is(err, atoll.ErrState) {
			t.Errorf("after the end: %v", err)
		}
		d.closeNow(t)
	})
}

// An answer that comes before the agent waits for it counts; a request that a policy
// resolves is not pending.
func TestPromptAnswer(t *testing.T) {
	d := open(t, Options{Dir: t.TempDir()})
	x := start(t, d, func(ctx context.Context, x *Turn) (agent.Result, error) {
		for _, id := range []string{"p1", "p2"} {
			x.Emit(agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: id}})
		}
		x.Emit(agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{ID: "p2"}})
		if err := d.Decide(t.Context(), alice, x.ID(), "p2", "alice", agent.Decision{Allow: true}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("what a policy resolved: %v", err)
		}
		if err := d.Decide(t.Context(), alice, x.ID(), "p1", "alice", agent.Decision{Allow: true}); err != nil {
			t.Error(err)
		}
		if err := d.Decide(t.Context(), alice, x.ID(), "p1", "alice", agent.Decision{}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a second answer: %v", err)
		}
		if r := x.Record(); r.State != Running || len(r.Permissions) != 0 {
			t.Errorf("answered: %+v", r)
		}
		a, err := x.Decide(ctx, agent.Permission{ID: "p1"})
		if !a.Allow || err != nil {
			t.Errorf("%+v, %v", a, err)
		}
		return agent.Result{}, nil
	})
	<-x.done
	d.closeNow(t)
}

// A client's tool is waited for until the deadline; only its owner answers.
func TestWanted(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Options{Dir: dir, PermissionTimeout: time.Minute})
		x := start(t, d, func(ctx context.Context, x *Turn) (agent.Result, error) {
			got, failed, err := x.CallClientTool(ctx, agent.ToolCall{ID: "call1", Name: "weather"})
			if got != "sunny" || failed || err != nil {
				t.Errorf("%q %v %v", got, failed, err)
			}
			_, failed, err = x.CallClientTool(ctx, agent.ToolCall{ID: "call2", Name: "weather"})
			if !failed || err != nil {
				t.Errorf("nobody answered: %v %v", failed, err)
			}
			return agent.Result{}, nil
		})
		synctest.Wait()
		if r := x.Record(); r.State != Waiting {
			t.Errorf("%+v", r)
		}
		answer := func(o atoll.Owner, call, text string) (agent.Record, error) {
			r, _, err := d.AnswerToolCall(t.Context(), o, call, ToolAnswer{Text: text})
			return r, err
		}
		for what, c := range map[string]struct {
			owner atoll.Owner
			call  string
		}{"somebody else's": {bob, "call1"}, "that of no call": {alice, "call9"}, "that of a strange call": {alice, "../call1"}} {
			if _, err := answer(c.owner, c.call, "rain"); !errors.Is(err, atoll.ErrNotFound) {
				t.Errorf("%s answer was taken: %v", what, err)
			}
		}
		if err := d.AnswerTurn(t.Context(), alice, "another", "call1", ToolAnswer{Text: "snow"}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("the answer to another turn was taken: %v", err)
		}
		if r, err := answer(alice, "call1", "sunny"); err != nil || r.ID != x.ID() {
			t.Errorf("the answer was not taken: %+v, %v", r, err)
		}
		if _, err := answer(alice, "call1", "again"); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a second answer was taken: %v", err)
		}
		<-x.Done()
		d.closeNow(t)
	})
}

// Others' turns are not there, whatever is done with them.
func TestOwners(t *testing.T) {
	d := open(t, Options{})
	defer d.closeNow(t)
	x := start(t, d, func(ctx context.Context, _ *Turn) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	})
	for _, id := range []string{x.ID(), "none", "../alice/" + x.ID(), "", "a/b"} {
		_, err := d.Get(bob, id)
		for what, err := range map[string]error{
			"Get": err, "Cancel": d.Cancel(t.Context(), bob, id), "Interrupt": d.Interrupt(t.Context(), bob, id), "Decide": d.Decide(t.Context(), bob, id, "p", "bob", agent.Decision{}),
			"Follow": d.Follow(t.Context(), bob, id, 0, func(agent.Event) error { return nil }),
		} {
			if !errors.Is(err, atoll.ErrNotFound) {
				t.Errorf("%s of %q: %v", what, id, err)
			}
		}
	}
	if list, err := d.List(bob, Filter{}); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := d.List(alice, Filter{State: Running}); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if r := x.Record(); r.State != Running {
		t.Errorf("%+v", r)
	}
}

// Turns over the owner's limit are refused, and so is a used id.
func TestLimits(t *testing.T) {
	d := open(t, Options{PerOwner: 2})
	defer d.closeNow(t)
	wait := func(ctx context.Context, _ *Turn) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	}
	if _, err := d.Start(agent.Record{ID: "mine", Owner: alice}, wait); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(agent.Record{ID: "mine", Owner: alice}, wait); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("an id twice: %v", err)
	}
	if _, err := d.Start(agent.Record{ID: "mine", Owner: bob}, wait); err != nil {
		t.Errorf("the id of another owner: %v", err)
	}
	if _, err := d.Start(agent.Record{ID: "../x", Owner: alice}, wait); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an id that is none: %v", err)
	}
	start(t, d, wait)
	if _, err := d.Start(agent.Record{Owner: alice}, wait); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one more: %v", err)
	}
	if err := d.Cancel(t.Context(), alice, "mine"); err != nil {
		t.Error(err)
	}
	start(t, d, wait)
}

// The log of a turn is limited, and so is each event; the end is always logged.
func TestLogIsBounded(t *testing.T) {
	d := open(t, Options{LogBytes: 10_000})
	defer d.closeNow(t)
	x := start(t, d, func(_ context.Context, x *Turn) (agent.Result, error) {
		for range 1000 {
			x.Emit(textEvent(strings.Repeat("y", 100)))
		}
		return agent.Result{Text: "end"}, nil
	})
	<-x.Done()
	list := d.readEvents(t, x.ID(), 0)
	if n := len(list); n > 100 || list[n-2].Type != agent.Dropped || list[n-1].Result.Text != "end" {
		t.Errorf("%d events", n)
	}
	d2 := open(t, Options{})
	defer d2.closeNow(t)
	old := strings.Repeat("ö", 3<<20)
	x = start(t, d2, func(_ context.Context, x *Turn) (agent.Result, error) {
		x.Emit(agent.Event{Type: agent.ToolFinished, Tool: &agent.ToolCall{ID: "1", Output: old, Diffs: []agent.Diff{{Path: "a", Old: &old, New: old}}}})
		x.Emit(agent.Event{Type: agent.Raw, Raw: json.RawMessage(`"` + old + `"`)})
		return agent.Result{Text: old}, nil
	})
	list = d2.readEvents(t, x.ID(), 0)
	if len(list) != 3 || list[0].Tool.ID != "1" || len(list[0].Tool.Output) > 1<<20 || list[2].Result.Outcome != agent.OK {
		t.Errorf("%d events", len(list))
	}
	if len(old) != 6<<20 {
		t.Error("the event itself was changed")
	}
}

// A turn whose process died has crashed at the next start, with all its events;
// one that another process has is left alone.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	d := open(t, Options{Dir: dir})
	x := start(t, d, func(ctx context.Context, x *Turn) (agent.Result, error) {
		x.Emit(textEvent("a"))
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	})
	if err := d.Follow(t.Context(), alice, x.ID(), 0, func(agent.Event) error { return errSeen }); !errors.Is(err, errSeen) {
		t.Fatal(err)
	}
	other := open(t, Options{Dir: dir})
	if r, err := other.Get(alice, x.ID()); err != nil || r.State != Running {
		t.Errorf("what another process has: %+v, %v", r, err)
	}
	other.closeNow(t)
	name := filepath.Join(dir, "app", "alice", x.ID())
	record, err := os.ReadFile(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	events, err := os.ReadFile(name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	d.closeNow(t)
	for _, cut := range []string{"", `{"seq":2,"ti`, "garbage", "garbage\n" + strings.Repeat("more\n", 1000)} { // as a process leaves it that is killed
		fresh := t.TempDir()
		into := filepath.Join(fresh, "app", "alice")
		if err := errors.Join(os.MkdirAll(into, 0o700), os.WriteFile(filepath.Join(into, x.ID()+".json"), record, 0o600),
			os.WriteFile(filepath.Join(into, x.ID()+".jsonl"), append(events, cut...), 0o600)); err != nil {
			t.Fatal(err)
		}
		d := open(t, Options{Dir: fresh})
		list := d.readEvents(t, x.ID(), 0)
		if len(list) != 2 || list[0].Text != "a" || list[1].Seq != 2 || list[1].Result.Outcome != agent.Crashed {
			t.Errorf("after %q: %+v", cut, list)
		}
		if r, err := d.Get(alice, x.ID()); err != nil || r.State != Finished || r.Result.Outcome != agent.Crashed {
			t.Errorf("%+v, %v", r, err)
		}
		if err := d.Cancel(t.Context(), alice, x.ID()); err != nil {
			t.Error(err)
		}
		if _, err := d.Get(alice, x.ID()); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("forgotten: %v", err)
		}
		d.closeNow(t)
	}
}

var errSeen = errors.New("seen")

// Old turns, and those that are too many, are forgotten.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	d := open(t, Options{Dir: dir, Now: func() time.Time { return now }})
	for i := range 5 {
		now = now.Add(time.Hour)
		x, err := d.Start(agent.Record{ID: fmt.Sprintf("t%d", i), Owner: alice}, func(context.Context, *Turn) (agent.Result, error) { return agent.Result{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		<-x.Done()
	}
	d.closeNow(t)
	d = open(t, Options{Dir: dir, MaxTurns: 2, Now: func() time.Time { return now }})
	if list, err := d.List(alice, Filter{}); err != nil || len(list) != 2 || list[0].ID != "t3" {
		t.Errorf("%+v, %v", list, err)
	}
	d.closeNow(t)
	now = now.Add(8 * 24 * time.Hour)
	d = open(t, Options{Dir: dir, Now: func() time.Time { return now }})
	if list, err := d.List(alice, Filter{}); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	d.closeNow(t)
}

// FuzzReplay: whatever a log holds, reading it ends, and gives no event twice.
func FuzzReplay(f *testing.F) {
	for _, s := range []string{"", "{\"seq\":1,\"type\":\"text\"}\n", "{\"seq\":1}\n{\"seq\":2}\n{\"seq\":", "garbage\n", "{\"seq\":9999999999999999999999}\n", "\n\n"} {
		f.Add([]byte(s), int64(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, after int64) {
		_, _ = replayEvents(strings.NewReader(string(b)), 0, int64(len(b)), after, func(e agent.Event) error { // an error is fine
			if e.Seq <= after {
				t.Errorf("event %d after %d", e.Seq, after)
			}
			return nil
		})
	})
}

// A turn's record is limited, however large its result, and marks what was cut.
func TestRecordIsBounded(t *testing.T) {
	big := strings.Repeat("\x01", 5<<20)
	for name, r := range map[string]agent.Result{
		"Text": {Text: big}, "Stderr": {Stderr: big}, "Structured": {Structured: json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`)},
		"Denials": {Denials: []agent.ToolCall{{Title: big, Output: big}, {Output: big}}}, "Session": {Session: big},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{})
			x := start(t, d, func(context.Context, *Turn) (agent.Result, error) { return r, nil })
			<-x.Done()
			got, err := d.Get(alice, x.ID())
			info, serr := os.Stat(d.recordName(turnKey{alice, x.ID()}))
			if err := errors.Join(err, serr); err != nil {
				t.Fatal(err)
			}
			if info.Size() > maxEvent || got.Result.Outcome != agent.OK {
				t.Errorf("%d bytes, %s", info.Size(), got.Result.Outcome)
			}
			b, err := json.Marshal(got)
			if err != nil || !strings.Contains(string(b), "shortened") && !strings.Contains(string(b), "too large") {
				t.Errorf("it does not say that it is cut: %v", err)
			}
			d.closeNow(t)
		})
	}
}

// List reads only as many records as it returns.
func TestListReadsWhatItTells(t *testing.T) {
	d := open(t, Options{})
	var ids []string
	for range 5 {
		x := start(t, d, func(context.Context, *Turn) (agent.Result, error) { return agent.Result{}, nil })
		<-x.Done()
		ids = append(ids, x.ID())
	}
	if err := os.WriteFile(d.recordName(turnKey{alice, "huge"}), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	name := d.recordName(turnKey{alice, "huge"})
	if err := errors.Join(os.Truncate(name, 1<<40), os.Chtimes(name, old, old)); err != nil {
		t.Skip("no file with holes here:", err)
	}
	for _, limit := range []int{1, 2, 5, 0} {
		list, err := d.List(alice, Filter{Limit: limit})
		want := ids
		if limit > 0 {
			want = ids[5-limit:]
		}
		var got []string
		for _, r := range list {
			got = append(got, r.ID)
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d: %v, want %v, %v", limit, got, want, err)
		}
	}
	d.closeNow(t)
}

// An owner's turns take so many bytes: the oldest that have ended go first.
func TestOldestTurnsGoFirst(t *testing.T) {
	d := open(t, Options{MaxBytes: 100_000})
	wait := make(chan struct{})
	running := start(t, d, func(context.Context, *Turn) (agent.Result, error) { <-wait; return agent.Result{}, nil })
	var ids []string
	for range 6 {
		x := start(t, d, func(context.Context, *Turn) (agent.Result, error) {
			return agent.Result{Text: strings.Repeat("x", 15_000)}, nil // once in the log, once in the record
		})
		<-x.Done()
		ids = append(ids, x.ID())
	}
	if _, err := d.Get(bob, ids[0]); !errors.Is(err, atoll.ErrNotFound) {
		t.Error(err)
	}
	d.removeExpired(alice)
	var got []string
	list, err := d.List(alice, Filter{})
	for _, r := range list {
		got = append(got, r.ID)
	}
	if want := append([]string{running.ID()}, ids[3:]...); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v are left, want %v, %v", got, want, err)
	}
	close(wait)
	d.closeNow(t)
}
