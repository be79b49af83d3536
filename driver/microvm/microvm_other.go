//go:build !linux

package microvm

import (
	"context"
	"fmt"
	"runtime"

	"github.com/atoll-sandbox/atoll"
)

type host struct{}

// errHere is the error of every operation on systems other than Linux.
var errHere = fmt.Errorf("%w: VMs need Linux, and this is %s: use the virtual or docker driver", atoll.ErrUnavailable, runtime.GOOS)

// Probe reports that there are no VMs on this system.
func (d *Driver) Probe(context.Context) (atoll.Features, error) { return atoll.Features{}, errHere }

// Create returns an error that matches atoll.ErrUnavailable.
func (d *Driver) Create(_ context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	return nil, &atoll.Error{Op: "create", ID: spec.Name, Err: errHere}
}

// Open finds no sandbox.
func (d *Driver) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	return nil, &atoll.Error{Op: "open", ID: id, Err: atoll.ErrNotFound}
}

// List returns no sandboxes.
func (d *Driver) List(context.Context) ([]atoll.Status, error) { return nil, nil }

// Close does nothing.
func (d *Driver) Close() error { return nil }
