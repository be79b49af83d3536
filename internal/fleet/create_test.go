package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

func TestCreateReportsAllProblems(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	cfg := atoll.Config{
		Spec:      atoll.Spec{Name: "Not A Name", Dir: "relative", Env: []string{"=x"}, Limits: atoll.Resources{Memory: 1}, Requests: atoll.Resources{Memory: 2}},
		Driver:    "no-such-driver",
		Pool:      "no-such-pool",
		Lifecycle: atoll.Lifecycle{Policy: "sometimes"},
		Secrets:   map[string]string{"A=B": "x"},
		Prepare:   []atoll.Step{{}},
		Project:   &atoll.Project{Path: t.TempDir(), SyncMode: "never"},
		Workspaces: []atoll.WorkspaceMount{
			{Workspace: "Bad Name"}, {Workspace: "ok", Target: "/proc/x"},
		},
	}
	_, err := a.Create(t.Context(), cfg)
	if !errors.Is(err, atoll.ErrInvalid) {
		t.Fatalf("Create: %v", err)
	}
	for _, what := range []string{
		"Not A Name", "relative", `"=x"`, "requests.memory", "no-such-driver", "[virtual]", "no-such-pool", "sometimes", "A=B", "prepare[0]", "sync_mode", ".git", "Bad Name", "/proc",
	} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("the error does not name %q:\n%v", what, err)
		}
	}
	if list, err := a.List(t.Context(), Filter{All: true}); err != nil || len(list) != 0 {
		t.Errorf("%d rows of what was invalid, %v", len(list), err)
	}
}

func TestVMMinimumLimits(t *testing.T) {
	ft := atoll.Features{Isolation: "machine"}
	small := atoll.Config{Spec: atoll.Spec{Limits: atoll.Resources{Memory: 1023 << 20, CPU: 0.5}}}
	if errs := checkLimits(&small, ft); len(errs) != 2 {
		t.Errorf("too little: %v", errs)
	}
	if errs := checkLimits(&small, atoll.Features{Isolation: "process"}); len(errs) != 0 {
		t.Errorf("not a machine: %v", errs)
	}
	least := atoll.Config{Spec: atoll.Spec{Limits: atoll.Resources{Memory: 1024 << 20, CPU: 1}}}
	if errs := append(checkLimits(&least, ft), checkLimits(&atoll.Config{}, ft)...); len(errs) != 0 {
		t.Errorf("enough: %v", errs)
	}
}

// fakeImageDriver is a virtual driver that claims to support images.
type fakeImageDriver struct{ *virtual.Driver }

func (d fakeImageDriver) Name() string { return "imaged" }

func (d fakeImageDriver) Probe(ctx context.Context) (atoll.Features, error) {
	ft, err := d.Driver.Probe(ctx)
	ft.Images = true
	return ft, err
}

// TestUnsupportedSettingsFailAtOnce: the error names the drivers that support the
// setting, and nothing is created.
func TestUnsupportedSettingsFailAtOnce(t *testing.T) {
	f := openFleet(t, Options{Drivers: []atoll.Driver{virtual.New(), fakeImageDriver{virtual.New()}}})
	f.Drivers(t.Context())
	a := f.Account(LocalCaller())
	spec := atoll.Spec{Image: "busybox", Limits: atoll.Resources{CPU: 1}, VM: &atoll.VM{}, Network: atoll.Network{Mode: atoll.NetworkBridge}}
	_, err := a.Create(t.Context(), atoll.Config{Spec: spec})
	if !errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, atoll.ErrInvalid) {
		t.Fatalf("Create: %v", err)
	}
	for _, what := range []string{"image busybox", "use imaged", "limits.cpu", "machine", "bridge"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("the error does not name %q:\n%v", what, err)
		}
	}
	spec.Dir = "relative"
	if _, err := a.Create(t.Context(), atoll.Config{Spec: spec}); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "busybox") {
		t.Errorf("with a mistake besides: %v", err)
	}
	if list, err := a.List(t.Context(), Filter{All: true}); err != nil || len(list) != 0 {
		t.Errorf("%d rows, %v", len(list), err)
	}
}

// ownersDriver isolates the sandboxes of all owners but the local one more.
type ownersDriver struct{ *virtual.Driver }

func (d ownersDriver) NameIsolation(_ string, owner atoll.Owner) string {
	if owner == atoll.Local {
		return "process"
	}
	return "stronger"
}

