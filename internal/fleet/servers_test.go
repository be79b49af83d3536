package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry/pgtest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// site is where the servers of a test are: a PostgreSQL and the sandboxes that
// all of them reach.
type site struct {
	*pgtest.Cluster

	dir string
}

func newSite(t *testing.T) *site {
	t.Helper()
	if os.Getenv(onPostgres) != "" {
		t.Skip("it has a PostgreSQL of its own")
	}
	return &site{startPostgres(t), t.TempDir()}
}

// options are those of a server, which has a home of its own; the directory of
// workspaces is the same for all.
func (s *site) options(home string) Options {
	d := &virtual.Driver{Dir: filepath.Join(s.dir, "sandboxes")}
	return Options{Home: home, Registry: s.URL("public"), oneHost: true, Drivers: []atoll.Driver{d}, lease: testLease}
}

func (s *site) server(t *testing.T, change func(*Options)) *Fleet {
	t.Helper()
	home := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(s.dir, "workspaces"), 0o700))
	must(t, os.Symlink(filepath.Join(s.dir, "workspaces"), filepath.Join(home, "workspaces")))
	opts := s.options(home)
	if change != nil {
		change(&opts)
	}
	return openFleet(t, opts)
}

// exec runs one statement besides the fleets.
func (s *site) exec(t *testing.T, text string, args ...any) {
	t.Helper()
	db, err := registry.OpenDB(s.URL("public"))
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), text, args...)
	must(t, err)
}

// runs begins the Run of a server, and returns its end.
func runs(t *testing.T, f *Fleet) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { done <- f.Run(ctx) }()
	return done
}

func leads(t *testing.T, f *Fleet) bool {
	t.Helper()
	yes := false
	err := f.registry.DB.QueryRowContext(t.Context(), "select leads and not fenced from instances where id = ?", f.member.ID()).Scan(&yes)
	return err == nil && yes
}

// cable is the connection of one server to the database, which can be cut: then no
// data passes, and neither end gets an error.
type cable struct {
	dir string
	l   net.Listener

	mu    sync.Mutex
	whole chan struct{} // closed while the wire is whole; guarded by mu
}

func newCable(t *testing.T, s *site) *cable {
	t.Helper()
	w := &cable{dir: s.dir, whole: make(chan struct{})}
	close(w.whole)
	var err error
	w.l, err = net.Listen("unix", filepath.Join(w.dir, ".s.PGSQL.5432"))
	must(t, err)
	t.Cleanup(func() { _ = w.l.Close() })
	u, err := url.Parse(s.URL("public"))
	must(t, err)
	to := filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")
	go func() {
		for {
			c, err := w.l.Accept()
			if err != nil {
				return
			}
			go w.carry(c, to)
		}
	}()
	return w
}

func (w *cable) carry(c net.Conn, to string) {
	w.wait()
	d, err := net.Dial("unix", to)
	if err != nil {
		_ = c.Close()
		return
	}
	go w.copy(c, d)
	w.copy(d, c)
}

func (w *cable) copy(to, from net.Conn) {
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		w.wait()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *cable) wait() {
	w.mu.Lock()
	whole := w.whole
	w.mu.Unlock()
	<-whole
}

// cut lets nothing through until heal is called.
func (w *cable) cut() (heal func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole := make(chan struct{})
	w.whole = whole
	return func() { close(whole) }
}

func TestServersShareOneFleet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := s.server(t, nil), s.server(t, nil)
	a, b := one.For(LocalCaller()), two.For(LocalCaller())

	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "web"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}, Workspaces: []atoll.WorkspaceMount{{Workspace: "w"}}})
	other, err := b.Open(t.Context(), "web")
	must(t, err)
	must(t, second(other.Exec(t.Context(), atoll.Cmd{Shell: "echo hi > /n"})))
	must(t, sb.Stop(t.Context()))
	eventually(t, "the other knows that it is stopped", func() bool {
		return errors.Is(execErr(other), atoll.ErrState)
	})
	if _, err := b.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "web"}}); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a second of that name: %v", err)
	}

	tok := mustToken(t, a, atoll.Token{Name: "t", Scopes: []atoll.Scope{atoll.ScopeRun}})
	must(t, second(two.Authenticate(t.Context(), tok.Secret)))
	must(t, a.RevokeToken(t.Context(), "t"))
	if _, err := two.Authenticate(t.Context(), tok.Secret); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a token that the other server has revoked: %v", err)
	}
	must(t, other.Destroy(t.Context()))
	if _, err := a.Open(t.Context(), "web"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("destroyed by the other: %v", err)
	}
}

