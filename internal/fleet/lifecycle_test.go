package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// startEndlessCommand starts a command that ends only with its sandbox. The channel
// receives its error.
func startEndlessCommand(t *testing.T, sb *Sandbox) <-chan error {
	t.Helper()
	begun := make(chan struct{})
	result := make(chan error, 1)
	go func() {
		_, err := sb.Exec(context.Background(), atoll.Cmd{Shell: "echo begun; while :; do sleep 1; done", Stdout: &firstWriteSignal{c: begun}, Timeout: -1})
		result <- err
	}()
	select {
	case <-begun:
	case err := <-result:
		t.Fatalf("the command ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the command does not begin")
	}
	return result
}

// firstWriteSignal closes a channel at the first write.
type firstWriteSignal struct {
	c    chan struct{}
	once sync.Once
}

func (s *firstWriteSignal) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.c) })
	return len(b), nil
}

func waitForResult(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
		return nil
	}
}

func TestStopEndsCommands(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	r := startEndlessCommand(t, sb)
	info, err := sb.Info(t.Context())
	if err != nil || info.Commands != 1 {
		t.Errorf("commands: %d, %v", info.Commands, err)
	}
	if err := sb.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waitForResult(t, r); !errors.Is(err, atoll.ErrState) {
		t.Errorf("the command ended with %v, want ErrState", err)
	}
	if info, err = sb.Info(t.Context()); err != nil || info.Commands != 0 || info.State != atoll.Stopped {
		t.Errorf("%s with %d commands, %v", info.State, info.Commands, err)
	}
	for name, err := range map[string]error{"Exec": execError(sb), "Pause": sb.Pause(t.Context()), "Resume": sb.Resume(t.Context())} {
		if !errors.Is(err, atoll.ErrState) || !strings.Contains(err.Error(), "stopped") || !strings.Contains(err.Error(), "start") {
			t.Errorf("%s in a stopped one: %v; want ErrState that names the state and what would be right", name, err)
		}
	}
	if err := atoll.WriteFile(t.Context(), sb, "/tmp/x", []byte("while it is off"), 0o644); err != nil {
		t.Errorf("files of a stopped one: %v", err)
	}
	if err := errors.Join(sb.Start(t.Context()), execError(sb)); err != nil {
		t.Error(err)
	}
}

func execError(sb *Sandbox) error {
	_, err := sb.Exec(context.Background(), atoll.Cmd{Shell: "true"})
	return err
}

func TestDestroyEndsCommands(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, atoll.Config{})
	handle, err := a.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	r := startEndlessCommand(t, sb)
	if err := handle.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waitForResult(t, r); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("the command ended with %v, want ErrNotFound", err)
	}
	_, serr := sb.Status(t.Context())
	_, ierr := sb.Info(t.Context())
	for name, err := range map[string]error{"Exec": execError(sb), "Status": serr, "Info": ierr, "Stop": sb.Stop(t.Context()), "Start": sb.Start(t.Context())} {
		if !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("%s of a destroyed one: %v", name, err)
		}
	}
	if f.findHandle(sb.ID()) != nil {
		t.Error("it is still among the live ones")
	}
}

// TestSecondStopWaits: stopping a sandbox that is being stopped waits for the first
// stop, and succeeds.
func TestSecondStopWaits(t *testing.T) {
	d := &faultyDriver{Driver: virtual.New()}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	entered, gate := make(chan struct{}), make(chan struct{})
	stops := 0
	d.setHooks(func(d *faultyDriver) {
		d.stop = func(ctx context.Context, sb *virtual.Sandbox) error {
			stops++ // not locked: the race detector reports concurrent stops
			close(entered)
			<-gate
			return sb.Stop(ctx)
		}
	})
	first, second, start := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { first <- sb.Stop(context.Background()) }()
	<-entered
	if err := execError(sb); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Exec while it is being stopped: %v", err)
	}
	if st := readRow(t, f, sb.ID()).state; st != atoll.Stopping {
		t.Errorf("the registry has %s", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sb.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who does not wait: %v", err)
	}
	go func() { second <- sb.Stop(context.Background()) }()
	close(gate)
	if err := errors.Join(waitForResult(t, first), waitForResult(t, second)); err != nil {
		t.Error(err)
	}
	go func() { start <- sb.Start(context.Background()) }()
	if err := waitForResult(t, start); err != nil {
		t.Error(err)
	}
	if stops != 1 {
		t.Errorf("the driver was asked to stop %d times", stops)
	}
}