// TestIsolationIsThatOfTheSandbox: it is not always what the driver's features say.
func TestIsolationIsThatOfTheSandbox(t *testing.T) {
	f := openFleet(t, Options{Drivers: []atoll.Driver{ownersDriver{virtual.New()}}})
	other := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "other"}, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}})
	for want, a := range map[string]*Account{"process": f.Account(LocalCaller()), "stronger": other} {
		info, err := mustCreate(t, a, atoll.Config{}).Info(t.Context())
		if err != nil || info.Isolation != want {
			t.Errorf("isolation %q, %v, want %q", info.Isolation, err, want)
		}
		list, err := a.List(t.Context(), Filter{})
		if err != nil || len(list) != 1 || list[0].Isolation != want {
			t.Errorf("listed: %+v, %v, want isolation %q", list, err, want)
		}
	}
}

func TestNamesAreUniquePerOwner(t *testing.T) {
	f := openFleet(t, Options{})
	a, other := f.Account(LocalCaller()), f.Account(Caller{Owner: atoll.Owner{App: "app", User: "other"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	sb := mustCreate(t, a, namedConfig("web"))
	_, err := a.Create(t.Context(), namedConfig("web"))
	if !errors.Is(err, atoll.ErrExists) || !strings.Contains(err.Error(), sb.ID()) {
		t.Errorf("a second web: %v; it must name %s", err, sb.ID())
	}
	mustCreate(t, other, namedConfig("web"))
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, a, namedConfig("web"))
}

func namedConfig(name string) atoll.Config { return atoll.Config{Spec: atoll.Spec{Name: name}} }

func TestConcurrentCreatesWithOneName(t *testing.T) {
	home := t.TempDir()
	fleets := []*Fleet{openFleet(t, Options{Home: home}), openFleet(t, Options{Home: home})}
	var mu sync.Mutex
	got := 0
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			_, err := fleets[i%2].Account(LocalCaller()).Create(t.Context(), namedConfig("one"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got++
			} else if !errors.Is(err, atoll.ErrExists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got != 1 {
		t.Errorf("%d sandboxes got the name", got)
	}
	if n := len(driverStates(t, fleets[0].opts.Drivers[0])); n != 1 {
		t.Errorf("the driver has %d sandboxes", n)
	}
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	home := t.TempDir()
	boom := errors.New("boom\nsecond line")
	for _, c := range []struct {
		name   string
		create func(d *faultyDriver) func(context.Context, atoll.Spec) (atoll.Sandbox, error)
		want   error
	}{
		{"AtOnce", func(*faultyDriver) func(context.Context, atoll.Spec) (atoll.Sandbox, error) {
			return func(context.Context, atoll.Spec) (atoll.Sandbox, error) { return nil, boom }
		}, boom},
		{"AfterMakingSomething", func(d *faultyDriver) func(context.Context, atoll.Spec) (atoll.Sandbox, error) {
			return func(ctx context.Context, s atoll.Spec) (atoll.Sandbox, error) {
				if _, err := d.Driver.Create(ctx, s); err != nil {
					t.Error(err)
				}
				return nil, boom
			}
		}, boom},
		{"Late", func(d *faultyDriver) func(context.Context, atoll.Spec) (atoll.Sandbox, error) {
			return func(ctx context.Context, s atoll.Spec) (atoll.Sandbox, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		}, atoll.ErrTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &faultyDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, c.name)}}
			f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
			a := f.Account(LocalCaller())
			d.setHooks(func(d *faultyDriver) { d.create = c.create(d) })
			cfg := namedConfig("x")
			cfg.Timeouts.Create = 50 * time.Millisecond
			if _, err := a.Create(t.Context(), cfg); !errors.Is(err, c.want) {
				t.Errorf("Create: %v", err)
			}
			if have := driverStates(t, d); len(have) != 0 {
				t.Errorf("left behind: %v", have)
			}
			all, err := a.List(t.Context(), Filter{All: true})
			if err != nil || len(all) != 1 || all[0].State != atoll.Destroyed || all[0].Conditions[0].Message == "" || strings.Contains(all[0].Conditions[0].Message, "\n") {
				t.Errorf("the registry has %+v, %v; want one destroyed sandbox with the reason on one line", all, err)
			}
			d.setHooks(func(d *faultyDriver) { d.create = nil })
			mustCreate(t, a, namedConfig("x")) // the name is free
		})
	}
}

func TestSecretsReachCommandsOnly(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "s", Env: []string{"PLAIN=yes", "API_TOKEN=hunter2hunter2"}}, Secrets: map[string]string{"S": "swordfish"}})
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo $S $PLAIN"})
	if err != nil || string(exit.Stdout) != "swordfish yes\n" {
		t.Errorf("%q, %v", exit.Stdout, err)
	}
	info, err := sb.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := a.List(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range append(list, info) {
		if text := fmt.Sprintf("%+v", i); strings.Contains(text, "swordfish") || strings.Contains(text, "hunter2") || i.Config.Secrets["S"] != "***" {
			t.Errorf("it shows secrets: %s", text)
		}
	}
	fork, err := sb.Fork(t.Context(), "", atoll.Spec{Name: "f"})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := fork.Exec(t.Context(), atoll.Cmd{Shell: "echo $S"}); err != nil || string(exit.Stdout) != "swordfish\n" {
		t.Errorf("in the fork: %q, %v", exit.Stdout, err)
	}
	st, err := fork.Status(t.Context())
	if err != nil || st.Name != "f" {
		t.Errorf("the fork: %+v, %v", st, err)
	}
}

