//go:build !linux

package namespace

import (
	"context"
	"fmt"
	"runtime"

	"github.com/atoll-sandbox/atoll"
)

type host struct{}

// errHere says why there are no sandboxes.
var errHere = fmt.Errorf("%w: namespaces are Linux's, and this is %s: use the virtual, docker or microvm driver", atoll.ErrUnavailable, runtime.GOOS)

// Probe says that this machine has no namespaces.
func (d *Driver) Probe(context.Context) (atoll.Features, error) { return atoll.Features{}, errHere }

// Create refuses.
func (d *Driver) Create(_ context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	return nil, &atoll.Error{Op: "create", ID: spec.Name, Err: errHere}
}

// Open finds nothing.
func (d *Driver) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	return nil, &atoll.Error{Op: "open", ID: id, Err: atoll.ErrNotFound}
}

// List returns nothing.
func (d *Driver) List(context.Context) ([]atoll.Status, error) { return nil, nil }

// Close does nothing.
func (d *Driver) Close() error { return nil }
