package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// newRemotePool creates a pool and waits until it is full.
func newRemotePool(t testing.TB, f *Fleet, size int) []row {
	t.Helper()
	a := f.Account(LocalCaller())
	must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: size, Config: atoll.Config{Spec: atoll.Spec{Labels: map[string]string{"from": "pool"}}}})))
	waitFor(t, "all are ready", func() bool { return getPool(t, a, "p").Ready == size })
	rows, err := f.queryRows(t.Context(), f.registry.DB, "pool = 'p' and state = 'running' order by created")
	must(t, err)
	return rows
}

// fillPool runs a fleet until its pool is full, and then stops it.
func fillPool(t testing.TB, f *Fleet, size int) []row {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	rows := newRemotePool(t, f, size)
	cancel()
	must(t, <-done)
	return rows
}

func TestClaimer(t *testing.T) {
	f, d := openRemote(t)
	ready := fillPool(t, f, 1)
	st, err := valueOf(d.Driver.Open(t.Context(), ready[0].id)).Status(t.Context())
	if err != nil || st.Labels[atoll.PoolLabel] != "p" || st.Labels["from"] != "pool" {
		t.Errorf("while it waits: %v, %v", st.Labels, err)
	}
	u := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	must(t, errorOf(u.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})))
	writeTestFile(t, reopenFiles(t, u, "w"), "/f", "carried")
	sb, err := u.Create(t.Context(), atoll.Config{
		Spec: atoll.Spec{Name: "mine", Labels: map[string]string{"to": "me"}, Env: []string{"A=b"}}, Pool: "p",
		Workspaces: []atoll.WorkspaceMount{{Workspace: "w"}}, Secrets: map[string]string{"TOKEN": "tttttttt"},
		Prepare: []atoll.Step{{Shell: "cat /workspace/f >/prepared"}},
	})
	must(t, err)
	if sb.ID() != ready[0].id {
		t.Fatal("it was made new")
	}
	spec := d.claimed[sb.ID()]
	if spec.Owner != u.caller.Owner || spec.Name != "mine" || spec.Labels["to"] != "me" || spec.Labels["from"] != "pool" || spec.Labels[atoll.PoolLabel] != "" {
		t.Errorf("claimed for %+v", spec)
	}
	if got := shellOutput(t, sb, "cat /prepared; echo $A $TOKEN; echo new >/workspace/new"); got != "carriedb tttttttt\n" {
		t.Errorf("inside: %q", got)
	}
	must(t, sb.Destroy(t.Context()))
	if got := readStored(t, u, "w", "/new"); got != "new\n" {
		t.Errorf("stored: %q", got)
	}
}

func valueOf[T any](v T, _ error) T { return v }

// TestDriverRefusesClaim: if a driver refuses to claim a sandbox, the next one is
// tried.
func TestDriverRefusesClaim(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		next  bool // the second one is claimed, else a new one is made
		there bool // the first is still there
		pool  bool // and waits in the pool
	}{
		"Taken":   {atoll.ErrExists, true, true, false},
		"Unready": {atoll.ErrState, true, false, false},
		"Not his": {atoll.ErrUnsupported, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, d := openRemote(t)
			ready := fillPool(t, f, 2)
			d.mu.Lock()
			d.refuse = func(id string) error {
				if id == ready[0].id {
					return c.err
				}
				return nil
			}
			d.mu.Unlock()
			sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Pool: "p"})
			if next := sb.ID() == ready[1].id; next != c.next || sb.ID() == ready[0].id {
				t.Errorf("%s was given: ready were %s, %s", sb.ID(), ready[0].id, ready[1].id)
			}
			_, there := driverStates(t, d)[ready[0].id]
			if there != c.there {
				t.Errorf("the first is there: %v", there)
			}
			waits, err := f.queryRows(t.Context(), f.registry.DB, "id = ? and pool = 'p' and state = 'running' and holder = '' and goal = ''", ready[0].id)
			if err != nil || len(waits) == 1 != c.pool {
				t.Errorf("the first waits: %v, %v", len(waits), err)
			}
		})
	}
}

// TestClaimWithUnknownOutcome: a sandbox is destroyed if the outcome of its claim is
// unknown.
func TestClaimWithUnknownOutcome(t *testing.T) {
	f, d := openRemote(t)
	ready := fillPool(t, f, 1)
	d.mu.Lock()
	d.refuse = func(string) error { return atoll.ErrUnavailable }
	d.mu.Unlock()
	checkError(t, "claim", errorOf(f.Account(LocalCaller()).Create(t.Context(), atoll.Config{Pool: "p"})), atoll.ErrUnavailable)
	if _, there := driverStates(t, d)[ready[0].id]; there {
		t.Error("it is still there")
	}
}

// TestConcurrentDriverClaims makes more claims than there are ready sandboxes, from two
// fleets with the same home: no sandbox may be claimed twice.
func TestConcurrentDriverClaims(t *testing.T) {
	home := t.TempDir()
	d := newRemoteDriver(home)
	fleets := [2]*Fleet{openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}}), openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})}
	const size, claims = 30, 100
	ready := fillPool(t, fleets[0], size)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[string]int)
	for i := range claims {
		wg.Go(func() {
			u := fleets[i%2].Account(Caller{Owner: atoll.Owner{App: "app", User: fmt.Sprint("u", i)}, Scopes: []atoll.Scope{atoll.ScopeRun}})
			sb, err := u.Create(context.Background(), atoll.Config{Pool: "p"})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[sb.ID()]++
		})
	}
	wg.Wait()
	warm := 0
	for _, r := range ready {
		warm += seen[r.id]
	}
	if len(seen) != claims || warm != size || len(d.claimed) != size {
		t.Errorf("%d sandboxes for %d claims, %d of them warm, %d given by the driver; want %d warm", len(seen), claims, warm, len(d.claimed), size)
	}
	var list []string
	for id, n := range seen {
		if n != 1 {
			list = append(list, id)
		}
	}
	if len(list) > 0 {
		t.Errorf("given twice: %s", strings.Join(list, ", "))
	}
}