func TestConcurrentTransitions(t *testing.T) {
	home := t.TempDir()
	fleets := []*Fleet{openFleet(t, Options{Home: home}), openFleet(t, Options{Home: home})}
	id := mustCreate(t, fleets[0].Account(LocalCaller()), atoll.Config{}).ID()
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			sb, err := fleets[i%2].Account(LocalCaller()).Open(t.Context(), id)
			if err != nil {
				t.Error(err)
				return
			}
			moves := []func(context.Context) error{sb.Stop, sb.Start, sb.Pause, sb.Resume}
			if err := moves[i%4](t.Context()); err != nil && !errors.Is(err, atoll.ErrState) && !errors.Is(err, atoll.ErrUnsupported) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r := readRow(t, fleets[0], id)
	st := driverStates(t, fleets[0].opts.Drivers[0])[id]
	if r.state != st || r.goal != "" || r.holder != "" {
		t.Errorf("the registry has %s (%q by %q), the driver %s", r.state, r.goal, r.holder, st)
	}
}

func TestFailedStopGetsDriverState(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		stop   func(context.Context, *virtual.Sandbox) error
		status func(context.Context, *virtual.Sandbox) (atoll.Status, error)
		want   atoll.State
	}{
		{"StillRunning", func(context.Context, *virtual.Sandbox) error { return boom }, nil, atoll.Running},
		{"StoppedAllTheSame", func(ctx context.Context, sb *virtual.Sandbox) error { return errors.Join(sb.Stop(ctx), boom) }, nil, atoll.Stopped},
		{"Vanished", func(ctx context.Context, sb *virtual.Sandbox) error { return errors.Join(sb.Destroy(ctx), boom) }, nil, atoll.Failed},
		{
			"NobodyKnows", func(context.Context, *virtual.Sandbox) error { return boom },
			func(context.Context, *virtual.Sandbox) (atoll.Status, error) { return atoll.Status{}, boom }, atoll.Failed,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &faultyDriver{Driver: virtual.New()}
			f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
			sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
			d.setHooks(func(d *faultyDriver) { d.stop, d.status = c.stop, c.status })
			if err := sb.Stop(t.Context()); !errors.Is(err, boom) {
				t.Errorf("Stop: %v", err)
			}
			r := readRow(t, f, sb.ID())
			if r.state != c.want || r.goal != "" || r.holder != "" || (c.want == atoll.Failed) != (r.message != "") {
				t.Errorf("it is %s (%s: %s), goal %q; want %s", r.state, r.reason, r.message, r.goal, c.want)
			}
			d.setHooks(func(d *faultyDriver) { d.stop, d.status = nil, nil })
			switch c.want {
			case atoll.Running:
				if err := execError(sb); err != nil {
					t.Error(err)
				}
			case atoll.Failed:
				if err := execError(sb); !errors.Is(err, atoll.ErrState) {
					t.Errorf("Exec in one in error: %v", err)
				}
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStartRepairsErrorState(t *testing.T) {
	d := &faultyDriver{Driver: virtual.New()}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	boom := errors.New("boom")
	d.setHooks(func(d *faultyDriver) {
		d.stop = func(context.Context, *virtual.Sandbox) error { return boom }
		d.status = func(context.Context, *virtual.Sandbox) (atoll.Status, error) { return atoll.Status{}, boom }
	})
	if err := sb.Stop(t.Context()); !errors.Is(err, boom) {
		t.Error(err)
	}
	d.setHooks(func(d *faultyDriver) { d.stop, d.status = nil, nil })
	if err := errors.Join(sb.Start(t.Context()), execError(sb)); err != nil {
		t.Error(err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Running || r.message != "" {
		t.Errorf("it is %s: %s", r.state, r.message)
	}
}

// TestFailedDestroyIsRetried: a sandbox that could not be destroyed is not forgotten.
func TestFailedDestroyIsRetried(t *testing.T) {
	d := &faultyDriver{Driver: virtual.New()}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	boom := errors.New("boom")
	d.setHooks(func(d *faultyDriver) { d.destroy = func(context.Context, *virtual.Sandbox) error { return boom } })
	if err := sb.Destroy(t.Context()); !errors.Is(err, boom) {
		t.Errorf("Destroy: %v", err)
	}
	r := readRow(t, f, sb.ID())
	if r.state != atoll.Failed || r.goal != goalDestroy || r.holder != "" || r.message != "boom" || r.due.IsZero() {
		t.Errorf("after the failure: %+v", r)
	}
	d.setHooks(func(d *faultyDriver) { d.destroy = nil })
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if have := driverStates(t, d); len(have) != 0 || readRow(t, f, sb.ID()).state != atoll.Destroyed {
		t.Errorf("after the second: %v", have)
	}
}

// TestDestroyCancelsCreate: destroying a sandbox cancels its creation instead of
// waiting for it.
func TestDestroyCancelsCreate(t *testing.T) {
	d := &faultyDriver{Driver: virtual.New()}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	entered := make(chan struct{})
	d.setHooks(func(d *faultyDriver) {
		d.create = func(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
			close(entered)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
	})
	created := make(chan error, 1)
	go func() {
		_, err := a.Create(context.Background(), namedConfig("slow"))
		created <- err
	}()
	<-entered
	sb, err := a.Open(t.Context(), "slow")
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := waitForResult(t, created); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Create: %v", err)
	}
	if st := readRow(t, f, sb.ID()).state; st != atoll.Destroyed {
		t.Errorf("it is %s", st)
	}
}

func TestCloseEndsCommands(t *testing.T) {
	home := t.TempDir()
	f, err := Open(t.Context(), withPostgres(Options{Home: home, Drivers: []atoll.Driver{virtual.New()}}))
	if err != nil {
		t.Fatal(err)
	}
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	r := startEndlessCommand(t, sb)
	run := make(chan error, 1)
	go func() { run <- f.Run(context.Background()) }()
	closeFleet(t, f)
	if err := waitForResult(t, r); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("the command ended with %v", err)
	}
	if err := waitForResult(t, run); err != nil && !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("Run: %v", err)
	}
	_, cerr := f.Account(LocalCaller()).Create(t.Context(), atoll.Config{})
	for name, err := range map[string]error{"Create": cerr, "Exec": execError(sb), "Run": f.Run(t.Context())} {
		if err == nil {
			t.Errorf("%s after Close works", name)
		}
	}
	closeFleet(t, f)
	again := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}})
	if st := readRow(t, again, sb.ID()); st.state != atoll.Destroyed {
		t.Errorf("what was in the memory of the first is %s", st.state)
	}
}

