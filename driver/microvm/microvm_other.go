//go:build !linux

package microvm

import (
	"context"
	"fmt"
	"runtime"

	"github.com/atoll-sandbox/atoll"
)

type host struct{}

// errHere says why there are no sandboxes.
var errHere = fmt.Errorf("%w: machines are made on Linux, and this is %s: use the virtual or docker driver", atoll.ErrUnavailable, runtime.GOOS)

// Probe says that there are no machines on this system.
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
