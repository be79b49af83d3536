package fleet

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

const day = 24 * time.Hour

// TestExpiry checks the table of lifecycle policies.
func TestExpiry(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Unix(1e9, 0).UTC().Add(d) }
	running := func(l atoll.Lifecycle, active time.Duration) row {
		return row{state: atoll.Running, created: at(0), changed: at(0), active: at(active), cfg: atoll.Config{Lifecycle: l}}
	}
	in := func(s atoll.State, r row) row { r.state = s; return r }
	policy := func(p atoll.Policy) atoll.Lifecycle { return atoll.Lifecycle{Policy: p} }
	for _, c := range []struct {
		name string
		row  row
		what expiryAction
		at   time.Time
	}{
		{"SessionIs30MinIdle", running(atoll.Lifecycle{}, time.Hour), expireDestroy, at(90 * time.Minute)},
		{"SessionEndsWhenStopped", in(atoll.Stopped, running(atoll.Lifecycle{}, time.Hour)), expireDestroy, at(90 * time.Minute)},
		{"SessionEndsInError", in(atoll.Failed, running(atoll.Lifecycle{}, 0)), expireDestroy, at(30 * time.Minute)},
		{"OneshotIs8Hours", running(policy(atoll.PolicyOneshot), 7*time.Hour), expireDestroy, at(8 * time.Hour)},
		{"LongrunningRestsAfter2Hours", running(policy(atoll.PolicyLongrunning), time.Hour), expireStop, at(3 * time.Hour)},
		{"LongrunningRestsWhenPaused", in(atoll.Paused, running(policy(atoll.PolicyLongrunning), time.Hour)), expireStop, at(3 * time.Hour)},
		{"LongrunningStoppedEnds", in(atoll.Stopped, running(policy(atoll.PolicyLongrunning), time.Hour)), expireDestroy, at(30 * day)},
		{"LifetimeWaitsForUse", running(atoll.Lifecycle{Policy: atoll.PolicyLongrunning, Idle: -1}, 30*day-time.Minute), expireDestroy, at(30*day + 4*time.Minute)},
		{"LifetimeOfTheQuiet", running(atoll.Lifecycle{Policy: atoll.PolicyLongrunning, Idle: -1}, day), expireDestroy, at(30 * day)},
		{"PersistentStays", running(policy(atoll.PolicyPersistent), 0), noAction, time.Time{}},
		{"PersistentMayRest", running(atoll.Lifecycle{Policy: atoll.PolicyPersistent, Idle: time.Hour}, 0), expireStop, at(time.Hour)},
		{"TTLIsUsedOrNot", running(atoll.Lifecycle{TTL: time.Hour}, 59*time.Minute), expireDestroy, at(time.Hour)},
		{"IdleBeforeTTL", running(atoll.Lifecycle{TTL: time.Hour, Idle: time.Minute}, 0), expireDestroy, at(time.Minute)},
		{"IdleIsPaused", running(atoll.Lifecycle{Policy: atoll.PolicyPersistent, Idle: time.Hour, IdleThen: atoll.ExpirePause}, 0), expirePause, at(time.Hour)},
		{"PausedStaysPaused", in(atoll.Paused, running(atoll.Lifecycle{Policy: atoll.PolicyPersistent, Idle: time.Hour, IdleThen: atoll.ExpirePause}, 0)), noAction, time.Time{}},
		{"IdleIsRemoved", running(atoll.Lifecycle{Policy: atoll.PolicyPersistent, Idle: time.Hour, IdleThen: atoll.ExpireRemove}, 0), expireDestroy, at(time.Hour)},
		{"SessionMayRest", running(atoll.Lifecycle{Idle: time.Hour, IdleThen: atoll.ExpireStop}, 0), expireStop, at(time.Hour)},
		{"StoppedForTooLong", in(atoll.Stopped, running(atoll.Lifecycle{Policy: atoll.PolicyPersistent, Stopped: time.Hour}, 0)), expireDestroy, at(time.Hour)},
		{"RunningIsNotStopped", running(atoll.Lifecycle{Policy: atoll.PolicyPersistent, Stopped: time.Hour}, 0), noAction, time.Time{}},
		{"NegativeIsNever", running(atoll.Lifecycle{Idle: -1}, 0), noAction, time.Time{}},
		{"DestroyedIsForgotten", in(atoll.Destroyed, running(atoll.Lifecycle{}, 0)), expireForget, at(7 * day)},
		{"OfAPoolIsNobodys", row{state: atoll.Running, pool: "p", active: at(0)}, noAction, time.Time{}},
		{"OnTheMove", row{state: atoll.Stopping, goal: "stop", holder: "x", active: at(0)}, noAction, time.Time{}},
		{"FailedToGo", row{state: atoll.Failed, goal: goalDestroy, changed: at(0)}, expireRetry, at(time.Minute)},
	} {
		if what, when := c.row.nextExpiry(); what != c.what || !when.Equal(c.at) {
			t.Errorf("%s: %d at %v, want %d at %v", c.name, what, when, c.what, c.at)
		}
	}
}

