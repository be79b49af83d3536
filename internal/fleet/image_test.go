package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// imageStoreDriver is a virtual driver with images, which its sandboxes do not use.
type imageStoreDriver struct{ fakeImageDriver }

func (d imageStoreDriver) Images(context.Context) ([]atoll.Image, error) {
	return []atoll.Image{{Ref: "busybox:latest"}, {Ref: "registry.test:5000/a/b:v1"}}, nil
}

func (d imageStoreDriver) PullImage(context.Context, string, func(atoll.Progress)) (atoll.Image, error) {
	return atoll.Image{}, errors.ErrUnsupported
}

func (d imageStoreDriver) RemoveImage(context.Context, string) error { return errors.ErrUnsupported }

func (d imageStoreDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	spec.Image = ""
	return d.fakeImageDriver.Create(ctx, spec)
}

// TestTenantsCannotPullImages creates sandboxes with images that are present and with
// ones that the host would have to pull from a registry of the tenant's choice.
func TestTenantsCannotPullImages(t *testing.T) {
	f := openFleet(t, Options{Drivers: []atoll.Driver{imageStoreDriver{fakeImageDriver{virtual.New()}}}, Default: "imaged"})
	of := func(user string, scopes ...atoll.Scope) *Account {
		return f.Account(Caller{Owner: atoll.Owner{App: "app", User: user}, Scopes: append(scopes, atoll.ScopeRun)})
	}
	tenant := of("tenant")
	for _, ref := range []string{"busybox", "busybox:latest", "library/busybox", "docker.io/busybox", "index.docker.io/library/busybox:latest", "registry.test:5000/a/b:v1"} {
		if _, err := tenant.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Image: ref}}); err != nil {
			t.Errorf("%s, which is there: %v", ref, err)
		}
	}
	for _, ref := range []string{"127.0.0.1:5000/x", "busybox:1", "busybox@sha256:" + strings.Repeat("0", 64), "evil.test/busybox", "registry.test:5000/a/b", "registry.test/a/b:v1", "localhost/busybox"} {
		cfg := atoll.Config{Spec: atoll.Spec{Image: ref}}
		if _, err := tenant.Create(t.Context(), cfg); !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "scope operate must pull it first") {
			t.Errorf("%s: %v", ref, err)
		}
		if _, err := of("host", atoll.ScopeHost).Create(t.Context(), cfg); err != nil {
			t.Errorf("%s with the scope host: %v", ref, err)
		}
		if _, err := of("admin", atoll.ScopeAdmin).Create(t.Context(), cfg); err != nil {
			t.Errorf("%s with the scope admin: %v", ref, err)
		}
	}
}
