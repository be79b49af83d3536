package fleet

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// TestPrivilegedTurnSandboxIsClosed tries every call as the owner of a turn's sandbox
// that has more rights than the owner could request.
func TestPrivilegedTurnSandboxIsClosed(t *testing.T) {
	home := t.TempDir()
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}})
	owner := atoll.Owner{App: "app", User: "alice"}
	alice := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	host := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeHost}})
	own := mustOpen(alice.CreateForTurn(t.Context(), TurnSandbox{Config: atoll.Config{Secrets: map[string]string{"OPKEY": "operator-secret"}}}))
	if x, err := own.Exec(t.Context(), atoll.Cmd{Shell: "echo $OPKEY"}); err != nil || string(x.Stdout) != "operator-secret\n" {
		t.Fatalf("the turn's own: %q %v", x.Stdout, err)
	}
	p, err := own.StartProcess(t.Context(), "p1", atoll.Cmd{Shell: "sleep 100"})
	if err != nil {
		t.Fatal(err)
	}
	sb := mustOpen(alice.Open(t.Context(), own.ID()))
	ctx := t.Context()
	for what, do := range map[string]func() error{
		"exec":          func() error { _, err := sb.Exec(ctx, atoll.Cmd{Shell: "env"}); return err },
		"detach":        func() error { _, err := sb.Detach(ctx, atoll.Cmd{Shell: "env"}); return err },
		"start process": func() error { _, err := sb.StartProcess(ctx, "", atoll.Cmd{Shell: "env"}); return err },
		"attach":        func() error { _, err := sb.Attach(ctx, p.ID, Attachment{}); return err },
		"signal":        func() error { return sb.Signal(ctx, p.ID, "KILL") },
		"processes":     func() error { _, err := sb.Processes(ctx); return err },
		"history":       func() error { _, err := sb.History(ctx); return err },
		"read":          func() error { _, err := sb.OpenFile(ctx, "/etc/passwd"); return err },
		"list":          func() error { _, err := sb.ReadDir(ctx, "/"); return err },
		"write":         func() error { return sb.WriteFile(ctx, "/tmp/x", strings.NewReader("x"), 0o600) },
		"remove":        func() error { return sb.Remove(ctx, "/tmp/x") },
		"watch":         func() error { return sb.Watch(ctx, "/", func(atoll.FileEvent) error { return nil }) },
		"import":        func() error { return sb.Import(ctx, "/tmp", strings.NewReader("")) },
		"export":        func() error { _, err := sb.Export(ctx, "/"); return err },
		"dial":          func() error { _, err := sb.Dial(ctx, "tcp", "localhost:1"); return err },
		"listen":        func() error { _, err := sb.Listen(ctx, "tcp", "localhost:1"); return err },
		"terminal":      func() error { _, err := sb.OpenTerminal(ctx, atoll.TerminalSpec{}); return err },
		"read terminal": func() error { _, err := sb.ReadTerminal(ctx, "x"); return err },
		"fork":          func() error { _, err := sb.Fork(ctx, "", atoll.Spec{}); return err },
		"snapshot":      func() error { _, err := sb.Snapshot(ctx, ""); return err },
		"restore":       func() error { return sb.Restore(ctx, "x") },
		"notices":       func() error { return sb.Notices(ctx, func(atoll.Notice) error { return nil }) },
		"network": func() error {
			_, err := sb.ChangeNetwork(ctx, wire.NetworkChange{Allow: []string{"evil.test"}})
			return err
		},
		"set network": func() error { return sb.SetNetwork(ctx, atoll.Network{}) },
		"start":       func() error { return sb.Start(ctx) },
		"update": func() error {
			_, err := alice.Update(ctx, sb.ID(), Change{Lifecycle: &atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
			return err
		},
	} {
		if err := do(); !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), `the scope "host"`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if info, err := sb.Info(ctx); err != nil || info.Config.Secrets["OPKEY"] != hidden {
		t.Errorf("info: %v %v", info.Config.Secrets, err)
	}
	if _, err := sb.Status(ctx); err != nil {
		t.Errorf("status: %v", err)
	}
	k, err := mustOpen(host.Open(ctx, own.ID())).Fork(ctx, "", atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mustOpen(alice.Open(ctx, k.ID())).Exec(ctx, atoll.Cmd{Shell: "env"}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("in a fork that host made: %v", err)
	}
	if err := errors.Join(sb.Stop(ctx), sb.Destroy(ctx)); err != nil {
		t.Error(err)
	}
}

// TestExceedsOwnerRights checks which settings close a turn's sandbox to its owner.
func TestExceedsOwnerRights(t *testing.T) {
	mount := []atoll.Mount{{Source: "/srv/x", Target: "/x", ReadOnly: true}}
	with := func(f func(c *atoll.Config)) (c atoll.Config) { f(&c); return c }
	mounts := with(func(c *atoll.Config) { c.Mounts = mount })
	secret := with(func(c *atoll.Config) { c.Secrets = map[string]string{"A": "b"} })
	open := with(func(c *atoll.Config) { c.Network.Mode = atoll.NetworkOpen })
	for what, c := range map[string]struct {
		o    TurnSandbox
		want bool
	}{
		"nothing":         {TurnSandbox{}, false},
		"program":         {TurnSandbox{ProgramMounts: mount}, false},
		"program written": {TurnSandbox{ProgramMounts: []atoll.Mount{{Source: "/a", Target: "/b"}}}, true},
		"mounts":          {TurnSandbox{Config: mounts}, true},
		"mounts asked":    {TurnSandbox{Config: mounts, OwnerConfig: mounts}, false},
		"secret":          {TurnSandbox{Config: secret}, true},
		"secret asked":    {TurnSandbox{Config: secret, OwnerConfig: secret}, false},
		"open":            {TurnSandbox{Config: open}, true},
		"open asked":      {TurnSandbox{Config: open, OwnerConfig: open}, false},
		"header":          {TurnSandbox{Config: with(func(c *atoll.Config) { c.Network.Headers = []atoll.Header{{Host: "a.test"}} })}, true},
		"public host":     {TurnSandbox{Config: with(func(c *atoll.Config) { c.Network.Allow = []string{"example.com"} })}, false},
		"env":             {TurnSandbox{Config: with(func(c *atoll.Config) { c.Env = []string{"LANG=C"} })}, false},
		"secret in env":   {TurnSandbox{Config: with(func(c *atoll.Config) { c.Env = []string{"API_KEY=x"} })}, true},
	} {
		if got := c.o.exceedsAsked(); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestForkOfHostResources forks a sandbox with a token that could not have created it.
func TestForkOfHostResources(t *testing.T) {
	f := openFleet(t, Options{})
	owner := atoll.Owner{App: "app", User: "alice"}
	host := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeHost}})
	first := mustOpen(host.Create(t.Context(), atoll.Config{Spec: atoll.Spec{ID: atoll.NewID(), Mounts: []atoll.Mount{{Source: t.TempDir(), Target: "/op"}}}}))
	plain := mustOpen(host.Create(t.Context(), atoll.Config{Spec: atoll.Spec{ID: atoll.NewID()}}))
	alice := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRun}})
	sb := mustOpen(alice.Open(t.Context(), first.ID()))
	_, err := sb.Fork(t.Context(), "", atoll.Spec{})
	_, serr := sb.Snapshot(t.Context(), "")
	for _, err := range []error{err, serr, sb.Restore(t.Context(), "x")} {
		if !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("with mounts of host: %v", err)
		}
	}
	if _, err := mustOpen(alice.Open(t.Context(), plain.ID())).Fork(t.Context(), "", atoll.Spec{}); err != nil {
		t.Errorf("without: %v", err)
	}
}

// TestImageOfOtherDriver uses an image of a driver that is not the default.
func TestImageOfOtherDriver(t *testing.T) {
	f := openFleet(t, Options{Drivers: []atoll.Driver{imageStoreDriver{fakeImageDriver{virtual.New()}}, virtual.New()}, Default: virtual.New().Name()})
	alice := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "alice"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	for ref, want := range map[string]error{"busybox": nil, "evil.test/busybox": atoll.ErrDenied} {
		asked := atoll.Config{Spec: atoll.Spec{Image: ref}}
		cfg := asked
		cfg.Driver = "imaged"
		if _, err := alice.CreateForTurn(t.Context(), TurnSandbox{Config: cfg, OwnerConfig: asked}); !errors.Is(err, want) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// mustOpen returns a sandbox, and panics if there is an error.
func mustOpen(sb *Sandbox, err error) *Sandbox {
	if err != nil {
		panic(err)
	}
	return sb
}
