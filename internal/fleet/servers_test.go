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

// serverGroup has a PostgreSQL server and a directory of sandboxes that several servers
// share.
type serverGroup struct {
	*pgtest.Cluster

	dir string
}

func newServerGroup(t *testing.T) *serverGroup {
	t.Helper()
	if os.Getenv(postgresVar) != "" {
		t.Skip("it has a PostgreSQL of its own")
	}
	return &serverGroup{startPostgres(t), t.TempDir()}
}

// newOptions returns the options of a server with its own home; all share the
// sandboxes.
func (s *serverGroup) newOptions(home string) Options {
	d := &virtual.Driver{Dir: filepath.Join(s.dir, "sandboxes")}
	return Options{Home: home, Registry: s.URL("public"), oneHost: true, Drivers: []atoll.Driver{d}, lease: testLease}
}

// startServer opens a fleet with a new home and the common directory of workspaces.
func (s *serverGroup) startServer(t *testing.T, change func(*Options)) *Fleet {
	t.Helper()
	home := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(s.dir, "workspaces"), 0o700))
	must(t, os.Symlink(filepath.Join(s.dir, "workspaces"), filepath.Join(home, "workspaces")))
	opts := s.newOptions(home)
	if change != nil {
		change(&opts)
	}
	return openFleet(t, opts)
}

// exec runs an SQL statement outside of the fleets.
func (s *serverGroup) exec(t *testing.T, text string, args ...any) {
	t.Helper()
	db, err := registry.OpenDB(s.URL("public"))
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), text, args...)
	must(t, err)
}

// runServer begins the Run of a server, and returns its end.
func runServer(t *testing.T, f *Fleet) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { done <- f.Run(ctx) }()
	return done
}

func isLeader(t *testing.T, f *Fleet) bool {
	t.Helper()
	yes := false
	err := f.registry.DB.QueryRowContext(t.Context(), "select leads and not fenced from instances where id = ?", f.member.ID()).Scan(&yes)
	return err == nil && yes
}

// breakableProxy forwards connections of one server to the database and can stall them:
// then no data passes, and neither end gets an error.
type breakableProxy struct {
	dir string
	l   net.Listener

	mu     sync.Mutex
	healed chan struct{} // closed unless connections are stalled; guarded by mu
}

func newBreakableProxy(t *testing.T, s *serverGroup) *breakableProxy {
	t.Helper()
	w := &breakableProxy{dir: s.dir, healed: make(chan struct{})}
	close(w.healed)
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
			go w.forwardConn(c, to)
		}
	}()
	return w
}

func (w *breakableProxy) forwardConn(c net.Conn, to string) {
	w.waitForRepair()
	d, err := net.Dial("unix", to)
	if err != nil {
		_ = c.Close()
		return
	}
	go w.copyBytes(c, d)
	w.copyBytes(d, c)
}

func (w *breakableProxy) copyBytes(to, from net.Conn) {
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		w.waitForRepair()
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

// waitForRepair waits while connections are stalled.
func (w *breakableProxy) waitForRepair() {
	w.mu.Lock()
	whole := w.healed
	w.mu.Unlock()
	<-whole
}

// stallConnections stops all data until heal is called.
func (w *breakableProxy) stallConnections() (heal func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole := make(chan struct{})
	w.healed = whole
	return func() { close(whole) }
}

func TestServersShareOneFleet(t *testing.T) {
	t.Parallel()
	s := newServerGroup(t)
	one, two := s.startServer(t, nil), s.startServer(t, nil)
	a, b := one.Account(LocalCaller()), two.Account(LocalCaller())

	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "web"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}, Workspaces: []atoll.WorkspaceMount{{Workspace: "w"}}})
	other, err := b.Open(t.Context(), "web")
	must(t, err)
	must(t, errorOf(other.Exec(t.Context(), atoll.Cmd{Shell: "echo hi > /n"})))
	must(t, sb.Stop(t.Context()))
	waitFor(t, "the other knows that it is stopped", func() bool {
		return errors.Is(execError(other), atoll.ErrState)
	})
	if _, err := b.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "web"}}); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a second of that name: %v", err)
	}

	tok := mustToken(t, a, atoll.Token{Name: "t", Scopes: []atoll.Scope{atoll.ScopeRun}})
	must(t, errorOf(two.Authenticate(t.Context(), tok.Secret)))
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
	opts := (&serverGroup{&pgtest.Cluster{}, t.TempDir()}).newOptions(t.TempDir())
	opts.oneHost = false
	if _, err := Open(t.Context(), opts); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}

