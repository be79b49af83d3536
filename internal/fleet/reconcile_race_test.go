package fleet

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// TestReconcileDuringChange: what a process has seen of a sandbox does not overwrite what another process has made of it
// meanwhile, nor end that one's turn, and a sandbox that another one is changing is left to that.
func TestReconcileDuringChange(t *testing.T) {
	home := t.TempDir()
	newDriver := func() *faultyDriver {
		return &faultyDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
	}
	looking, acting := newDriver(), newDriver()
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{looking}})
	other := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{acting}})
	sb := mustCreate(t, f.Account(LocalCaller()), persistentConfig())
	there, err := other.Account(LocalCaller()).Open(t.Context(), sb.ID())
	must(t, err)

	was, err := f.loadRow(t.Context(), sb.ID())
	must(t, err)
	looking.setHooks(func(d *faultyDriver) {
		d.status = func(ctx context.Context, sb *virtual.Sandbox) (atoll.Status, error) {
			looking.setHooks(func(d *faultyDriver) { d.status = nil })
			st, err := sb.Status(ctx)
			must(t, there.Stop(t.Context())) // after this look at it
			return st, err
		}
	})
	must(t, f.reconcileRow(t.Context(), was, nil))
	if r, err := f.loadRow(t.Context(), sb.ID()); err != nil || r.state != atoll.Stopped {
		t.Errorf("it is %s, not stopped: %v", r.state, err)
	}

	must(t, there.Start(t.Context()))
	acting.setHooks(func(d *faultyDriver) {
		d.stop = func(ctx context.Context, sb *virtual.Sandbox) error {
			now, err := f.loadRow(ctx, sb.ID())
			must(t, err)
			must(t, f.reconcileRow(ctx, now, nil))
			if r, err := f.loadRow(ctx, sb.ID()); err != nil || r.holder != other.member.ID() {
				t.Errorf("the turn of the other process was ended: %+v, %v", r, err)
			}
			return sb.Stop(ctx)
		}
	})
	must(t, there.Stop(t.Context()))
}

// TestTwoStartsAfterDeath: two processes start an archived sandbox at once whose return another process has begun before it died.
// Both succeed: whoever is second waits for the first.
func TestTwoStartsAfterDeath(t *testing.T) {
	home := t.TempDir()
	fleets := make([]*Fleet, 2)
	for i := range fleets {
		fleets[i] = openFleet(t, archiveKillOptions(home))
	}
	sb := mustCreate(t, fleets[0].Account(LocalCaller()), persistent("box"))
	shellOutput(t, sb, "echo kept >/a")
	dead := deadInstance(t, fleets[0])
	for range 5 {
		must(t, sb.Stop(t.Context()))
		must(t, sb.Archive(t.Context()))
		forceRow(t, fleets[0], sb.ID(), func(r *row) { r.state, r.goal, r.holder = atoll.Starting, goalRestore, dead })
		errs := make([]error, len(fleets))
		var wg sync.WaitGroup
		for i, f := range fleets {
			wg.Go(func() {
				there, err := f.Account(LocalCaller()).Open(t.Context(), sb.ID())
				if err == nil {
					err = there.Start(t.Context())
				}
				errs[i] = err
			})
		}
		wg.Wait()
		must(t, errors.Join(errs...))
		if got := shellOutput(t, sb, "cat /a"); got != "kept\n" {
			t.Fatalf("it has %q", got)
		}
	}
}