// TestServersRefuseLocalDrivers: the sandboxes of one host are not all servers'.
func TestServersRefuseLocalDrivers(t *testing.T) {
	opts := (&site{&pgtest.Cluster{}, t.TempDir()}).options(t.TempDir())
	opts.oneHost = false
	if _, err := Open(t.Context(), opts); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}

// TestServersFailOver: a leader that is not heard of any more writes nothing, ends,
// and another does what it was to do, and settles what it was doing.
func TestServersFailOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newCable(t, s)
	two := s.server(t, nil)
	opts := s.options(t.TempDir())
	opts.Registry = (&url.URL{Scheme: "postgres", User: url.User("atoll"), Path: "/postgres", RawQuery: "host=" + w.dir + "&search_path=public"}).String()
	one, err := Open(t.Context(), opts)
	must(t, err)
	ended := runs(t, one)
	eventually(t, "the first leads", func() bool { return leads(t, one) })
	runs(t, two)
	half := mustCreate(t, one.For(LocalCaller()), persistent())
	force(t, one, half.ID(), func(r *row) {
		r.state, r.holder, r.goal = atoll.Stopping, one.member.ID(), "stop"
	})
	due := mustCreate(t, two.For(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{TTL: 2 * testLease}})
	heal := w.cut()
	start := time.Now()
	eventually(t, "the second leads", func() bool { return leads(t, two) })
	took := time.Since(start)
	t.Logf("the second led after %v, with a lease of %v", took, testLease)
	if took < testLease/2 {
		t.Errorf("it led before the lease was over")
	}
	heal()
	if _, err := one.For(LocalCaller()).Create(t.Context(), persistent()); !errors.Is(err, atoll.ErrUnavailable) || !errors.Is(err, registry.ErrFenced) {
		t.Errorf("create by one that was taken for dead: %v", err)
	}
	eventually(t, "what it was doing is settled", func() bool { return rowOf(t, two, half.ID()).state == atoll.Running })
	eventually(t, "what is due is ended by the second", func() bool { return rowOf(t, two, due.ID()).state == atoll.Destroyed })
	select {
	case err := <-ended:
		if !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("Run of the first ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Run of the first goes on")
	}
	_ = one.Close(t.Context()) // it could not write all
}

// TestServersStopLeadingInTime: a leader whose registry does not answer ends what
// it does before another may lead, and leads on when the registry is back.
func TestServersStopLeadingInTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	f := s.server(t, nil)
	led, resign, err := f.member.Lead(t.Context())
	must(t, err)
	must(t, s.Down(t.Context()))
	start := time.Now()
	select {
	case <-led.Done():
		if took := time.Since(start); took > 2*testLease { // the machine may be busy
			t.Errorf("it led for %v, with a lease of %v", took, testLease)
		}
	case <-time.After(time.Minute):
		t.Error("it leads on")
	}
	if _, err := f.For(LocalCaller()).List(t.Context(), Filter{}); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("list without a registry: %v", err)
	}
	must(t, resign())
	must(t, s.Up(t.Context()))
	_, resign, err = f.member.Lead(t.Context())
	must(t, err)
	must(t, resign())
}

