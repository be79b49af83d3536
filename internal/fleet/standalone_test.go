package fleet

import (
	"errors"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/fleet/member"

	"github.com/atoll-sandbox/atoll"
)

// leaveStandaloneSandbox leaves what a killed process leaves that used a sandbox
// without a registry.
func leaveStandaloneSandbox(t *testing.T, home string, d atoll.Driver) string {
	t.Helper()
	in, err := member.JoinHome(home)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := d.Create(t.Context(), atoll.Spec{ID: atoll.NewID()})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.AddNote(d.Name() + " " + sb.ID()); err != nil {
		t.Fatal(err)
	}
	if err := in.Abandon(); err != nil {
		t.Fatal(err)
	}
	return sb.ID()
}

// TestStandalone: no process adopts a standalone sandbox while it is in use, and it is
// removed afterwards.
func TestStandalone(t *testing.T) {
	skipOnPostgres(t, "with a registry that servers share none are made")
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	sb, end, err := CreateStandalone(t.Context(), home, d, atoll.Spec{Name: "alone"})
	if err != nil {
		t.Fatal(err)
	}
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}}) // fresh: it reconciles
	if err := f.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := f.Account(LocalCaller()).List(t.Context(), Filter{All: true}); err != nil || len(list) != 0 {
		t.Errorf("the fleet has %+v, %v", list, err)
	}
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "exit 3"}); err != nil || exit.Code != 3 {
		t.Errorf("after the fleet looked: %+v, %v", exit, err)
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := driverStates(t, d.Driver); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if files, err := member.List(home); err != nil || len(files) != 1 {
		t.Errorf("instances: %v, %v; want only the fleet's", files, err)
	}
}

// TestStandaloneOfDeadProcess: the next process, standalone or with a fleet, destroys
// the sandbox of a killed process.
func TestStandaloneOfDeadProcess(t *testing.T) {
	skipOnPostgres(t, "with a registry that servers share none are made")
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	first := leaveStandaloneSandbox(t, home, d)
	_, end, err := CreateStandalone(t.Context(), home, d, atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), first); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("after another: %v", err)
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := leaveStandaloneSandbox(t, home, d)
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	if _, err := d.Open(t.Context(), second); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("after a fleet: %v", err)
	}
	if list, err := f.Account(LocalCaller()).List(t.Context(), Filter{All: true}); err != nil || len(list) != 0 {
		t.Errorf("the fleet has %+v, %v", list, err)
	}
	if files, err := member.List(home); err != nil || len(files) != 1 {
		t.Errorf("instances: %v, %v; want only the fleet's", files, err)
	}
}

// TestStandaloneThatFails: a failed Create leaves nothing.
func TestStandaloneThatFails(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	if _, _, err := CreateStandalone(t.Context(), home, d, atoll.Spec{Name: "Bad Name"}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	if files, err := member.List(home); err != nil || len(files) != 0 {
		t.Errorf("instances: %v, %v", files, err)
	}
}
