package fleet

import (
	"context"
	"errors"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/member"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestServersSurviveDatabaseRestart restarts the database and cuts connections while
// two servers work: nothing acknowledged may be lost, no server may count as dead, and
// changes that could not be written must be reconciled.
func TestServersSurviveDatabaseRestart(t *testing.T) {
	t.Parallel()
	s := newServerGroup(t)
	one, two := s.startServer(t, nil), s.startServer(t, nil)
	runServer(t, one)
	runServer(t, two)
	w := startWorkload(t, []*Fleet{one, two}, 4)
	w.allowAll()
	for range 3 {
		w.waitForCreations(10)
		must(t, s.Restart(t.Context()))
		w.waitForCreations(10)
		s.exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'atoll' and pid <> pg_backend_pid()")
	}
	w.waitForCreations(10)
	w.finish(two)
}

// outagesVar is the environment variable with the number of outages of each length. If it is set,
// leases are as long as those of real servers.
const outagesVar = "ATOLL_OUTAGES"

// TestServersSurviveOutages makes the database unavailable to three servers for half a lease, two
// leases and six: none is fenced, since all can renew afterwards, and nothing acknowledged is lost.
// An outage is a database that does not run, or connections without an answer.
func TestServersSurviveOutages(t *testing.T) {
	t.Parallel()
	lease := testLease
	if os.Getenv(outagesVar) != "" {
		lease = member.DefaultLease
	}
	rounds := testenv.Rounds(t, 1, 2, outagesVar)
	s := newServerGroup(t)
	proxy := newBreakableProxy(t, s)
	var servers []*Fleet
	for range 3 {
		f := s.startServer(t, func(o *Options) {
			o.Registry = (&url.URL{Scheme: "postgres", User: url.User("atoll"), Path: "/postgres", RawQuery: "host=" + proxy.dir + "&search_path=public"}).String()
			o.lease = lease
		})
		runServer(t, f)
		servers = append(servers, f)
	}
	w := startWorkload(t, servers, 6)
	for n := range rounds {
		for _, length := range []time.Duration{lease / 2, 2 * lease, 6 * lease} {
			w.allow(12)
			waitFor(t, "sandboxes are created", func() bool { return len(w.permits) == 0 })
			waitForJudges(t, servers, lease)
			if n%2 == 0 {
				must(t, s.Down(t.Context()))
				w.allow(6)
				waitOut(t, length)
				must(t, s.Up(t.Context()))
			} else {
				heal := proxy.stallConnections()
				w.allow(6)
				waitOut(t, length)
				heal()
			}
			waitForJudges(t, servers, lease)
			t.Logf("outage %d of %v is over", n, length)
		}
	}
	w.finish(servers[0])
}

// waitOut waits until an outage has lasted for a time.
func waitOut(t *testing.T, length time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	<-ctx.Done()
}

// waitForJudges waits until each server may fence others: it has renewed its lease for the length of
// a lease. It fails the test if one is fenced.
func waitForJudges(t *testing.T, servers []*Fleet, lease time.Duration) {
	t.Helper()
	for i, f := range servers {
		fenced, since := false, 0.0
		waitFor(t, "a server renews its lease", func() bool {
			err := f.registry.DB.QueryRowContext(t.Context(), "select fenced, cast(extract(epoch from clock_timestamp() - since) as double precision) from instances where id = ?",
				f.member.ID()).Scan(&fenced, &since)
			if err != nil && !errors.Is(err, atoll.ErrUnavailable) {
				t.Fatalf("server %d: %v", i, err)
			}
			return err == nil && (fenced || since > lease.Seconds())
		})
		if fenced {
			t.Fatalf("server %d was fenced", i)
		}
	}
}

// workload is a number of workers that create and destroy sandboxes through several servers.
type workload struct {
	t       *testing.T
	workers int
	permits chan struct{} // one for each creation
	stop    chan struct{}
	end     func()        // closes stop, once
	created chan struct{} // a value if sandboxes were created
	results chan workResult
}

// startWorkload starts workers that wait for allow.
func startWorkload(t *testing.T, servers []*Fleet, workers int) *workload {
	t.Helper()
	w := &workload{t: t, workers: workers, permits: make(chan struct{}, 1000), stop: make(chan struct{}), created: make(chan struct{}, 1), results: make(chan workResult, workers)}
	w.end = sync.OnceFunc(func() { close(w.stop) })
	t.Cleanup(w.end) // after a failure
	for i := range workers {
		go func() { w.results <- w.createAndDestroy(servers[i%len(servers)]) }()
	}
	return w
}

// allow lets the workers create n more sandboxes.
func (w *workload) allow(n int) {
	for range n {
		w.permits <- struct{}{}
	}
}

// allowAll lets the workers create sandboxes without a limit.
func (w *workload) allowAll() { close(w.permits) }

// waitForCreations waits until n more sandboxes were created, or more.
func (w *workload) waitForCreations(n int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), testenv.Patience)
	defer cancel()
	for range n {
		select {
		case <-w.created:
		case <-ctx.Done():
			w.t.Error("no sandboxes are created any more")
		}
	}
}

