package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// runFleet runs the fleet until the test ends.
func runFleet(t testing.TB, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
}

// waitFor waits until a condition holds. There is no event for it.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	testenv.WaitFor(t, what, cond)
}

func getPool(t testing.TB, a *Account, name string) atoll.Pool {
	t.Helper()
	list, err := a.Pools(t.Context())
	must(t, err)
	for _, p := range list {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no pool %s", name)
	return atoll.Pool{}
}

func shellOutput(t testing.TB, sb atoll.Sandbox, script string) string {
	t.Helper()
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script})
	must(t, err)
	return string(exit.Stdout) + string(exit.Stderr)
}

func TestPool(t *testing.T) {
	f := openFleet(t, Options{})
	runFleet(t, f)
	a := f.Account(LocalCaller())
	p, err := a.SetPool(t.Context(), atoll.Pool{Name: "warm", Size: 2, Config: atoll.Config{
		Spec:    atoll.Spec{Env: []string{"A=pool", "B=pool"}, Labels: map[string]string{"from": "pool"}},
		Prepare: []atoll.Step{{Shell: "echo done >/prepared"}},
	}})
	must(t, err)
	if p.Config.Driver != "virtual" || p.Size != 2 || p.Created.IsZero() {
		t.Errorf("made %+v", p)
	}
	waitFor(t, "two are ready", func() bool { return getPool(t, a, "warm").Ready == 2 })
	if list, err := a.List(t.Context(), Filter{AllOwners: true}); err != nil || len(list) != 0 {
		t.Errorf("ready sandboxes are listed: %v, %v", list, err)
	}
	ready, err := f.queryRows(t.Context(), f.registry.DB, "pool = 'warm'")
	must(t, err)
	checkError(t, "open of one that is ready", errorOf(f.Account(Caller{Owner: poolOwner, Scopes: []atoll.Scope{atoll.ScopeRun}}).Open(t.Context(), ready[0].id)), atoll.ErrNotFound)

	u := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	sb, err := u.Create(t.Context(), atoll.Config{
		Spec: atoll.Spec{Name: "mine", Env: []string{"A=claim"}, Labels: map[string]string{"to": "me"}}, Pool: "warm",
		Secrets: map[string]string{"TOKEN": "s3cr3t-value"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent},
		Prepare: []atoll.Step{{Shell: `echo "$TOKEN" >/claimed`}},
	})
	must(t, err)
	if sb.ID() != ready[0].id && sb.ID() != ready[1].id {
		t.Errorf("%s was made new", sb.ID())
	}
	if got := shellOutput(t, sb, "cat /prepared /claimed; echo $A $B $TOKEN"); got != "done\ns3cr3t-value\nclaim pool s3cr3t-value\n" {
		t.Errorf("inside: %q", got)
	}
	info, err := sb.Info(t.Context())
	must(t, err)
	if info.Name != "mine" || info.Owner != u.caller.Owner || info.Labels["to"] != "me" || info.Labels["from"] != "pool" ||
		info.Config.Secrets["TOKEN"] != hidden || info.Config.Lifecycle.Policy != atoll.PolicyPersistent || info.State != atoll.Running {
		t.Errorf("info: %+v", info)
	}
	st, err := sb.Status(t.Context())
	if err != nil || st.Name != "mine" || st.Labels["to"] != "me" {
		t.Errorf("status: %+v, %v", st, err)
	}
	if h, err := sb.History(t.Context()); err != nil || strings.Contains(fmt.Sprint(h), "s3cr3t") {
		t.Errorf("history: %v, %v", h, err)
	}
	must(t, sb.Stop(t.Context()))
	must(t, sb.Start(t.Context()))
	if got := shellOutput(t, sb, "echo $A $TOKEN"); got != "claim s3cr3t-value\n" {
		t.Errorf("after a stop: %q", got)
	}
	fork, err := sb.Fork(t.Context(), "", atoll.Spec{Name: "fork"})
	must(t, err)
	if got := shellOutput(t, fork, "echo $A $TOKEN"); got != "claim s3cr3t-value\n" {
		t.Errorf("in a fork: %q", got)
	}
	checkError(t, "the name again", errorOf(u.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "mine"}, Pool: "warm"})), atoll.ErrExists)
	waitFor(t, "two are ready again", func() bool { return getPool(t, a, "warm").Ready == 2 })
	must(t, a.RemovePool(t.Context(), "warm"))
	checkError(t, "remove again", a.RemovePool(t.Context(), "warm"), atoll.ErrNotFound)
	checkError(t, "claim of none", errorOf(u.Create(t.Context(), atoll.Config{Pool: "warm"})), atoll.ErrInvalid)
	left, err := f.queryRows(t.Context(), f.registry.DB, "pool = 'warm' and state <> 'destroyed'")
	if err != nil || len(left) != 0 {
		t.Errorf("left of the pool: %v, %v", left, err)
	}
	if got := shellOutput(t, sb, "cat /prepared"); got != "done\n" {
		t.Errorf("removing the pool affects a claimed sandbox: %q", got)
	}
}

