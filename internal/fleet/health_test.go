package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// newDeadSandbox returns a sandbox that ended without the fleet's knowledge.
func newDeadSandbox(t *testing.T) (*Fleet, *Sandbox) {
	t.Helper()
	d := &faultyDriver{Driver: &virtual.Driver{Dir: t.TempDir()}}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo kept >file"}); err != nil {
		t.Fatal(err)
	}
	inner, err := d.Driver.Open(t.Context(), sb.ID())
	if err == nil {
		err = atoll.Stop(t.Context(), inner)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Running {
		t.Fatalf("the registry knows already: %s", r.state)
	}
	return f, sb
}

// TestStartDeadSandbox: Start starts a sandbox that ended without the fleet's
// knowledge.
func TestStartDeadSandbox(t *testing.T) {
	_, sb := newDeadSandbox(t)
	if err := sb.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "cat file"})
	if err != nil || res.Code != 0 {
		t.Errorf("after the start: %+v, %v", res, err)
	}
}

// TestListReportsDeadSandboxes: listing sandboxes asks the drivers for their states.
func TestListReportsDeadSandboxes(t *testing.T) {
	f, sb := newDeadSandbox(t)
	list, err := f.Account(LocalCaller()).List(context.Background(), Filter{})
	if err != nil || len(list) != 1 || list[0].ID != sb.ID() || list[0].State != atoll.Stopped {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

// removeBehind removes a sandbox from its driver without the fleet's knowledge.
func removeBehind(t *testing.T, d *faultyDriver, id string) {
	t.Helper()
	inner, err := d.Driver.Open(t.Context(), id)
	if err == nil {
		err = inner.Destroy(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestListReportsRemovedSandboxes: a sandbox that was removed without the fleet is not listed as running.
func TestListReportsRemovedSandboxes(t *testing.T) {
	d := &faultyDriver{Driver: &virtual.Driver{Dir: t.TempDir()}}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	removeBehind(t, d, sb.ID())
	list, err := f.Account(LocalCaller()).List(t.Context(), Filter{})
	if err != nil || len(list) != 1 || list[0].State != atoll.Failed || list[0].Conditions[0].Reason != reasonVanished {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

// TestFailedCallSettlesTheRow: a command that fails because its sandbox has ended or is ending makes the
// registry agree with the driver.
func TestFailedCallSettlesTheRow(t *testing.T) {
	f, sb := newDeadSandbox(t)
	if err := execError(sb); !errors.Is(err, atoll.ErrState) {
		t.Errorf("a command: %v", err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Stopped {
		t.Errorf("the registry has %s", r.state)
	}
}

// TestEndingSandboxSettles: a sandbox that was seen while something else stopped it is listed as stopped
// afterwards.
func TestEndingSandboxSettles(t *testing.T) {
	d := &faultyDriver{Driver: &virtual.Driver{Dir: t.TempDir()}}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	report := func(state atoll.State) {
		st := atoll.Status{ID: sb.ID(), State: state}
		d.setHooks(func(d *faultyDriver) {
			d.list = func(context.Context) ([]atoll.Status, error) { return []atoll.Status{st}, nil }
			d.status = func(context.Context, *virtual.Sandbox) (atoll.Status, error) { return st, nil }
		})
	}
	report(atoll.Stopping)
	f.recheckSandbox(t.Context(), sb.ID())
	if r := readRow(t, f, sb.ID()); r.state != atoll.Failed || r.reason != reasonUnclear {
		t.Errorf("while it is being stopped: %s, %s", r.state, r.reason)
	}
	report(atoll.Stopped)
	list, err := f.Account(LocalCaller()).List(t.Context(), Filter{})
	if err != nil || len(list) != 1 || list[0].State != atoll.Stopped {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

// TestSilentDriverChangesNothing: a sandbox whose driver does not answer keeps its state: it is not in error
// because its cluster or engine can't be reached for a moment.
func TestSilentDriverChangesNothing(t *testing.T) {
	d := &faultyDriver{Driver: &virtual.Driver{Dir: t.TempDir()}}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	d.setHooks(func(d *faultyDriver) {
		d.list = func(context.Context) ([]atoll.Status, error) { return nil, atoll.ErrUnavailable }
		d.status = func(context.Context, *virtual.Sandbox) (atoll.Status, error) {
			return atoll.Status{}, atoll.ErrUnavailable
		}
	})
	f.recheckSandbox(t.Context(), sb.ID()) // as after a command that has failed
	list, err := f.Account(LocalCaller()).List(t.Context(), Filter{})
	if err != nil || len(list) != 1 || list[0].State != atoll.Running {
		t.Errorf("the list is %+v, %v", list, err)
	}
	if err := f.Reconcile(t.Context()); err != nil {
		t.Error(err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Running {
		t.Errorf("the registry has %s: %s", r.state, r.message)
	}
}

// TestDeadPlaceOfADriver: where a driver can list only a part of its sandboxes, those of the owners concerned
// keep their state, and those of all others are reconciled.
func TestDeadPlaceOfADriver(t *testing.T) {
	for name, reconcile := range map[string]func(f *Fleet) error{
		"Reconcile": func(f *Fleet) error { return f.Reconcile(t.Context()) },
		"List": func(f *Fleet) error {
			_, err := f.Account(LocalCaller()).List(t.Context(), Filter{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &faultyDriver{Driver: &virtual.Driver{Dir: t.TempDir()}}
			f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
			theirs := atoll.Owner{App: "dead", User: "u"}
			unlisted := mustCreate(t, f.Account(Caller{Owner: theirs, Scopes: LocalCaller().Scopes}), atoll.Config{})
			removed := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
			removeBehind(t, d, removed.ID())
			d.setHooks(func(d *faultyDriver) {
				d.list = func(context.Context) ([]atoll.Status, error) {
					dead := &atoll.PartialListError{Err: atoll.ErrUnavailable, IsMissing: func(o atoll.Owner) bool { return o == theirs }}
					return []atoll.Status{}, fmt.Errorf("list: %w", dead)
				}
			})
			if err := reconcile(f); err != nil {
				t.Error(err)
			}
			if r := readRow(t, f, unlisted.ID()); r.state != atoll.Running {
				t.Errorf("what could not be listed is %s: %s", r.state, r.message)
			}
			if r := readRow(t, f, removed.ID()); r.state != atoll.Failed || r.reason != reasonVanished {
				t.Errorf("what was removed is %s", r.state)
			}
		})
	}
}

// watchingDriver is a faultyDriver that reports sandboxes whose state has changed.
type watchingDriver struct {
	*faultyDriver
	changed chan string
}

func (d *watchingDriver) WatchStates(ctx context.Context, f func(id string)) error {
	for {
		select {
		case id := <-d.changed:
			f(id)
		case <-ctx.Done():
			return nil
		}
	}
}

// TestDriverReportsEndOfSandbox: a sandbox that is removed without the fleet is in error as soon as its driver
// notices it.
func TestDriverReportsEndOfSandbox(t *testing.T) {
	d := &watchingDriver{&faultyDriver{Driver: &virtual.Driver{Dir: t.TempDir()}}, make(chan string)}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- f.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	removeBehind(t, d.faultyDriver, sb.ID())
	patience, stop := context.WithTimeout(ctx, testenv.Patience)
	defer stop()
	for range 2 { // the second is received after the first was handled
		select {
		case d.changed <- sb.ID():
		case <-patience.Done():
			t.Fatal("the fleet does not watch")
		}
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Failed || r.reason != reasonVanished {
		t.Errorf("the registry has %s", r.state)
	}
}
