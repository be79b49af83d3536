package fleet

import (
	"errors"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/fleet/member"

	"github.com/atoll-sandbox/atoll"
)

// dieAlone leaves what a process leaves that is killed while it works with a
// sandbox that no registry knows.
func dieAlone(t *testing.T, home string, d atoll.Driver) string {
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

// TestStandalone: no process adopts a sandbox without a registry while it is in use,
// and it is gone afterwards.
func TestStandalone(t *testing.T) {
	filesOnly(t, "with a registry that servers share none are made")
	home := t.TempDir()
	d := newLasting(home + "/sandboxes")
	sb, end, err := Lone(t.Context(), home, d, atoll.Spec{Name: "alone"})
	if err != nil {
		t.Fatal(err)
	}
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}}) // fresh: it reconciles
	if err := f.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := f.For(LocalCaller()).List(t.Context(), Filter{All: true}); err != nil || len(list) != 0 {
		t.Errorf("the fleet has %+v, %v", list, err)
	}
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "exit 3"}); err != nil || exit.Code != 3 {
		t.Errorf("after the fleet looked: %+v, %v", exit, err)
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := ids(t, d.Driver); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if files, err := member.List(home); err != nil || len(files) != 1 {
		t.Errorf("instances: %v, %v; want only the fleet's", files, err)
	}
}

// What a process leaves that was killed, the next one destroys: one without a
// registry, or a fleet.
func TestStandaloneOfDeadProcess(t *testing.T) {
	filesOnly(t, "with a registry that servers share none are made")
	home := t.TempDir()
	d := newLasting(home + "/sandboxes")
	first := dieAlone(t, home, d)
	_, end, err := Lone(t.Context(), home, d, atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), first); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("after another: %v", err)
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := dieAlone(t, home, d)
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	if _, err := d.Open(t.Context(), second); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("after a fleet: %v", err)
	}
	if list, err := f.For(LocalCaller()).List(t.Context(), Filter{All: true}); err != nil || len(list) != 0 {
		t.Errorf("the fleet has %+v, %v", list, err)
	}
	if files, err := member.List(home); err != nil || len(files) != 1 {
		t.Errorf("instances: %v, %v; want only the fleet's", files, err)
	}
}

// A Create that fails leaves nothing of it.
func TestStandaloneThatFails(t *testing.T) {
	home := t.TempDir()
	d := newLasting(home + "/sandboxes")
	if _, _, err := Lone(t.Context(), home, d, atoll.Spec{Name: "Bad Name"}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	if files, err := member.List(home); err != nil || len(files) != 0 {
		t.Errorf("instances: %v, %v", files, err)
	}
}
