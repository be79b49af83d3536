package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// TestConcurrentCallers has callers of two owners make random calls through two
// processes at once, while one process reconciles. Quotas must hold at every moment,
// names must be unique, and in the end registry and driver must agree.
func TestConcurrentCallers(t *testing.T) {
	const callers, deeds, room = 8, 30, 6
	home := t.TempDir()
	opts := Options{Home: home, Quota: atoll.Quota{Sandboxes: room}}
	fleets := []*Fleet{openFleet(t, opts), openFleet(t, opts)}
	owners := []Caller{
		{Owner: atoll.Owner{App: "crowd", User: "ann"}, Scopes: []atoll.Scope{atoll.ScopeRun}},
		{Owner: atoll.Owner{App: "crowd", User: "bob"}, Scopes: []atoll.Scope{atoll.ScopeRun}},
	}
	var over atomic.Bool
	var watcher, wg sync.WaitGroup
	watcher.Go(func() {
		for !over.Load() {
			for _, o := range owners {
				checkQuotaAndNames(t, fleets[1].Account(o), room)
			}
			if err := fleets[0].Reconcile(t.Context()); err != nil {
				t.Errorf("Reconcile: %v", err)
			}
		}
	})
	for i := range callers {
		wg.Go(func() {
			a := fleets[i%2].Account(owners[i/2%2])
			for range deeds {
				if err := doRandomCall(t.Context(), a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	over.Store(true)
	watcher.Wait()
	rows, err := fleets[0].queryRows(t.Context(), fleets[0].registry.DB, "state <> 'destroyed'")
	if err != nil {
		t.Fatal(err)
	}
	there := driverStates(t, &virtual.Driver{Dir: filepath.Join(home, "sandboxes")})
	for _, r := range rows {
		if there[r.id] != r.state || r.goal != "" || r.holder != "" {
			t.Errorf("%s is %s (goal %q, holder %q), its driver has %q", r.id, r.state, r.goal, r.holder, there[r.id])
		}
		delete(there, r.id)
	}
	if len(there) != 0 {
		t.Errorf("orphans: %v", there)
	}
	for _, f := range fleets {
		for _, b := range f.handles() {
			if n := b.calls.activeCount(); n != 0 {
				t.Errorf("%d calls of %s are still counted", n, b.id)
			}
		}
		if n := f.activeCalls.Load(); n != 0 {
			t.Errorf("%d calls are still counted", n)
		}
	}
}

// checkQuotaAndNames checks the quota and the names of one owner's sandboxes at this
// moment.
func checkQuotaAndNames(t *testing.T, a *Account, room int) {
	list, err := a.List(t.Context(), Filter{})
	if err != nil {
		t.Error(err)
		return
	}
	if len(list) > room {
		t.Errorf("%s has %d sandboxes, the quota is %d", a.caller.Owner, len(list), room)
	}
	names := make(map[string]bool)
	for _, i := range list {
		if i.Name != "" && names[i.Name] {
			t.Errorf("%s has two sandboxes called %s", a.caller.Owner, i.Name)
		}
		names[i.Name] = true
	}
}

// doRandomCall makes a random call. It ignores errors that concurrent calls can cause.
func doRandomCall(ctx context.Context, a *Account) error {
	name := fmt.Sprintf("n%d", rand.IntN(4))
	if rand.IntN(3) == 0 {
		_, err := a.Create(ctx, namedConfig(name))
		return ignoreErrors(err, atoll.ErrExists, atoll.ErrQuota, atoll.ErrNotFound) // another destroyed it at once
	}
	sb, err := a.Open(ctx, name)
	if err != nil {
		return ignoreErrors(err, atoll.ErrNotFound)
	}
	switch rand.IntN(6) {
	case 0:
		err = sb.Stop(ctx)
	case 1:
		err = sb.Start(ctx)
	case 2:
		err = sb.Destroy(ctx)
	case 3:
		_, err = sb.Fork(ctx, "", atoll.Spec{Name: name + "f"})
		return ignoreErrors(err, atoll.ErrExists, atoll.ErrQuota, atoll.ErrState, atoll.ErrNotFound)
	case 4:
		other := name + "u"
		_, err = a.Update(ctx, sb.ID(), Change{Name: &other})
		return ignoreErrors(err, atoll.ErrExists, atoll.ErrNotFound)
	default:
		err = execError(sb)
	}
	return ignoreErrors(err, atoll.ErrState, atoll.ErrNotFound)
}

// ignoreErrors returns err, or nil if it is one of the expected errors.
func ignoreErrors(err error, right ...error) error {
	for _, r := range right {
		if errors.Is(err, r) {
			return nil
		}
	}
	return err
}

// activeCount returns the number of active calls.
func (t *callTracker) activeCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.active)
}
