package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestFit(t *testing.T) {
	none := atoll.Quota{Sandboxes: -1, CPU: -1, Memory: -1, Disk: -1}
	with := func(change func(q *atoll.Quota)) atoll.Quota { q := none; change(&q); return q }
	for _, c := range []struct {
		name        string
		quota, used atoll.Quota
		asked, got  atoll.Resources
		cpu, ok     bool
	}{
		{"NoQuotaSetsNothing", none, atoll.Quota{Sandboxes: 1e6}, atoll.Resources{}, atoll.Resources{}, true, true},
		{"TheLastOne", with(func(q *atoll.Quota) { q.Sandboxes = 3 }), atoll.Quota{Sandboxes: 2}, atoll.Resources{}, atoll.Resources{}, true, true},
		{"OneTooMany", with(func(q *atoll.Quota) { q.Sandboxes = 3 }), atoll.Quota{Sandboxes: 3}, atoll.Resources{}, atoll.Resources{}, true, false},
		{"OpenMemoryIsTheUsual", with(func(q *atoll.Quota) { q.Memory = 4 << 30 }), atoll.Quota{}, atoll.Resources{}, atoll.Resources{Memory: 1 << 30}, true, true},
		{"OpenMemoryIsAtMostTheQuota", with(func(q *atoll.Quota) { q.Memory = 1 << 20 }), atoll.Quota{}, atoll.Resources{}, atoll.Resources{Memory: 1 << 20}, true, true},
		{"NoMemoryLimitIsRefused", with(func(q *atoll.Quota) { q.Memory = 4 << 30 }), atoll.Quota{}, atoll.Resources{Memory: -1}, atoll.Resources{}, true, false},
		{"ToTheByte", with(func(q *atoll.Quota) { q.Memory = 100 }), atoll.Quota{Memory: 60}, atoll.Resources{Memory: 40}, atoll.Resources{Memory: 40}, true, true},
		{"AByteTooMany", with(func(q *atoll.Quota) { q.Memory = 100 }), atoll.Quota{Memory: 60}, atoll.Resources{Memory: 41}, atoll.Resources{}, true, false},
		{"DiskLikewise", with(func(q *atoll.Quota) { q.Disk = 100 }), atoll.Quota{Disk: 60}, atoll.Resources{Disk: 41}, atoll.Resources{}, true, false},
		{"CPULikewise", with(func(q *atoll.Quota) { q.CPU = 4 }), atoll.Quota{CPU: 3}, atoll.Resources{}, atoll.Resources{}, true, false},
		{"NoCPUWhereThereIsNoLimit", with(func(q *atoll.Quota) { q.CPU = 4 }), atoll.Quota{CPU: 4}, atoll.Resources{}, atoll.Resources{}, false, true},
	} {
		l := c.asked
		err := fitQuota(c.quota, c.used, atoll.Features{CPULimit: c.cpu}, &l)
		if c.ok && (err != nil || l != c.got) || !c.ok && !errors.Is(err, atoll.ErrQuota) {
			t.Errorf("%s: %v, limits %+v; want %v and %+v", c.name, err, l, c.ok, c.got)
		}
	}
	all := atoll.Quota{Sandboxes: 1, CPU: 1, Memory: 1, Disk: 1}
	err := fitQuota(all, all, atoll.Features{CPULimit: true}, &atoll.Resources{CPU: 1, Memory: 1, Disk: 1})
	for _, what := range []string{"sandboxes", "cpu", "memory", "disk"} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("all over quota: %v does not name %s", err, what)
		}
	}
}

