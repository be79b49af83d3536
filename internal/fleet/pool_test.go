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

// running runs the fleet until the test ends.
func running(t testing.TB, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
}

// eventually waits until a condition holds. What it waits for happens in
// goroutines of the fleet, which tell nobody.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	testenv.WaitFor(t, what, cond)
}

func poolOf(t testing.TB, a *Account, name string) atoll.Pool {
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

func said(t testing.TB, sb atoll.Sandbox, script string) string {
	t.Helper()
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script})
	must(t, err)
	return string(exit.Stdout) + string(exit.Stderr)
}

func TestPool(t *testing.T) {
	f := openFleet(t, Options{})
	running(t, f)
	a := f.For(LocalCaller())
	p, err := a.SetPool(t.Context(), atoll.Pool{Name: "warm", Size: 2, Config: atoll.Config{
		Spec:    atoll.Spec{Env: []string{"A=pool", "B=pool"}, Labels: map[string]string{"from": "pool"}},
		Prepare: []atoll.Step{{Shell: "echo done >/prepared"}},
	}})
	must(t, err)
	if p.Config.Driver != "virtual" || p.Size != 2 || p.Created.IsZero() {
		t.Errorf("made %+v", p)
	}
	eventually(t, "two are ready", func() bool { return poolOf(t, a, "warm").Ready == 2 })
	if list, err := a.List(t.Context(), Filter{AllOwners: true}); err != nil || len(list) != 0 {
		t.Errorf("who is ready is listed: %v, %v", list, err)
	}
	ready, err := queryRows(t.Context(), f.registry.DB, "pool = 'warm'")
	must(t, err)
	want(t, "open of one that is ready", second(f.For(Caller{Owner: poolOwner, Scopes: []atoll.Scope{atoll.ScopeRun}}).Open(t.Context(), ready[0].id)), atoll.ErrNotFound)

	u := f.For(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	sb, err := u.Create(t.Context(), atoll.Config{
		Spec: atoll.Spec{Name: "mine", Env: []string{"A=claim"}, Labels: map[string]string{"to": "me"}}, Pool: "warm",
		Secrets: map[string]string{"TOKEN": "s3cr3t-value"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent},
		Prepare: []atoll.Step{{Shell: `echo "$TOKEN" >/claimed`}},
	})
	must(t, err)
	if sb.ID() != ready[0].id && sb.ID() != ready[1].id {
		t.Errorf("%s was made new", sb.ID())
	}
	if got := said(t, sb, "cat /prepared /claimed; echo $A $B $TOKEN"); got != "done\ns3cr3t-value\nclaim pool s3cr3t-value\n" {
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
	if got := said(t, sb, "echo $A $TOKEN"); got != "claim s3cr3t-value\n" {
		t.Errorf("after a stop: %q", got)
	}
	fork, err := sb.Fork(t.Context(), "", atoll.Spec{Name: "fork"})
	must(t, err)
	if got := said(t, fork, "echo $A $TOKEN"); got != "claim s3cr3t-value\n" {
		t.Errorf("in a fork: %q", got)
	}
	want(t, "the name again", second(u.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "mine"}, Pool: "warm"})), atoll.ErrExists)
	eventually(t, "two are ready again", func() bool { return poolOf(t, a, "warm").Ready == 2 })
	must(t, a.RemovePool(t.Context(), "warm"))
	want(t, "remove again", a.RemovePool(t.Context(), "warm"), atoll.ErrNotFound)
	want(t, "claim of none", second(u.Create(t.Context(), atoll.Config{Pool: "warm"})), atoll.ErrInvalid)
	left, err := queryRows(t.Context(), f.registry.DB, "pool = 'warm' and state <> 'destroyed'")
	if err != nil || len(left) != 0 {
		t.Errorf("left of the pool: %v, %v", left, err)
	}
	if got := said(t, sb, "cat /prepared"); got != "done\n" {
		t.Errorf("who was claimed is hit by the pool's end: %q", got)
	}
}

