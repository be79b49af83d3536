package fleet

import (
	"errors"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestTenantsDontReachTheHost has somebody whose token does not name this host
// ask for sandboxes that reach its services, its network, its files.
func TestTenantsDontReachTheHost(t *testing.T) {
	f := openFleet(t, Options{})
	owner := atoll.Owner{App: "app", User: "mallory"}
	tenant := f.For(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	host := f.For(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}})
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