// TestServersFailOver: a leader that lost its lease writes nothing and ends, and
// another server takes over and reconciles its unfinished work.
func TestServersFailOver(t *testing.T) {
	t.Parallel()
	s := newServerGroup(t)
	w := newBreakableProxy(t, s)
	two := s.startServer(t, nil)
	opts := s.newOptions(t.TempDir())
	opts.Registry = (&url.URL{Scheme: "postgres", User: url.User("atoll"), Path: "/postgres", RawQuery: "host=" + w.dir + "&search_path=public"}).String()
	one, err := Open(t.Context(), opts)
	must(t, err)
	ended := runServer(t, one)
	waitFor(t, "the first leads", func() bool { return isLeader(t, one) })
	runServer(t, two)
	half := mustCreate(t, one.Account(LocalCaller()), persistentConfig())
	forceRow(t, one, half.ID(), func(r *row) {
		r.state, r.holder, r.goal = atoll.Stopping, one.member.ID(), "stop"
	})
	due := mustCreate(t, two.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{TTL: 2 * testLease}})
	heal := w.stallConnections()
	var renewed string // when the first has renewed its lease for the last time, by the clock of the database
	must(t, two.registry.DB.QueryRowContext(t.Context(), "select cast(seen as text) from instances where id = ?", one.member.ID()).Scan(&renewed))
	waitFor(t, "the second leads", func() bool { return isLeader(t, two) })
	expired := false
	must(t, two.registry.DB.QueryRowContext(t.Context(), "select clock_timestamp() > cast(? as timestamptz) + make_interval(secs => ?)", renewed, testLease.Seconds()).Scan(&expired))
	if !expired {
		t.Errorf("it led before the lease was over")
	}
	heal()
	if _, err := one.Account(LocalCaller()).Create(t.Context(), persistentConfig()); !errors.Is(err, atoll.ErrUnavailable) || !errors.Is(err, registry.ErrFenced) {
		t.Errorf("create by one that was taken for dead: %v", err)
	}
	waitFor(t, "what it was doing is settled", func() bool { return readRow(t, two, half.ID()).state == atoll.Running })
	waitFor(t, "what is due is ended by the second", func() bool { return readRow(t, two, due.ID()).state == atoll.Destroyed })
	select {
	case err := <-ended:
		if !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("Run of the first ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Run of the first does not return")
	}
	_ = one.Close(t.Context()) // it could not write all
}

// TestServersStopLeadingInTime: a leader whose registry does not answer stops leading
// before another may start, and leads again when the registry is back.
func TestServersStopLeadingInTime(t *testing.T) {
	t.Parallel()
	s := newServerGroup(t)
	f := s.startServer(t, nil)
	led, resign, err := f.member.Lead(t.Context())
	must(t, err)
	must(t, s.Down(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 2*testLease) // the machine may be busy
	defer cancel()
	select {
	case <-led.Done():
	case <-ctx.Done():
		t.Error("it leads on after twice its lease")
	}
	if _, err := f.Account(LocalCaller()).List(t.Context(), Filter{}); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("list without a registry: %v", err)
	}
	must(t, resign())
	must(t, s.Up(t.Context()))
	_, resign, err = f.member.Lead(t.Context())
	must(t, err)
	must(t, resign())
}