// workResult is the result of createAndDestroy.
type workResult struct {
	acked  map[string]bool // by id: it was created, and not destroyed
	failed int
	wrong  []error // failures that should not be
}

// createAndDestroy creates and destroys sandboxes until the workload stops.
func (w *workload) createAndDestroy(f *Fleet) workResult {
	r := workResult{acked: make(map[string]bool)}
	a := f.Account(LocalCaller())
	failed := func(err error) {
		r.failed++
		if !errors.Is(err, atoll.ErrUnavailable) {
			r.wrong = append(r.wrong, err)
		}
	}
	for n := 0; ; n++ {
		select {
		case <-w.stop:
			return r
		default:
		}
		select {
		case <-w.stop:
			return r
		case <-w.permits:
		}
		sb, err := a.Create(context.Background(), persistentConfig())
		if err != nil {
			failed(err)
			continue
		}
		r.acked[sb.ID()] = true
		select {
		case w.created <- struct{}{}:
		default:
		}
		if n%2 == 0 {
			continue
		}
		if err := sb.Destroy(context.Background()); err != nil {
			failed(err)
			delete(r.acked, sb.ID()) // it may be destroyed or not
		} else {
			r.acked[sb.ID()] = false
		}
	}
}

// finish ends the workers and compares their results with the registry and the driver.
func (w *workload) finish(f *Fleet) {
	t := w.t
	t.Helper()
	w.end()
	there := make(map[string]bool)
	gone, failed := 0, 0
	for range w.workers {
		r := <-w.results
		for id, lives := range r.acked {
			there[id] = lives
			if !lives {
				gone++
			}
		}
		failed += r.failed
		for _, err := range r.wrong {
			t.Error(err)
		}
	}
	t.Logf("%d sandboxes, %d of them destroyed; %d calls failed", len(there), gone, failed)
	t.Cleanup(func() {
		if t.Failed() {
			rows, err := f.queryRows(context.Background(), f.registry.DB, "holder <> '' or goal <> ''")
			t.Logf("unfinished: %+v, %v", rows, err)
		}
	})
	waitFor(t, "no change is half done", func() bool {
		n := -1
		err := f.registry.DB.QueryRowContext(t.Context(), "select count(*) from sandboxes where holder <> '' or goal <> '' and due > 0 and due < ?", registry.Timestamp(f.now())).Scan(&n)
		return err == nil && n == 0
	})
	must(t, f.Reconcile(t.Context()))
	has := driverStates(t, f.opts.Drivers[0])
	for id, lives := range there {
		if r, err := f.loadRow(t.Context(), id); err != nil || (r.state == atoll.Running) != lives || (has[id] == atoll.Running) != lives {
			t.Errorf("%s: acknowledged as existing: %t; it is %s, its driver has %q, %v", id, lives, r.state, has[id], err)
		}
	}
	for id, state := range has {
		if r, err := f.loadRow(t.Context(), id); err != nil || r.state != state {
			t.Errorf("%s: its driver has %s, the registry %s, %v", id, state, r.state, err)
		}
	}
	if failed == 0 || len(there) == 0 {
		t.Error("nothing failed, or nothing worked: this shows nothing")
	}
}