func TestPoolRefuses(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	u := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}})
	checkError(t, "set without the scope", errorOf(u.SetPool(t.Context(), atoll.Pool{Name: "p"})), atoll.ErrDenied)
	checkError(t, "remove without the scope", u.RemovePool(t.Context(), "p"), atoll.ErrDenied)
	_, err := a.SetPool(t.Context(), atoll.Pool{Name: "../p", Size: -1, Config: atoll.Config{
		Spec: atoll.Spec{Name: "x", ID: "y", Dir: "z"}, Secrets: map[string]string{"A": "b"}, Workspaces: []atoll.WorkspaceMount{{Workspace: "w"}},
		Lifecycle: atoll.Lifecycle{TTL: 1}, Pool: "q",
	}})
	checkError(t, "a bad pool", err, atoll.ErrInvalid)
	for _, part := range []string{"name:", "size -1", "config.name", "config.id", "config.secrets", "config.workspaces", "config.lifecycle", "config.pool", `dir "z"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("a bad pool: %v: does not name %s", err, part)
		}
	}
	must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Config: atoll.Config{Spec: atoll.Spec{Env: []string{"API_KEY=hide-me-please"}}}})))
	if p := getPool(t, u, "p"); strings.Contains(fmt.Sprint(p), "hide-me") {
		t.Errorf("others see the secrets of a pool: %+v", p)
	}
	_, err = u.Create(t.Context(), atoll.Config{Pool: "p", Spec: atoll.Spec{Dir: "/x", Limits: atoll.Resources{Memory: 1 << 30}}})
	checkError(t, "a claim that says what the pool says", err, atoll.ErrInvalid)
	if err == nil || !strings.Contains(err.Error(), "dir, limits") {
		t.Errorf("which fields: %v", err)
	}
	sb, err := u.Create(t.Context(), atoll.Config{Pool: "p", Workspaces: []atoll.WorkspaceMount{{Workspace: "w", Target: "/w"}}})
	must(t, err) // nothing is ready, and a ready one could not mount it: it is made new
	if got := shellOutput(t, sb, "echo hi >/w/f; echo $API_KEY"); got != "hide-me-please\n" {
		t.Errorf("inside: %q", got)
	}
	if got := readTestFile(t, reopenFiles(t, u, "w"), "/f"); got != "hi\n" {
		t.Errorf("in the workspace: %q", got)
	}
}

// TestConcurrentClaims makes more claims than there are ready sandboxes, from two
// fleets with the same home.
func TestConcurrentClaims(t *testing.T) {
	home := t.TempDir()
	fleets := [2]*Fleet{openFleet(t, Options{Home: home}), openFleet(t, Options{Home: home})}
	runFleet(t, fleets[0])
	a := fleets[0].Account(LocalCaller())
	must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 10})))
	waitFor(t, "ten are ready", func() bool { return getPool(t, a, "p").Ready == 10 })
	ready, err := fleets[0].queryRows(t.Context(), fleets[0].registry.DB, "pool = 'p' and state <> 'destroyed'")
	must(t, err)
	warm := map[string]bool{}
	for _, r := range ready {
		warm[r.id] = true
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for i := range 30 {
		wg.Go(func() {
			u := fleets[i%2].Account(Caller{Owner: atoll.Owner{App: "app", User: fmt.Sprint("u", i)}, Scopes: []atoll.Scope{atoll.ScopeRun}})
			sb, err := u.Create(context.Background(), atoll.Config{Pool: "p", Spec: atoll.Spec{Name: "same"}})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			seen[sb.ID()]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(seen) != 30 {
		t.Errorf("%d sandboxes for 30 claims", len(seen))
	}
	taken := 0
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
		if warm[id] {
			taken++
		}
	}
	if taken != 10 {
		t.Errorf("%d of the 10 that were ready were claimed, the oldest first", taken)
	}
}

// TestPoolConfigurationChanges: a change of the pool replaces its ready sandboxes.
func TestPoolConfigurationChanges(t *testing.T) {
	f := openFleet(t, Options{})
	runFleet(t, f)
	a := f.Account(LocalCaller())
	set := func(v string, size int) {
		must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: size, Config: atoll.Config{Spec: atoll.Spec{Env: []string{"V=" + v}}}})))
	}
	rows := func() []row {
		list, err := f.queryRows(t.Context(), f.registry.DB, "pool = 'p' and state <> 'destroyed'")
		must(t, err)
		return list
	}
	set("1", 3)
	waitFor(t, "three are ready", func() bool { return getPool(t, a, "p").Ready == 3 })
	set("2", 3)
	sb, err := a.Create(t.Context(), atoll.Config{Pool: "p"})
	must(t, err)
	if got := shellOutput(t, sb, "echo $V"); got != "2\n" {
		t.Errorf("a claim got one of the old configuration: %q", got)
	}
	waitFor(t, "three of the new are ready, and no other", func() bool { return getPool(t, a, "p").Ready == 3 && len(rows()) == 3 })
	set("2", 1)
	waitFor(t, "one is left", func() bool { return len(rows()) == 1 })
}

// TestPoolKeepsQuota: a claim gets no more than a new sandbox would get.
func TestPoolKeepsQuota(t *testing.T) {
	f := openFleet(t, Options{})
	runFleet(t, f)
	a := f.Account(LocalCaller())
	must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 2})))
	waitFor(t, "two are ready", func() bool { return getPool(t, a, "p").Ready == 2 })
	o := atoll.Owner{App: "app", User: "u"}
	u := f.Account(Caller{Owner: o, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	must(t, a.SetQuota(t.Context(), o, atoll.Quota{Sandboxes: 1}))
	sb, err := u.Create(t.Context(), atoll.Config{Pool: "p"})
	must(t, err)
	checkError(t, "one too many", errorOf(u.Create(t.Context(), atoll.Config{Pool: "p"})), atoll.ErrQuota)
	must(t, sb.Destroy(t.Context()))
	must(t, a.SetQuota(t.Context(), o, atoll.Quota{Disk: 1 << 20}))
	sb, err = u.Create(t.Context(), atoll.Config{Pool: "p"})
	must(t, err)
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "head -c 2000000 /dev/zero >/big"}); err == nil && exit.Success() {
		t.Error("a claim is larger than the owner's disk")
	}
}

// failingDriver fails to create sandboxes while a flag is set.
type failingDriver struct {
	atoll.Driver
	broken atomic.Bool
	tries  atomic.Int64
}

var errBrittle = errors.New("the machine is on fire, its password is hunter2-hunter2")

func (d *failingDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	d.tries.Add(1)
	if d.broken.Load() {
		return nil, errBrittle
	}
	return d.Driver.Create(ctx, spec)
}

func TestPoolCannotBeFilled(t *testing.T) {
	testenv.Logic(t)
	home := t.TempDir()
	d := &failingDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
	d.broken.Store(true)
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	runFleet(t, f)
	a := f.Account(LocalCaller())
	must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 3, Config: atoll.Config{Spec: atoll.Spec{Env: []string{"PASSWORD=hunter2-hunter2"}}}})))
	waitFor(t, "the error is noted", func() bool { return strings.Contains(getPool(t, a, "p").Error, "on fire") })
	if p := getPool(t, a, "p"); strings.Contains(p.Error, "hunter2") || p.Ready != 0 {
		t.Errorf("the pool: %+v", p)
	}
	d.broken.Store(false)
	waitFor(t, "it is filled later", func() bool { p := getPool(t, a, "p"); return p.Ready == 3 && p.Error == "" })
}

// TestPoolRetriesMoreAndMoreSlowly checks that the time between two tries to fill a pool doubles
// with each failure, up to maxFillRetry.
func TestPoolRetriesMoreAndMoreSlowly(t *testing.T) {
	var d *failingDriver
	breaks := func(home string) atoll.Driver {
		d = &failingDriver{Driver: newDriverOnDisk(home)}
		d.broken.Store(true)
		return d
	}
	runWithFakeClock(t, breaks, func(t *testing.T, f *Fleet) {
		a := f.Account(LocalCaller())
		must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 3})))
		advance(time.Minute)
		if n := d.tries.Load(); n < 5 || n > 10 { // 3 at once, then after 4, 12, 28 and 60 s, or sooner if fewer had failed
			t.Errorf("%d tries in the first minute", n)
		}
		advance(time.Hour)
		before := d.tries.Load()
		advance(time.Hour)
		if n := d.tries.Load() - before; n != int64(time.Hour/maxFillRetry) {
			t.Errorf("%d tries in a later hour", n)
		}
		d.broken.Store(false)
		advance(maxFillRetry)
		if p := getPool(t, a, "p"); p.Ready != 3 || p.Error != "" {
			t.Errorf("once the driver works again: %+v", p)
		}
	})
}

func BenchmarkClaim(b *testing.B) {
	f := openFleet(b, Options{})
	runFleet(b, f)
	a := f.Account(LocalCaller())
	must(b, errorOf(a.SetPool(b.Context(), atoll.Pool{Name: "p", Size: 100})))
	for b.Loop() {
		b.StopTimer()
		waitFor(b, "some are ready", func() bool { return getPool(b, a, "p").Ready > 90 })
		b.StartTimer()
		sb, err := a.Create(b.Context(), atoll.Config{Pool: "p"})
		b.StopTimer()
		must(b, err)
		must(b, sb.Destroy(b.Context()))
		b.StartTimer()
	}
}

func BenchmarkCreateCold(b *testing.B) {
	f := openFleet(b, Options{})
	a := f.Account(LocalCaller())
	for b.Loop() {
		sb, err := a.Create(b.Context(), atoll.Config{})
		b.StopTimer()
		must(b, err)
		must(b, sb.Destroy(b.Context()))
		b.StartTimer()
	}
}

// TestClaimWithFailingSteps: a failed claim leaves nothing, and the pool's other
// sandboxes stay.
func TestClaimWithFailingSteps(t *testing.T) {
	f := openFleet(t, Options{})
	runFleet(t, f)
	a := f.Account(LocalCaller())
	must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 1})))
	waitFor(t, "one is ready", func() bool { return getPool(t, a, "p").Ready == 1 })
	ready, err := f.queryRow(t.Context(), f.registry.DB, "pool = 'p'")
	must(t, err)
	_, err = a.Create(t.Context(), atoll.Config{Pool: "p", Spec: atoll.Spec{Name: "x"}, Prepare: []atoll.Step{{Shell: "echo reason >&2; exit 4"}}})
	checkError(t, "create", err, atoll.ErrInvalid)
	if err == nil || !strings.Contains(err.Error(), "exit status 4: reason") {
		t.Errorf("%v: does not say why", err)
	}
	if list, err := a.List(t.Context(), Filter{}); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	checkError(t, "the driver's sandbox", errorOf(f.opts.Drivers[0].Open(t.Context(), ready.id)), atoll.ErrNotFound)
	waitFor(t, "another is ready", func() bool { return getPool(t, a, "p").Ready == 1 })
	sb, err := a.Create(t.Context(), atoll.Config{Pool: "p", Spec: atoll.Spec{Name: "x"}, Prepare: []atoll.Step{{Shell: "echo fine >/x"}}})
	must(t, err)
	if got := shellOutput(t, sb, "cat /x"); got != "fine\n" {
		t.Errorf("inside: %q", got)
	}
}

// TestPoolOutlivesProcess claims sandboxes in a second process that the first has made
// ready, and reconciles a claim during which the first process died.
func TestPoolOutlivesProcess(t *testing.T) {
	home := t.TempDir()
	opts := func() Options {
		return Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}}
	}
	f, err := Open(t.Context(), withPostgres(opts()))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	a := f.Account(LocalCaller())
	must(t, errorOf(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 2})))
	waitFor(t, "two are ready", func() bool { return getPool(t, a, "p").Ready == 2 })
	cancel()
	must(t, <-done)
	ready, err := f.queryRows(t.Context(), f.registry.DB, "pool = 'p' order by created")
	must(t, err)
	must(t, errorOf(f.changeRow(t.Context(), ready[0].id, func(tx *sql.Tx, r *row) error { // it dies while it does the steps of a claim
		r.holder, r.goal = f.member.ID(), goalCreate
		return f.saveRow(t.Context(), tx, r)
	})))
	closeFleet(t, f)

	g := openFleet(t, opts())
	b := g.Account(LocalCaller())
	must(t, g.Reconcile(t.Context()))
	checkError(t, "the half claimed one", errorOf(g.opts.Drivers[0].Open(t.Context(), ready[0].id)), atoll.ErrNotFound)
	sb, err := b.Create(t.Context(), atoll.Config{Pool: "p", Secrets: map[string]string{"T": "tttttt"}})
	must(t, err)
	if sb.ID() != ready[1].id {
		t.Errorf("%s was made new: want the ready %s", sb.ID(), ready[1].id)
	}
	if got := shellOutput(t, sb, "echo $T"); got != "tttttt\n" {
		t.Errorf("inside: %q", got)
	}
	closeFleet(t, g)
	h := openFleet(t, opts())
	again, err := h.Account(LocalCaller()).Open(t.Context(), sb.ID())
	must(t, err)
	if got := shellOutput(t, again, "echo $T"); got != "tttttt\n" {
		t.Errorf("in a third process: %q", got)
	}
}