// TestServersOutliveTheDatabase restarts the database, as a crash would, and cuts
// connections, while two servers work: nothing that was acknowledged is lost, no
// server is taken for dead, and what could not be taken down is settled.
func TestServersOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := s.server(t, nil), s.server(t, nil)
	runs(t, one)
	runs(t, two)
	stop := make(chan struct{})
	results := make(chan worked, 4)
	for i := range 4 {
		go func() { results <- work(t, []*Fleet{one, two}[i%2], stop) }()
	}
	for range 3 {
		time.Sleep(300 * time.Millisecond) // of work
		must(t, s.Restart(t.Context()))
		time.Sleep(300 * time.Millisecond)
		s.exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'atoll' and pid <> pg_backend_pid()")
	}
	time.Sleep(300 * time.Millisecond)
	close(stop)
	there := make(map[string]bool)
	gone, failed := 0, 0
	for range 4 {
		w := <-results
		for id, lives := range w.acked {
			there[id] = lives
			if !lives {
				gone++
			}
		}
		failed += w.failed
		for _, err := range w.wrong {
			t.Error(err)
		}
	}
	t.Logf("%d sandboxes, %d of them destroyed; %d calls failed", len(there), gone, failed)
	t.Cleanup(func() {
		if t.Failed() {
			rows, err := queryRows(context.Background(), two.registry.DB, "holder <> '' or goal <> ''")
			t.Logf("of %s and %s: %+v, %v", one.member.ID(), two.member.ID(), rows, err)
		}
	})
	eventually(t, "nothing is half done", func() bool {
		n := -1
		err := two.registry.DB.QueryRowContext(t.Context(), "select count(*) from sandboxes where holder <> '' or goal <> '' and due > 0 and due < ?", registry.Timestamp(two.now())).Scan(&n)
		return err == nil && n == 0
	})
	must(t, two.Reconcile(t.Context()))
	has := ids(t, two.opts.Drivers[0])
	for id, lives := range there {
		if r, err := two.loadRow(t.Context(), id); err != nil || (r.state == atoll.Running) != lives || (has[id] == atoll.Running) != lives {
			t.Errorf("%s: acknowledged as living: %t; it is %s, its driver says %q, %v", id, lives, r.state, has[id], err)
		}
	}
	for id, state := range has {
		if r, err := two.loadRow(t.Context(), id); err != nil || r.state != state {
			t.Errorf("%s: its driver says %s, the registry %s, %v", id, state, r.state, err)
		}
	}
	if failed == 0 || len(there) == 0 {
		t.Error("nothing failed, or nothing worked: this shows nothing")
	}
}

// worked is what a worker did.
type worked struct {
	acked  map[string]bool // by id: it was made, and not destroyed
	failed int
	wrong  []error // failures that should not be
}

// work makes and destroys sandboxes until it is to stop.
func work(t *testing.T, f *Fleet, stop <-chan struct{}) worked {
	w := worked{acked: make(map[string]bool)}
	a := f.For(LocalCaller())
	failed := func(err error) {
		w.failed++
		if !errors.Is(err, atoll.ErrUnavailable) {
			w.wrong = append(w.wrong, err)
		}
	}
	for n := 0; ; n++ {
		select {
		case <-stop:
			return w
		default:
		}
		sb, err := a.Create(t.Context(), persistent())
		if err != nil {
			failed(err)
			continue
		}
		w.acked[sb.ID()] = true
		if n%2 == 0 {
			continue
		}
		if err := sb.Destroy(t.Context()); err != nil {
			failed(err)
			delete(w.acked, sb.ID()) // it may be gone or not
		} else {
			w.acked[sb.ID()] = false
		}
	}
}

// TestServersClocksAreOne: a server whose clock is an hour ahead ends nothing that
// was in use a moment ago, and what it writes is of now.
func TestServersClocksAreOne(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	right := s.server(t, nil)
	wrong := s.server(t, func(o *Options) { o.hostClock = func() time.Time { return time.Now().Add(time.Hour) } })
	slow := s.server(t, func(o *Options) { o.hostClock = func() time.Time { return time.Now().Add(-time.Hour) } })
	runs(t, wrong)
	eventually(t, "the wrong one leads", func() bool { return leads(t, wrong) })
	for _, f := range []*Fleet{right, wrong, slow} {
		if d := time.Until(f.now()).Abs(); d > time.Second {
			t.Errorf("its now is %v away", d)
		}
	}
	sb := mustCreate(t, right.For(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{Idle: 10 * time.Minute}})
	late := mustCreate(t, slow.For(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{TTL: time.Second}})
	eventually(t, "what is due is ended", func() bool { return rowOf(t, right, late.ID()).state == atoll.Destroyed })
	must(t, wrong.Tidy(t.Context()))
	if r := rowOf(t, right, sb.ID()); r.state != atoll.Running {
		t.Errorf("what was in use is %s", r.state)
	}
	tok := mustToken(t, slow.For(LocalCaller()), atoll.Token{Name: "t", Scopes: []atoll.Scope{atoll.ScopeRead}, Expires: time.Now().Add(time.Minute)})
	must(t, second(wrong.Authenticate(t.Context(), tok.Secret)))
}