// runWithFakeClock runs a test in a synctest bubble, with a fleet that leads.
func runWithFakeClock(t *testing.T, drivers func(home string) atoll.Driver, test func(t *testing.T, f *Fleet)) {
	skipOnPostgres(t, "no database is in the bubble")
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(context.Background(), Options{Home: home, Drivers: []atoll.Driver{drivers(home)}})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan error, 1)
		go func() { run <- f.Run(context.Background()) }()
		synctest.Wait()
		test(t, f)
		closeFleet(t, f)
		if err := <-run; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func newDriverOnDisk(home string) atoll.Driver {
	return &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}
}

// advance lets time pass and waits until the fleet is idle again.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (f *Fleet) stateNow(t *testing.T, sb *Sandbox) atoll.State {
	t.Helper()
	return readRow(t, f, sb.ID()).state
}

func TestSessionEndsAfterItsLastUse(t *testing.T) {
	testenv.Logic(t)
	runWithFakeClock(t, newDriverOnDisk, func(t *testing.T, f *Fleet) {
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
		for range 4 { // it is used again and again
			advance(29 * time.Minute)
			if err := execError(sb); err != nil {
				t.Fatal(err)
			}
		}
		info, err := sb.Info(t.Context())
		if left := time.Until(info.Expires); err != nil || left != 30*time.Minute {
			t.Errorf("it expires in %v, %v", left, err)
		}
		advance(29 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Running {
			t.Errorf("before its time it is %s", s)
		}
		advance(2 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("after its time it is %s", s)
		}
		if have := driverStates(t, f.opts.Drivers[0]); len(have) != 0 {
			t.Errorf("the driver has %v", have)
		}
		forceRow(t, f, sb.ID(), func(r *row) { r.changed = r.changed.Add(-7 * day) })
		advance(time.Second)
		if _, err := f.loadRow(t.Context(), sb.ID()); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("after 7 days it is remembered: %v", err)
		}
	})
}

func TestRunningCommandIsUse(t *testing.T) {
	runWithFakeClock(t, newDriverOnDisk, func(t *testing.T, f *Fleet) {
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{Idle: time.Minute}})
		done := make(chan error, 1)
		go func() {
			_, err := sb.Exec(context.Background(), atoll.Cmd{Shell: "sleep 900", Timeout: -1})
			done <- err
		}()
		advance(14 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Running {
			t.Errorf("under way it is %s", s)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		advance(2 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("afterwards it is %s", s)
		}
	})
}

func TestTTLEndsSandboxInUse(t *testing.T) {
	runWithFakeClock(t, newDriverOnDisk, func(t *testing.T, f *Fleet) {
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{TTL: 10 * time.Minute, Idle: -1}})
		done := make(chan error, 1)
		go func() {
			_, err := sb.Exec(context.Background(), atoll.Cmd{Shell: "sleep 86400", Timeout: -1})
			done <- err
		}()
		advance(11 * time.Minute)
		if err := <-done; !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("the command ended with %v", err)
		}
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("it is %s", s)
		}
	})
}

func TestLongrunningStopsAndEnds(t *testing.T) {
	runWithFakeClock(t, newDriverOnDisk, func(t *testing.T, f *Fleet) {
		cfg := atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyLongrunning, Idle: 20 * time.Minute, Lifetime: time.Hour}}
		sb, busy := mustCreate(t, f.Account(LocalCaller()), cfg), mustCreate(t, f.Account(LocalCaller()), cfg)
		advance(21 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Stopped {
			t.Errorf("after 20 idle minutes it is %s", s)
		}
		if err := busy.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := busy.Exec(context.Background(), atoll.Cmd{Shell: "sleep 2700", Timeout: -1}) // beyond its lifetime
			done <- err
		}()
		advance(40 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("after its lifetime it is %s", s)
		}
		if s := f.stateNow(t, busy); s != atoll.Running {
			t.Errorf("in use after its lifetime it is %s", s)
		}
		if err := <-done; err != nil {
			t.Errorf("its command: %v", err)
		}
		advance(4 * time.Minute)
		if s := f.stateNow(t, busy); s != atoll.Running {
			t.Errorf("4 minutes after its last use it is %s", s)
		}
		advance(2 * time.Minute)
		if s := f.stateNow(t, busy); s != atoll.Destroyed {
			t.Errorf("6 minutes after its last use it is %s", s)
		}
	})
}