func TestScopesAreCheckedFirst(t *testing.T) {
	f := openFleet(t, Options{})
	caller := func(s ...atoll.Scope) *Account { return f.Account(Caller{Owner: atoll.Local, Scopes: s}) }
	sb := mustCreate(t, caller(atoll.ScopeRun), namedConfig("web"))
	if err := caller(atoll.ScopeRun).destroyAs(t.Context(), sb.ID(), "stop"); err != nil {
		t.Error(err)
	}
	read, run := caller(atoll.ScopeRead), caller(atoll.ScopeRun)
	reader, err := read.Open(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	host := atoll.Config{Spec: atoll.Spec{Mounts: []atoll.Mount{{Source: "/nowhere", Target: "/mnt"}}}}
	project := atoll.Config{Project: &atoll.Project{Path: "/nowhere"}}
	for name, call := range map[string]func() error{
		"CreateNeedsRun":   func() error { _, err := read.Create(t.Context(), namedConfig("x")); return err },
		"ExecNeedsRun":     func() error { _, err := reader.Exec(t.Context(), atoll.Cmd{Shell: "true"}); return err },
		"WriteNeedsRun":    func() error { return reader.WriteFile(t.Context(), "/x", strings.NewReader(""), 0o644) },
		"DestroyNeedsRun":  func() error { return reader.Destroy(t.Context()) },
		"StopNeedsRun":     func() error { return reader.Stop(t.Context()) },
		"ForkNeedsRun":     func() error { _, err := reader.Fork(t.Context(), "", atoll.Spec{}); return err },
		"SnapshotNeedsRun": func() error { _, err := reader.Snapshot(t.Context(), "x"); return err },
		"UpdateNeedsRun":   func() error { _, err := read.Update(t.Context(), "nowhere", Change{}); return err },
		"MountsNeedHost":   func() error { _, err := run.Create(t.Context(), host); return err },
		"IDNeedsHost": func() error {
			_, err := run.Create(t.Context(), atoll.Config{Spec: atoll.Spec{ID: atoll.NewID()}})
			return err
		},
		"ProjectNeedsHost":   func() error { _, err := run.Create(t.Context(), project); return err },
		"AllOwnersNeedAdmin": func() error { _, err := run.List(t.Context(), Filter{AllOwners: true}); return err },
		"QuotaNeedsAdmin":    func() error { return run.SetQuota(t.Context(), atoll.Local, atoll.Quota{}) },
		"NothingNeedsRead":   func() error { _, err := caller().Open(t.Context(), "web"); return err },
	} {
		if err := call(); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := reader.Info(t.Context()); err != nil {
		t.Error(err)
	}
}

// destroyAs opens a sandbox and stops or destroys it.
func (a *Account) destroyAs(ctx context.Context, key, what string) error {
	sb, err := a.Open(ctx, key)
	if err != nil {
		return err
	}
	if what == "stop" {
		return errors.Join(sb.Stop(ctx), sb.Start(ctx))
	}
	return sb.Destroy(ctx)
}

func TestForeignSandboxesAreNotFound(t *testing.T) {
	f := openFleet(t, Options{})
	mine := mustCreate(t, f.Account(LocalCaller()), namedConfig("web"))
	gone := mustCreate(t, f.Account(LocalCaller()), namedConfig("gone"))
	if err := gone.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := f.Account(Caller{Owner: atoll.Owner{App: "local", User: "eve"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}})
	for _, key := range []string{mine.ID(), "web", gone.ID(), "gone", atoll.NewID(), "", "../../etc", "a\x00b", "%", strings.Repeat("x", 5000)} {
		_, err := other.Open(t.Context(), key)
		if want := "open " + key + ": not found"; key != "" && (err == nil || err.Error() != want) {
			t.Errorf("Open %.40q: %v", key, err)
		}
		if !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("Open %.40q: %v", key, err)
		}
		if _, err := other.Update(t.Context(), key, Change{}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("Update %.40q: %v", key, err)
		}
	}
	if list, err := other.List(t.Context(), Filter{All: true}); err != nil || len(list) != 0 {
		t.Errorf("List: %v, %v", list, err)
	}
	admin := f.Account(Caller{Owner: other.caller.Owner, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeAdmin}})
	if _, err := admin.Open(t.Context(), mine.ID()); err != nil {
		t.Errorf("with admin: %v", err)
	}
	if list, err := admin.List(t.Context(), Filter{AllOwners: true}); err != nil || len(list) != 1 {
		t.Errorf("with admin: %v, %v", list, err)
	}
}