// TestQuotaSumsDoNotOverflow requests limits whose sum overflows an int64.
func TestQuotaSumsDoNotOverflow(t *testing.T) {
	quota := atoll.Quota{Sandboxes: -1, CPU: 4, Memory: 4 << 30, Disk: 4 << 30}
	used := atoll.Quota{CPU: 1, Memory: 1, Disk: 1}
	for what, l := range map[string]atoll.Resources{"memory": {Memory: math.MaxInt64}, "disk": {Disk: math.MaxInt64}, "cpu": {CPU: math.MaxFloat64}} {
		if err := fitQuota(quota, used, atoll.Features{CPULimit: true}, &l); !errors.Is(err, atoll.ErrQuota) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestStoredOverflowLocksNoOwnerOut: a registry may have limits from before limits had
// bounds.
func TestStoredOverflowLocksNoOwnerOut(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	for range 2 {
		forceRow(t, f, mustCreate(t, a, atoll.Config{}).ID(), func(r *row) {
			r.cfg.Limits.Disk, r.cfg.Limits.Memory, r.cfg.Limits.CPU = math.MaxInt64, math.MaxInt64, 1.7e308
		})
	}
	l, err := a.Allowance(t.Context())
	if err != nil || l.Used.Disk < math.MaxInt64/10 || l.Used.Memory < math.MaxInt64/10 || math.IsInf(l.Used.CPU, 0) {
		t.Errorf("%+v, %v", l.Used, err)
	}
	must(t, a.SetQuota(t.Context(), atoll.Local, atoll.Quota{Memory: 1 << 40, Disk: 1 << 40}))
	if _, err := a.Create(t.Context(), atoll.Config{}); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one more: %v", err)
	}
}

// TestConcurrentCreatesKeepQuota creates many sandboxes at once from two processes.
func TestConcurrentCreatesKeepQuota(t *testing.T) {
	home := t.TempDir()
	fleets := []*Fleet{openFleet(t, Options{Home: home}), openFleet(t, Options{Home: home})}
	eve := Caller{Owner: atoll.Owner{App: "app", User: "eve"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}}
	admin := fleets[0].Account(LocalCaller())
	if err := admin.SetQuota(t.Context(), eve.Owner, atoll.Quota{Sandboxes: 5}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	made := 0
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := fleets[i%2].Account(eve).Create(t.Context(), atoll.Config{})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if !errors.Is(err, atoll.ErrQuota) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made != 5 || len(driverStates(t, fleets[0].opts.Drivers[0])) != 5 {
		t.Errorf("%d were made", made)
	}
	got, err := fleets[1].Account(eve).Allowance(t.Context())
	if err != nil || got.Limit.Sandboxes != 5 || got.Used.Sandboxes != 5 || got.Limit.Memory != -1 || got.Owner != eve.Owner {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := admin.Create(t.Context(), atoll.Config{}); err != nil {
		t.Errorf("another owner: %v", err)
	}
}

// TestAllowances: operators read the quotas of all owners, page by page; others don't.
func TestAllowances(t *testing.T) {
	f := openFleet(t, Options{})
	admin := f.Account(LocalCaller())
	owner := func(app, user string) Caller {
		return Caller{Owner: atoll.Owner{App: app, User: user}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}}
	}
	eve := f.Account(owner("app", "eve"))
	mustCreate(t, eve, atoll.Config{})
	gone := mustCreate(t, f.Account(owner("app", "gone")), atoll.Config{})
	must(t, gone.Destroy(t.Context()))
	must(t, admin.SetQuota(t.Context(), atoll.Owner{App: "app", User: "zoe"}, atoll.Quota{Sandboxes: 7}))
	must(t, admin.SetQuota(t.Context(), atoll.Owner{App: "abc", User: "zoe"}, atoll.Quota{Memory: -1}))
	if _, err := admin.CreateToken(t.Context(), atoll.Token{Name: "bob", Owner: atoll.Owner{App: "team", User: "bob"}, Scopes: []atoll.Scope{atoll.ScopeRead}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Account(owner("works", "ann")).CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for after, pages := "", 0; ; pages++ {
		list, next, err := admin.Allowances(t.Context(), after, 2)
		if err != nil || len(list) > 2 || pages > 5 {
			t.Fatal(list, next, err)
		}
		for _, q := range list {
			got = append(got, fmt.Sprintf("%s %d/%d %d", q.Owner, q.Used.Sandboxes, q.Limit.Sandboxes, q.Used.Workspaces))
		}
		if after = next; after == "" {
			break
		}
	}
	if want := []string{"abc/zoe 0/-1 0", "app/eve 1/-1 0", "app/zoe 0/7 0", "team/bob 0/-1 0", "works/ann 0/-1 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, limit := range []int{-1, 0, MaxPage + 1} {
		if _, _, err := admin.Allowances(t.Context(), "", limit); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if _, _, err := admin.Allowances(t.Context(), "../x/y", 10); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
	if _, _, err := eve.Allowances(t.Context(), "", 10); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a user: %v", err)
	}
}

func TestQuotaOfTheFleetAndOwnOne(t *testing.T) {
	f := openFleet(t, Options{Quota: atoll.Quota{Sandboxes: 1, Memory: 1 << 30, Disk: 300 << 20}})
	a := f.Account(LocalCaller())
	first := mustCreate(t, a, atoll.Config{})
	info, err := first.Info(t.Context())
	if err != nil || info.Config.Limits.Memory != 1<<30 || info.Config.Limits.Disk != 100<<20 {
		t.Errorf("limits that the quota asks for: %+v, %v", info.Config.Limits, err)
	}
	if _, err := a.Create(t.Context(), atoll.Config{}); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("a second: %v", err)
	}
	if _, err := first.Fork(t.Context(), "", atoll.Spec{}); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("a fork: %v", err)
	}
	if err := a.SetQuota(t.Context(), atoll.Local, atoll.Quota{Sandboxes: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Create(t.Context(), atoll.Config{}); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("a second, within the number but not the memory: %v", err)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := mustCreate(t, a, atoll.Config{}) // what is stopped uses no memory
	if err := first.Start(t.Context()); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("starting the first again: %v", err)
	}
	if err := second.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if err := a.SetQuota(t.Context(), atoll.Owner{App: "../x", User: ""}, atoll.Quota{}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an impossible owner: %v", err)
	}
}

func TestQuotaOfCommands(t *testing.T) {
	f := openFleet(t, Options{Quota: atoll.Quota{Processes: 2}})
	a := f.Account(LocalCaller())
	sb, other := mustCreate(t, a, atoll.Config{}), mustCreate(t, a, atoll.Config{})
	one, two := startEndlessCommand(t, sb), startEndlessCommand(t, other)
	if err := execError(sb); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("a third command: %v", err)
	}
	if _, err := atoll.ReadFile(t.Context(), sb, "/etc/passwd"); err != nil {
		t.Errorf("a file: %v", err)
	}
	if got, err := a.Allowance(t.Context()); err != nil || got.Used.Processes != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waitForResult(t, one); err == nil {
		t.Error("the command still runs")
	}
	if err := execError(other); err != nil {
		t.Errorf("with one ended: %v", err)
	}
	if err := a.SetQuota(context.Background(), atoll.Local, atoll.Quota{Processes: 1}); err != nil {
		t.Fatal(err)
	}
	if err := execError(other); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("with a lower quota: %v", err)
	}
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waitForResult(t, two); err == nil {
		t.Error("the command still runs")
	}
	if n := f.commandCounts.countOf(atoll.Local); n != 0 {
		t.Errorf("%d commands are counted after all have ended", n)
	}
}

// TestNewOwnersHaveDiskQuota: owners without a quota of their own have one of disk, but the local
// owner, and drivers that can't limit a disk are not refused because of it.
func TestNewOwnersHaveDiskQuota(t *testing.T) {
	f := openFleet(t, Options{OwnerDisk: 250 << 20})
	local := f.Account(LocalCaller())
	eve := Caller{Owner: atoll.Owner{App: "app", User: "eve"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}}
	a := f.Account(eve)
	if l, err := a.Allowance(t.Context()); err != nil || l.Limit.Disk != 250<<20 {
		t.Errorf("of a new owner: %+v, %v", l.Limit, err)
	}
	if l, err := local.Allowance(t.Context()); err != nil || l.Limit.Disk != -1 {
		t.Errorf("of the local owner: %+v, %v", l.Limit, err)
	}
	for range 2 {
		if got := readRow(t, f, mustCreate(t, a, atoll.Config{}).ID()).cfg.Limits.Disk; got != defaultDisk {
			t.Errorf("a sandbox has a limit of %d bytes", got)
		}
	}
	if _, err := a.Create(t.Context(), atoll.Config{}); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("beyond the quota: %v", err)
	}
	mustCreate(t, local, atoll.Config{})
	must(t, local.SetQuota(t.Context(), eve.Owner, atoll.Quota{Disk: -1}))
	mustCreate(t, a, atoll.Config{})

	cfg := atoll.Config{}
	if q := setDefaultDisk(20<<30, atoll.Features{Programs: true, Lacks: map[string]string{"FullDiskIsQuota": "no"}}, &cfg); q != -1 || cfg.Limits.Disk != 0 {
		t.Errorf("a driver without such limits: quota %d, limit %d", q, cfg.Limits.Disk)
	}
	if q := setDefaultDisk(20<<30, atoll.Features{Programs: true}, &cfg); q != 20<<30 || cfg.Limits.Disk != realDisk {
		t.Errorf("a driver of real programs: quota %d, limit %d", q, cfg.Limits.Disk)
	}
}