// TestServersClaimOnce: two servers claim from one pool at once, and no sandbox is
// given twice.
func TestServersClaimOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := s.server(t, nil), s.server(t, nil)
	runs(t, one)
	must(t, second(one.For(LocalCaller()).SetPool(t.Context(), atoll.Pool{Name: "p", Size: 20})))
	eventually(t, "the pool is full", func() bool {
		list, err := two.For(LocalCaller()).Pools(t.Context())
		return err == nil && len(list) == 1 && list[0].Ready == 20
	})
	got := make(chan string, 40)
	for i := range 40 {
		a := []*Fleet{one, two}[i%2].For(LocalCaller())
		go func() {
			sb, err := a.Create(t.Context(), atoll.Config{Pool: "p", Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
			if err != nil {
				t.Error(err)
				got <- ""
				return
			}
			got <- sb.ID()
		}()
	}
	var all []string
	for range 40 {
		all = append(all, <-got)
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 40 {
		t.Errorf("40 claims had %d sandboxes", n)
	}
}

// TestServersEventsAreInOrder: a client of one server sees what the other does, each
// once, in order.
func TestServersEventsAreInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := s.server(t, nil), s.server(t, nil)
	const each = 200
	for _, f := range []*Fleet{one, two} {
		go func() {
			for range each {
				happen(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
			}
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seen []int64
	err := two.For(LocalCaller()).Events(ctx, event.Filter{}, true, func(e atoll.Event) error {
		if seen = append(seen, e.ID); len(seen) == 2*each {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || !slices.IsSorted(seen) || seen[0] != 1 || seen[len(seen)-1] != 2*each {
		t.Errorf("%d events, %v", len(seen), err)
	}
}

// TestServersCrash kills servers at random instants, of which two are at work at
// any time: what they had acknowledged is there, given to one, and what they had
// not is whole or gone.
func TestServersCrash(t *testing.T) {
	kills := testenv.Rounds(t, 5, 20, "ATOLL_CRASHES")
	s := newSite(t)
	t.Setenv(onPostgres, s.URL("public"))
	home := t.TempDir()
	f := openFleet(t, Options{Home: home})
	must(t, second(f.For(LocalCaller()).SetPool(t.Context(), atoll.Pool{Name: "p", Size: 4})))
	all := make(map[string]*told)
	var mu sync.Mutex
	var wg sync.WaitGroup
	left := make(chan struct{}, kills)
	for range kills {
		left <- struct{}{}
	}
	close(left)
	for range 2 {
		wg.Go(func() {
			for range left {
				if err := crashing(home, &mu, all, time.Duration(5+rand.IntN(400))*time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	settled(t, f)
	checkCrash(t, f, all)
	t.Logf("%d kills, %d sandboxes", kills, len(all))
}

// TestServersHaveTheSameTables compares the tables of the two kinds of registry.
func TestServersHaveTheSameTables(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file, base := testRegistry(t, t.TempDir()), s.server(t, nil).registry
	want, err := registry.Strings(t.Context(), file.DB, `select m.name || '.' || p.name from sqlite_master m join pragma_table_info(m.name) p
		where m.type = 'table' and m.name not like 'sqlite_%'`)
	must(t, err)
	got, err := registry.Strings(t.Context(), base.DB, `select table_name || '.' || column_name from information_schema.columns
		where table_schema = 'public' and table_name not in ('registry', 'instances', 'writes', 'sequences')`)
	must(t, err)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) < 90 {
		t.Errorf("%d columns in PostgreSQL, %d in a file:\n%v\n%v", len(got), len(want), got, want)
	}
}
