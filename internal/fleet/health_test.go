package fleet

import (
	"context"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
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