// TestActivityInSandboxIsUse: the driver is asked about activity only when a sandbox
// looks idle.
func TestActivityInSandboxIsUse(t *testing.T) {
	var d *faultyDriver
	runWithFakeClock(t, func(home string) atoll.Driver {
		d = &faultyDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
		return d
	}, func(t *testing.T, f *Fleet) {
		var mu sync.Mutex
		asked, busyUntil := 0, time.Now().Add(time.Hour)
		d.setHooks(func(d *faultyDriver) {
			d.status = func(ctx context.Context, sb *virtual.Sandbox) (atoll.Status, error) {
				st, err := sb.Status(ctx)
				mu.Lock()
				defer mu.Unlock()
				asked++
				st.Active = time.Now()
				if st.Active.After(busyUntil) {
					st.Active = busyUntil
				}
				return st, err
			}
		})
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
		advance(29 * time.Minute)
		mu.Lock()
		if asked != 0 {
			t.Errorf("the driver was asked %d times though nothing was due", asked)
		}
		mu.Unlock()
		advance(time.Hour)
		if s := f.stateNow(t, sb); s != atoll.Running {
			t.Errorf("29 minutes after the last activity it is %s", s)
		}
		advance(2 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("31 minutes after the last activity it is %s", s)
		}
		mu.Lock()
		defer mu.Unlock()
		if asked > 4 {
			t.Errorf("the driver was asked %d times", asked)
		}
	})
}

func TestFailedExpiryIsRetried(t *testing.T) {
	var d *faultyDriver
	runWithFakeClock(t, func(home string) atoll.Driver {
		d = &faultyDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
		return d
	}, func(t *testing.T, f *Fleet) {
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
		d.setHooks(func(d *faultyDriver) {
			d.destroy = func(context.Context, *virtual.Sandbox) error { return errors.New("not now") }
		})
		advance(40 * time.Minute)
		if r := readRow(t, f, sb.ID()); r.state != atoll.Failed || r.goal != goalDestroy || r.message != "not now" {
			t.Errorf("it is %s (%s: %s), goal %q", r.state, r.reason, r.message, r.goal)
		}
		d.setHooks(func(d *faultyDriver) { d.destroy = nil })
		advance(2 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("it is %s", s)
		}
	})
}

func TestUpdatedLifecycleApplies(t *testing.T) {
	runWithFakeClock(t, newDriverOnDisk, func(t *testing.T, f *Fleet) {
		a := f.Account(LocalCaller())
		sb := mustCreate(t, a, atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
		advance(time.Hour)
		if _, err := a.Update(t.Context(), sb.ID(), Change{Lifecycle: &atoll.Lifecycle{TTL: time.Hour + 10*time.Second, Idle: -1}}); err != nil {
			t.Fatal(err)
		}
		advance(11 * time.Second) // sooner than a beat: it was woken
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("it is %s", s)
		}
	})
}

// TestSingleLeader: one of the processes with the same home leads, and another takes
// over.
func TestSingleLeader(t *testing.T) {
	home := t.TempDir()
	one, two := openFleet(t, Options{Home: home}), openFleet(t, Options{Home: home})
	resign, err := leadAsOtherProcess(t, one)
	if err != nil {
		t.Fatal(err)
	}
	runs := make(chan error, 2)
	ctx1, cancel1 := context.WithCancel(t.Context())
	ctx2, cancel2 := context.WithCancel(t.Context())
	go func() { runs <- one.Run(ctx1) }()
	cancel1() // who waits can go
	if err := waitForResult(t, runs); err != nil {
		t.Errorf("Run of one that waits: %v", err)
	}
	go func() { runs <- two.Run(ctx2) }()
	sb := mustCreate(t, one.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{TTL: time.Millisecond}})
	ended := make(chan error, 1)
	go func() {
		ended <- one.Account(LocalCaller()).Events(t.Context(), event.Filter{Types: []string{"sandbox.destroyed"}}, true, func(e atoll.Event) error {
			if e.Object == sb.ID() {
				return errFound
			}
			return nil
		})
	}()
	if s := readRow(t, one, sb.ID()).state; s != atoll.Running {
		t.Errorf("with no leader it is %s", s)
	}
	if err := resign(); err != nil {
		t.Fatal(err)
	}
	if err := waitForResult(t, ended); !errors.Is(err, errFound) {
		t.Errorf("the other has not taken over: %v", err)
	}
	cancel2()
	if err := waitForResult(t, runs); err != nil {
		t.Errorf("Run of the leader: %v", err)
	}
}

var errFound = errors.New("found")

// unstoppableDriver is a driver that can't stop its sandboxes.
type unstoppableDriver struct{ *virtual.Driver }

func (d unstoppableDriver) Probe(ctx context.Context) (atoll.Features, error) {
	ft, err := d.Driver.Probe(ctx)
	ft.Stop = false
	return ft, err
}

