package fleet

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/fleet/member"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// deadInstance makes the registry look as if a process had died while it moved a
// sandbox to another state.
func deadInstance(t *testing.T, f *Fleet) string {
	t.Helper()
	if s := f.registry.Postgres; s != nil {
		id := atoll.NewID()
		_, err := s.MemberDB.ExecContext(t.Context(), "insert into instances (id, host, since, seen, fenced) values (?, '', now(), now(), true)", id)
		must(t, err)
		return id
	}
	in, err := member.JoinHome(f.opts.Home)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Abandon(); err != nil { // the kernel does that to one that dies
		t.Fatal(err)
	}
	return in.ID()
}

// forceRow changes a row without checking the transition.
func forceRow(t *testing.T, f *Fleet, id string, change func(r *row)) {
	t.Helper()
	if _, err := f.changeRow(t.Context(), id, func(tx *sql.Tx, r *row) error {
		change(r)
		return f.saveRow(t.Context(), tx, r)
	}); err != nil {
		t.Fatal(err)
	}
}

// destroySandbox destroys a driver's sandbox.
func destroySandbox(ctx context.Context, sb atoll.Sandbox) error { return sb.Destroy(ctx) }

// TestReconcileDeadProcesses leaves a sandbox in each state in which a process can
// die, and expects the next Open to settle it.
func TestReconcileDeadProcesses(t *testing.T) {
	for _, c := range []struct {
		name  string
		state atoll.State
		goal  string
		act   func(ctx context.Context, sb atoll.Sandbox) error // what it had done with the driver
		want  atoll.State
		gone  bool // the driver has nothing of it
	}{
		{"CreatedNothingMade", atoll.Starting, goalCreate, destroySandbox, atoll.Destroyed, true},
		{"CreatedNotAcknowledged", atoll.Starting, goalCreate, nil, atoll.Destroyed, true},
		{"CreatedOnly", atoll.Created, goalCreate, destroySandbox, atoll.Destroyed, true},
		{"DestroyBegun", atoll.Stopping, goalDestroy, nil, atoll.Destroyed, true},
		{"DestroyDone", atoll.Stopping, goalDestroy, destroySandbox, atoll.Destroyed, true},
		{"DestroyOfStopped", atoll.Stopped, goalDestroy, atoll.Stop, atoll.Destroyed, true},
		{"DestroyOfFailed", atoll.Failed, goalDestroy, nil, atoll.Destroyed, true},
		{"StopBegun", atoll.Stopping, "stop", nil, atoll.Running, false},
		{"StopDone", atoll.Stopping, "stop", atoll.Stop, atoll.Stopped, false},
		{"StopVanished", atoll.Stopping, "stop", destroySandbox, atoll.Failed, true},
		{"StartBegun", atoll.Starting, "start", atoll.Stop, atoll.Stopped, false},
		{"StartDone", atoll.Starting, "start", nil, atoll.Running, false},
		{"PauseBegun", atoll.Pausing, "pause", nil, atoll.Running, false},
		{"ResumeDone", atoll.Paused, "resume", nil, atoll.Running, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := openFleet(t, Options{})
			sb := mustCreate(t, f.Account(LocalCaller()), namedConfig("x"))
			if c.act != nil {
				inner, err := f.opts.Drivers[0].Open(t.Context(), sb.ID())
				if err == nil {
					err = c.act(t.Context(), inner)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			dead := deadInstance(t, f)
			forceRow(t, f, sb.ID(), func(r *row) { r.state, r.goal, r.holder = c.state, c.goal, dead })
			again := openFleet(t, Options{Home: f.opts.Home})
			r := readRow(t, again, sb.ID())
			if r.state != c.want || r.goal != "" || r.holder != "" || (r.state == atoll.Failed && r.reason != reasonVanished) {
				t.Errorf("it is %s (%s: %s), goal %q; want %s", r.state, r.reason, r.message, r.goal, c.want)
			}
			if have := driverStates(t, again.opts.Drivers[0]); (len(have) == 0) != c.gone {
				t.Errorf("the driver has %v", have)
			}
			if left, err := again.member.DeadMembers(); err != nil || len(left) != 0 {
				t.Errorf("%d instances are not buried, %v", len(left), err)
			}
		})
	}
}

// TestPartlyRemovedDirectoriesAreRemoved: if a process dies while it removes or fills a
// directory, the directory is removed even without Reconcile, which only a server runs.
func TestPartlyRemovedDirectoriesAreRemoved(t *testing.T) {
	for _, goal := range []string{goalCreate, goalDestroy} {
		t.Run(goal, func(t *testing.T) {
			f := openFleet(t, Options{})
			sb := mustCreate(t, f.Account(LocalCaller()), namedConfig("x"))
			dir := f.opts.Drivers[0].(*virtual.Driver).Dir
			must(t, os.Rename(filepath.Join(dir, sb.ID()), filepath.Join(dir, ".gone-"+sb.ID()+"-x")))
			dead := deadInstance(t, f)
			forceRow(t, f, sb.ID(), func(r *row) { r.state, r.goal, r.holder = atoll.Stopping, goal, dead })
			again := openFleet(t, Options{Home: f.opts.Home})
			if r := readRow(t, again, sb.ID()); r.state != atoll.Destroyed {
				t.Errorf("it is %s", r.state)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != ".base" { // what all sandboxes share
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestReconcileSkipsLiveProcesses: a sandbox whose state a live process is changing
// is left to that process.
func TestReconcileSkipsLiveProcesses(t *testing.T) {
	d := &faultyDriver{Driver: &virtual.Driver{Dir: t.TempDir()}}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	entered, gate := make(chan struct{}), make(chan struct{})
	d.setHooks(func(d *faultyDriver) {
		d.stop = func(ctx context.Context, sb *virtual.Sandbox) error {
			close(entered)
			<-gate
			return sb.Stop(ctx)
		}
	})
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- sb.Stop(context.Background()) }()
	<-entered
	other := openFleet(t, Options{Home: f.opts.Home, Drivers: []atoll.Driver{&virtual.Driver{Dir: d.Dir}}})
	if err := other.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := readRow(t, other, sb.ID()); r.state != atoll.Stopping || r.holder != f.member.ID() {
		t.Errorf("it is %s, held by %q", r.state, r.holder)
	}
	theirs, err := other.Account(LocalCaller()).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := execError(theirs); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Exec: %v", err)
	}
	go func() { second <- theirs.Start(context.Background()) }() // waits for the other process
	close(gate)
	if err := errors.Join(waitForResult(t, first), waitForResult(t, second)); err != nil {
		t.Error(err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Running {
		t.Errorf("in the end it is %s", r.state)
	}
}

// TestOtherProcessStopsRunningSandbox: if another process stops or destroys a sandbox,
// its commands in this process end too.
func TestOtherProcessStopsRunningSandbox(t *testing.T) {
	home := t.TempDir()
	shared := virtual.New() // a driver whose sandboxes both see, with no lock of its own
	f, other := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{persistentDriver{shared}}}), openFleet(t, Options{Home: home, Drivers: []atoll.Driver{persistentDriver{shared}}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	theirs, err := other.Account(LocalCaller()).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	r := startEndlessCommand(t, sb)
	if err := theirs.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waitForResult(t, r); !errors.Is(err, atoll.ErrState) {
		t.Errorf("the command here ended with %v", err)
	}
	if err := theirs.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for sb.b.cachedRow().state != atoll.Running { // it learns of it at the next look
		if err := f.refreshIfStale(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r = startEndlessCommand(t, sb)
	if err := theirs.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waitForResult(t, r); !errors.Is(err, atoll.ErrNotFound) && !errors.Is(err, atoll.ErrState) {
		t.Errorf("the command here ended with %v", err)
	}
}

// persistentDriver claims that its sandboxes, which are in memory, outlive the process.
type persistentDriver struct{ *virtual.Driver }

func (d persistentDriver) Probe(ctx context.Context) (atoll.Features, error) {
	ft, err := d.Driver.Probe(ctx)
	ft.Persist = true
	return ft, err
}

func TestOrphansAreAdopted(t *testing.T) {
	home := t.TempDir()
	d := &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}
	orphans := make([]atoll.Sandbox, 0, 4)
	for _, name := range []string{"web", "web", "", "web-2"} {
		sb, err := d.Create(t.Context(), atoll.Spec{Name: name, Labels: map[string]string{"k": "v"}})
		if err != nil {
			t.Fatal(err)
		}
		orphans = append(orphans, sb)
	}
	if err := atoll.Stop(t.Context(), orphans[3]); err != nil {
		t.Fatal(err)
	}
	f := openFleet(t, Options{Home: home}) // a registry that is new reconciles
	for range 2 {
		if err := f.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := f.Account(LocalCaller()).List(t.Context(), Filter{})
	if err != nil || len(list) != 4 {
		t.Fatalf("%d adopted, %v", len(list), err)
	}
	names := make(map[string]atoll.State)
	for _, i := range list {
		names[i.Name] = i.State
		if i.Owner != atoll.Local || i.Labels["k"] != "v" || !i.Expires.IsZero() {
			t.Errorf("adopted: %+v", i)
		}
	}
	if len(names) != 4 || names["web"] != atoll.Running {
		t.Errorf("names: %v", names)
	}
	sb, err := f.Account(LocalCaller()).Open(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	if err := execError(sb); err != nil {
		t.Error(err)
	}
}

func TestDestroyedSandboxesAreRemoved(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	forceRow(t, f, sb.ID(), func(r *row) { r.state = atoll.Destroyed })
	if err := f.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if have := driverStates(t, f.opts.Drivers[0]); len(have) != 0 {
		t.Errorf("the driver still has %v", have)
	}
}

func TestVanishedSandboxesAreMarked(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	one, two, three := mustCreate(t, a, namedConfig("one")), mustCreate(t, a, namedConfig("two")), mustCreate(t, a, namedConfig("three"))
	for _, sb := range []*Sandbox{one, two} {
		inner, err := f.opts.Drivers[0].Open(t.Context(), sb.ID())
		if err == nil {
			err = inner.Destroy(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	st, err := two.Status(t.Context()) // asks, and learns
	if err != nil || st.State != atoll.Failed || st.Ready() || st.Conditions[0].Reason != reasonVanished {
		t.Errorf("Status: %+v, %v", st, err)
	}
	if err := f.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, sb := range []*Sandbox{one, two} {
		if r := readRow(t, f, sb.ID()); r.state != atoll.Failed || r.reason != reasonVanished || !strings.Contains(r.message, "virtual") {
			t.Errorf("it is %s (%s: %s)", r.state, r.reason, r.message)
		}
		if err := execError(sb); !errors.Is(err, atoll.ErrState) {
			t.Errorf("Exec: %v", err)
		}
		if err := sb.Start(t.Context()); !errors.Is(err, atoll.ErrState) {
			t.Errorf("Start: %v", err)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	}
	if err := execError(three); err != nil {
		t.Error(err)
	}
}

func TestExternalChangesAreNoticed(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	inner, err := f.opts.Drivers[0].Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := atoll.Stop(t.Context(), inner); err != nil {
		t.Fatal(err)
	}
	if err := f.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Stopped {
		t.Errorf("it is %s", r.state)
	}
	if err := atoll.Start(t.Context(), inner); err != nil {
		t.Fatal(err)
	}
	if st, err := sb.Status(t.Context()); err != nil || st.State != atoll.Running {
		t.Errorf("%s, %v", st.State, err)
	}
	if err := execError(sb); err != nil {
		t.Error(err)
	}
}

func TestUnavailableDriverChangesNothing(t *testing.T) {
	home := t.TempDir()
	d := &faultyDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	before := readRow(t, f, sb.ID())
	d.setHooks(func(d *faultyDriver) {
		d.list = func(context.Context) ([]atoll.Status, error) { return nil, errors.New("no connection") }
	})
	if err := f.Reconcile(t.Context()); err != nil {
		t.Error(err)
	}
	if r := readRow(t, f, sb.ID()); r.revision != before.revision {
		t.Errorf("it was changed: %+v", r)
	}
	// A list that is older than a sandbox does not make it vanish.
	d.setHooks(func(d *faultyDriver) { d.list = func(context.Context) ([]atoll.Status, error) { return nil, nil } })
	if err := f.Reconcile(t.Context()); err != nil {
		t.Error(err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Running {
		t.Errorf("it is %s", r.state)
	}
}

// TestMemoryEndsWithItsProcess: sandboxes in a driver's memory are unavailable to other
// processes, and lost when the process has died.
func TestMemoryEndsWithItsProcess(t *testing.T) {
	home := t.TempDir()
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}})
	sb := mustCreate(t, f.Account(LocalCaller()), namedConfig("x"))
	other := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}})
	theirs, err := other.Account(LocalCaller()).Open(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	_, serr := theirs.Status(t.Context())
	for name, err := range map[string]error{"Exec": execError(theirs), "Status": serr, "Stop": theirs.Stop(t.Context()), "Destroy": theirs.Destroy(t.Context()), "Reconcile": orUnavailable(other.Reconcile(t.Context()))} {
		if !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("%s from another process: %v", name, err)
		}
	}
	if err := execError(sb); err != nil {
		t.Errorf("where it lives: %v", err)
	}
	dead := deadInstance(t, f)
	forceRow(t, f, sb.ID(), func(r *row) { r.process = dead })
	third := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}})
	if r := readRow(t, third, sb.ID()); r.state != atoll.Failed || r.reason != reasonDied {
		t.Errorf("after its process died it is %s (%s: %s)", r.state, r.reason, r.message)
	}
}

// orUnavailable returns err, or ErrUnavailable if it is nil.
func orUnavailable(err error) error {
	if err == nil {
		return atoll.ErrUnavailable // the driver changed nothing and returned no error
	}
	return err
}

func TestOneshotEndsWithCreator(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyOneshot}})
	dead := deadInstance(t, f)
	forceRow(t, f, sb.ID(), func(r *row) { r.process = dead })
	again := openFleet(t, Options{Home: f.opts.Home})
	if r := readRow(t, again, sb.ID()); r.state != atoll.Destroyed {
		t.Errorf("it is %s", r.state)
	}
	if have := driverStates(t, again.opts.Drivers[0]); len(have) != 0 {
		t.Errorf("the driver has %v", have)
	}
}

// TestInstanceWithoutFileIsDead: a process whose instance file is missing counts as
// dead.
func TestInstanceWithoutFileIsDead(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	forceRow(t, f, sb.ID(), func(r *row) { r.state, r.goal, r.holder = atoll.Stopping, "stop", "sneverwas0000" })
	if err := f.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Running || r.holder != "" {
		t.Errorf("it is %s, held by %q", r.state, r.holder)
	}
}

// TestCommandInVanishedSandbox: a command in a sandbox that no longer exists fails
// and the registry records that the sandbox is gone.
func TestCommandInVanishedSandbox(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	inner, err := f.opts.Drivers[0].Open(t.Context(), sb.ID())
	if err == nil {
		err = inner.Destroy(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := execError(sb); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("the first: %v", err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Failed || r.reason != reasonVanished {
		t.Errorf("it is %s (%s: %s)", r.state, r.reason, r.message)
	}
	if err := execError(sb); !errors.Is(err, atoll.ErrState) {
		t.Errorf("the second: %v", err)
	}
}

func TestMessagesHideSecrets(t *testing.T) {
	d := &faultyDriver{Driver: virtual.New()}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	d.setHooks(func(d *faultyDriver) {
		d.create = func(_ context.Context, s atoll.Spec) (atoll.Sandbox, error) {
			return nil, errors.New("environment " + strings.Join(s.Env, " "))
		}
	})
	if _, err := a.Create(t.Context(), atoll.Config{Secrets: map[string]string{"S": "swordfish"}}); err == nil {
		t.Fatal("it was made")
	}
	list, err := a.List(t.Context(), Filter{All: true})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if m := list[0].Conditions[0].Message; !strings.Contains(m, "environment") || strings.Contains(m, "swordfish") {
		t.Errorf("the registry has %q", m)
	}
}

func TestUpdateUnbindsOneshot(t *testing.T) {
	home := t.TempDir()
	f, err := Open(t.Context(), withPostgres(Options{Home: home, Drivers: []atoll.Driver{newDriverOnDisk(home)}}))
	if err != nil {
		t.Fatal(err)
	}
	a := f.Account(LocalCaller())
	one := mustCreate(t, a, atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyOneshot}})
	two := mustCreate(t, a, atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyOneshot}})
	if _, err := a.Update(t.Context(), one.ID(), Change{Lifecycle: &atoll.Lifecycle{Policy: atoll.PolicyPersistent}}); err != nil {
		t.Fatal(err)
	}
	closeFleet(t, f)
	again := openFleet(t, Options{Home: home})
	if s := readRow(t, again, one.ID()).state; s != atoll.Running {
		t.Errorf("the one that is to stay is %s", s)
	}
	if s := readRow(t, again, two.ID()).state; s != atoll.Destroyed {
		t.Errorf("the oneshot is %s", s)
	}
}

// TestBrokenSandboxDoesNotPreventOpen: a fleet opens even if a driver can't finish
// what a dead process started.
func TestBrokenSandboxDoesNotPreventOpen(t *testing.T) {
	d := &faultyDriver{Driver: &virtual.Driver{Dir: t.TempDir()}}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	bad, good := mustCreate(t, a, namedConfig("bad")), mustCreate(t, a, namedConfig("good"))
	dead := deadInstance(t, f)
	forceRow(t, f, bad.ID(), func(r *row) { r.state, r.goal, r.holder = atoll.Stopping, goalDestroy, dead })
	d.setHooks(func(d *faultyDriver) {
		d.destroy = func(context.Context, *virtual.Sandbox) error { return errors.New("not now") }
	})
	again := openFleet(t, Options{Home: f.opts.Home, Drivers: []atoll.Driver{d}})
	if r := readRow(t, again, bad.ID()); r.state != atoll.Failed || r.goal != goalDestroy || r.message != "not now" {
		t.Errorf("it is %s (%s), goal %q", r.state, r.message, r.goal)
	}
	sb, err := again.Account(LocalCaller()).Open(t.Context(), good.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := execError(sb); err != nil {
		t.Error(err)
	}
	d.setHooks(func(d *faultyDriver) { d.destroy = nil })
	if err := again.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := readRow(t, again, bad.ID()).state; s != atoll.Destroyed {
		t.Errorf("when it works again it is %s", s)
	}
}

// TestOtherProcessStopsLockedSandbox: a process can stop or destroy a kept sandbox that
// another process has locked to run a command.
func TestOtherProcessStopsLockedSandbox(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(*Sandbox, context.Context) error
		want error
	}{{"Stop", (*Sandbox).Stop, atoll.ErrState}, {"Destroy", (*Sandbox).Destroy, atoll.ErrNotFound}} {
		t.Run(c.name, func(t *testing.T) {
			home := t.TempDir()
			f, other := openFleet(t, Options{Home: home}), openFleet(t, Options{Home: home})
			sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
			r := startEndlessCommand(t, sb)
			theirs, err := other.Account(LocalCaller()).Open(t.Context(), sb.ID())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.act(theirs, t.Context()); err != nil {
				t.Error(err)
			}
			if err := waitForResult(t, r); !errors.Is(err, c.want) {
				t.Errorf("the command here ended with %v", err)
			}
		})
	}
}