func TestSnapshotsAreMirrored(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	one, two := mustCreate(t, a, namedConfig("one")), mustCreate(t, a, namedConfig("two"))
	for _, sb := range []*Sandbox{one, two} {
		if _, err := sb.Snapshot(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.Snapshot(t.Context(), "p"); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a second of the name: %v", err)
	}
	if _, err := one.Snapshot(t.Context(), "Not A Name"); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := one.Snapshot(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	count := func(want int) {
		t.Helper()
		if all, err := a.Snapshots(t.Context()); err != nil || len(all) != want {
			t.Errorf("%d snapshots, %v; want %d", len(all), err, want)
		}
	}
	count(3)
	if err := one.RemoveSnapshot(t.Context(), "q"); err != nil {
		t.Error(err)
	}
	count(2)
	inner, err := f.opts.Drivers[0].Open(t.Context(), one.ID()) // behind the fleet's back
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atoll.Snapshot(t.Context(), inner, "secretly"); err != nil {
		t.Fatal(err)
	}
	if list, err := one.Snapshots(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	count(3)
	if err := two.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	count(2)
}

// TestHangingCallDelaysNoStop: the driver is told to destroy the sandbox even if it
// does not end a command whose context is done.
func TestHangingCallDelaysNoStop(t *testing.T) {
	runWithFakeClock(t, newDriverOnDisk, func(t *testing.T, f *Fleet) {
		sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
		_, done, err := sb.beginCall(t.Context(), "exec") // a call that ignores its context
		if err != nil {
			t.Fatal(err)
		}
		defer done(nil)
		start := time.Now()
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != callGrace {
			t.Errorf("it took %v", d)
		}
		if have := driverStates(t, f.opts.Drivers[0]); len(have) != 0 {
			t.Errorf("the driver has %v", have)
		}
		done(nil)
	})
}