// TestServersUseDatabaseClock: a server whose clock is an hour ahead ends no sandbox
// that was just used, and its rows have the database's time.
func TestServersUseDatabaseClock(t *testing.T) {
	t.Parallel()
	s := newServerGroup(t)
	right := s.startServer(t, nil)
	wrong := s.startServer(t, func(o *Options) { o.hostClock = func() time.Time { return time.Now().Add(time.Hour) } })
	slow := s.startServer(t, func(o *Options) { o.hostClock = func() time.Time { return time.Now().Add(-time.Hour) } })
	runServer(t, wrong)
	waitFor(t, "the wrong one leads", func() bool { return isLeader(t, wrong) })
	for _, f := range []*Fleet{right, wrong, slow} {
		before := time.Now()
		now := f.now()
		if after := time.Now(); now.Before(before.Add(-time.Second)) || now.After(after.Add(time.Second)) {
			t.Errorf("its now is %v, between %v and %v", now, before, after)
		}
	}
	sb := mustCreate(t, right.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{Idle: 10 * time.Minute}})
	late := mustCreate(t, slow.Account(LocalCaller()), atoll.Config{Lifecycle: atoll.Lifecycle{TTL: time.Second}})
	waitFor(t, "what is due is ended", func() bool { return readRow(t, right, late.ID()).state == atoll.Destroyed })
	must(t, wrong.ExpireSandboxes(t.Context()))
	if r := readRow(t, right, sb.ID()); r.state != atoll.Running {
		t.Errorf("what was in use is %s", r.state)
	}
	tok := mustToken(t, slow.Account(LocalCaller()), atoll.Token{Name: "t", Scopes: []atoll.Scope{atoll.ScopeRead}, Expires: time.Now().Add(time.Minute)})
	must(t, errorOf(wrong.Authenticate(t.Context(), tok.Secret)))
}

// TestServersClaimOnce: two servers claim from one pool at once, and no sandbox is
// claimed twice.
func TestServersClaimOnce(t *testing.T) {
	t.Parallel()
	s := newServerGroup(t)
	one, two := s.startServer(t, nil), s.startServer(t, nil)
	runServer(t, one)
	must(t, errorOf(one.Account(LocalCaller()).SetPool(t.Context(), atoll.Pool{Name: "p", Size: 20})))
	waitFor(t, "the pool is full", func() bool {
		list, err := two.Account(LocalCaller()).Pools(t.Context())
		return err == nil && len(list) == 1 && list[0].Ready == 20
	})
	got := make(chan string, 40)
	for i := range 40 {
		a := []*Fleet{one, two}[i%2].Account(LocalCaller())
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

// TestServersEventsAreInOrder: a client of one server gets the events of the other,
// each once and in order.
func TestServersEventsAreInOrder(t *testing.T) {
	t.Parallel()
	s := newServerGroup(t)
	one, two := s.startServer(t, nil), s.startServer(t, nil)
	const each = 200
	for _, f := range []*Fleet{one, two} {
		go func() {
			for range each {
				emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
			}
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seen []int64
	err := two.Account(LocalCaller()).Events(ctx, event.Filter{}, true, func(e atoll.Event) error {
		if seen = append(seen, e.ID); len(seen) == 2*each {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || !slices.IsSorted(seen) || seen[0] != 1 || seen[len(seen)-1] != 2*each {
		t.Errorf("%d events, %v", len(seen), err)
	}
}

// TestServersCrash kills servers at random times while two are running. Acknowledged
// sandboxes must be kept and claimed once, others must be complete or not exist.
func TestServersCrash(t *testing.T) {
	kills := testenv.Rounds(t, 5, 20, "ATOLL_CRASHES")
	s := newServerGroup(t)
	t.Setenv(postgresVar, s.URL("public"))
	home := t.TempDir()
	f := openFleet(t, Options{Home: home})
	must(t, errorOf(f.Account(LocalCaller()).SetPool(t.Context(), atoll.Pool{Name: "p", Size: 4})))
	all := make(map[string]*reportedSandbox)
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
				if err := runAndKillChild(home, &mu, all, time.Duration(5+rand.IntN(400))*time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	waitUntilReconciled(t, f)
	checkAfterCrash(t, f, all)
	t.Logf("%d kills, %d sandboxes", kills, len(all))
}

// TestServersHaveSameTables compares the tables of the two kinds of registry.
func TestServersHaveSameTables(t *testing.T) {
	t.Parallel()
	s := newServerGroup(t)
	file, base := testRegistry(t, t.TempDir()), s.startServer(t, nil).registry
	want, err := registry.QueryStrings(t.Context(), file.DB, `select m.name || '.' || p.name from sqlite_master m join pragma_table_info(m.name) p
		where m.type = 'table' and m.name not like 'sqlite_%'`)
	must(t, err)
	got, err := registry.QueryStrings(t.Context(), base.DB, `select table_name || '.' || column_name from information_schema.columns
		where table_schema = 'public' and table_name not in ('registry', 'instances', 'writes', 'sequences')`)
	must(t, err)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) < 90 {
		t.Errorf("%d columns in PostgreSQL, %d in a file:\n%v\n%v", len(got), len(want), got, want)
	}
}