func TestListFilters(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	one := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "one", Labels: map[string]string{"k": "v", "l": "1"}}})
	two := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "two", Labels: map[string]string{"k": "v"}}})
	three := mustCreate(t, a, namedConfig("three"))
	if err := errors.Join(two.Stop(t.Context()), three.Destroy(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		filter Filter
		want   string
	}{
		{"NotDestroyed", Filter{}, "one two"},
		{"All", Filter{All: true}, "one two three"},
		{"State", Filter{States: []atoll.State{atoll.Stopped}}, "two"},
		{"States", Filter{States: []atoll.State{atoll.Destroyed, atoll.Running}}, "one three"},
		{"Label", Filter{Labels: map[string]string{"k": "v"}}, "one two"},
		{"Labels", Filter{Labels: map[string]string{"k": "v", "l": "1"}}, "one"},
		{"Name", Filter{Name: "one"}, "one"},
		{"NoSuchLabel", Filter{Labels: map[string]string{"k": ""}}, ""},
	} {
		list, err := a.List(t.Context(), c.filter)
		var names []string
		for _, i := range list {
			names = append(names, i.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	if _, err := a.List(t.Context(), Filter{States: []atoll.State{"asleep"}}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an unknown state: %v", err)
	}
	name := "uno"
	info, err := a.Update(t.Context(), one.ID(), Change{Name: &name, Labels: map[string]string{}, Lifecycle: &atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
	if err != nil || info.Name != "uno" || len(info.Labels) != 0 || !info.Expires.IsZero() {
		t.Errorf("Update: %+v, %v", info, err)
	}
	if _, err := a.Open(t.Context(), "uno"); err != nil {
		t.Error(err)
	}
	if _, err := a.Update(t.Context(), two.ID(), Change{Name: &name}); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	bad := "Bad!"
	if _, err := a.Update(t.Context(), two.ID(), Change{Name: &bad, Lifecycle: &atoll.Lifecycle{Policy: "x"}}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}

// TestProcessorsOfVMs checks that an ordinary user, without control groups, can choose the number of
// a VM's processors, but no part of one, and that other sandboxes are refused both.
func TestProcessorsOfVMs(t *testing.T) {
	vm, process := &atoll.Features{Isolation: "machine"}, &atoll.Features{Isolation: "namespaces"}
	for _, c := range []struct {
		cpu  float64
		ft   *atoll.Features
		good bool
	}{{2, vm, true}, {1.5, vm, false}, {2, process, false}} {
		var cfg atoll.Config
		cfg.Limits.CPU = c.cpu
		errs := new(Fleet).checkFeatures(&cfg, c.ft)
		if (len(errs) == 0) != c.good {
			t.Errorf("%v processors with isolation %s: %v", c.cpu, c.ft.Isolation, errs)
		}
	}
}
