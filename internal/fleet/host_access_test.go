package fleet

import (
	"errors"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestTenantsCannotReachHost: a token without access to the host can't create sandboxes
// that reach the host's services, network or files.
func TestTenantsCannotReachHost(t *testing.T) {
	f := openFleet(t, Options{})
	owner := atoll.Owner{App: "app", User: "mallory"}
	tenant := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	host := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}})
	plain, err := tenant.Create(t.Context(), atoll.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]atoll.Spec{
		"open":     {Network: atoll.Network{Mode: atoll.NetworkOpen}},
		"loopback": {Network: atoll.Network{Allow: []string{"127.0.0.1:5432"}}},
		"metadata": {Network: atoll.Network{Allow: []string{"http://169.254.169.254/"}}},
		"lan":      {Network: atoll.Network{Mode: atoll.NetworkNAT, Allow: []string{"192.168.0.0", "10.0.0.1:22"}}},
		"mapped":   {Network: atoll.Network{Allow: []string{"[::ffff:127.0.0.1]:80"}}},
		"mount":    {Mounts: []atoll.Mount{{Source: t.TempDir(), Target: "/mnt"}}},
	} {
		spec.Name = name
		if _, err := tenant.Create(t.Context(), atoll.Config{Spec: spec}); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("create %s without the scope host: %v", name, err)
		}
		if _, err := plain.Fork(t.Context(), "", spec); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("fork %s without the scope host: %v", name, err)
		}
		if _, err := host.Create(t.Context(), atoll.Config{Spec: spec}); err != nil {
			t.Errorf("create %s with the scope host: %v", name, err)
		}
	}
}

// TestForkRefusesUnrecordedSettings: a fork can't request settings that only the driver
// would know.
func TestForkRefusesUnrecordedSettings(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	for field, spec := range map[string]atoll.Spec{
		"network":  {Network: atoll.Network{Mode: atoll.NetworkOpen}},
		"image":    {Image: "busybox"},
		"runtime":  {Runtime: "runsc"},
		"dir":      {Dir: "/root"},
		"user":     {User: "0"},
		"requests": {Requests: atoll.Resources{Memory: 1}},
		"timeouts": {Timeouts: atoll.Timeouts{Exec: -1}},
		"mounts":   {Mounts: []atoll.Mount{{Source: t.TempDir(), Target: "/mnt"}}},
		"machine":  {VM: &atoll.VM{}},
	} {
		_, err := sb.Fork(t.Context(), "", spec)
		var e *atoll.FieldError
		if !errors.Is(err, atoll.ErrInvalid) || !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	allowed := atoll.Network{Allow: []string{"example.com"}}
	if _, err := sb.Fork(t.Context(), "", atoll.Spec{Network: allowed}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("one more host: %v", err)
	}
	own := atoll.Spec{ID: atoll.NewID(), Name: "own", Labels: map[string]string{"k": "v"}, Env: []string{"A=b"}, Limits: atoll.Resources{Memory: 64 << 20}}
	fork, err := sb.Fork(t.Context(), "", own)
	must(t, err)
	if out := shellOutput(t, fork, "echo $A"); out != "b\n" || fork.ID() != own.ID {
		t.Errorf("the fork %s prints %q", fork.ID(), out)
	}
}