// TestUnstoppableSandboxKeepsRunning: a sandbox that should be stopped by a driver that
// can't keeps running, and the fleet does not try every minute.
func TestUnstoppableSandboxKeepsRunning(t *testing.T) {
	runWithFakeClock(t, func(home string) atoll.Driver {
		return unstoppableDriver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
	}, func(t *testing.T, f *Fleet) {
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent, Idle: time.Minute}})
		advance(9 * time.Minute)
		if r := readRow(t, f, sb.ID()); r.state != atoll.Running || r.goal != "" || r.due.Sub(r.active) < reconcileInterval {
			t.Errorf("it is %s, goal %q, due %v", r.state, r.goal, r.due)
		}
	})
}

// TestLeaderSkipsMemoryOfOtherProcess: the leader does not end sandboxes in the memory
// of another process.
func TestLeaderSkipsMemoryOfOtherProcess(t *testing.T) {
	home := t.TempDir()
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}})
	leader := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{TTL: time.Nanosecond}})
	r := readRow(t, f, sb.ID())
	if err := leader.applyExpiry(t.Context(), r); err != nil {
		t.Error(err)
	}
	now := readRow(t, f, sb.ID())
	if now.state != atoll.Running || now.goal != "" || !now.due.After(r.due) {
		t.Errorf("it is %s, goal %q, due %v", now.state, now.goal, now.due)
	}
	if err := f.applyExpiry(t.Context(), r); err != nil {
		t.Error(err)
	}
	if s := readRow(t, f, sb.ID()).state; s != atoll.Destroyed {
		t.Errorf("where it lives it is %s", s)
	}
}

// TestTidyEndsExpiredSandboxes: a short-lived program ends expired sandboxes, unless a
// server leads.
func TestTidyEndsExpiredSandboxes(t *testing.T) {
	now := time.Now()
	f := openFleet(t, Options{Now: func() time.Time { return now }})
	a := f.Account(LocalCaller())
	due := mustCreate(t, a, atoll.Config{Lifecycle: atoll.Lifecycle{TTL: time.Hour}})
	stays := mustCreate(t, a, atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
	now = now.Add(2 * time.Hour)
	resign, err := leadAsOtherProcess(t, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ExpireSandboxes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := f.stateNow(t, due); s != atoll.Running {
		t.Errorf("while another process leads it is %s", s)
	}
	if err := resign(); err != nil {
		t.Fatal(err)
	}
	if err := f.ExpireSandboxes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := f.stateNow(t, due); s != atoll.Destroyed {
		t.Errorf("after its time it is %s", s)
	}
	if s := f.stateNow(t, stays); s != atoll.Running {
		t.Errorf("what is not due is %s", s)
	}
}

// leadAsOtherProcess becomes the leader as another process would.
func leadAsOtherProcess(t *testing.T, f *Fleet) (func() error, error) {
	t.Helper()
	other := openFleet(t, Options{Home: f.opts.Home})
	resign, err := other.member.TryLead(t.Context())
	if resign == nil {
		t.Fatalf("another process leads: %v", err)
	}
	return resign, err
}

// TestExpirySavesWorkFirst: an expired sandbox whose work can't be saved is stopped
// instead, and saving is tried again.
func TestExpirySavesWorkFirst(t *testing.T) {
	runWithFakeClock(t, newDriverOnDisk, func(t *testing.T, f *Fleet) {
		var mu sync.Mutex
		var asked []atoll.Info
		failure := errors.New("no repository")
		f.opts.Rescue = func(ctx context.Context, info atoll.Info, sb atoll.Sandbox) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, info)
			if _, err := sb.Status(ctx); err != nil {
				t.Error(err)
			}
			return failure
		}
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Spec: atoll.Spec{Labels: map[string]string{"a": "b"}}})
		advance(31 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Stopped {
			t.Errorf("unsaved it is %s", s)
		}
		advance(2 * time.Hour)
		mu.Lock()
		n := len(asked)
		if n != 3 || asked[0].State != atoll.Running || asked[1].State != atoll.Stopped || asked[0].ID != sb.ID() || asked[0].Labels["a"] != "b" {
			t.Errorf("asked %d times: %+v", n, asked)
		}
		failure = nil
		mu.Unlock()
		advance(time.Hour)
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("saved it is %s", s)
		}
	})
}

// TestWatchingIsNoUse: a sandbox expires during a call that only reads its usage, and although samples of the usage are taken.
func TestWatchingIsNoUse(t *testing.T) {
	var d *faultyDriver
	runWithFakeClock(t, func(home string) atoll.Driver {
		d = &faultyDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
		return d
	}, func(t *testing.T, f *Fleet) {
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
		_, done, err := sb.beginCall(t.Context(), "stats")
		if err != nil {
			t.Fatal(err)
		}
		defer done(nil)
		advance(40 * time.Minute)
		if s := f.stateNow(t, sb); s != atoll.Destroyed {
			t.Errorf("it is %s", s)
		}
	})
}
