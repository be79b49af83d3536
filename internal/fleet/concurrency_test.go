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

// TestCrowd: many callers of two owners do what they like through two processes
// at once, while one reconciles. Quotas are kept at every moment, names are
// unique, and in the end registry and driver agree.
func TestCrowd(t *testing.T) {
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
				checkCrowd(t, fleets[1].For(o), room)
			}
			if err := fleets[0].Reconcile(t.Context()); err != nil {
				t.Errorf("Reconcile: %v", err)
			}
		}
	})
	for i := range callers {
		wg.Go(func() {
			a := fleets[i%2].For(owners[i/2%2])
			for range deeds {
				if err := deed(t.Context(), a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	over.Store(true)
	watcher.Wait()
	rows, err := queryRows(t.Context(), fleets[0].registry.DB, "state <> 'destroyed'")
	if err != nil {
		t.Fatal(err)
	}
	there := ids(t, &virtual.Driver{Dir: filepath.Join(home, "sandboxes")})
	for _, r := range rows {
		if there[r.id] != r.state || r.goal != "" || r.holder != "" {
			t.Errorf("%s is %s (goal %q, holder %q), its driver says %q", r.id, r.state, r.goal, r.holder, there[r.id])
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

// checkCrowd looks at what one owner has at this moment.
func checkCrowd(t *testing.T, a *Account, room int) {
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

// deed does something at random, which may be refused for a reason that is right
// when others do things at the same time.
func deed(ctx context.Context, a *Account) error {
	name := fmt.Sprintf("n%d", rand.IntN(4))
	if rand.IntN(3) == 0 {
		_, err := a.Create(ctx, named(name))
		return but(err, atoll.ErrExists, atoll.ErrQuota, atoll.ErrNotFound) // another destroyed it at once
	}
	sb, err := a.Open(ctx, name)
	if err != nil {
		return but(err, atoll.ErrNotFound)
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
		return but(err, atoll.ErrExists, atoll.ErrQuota, atoll.ErrState, atoll.ErrNotFound)
	case 4:
		other := name + "u"
		_, err = a.Update(ctx, sb.ID(), Change{Name: &other})
		return but(err, atoll.ErrExists, atoll.ErrNotFound)
	default:
		err = execErr(sb)
	}
	return but(err, atoll.ErrState, atoll.ErrNotFound)
}

// but returns err unless it is one of those that are right.
func but(err error, right ...error) error {
	for _, r := range right {
		if errors.Is(err, r) {
			return nil
		}
	}
	return err
}