func TestPoolRefuses(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.For(LocalCaller())
	u := f.For(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}})
	want(t, "set without the scope", second(u.SetPool(t.Context(), atoll.Pool{Name: "p"})), atoll.ErrDenied)
	want(t, "remove without the scope", u.RemovePool(t.Context(), "p"), atoll.ErrDenied)
	_, err := a.SetPool(t.Context(), atoll.Pool{Name: "../p", Size: -1, Config: atoll.Config{
		Spec: atoll.Spec{Name: "x", ID: "y", Dir: "z"}, Secrets: map[string]string{"A": "b"}, Workspaces: []atoll.WorkspaceMount{{Workspace: "w"}},
		Lifecycle: atoll.Lifecycle{TTL: 1}, Pool: "q",
	}})
	want(t, "a bad pool", err, atoll.ErrInvalid)
	for _, part := range []string{"name:", "size -1", "config.name", "config.id", "config.secrets", "config.workspaces", "config.lifecycle", "config.pool", `dir "z"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("a bad pool: %v: says nothing of %s", err, part)
		}
	}
	must(t, second(a.SetPool(t.Context(), atoll.Pool{Name: "p", Config: atoll.Config{Spec: atoll.Spec{Env: []string{"API_KEY=hide-me-please"}}}})))
	if p := poolOf(t, u, "p"); strings.Contains(fmt.Sprint(p), "hide-me") {
		t.Errorf("others see the secrets of a pool: %+v", p)
	}
	_, err = u.Create(t.Context(), atoll.Config{Pool: "p", Spec: atoll.Spec{Dir: "/x", Limits: atoll.Resources{Memory: 1 << 30}}})
	want(t, "a claim that says what the pool says", err, atoll.ErrInvalid)
	if err == nil || !strings.Contains(err.Error(), "dir, limits") {
		t.Errorf("which fields: %v", err)
	}
	sb, err := u.Create(t.Context(), atoll.Config{Pool: "p", Workspaces: []atoll.WorkspaceMount{{Workspace: "w", Target: "/w"}}})
	must(t, err) // nothing is ready, and a ready one could not mount it: it is made new
	if got := said(t, sb, "echo hi >/w/f; echo $API_KEY"); got != "hide-me-please\n" {
		t.Errorf("inside: %q", got)
	}
	if got := get(t, reopen(t, u, "w"), "/f"); got != "hi\n" {
		t.Errorf("in the workspace: %q", got)
	}
}

// TestClaimsAtOnce has more claims than ready sandboxes, from two fleets that
// share a home.
func TestClaimsAtOnce(t *testing.T) {
	home := t.TempDir()
	fleets := [2]*Fleet{openFleet(t, Options{Home: home}), openFleet(t, Options{Home: home})}
	running(t, fleets[0])
	a := fleets[0].For(LocalCaller())
	must(t, second(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 10})))
	eventually(t, "ten are ready", func() bool { return poolOf(t, a, "p").Ready == 10 })
	ready, err := queryRows(t.Context(), fleets[0].registry.DB, "pool = 'p' and state <> 'destroyed'")
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
			u := fleets[i%2].For(Caller{Owner: atoll.Owner{App: "app", User: fmt.Sprint("u", i)}, Scopes: []atoll.Scope{atoll.ScopeRun}})
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

// TestPoolOfAnotherConfiguration replaces what is ready when the pool changes.
func TestPoolOfAnotherConfiguration(t *testing.T) {
	f := openFleet(t, Options{})
	running(t, f)
	a := f.For(LocalCaller())
	set := func(v string, size int) {
		must(t, second(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: size, Config: atoll.Config{Spec: atoll.Spec{Env: []string{"V=" + v}}}})))
	}
	rows := func() []row {
		list, err := queryRows(t.Context(), f.registry.DB, "pool = 'p' and state <> 'destroyed'")
		must(t, err)
		return list
	}
	set("1", 3)
	eventually(t, "three are ready", func() bool { return poolOf(t, a, "p").Ready == 3 })
	set("2", 3)
	sb, err := a.Create(t.Context(), atoll.Config{Pool: "p"})
	must(t, err)
	if got := said(t, sb, "echo $V"); got != "2\n" {
		t.Errorf("a claim got one of the old configuration: %q", got)
	}
	eventually(t, "three of the new are ready, and no other", func() bool { return poolOf(t, a, "p").Ready == 3 && len(rows()) == 3 })
	set("2", 1)
	eventually(t, "one is left", func() bool { return len(rows()) == 1 })
}

// TestPoolKeepsQuota gives a claim no more than a new sandbox would get.
func TestPoolKeepsQuota(t *testing.T) {
	f := openFleet(t, Options{})
	running(t, f)
	a := f.For(LocalCaller())
	must(t, second(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 2})))
	eventually(t, "two are ready", func() bool { return poolOf(t, a, "p").Ready == 2 })
	o := atoll.Owner{App: "app", User: "u"}
	u := f.For(Caller{Owner: o, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	must(t, a.SetQuota(t.Context(), o, atoll.Quota{Sandboxes: 1}))
	sb, err := u.Create(t.Context(), atoll.Config{Pool: "p"})
	must(t, err)
	want(t, "one too many", second(u.Create(t.Context(), atoll.Config{Pool: "p"})), atoll.ErrQuota)
	must(t, sb.Destroy(t.Context()))
	must(t, a.SetQuota(t.Context(), o, atoll.Quota{Disk: 1 << 20}))
	sb, err = u.Create(t.Context(), atoll.Config{Pool: "p"})
	must(t, err)
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "head -c 2000000 /dev/zero >/big"}); err == nil && exit.Success() {
		t.Error("a claim is larger than the owner's disk")
	}
}

// brittle is a driver that fails to create sandboxes while a flag is set.
type brittle struct {
	atoll.Driver
	broken atomic.Bool
	tries  atomic.Int64
}

var errBrittle = errors.New("the machine is on fire, its password is hunter2-hunter2")

func (d *brittle) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	d.tries.Add(1)
	if d.broken.Load() {
		return nil, errBrittle
	}
	return d.Driver.Create(ctx, spec)
}

func TestPoolThatCantBeFilled(t *testing.T) {
	home := t.TempDir()
	d := &brittle{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
	d.broken.Store(true)
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	running(t, f)
	a := f.For(LocalCaller())
	must(t, second(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 3, Config: atoll.Config{Spec: atoll.Spec{Env: []string{"PASSWORD=hunter2-hunter2"}}}})))
	eventually(t, "the error is noted", func() bool { return strings.Contains(poolOf(t, a, "p").Error, "on fire") })
	if p := poolOf(t, a, "p"); strings.Contains(p.Error, "hunter2") || p.Ready != 0 {
		t.Errorf("the pool: %+v", p)
	}
	d.broken.Store(false)
	eventually(t, "it is filled later", func() bool { p := poolOf(t, a, "p"); return p.Ready == 3 && p.Error == "" })
}

// TestPoolRetriesMoreAndMoreSlowly checks that the time between two tries to fill a pool doubles
// with each failure, up to maxFillRetry.
func TestPoolRetriesMoreAndMoreSlowly(t *testing.T) {
	var d *brittle
	breaks := func(home string) atoll.Driver {
		d = &brittle{Driver: onDisk(home)}
		d.broken.Store(true)
		return d
	}
	clocked(t, breaks, func(t *testing.T, f *Fleet) {
		a := f.For(LocalCaller())
		must(t, second(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 3})))
		pass(time.Minute)
		if n := d.tries.Load(); n < 5 || n > 10 { // 3 at once, then after 4, 12, 28 and 60 s, or sooner if fewer had failed
			t.Errorf("%d tries in the first minute", n)
		}
		pass(time.Hour)
		before := d.tries.Load()
		pass(time.Hour)
		if n := d.tries.Load() - before; n != int64(time.Hour/maxFillRetry) {
			t.Errorf("%d tries in a later hour", n)
		}
		d.broken.Store(false)
		pass(maxFillRetry)
		if p := poolOf(t, a, "p"); p.Ready != 3 || p.Error != "" {
			t.Errorf("once the driver works again: %+v", p)
		}
	})
}

func BenchmarkClaim(b *testing.B) {
	f := openFleet(b, Options{})
	running(b, f)
	a := f.For(LocalCaller())
	must(b, second(a.SetPool(b.Context(), atoll.Pool{Name: "p", Size: 100})))
	for b.Loop() {
		b.StopTimer()
		eventually(b, "some are ready", func() bool { return poolOf(b, a, "p").Ready > 90 })
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
	a := f.For(LocalCaller())
	for b.Loop() {
		sb, err := a.Create(b.Context(), atoll.Config{})
		b.StopTimer()
		must(b, err)
		must(b, sb.Destroy(b.Context()))
		b.StartTimer()
	}
}

// TestClaimWhoseStepsFail leaves nothing, and the pool its others.
func TestClaimWhoseStepsFail(t *testing.T) {
	f := openFleet(t, Options{})
	running(t, f)
	a := f.For(LocalCaller())
	must(t, second(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 1})))
	eventually(t, "one is ready", func() bool { return poolOf(t, a, "p").Ready == 1 })
	ready, err := queryRow(t.Context(), f.registry.DB, "pool = 'p'")
	must(t, err)
	_, err = a.Create(t.Context(), atoll.Config{Pool: "p", Spec: atoll.Spec{Name: "x"}, Prepare: []atoll.Step{{Shell: "echo reason >&2; exit 4"}}})
	want(t, "create", err, atoll.ErrInvalid)
	if err == nil || !strings.Contains(err.Error(), "exit status 4: reason") {
		t.Errorf("%v: does not say why", err)
	}
	if list, err := a.List(t.Context(), Filter{}); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	want(t, "the driver's sandbox", second(f.opts.Drivers[0].Open(t.Context(), ready.id)), atoll.ErrNotFound)
	eventually(t, "another is ready", func() bool { return poolOf(t, a, "p").Ready == 1 })
	sb, err := a.Create(t.Context(), atoll.Config{Pool: "p", Spec: atoll.Spec{Name: "x"}, Prepare: []atoll.Step{{Shell: "echo fine >/x"}}})
	must(t, err)
	if got := said(t, sb, "cat /x"); got != "fine\n" {
		t.Errorf("inside: %q", got)
	}
}

// TestPoolOutlivesProcess claims in a second process what the first made ready,
// and settles a claim that the first died in.
func TestPoolOutlivesProcess(t *testing.T) {
	home := t.TempDir()
	opts := func() Options {
		return Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}}
	}
	f, err := Open(t.Context(), placed(opts()))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	a := f.For(LocalCaller())
	must(t, second(a.SetPool(t.Context(), atoll.Pool{Name: "p", Size: 2})))
	eventually(t, "two are ready", func() bool { return poolOf(t, a, "p").Ready == 2 })
	cancel()
	must(t, <-done)
	ready, err := queryRows(t.Context(), f.registry.DB, "pool = 'p' order by created")
	must(t, err)
	must(t, second(f.changeRow(t.Context(), ready[0].id, func(tx *sql.Tx, r *row) error { // it dies while it does the steps of a claim
		r.holder, r.goal = f.member.ID(), goalCreate
		return f.saveRow(t.Context(), tx, r)
	})))
	closeFleet(t, f)

	g := openFleet(t, opts())
	b := g.For(LocalCaller())
	must(t, g.Reconcile(t.Context()))
	want(t, "the half claimed one", second(g.opts.Drivers[0].Open(t.Context(), ready[0].id)), atoll.ErrNotFound)
	sb, err := b.Create(t.Context(), atoll.Config{Pool: "p", Secrets: map[string]string{"T": "tttttt"}})
	must(t, err)
	if sb.ID() != ready[1].id {
		t.Errorf("%s was made new: want the ready %s", sb.ID(), ready[1].id)
	}
	if got := said(t, sb, "echo $T"); got != "tttttt\n" {
		t.Errorf("inside: %q", got)
	}
	closeFleet(t, g)
	h := openFleet(t, opts())
	again, err := h.For(LocalCaller()).Open(t.Context(), sb.ID())
	must(t, err)
	if got := said(t, again, "echo $T"); got != "tttttt\n" {
		t.Errorf("in a third process: %q", got)
	}
}
