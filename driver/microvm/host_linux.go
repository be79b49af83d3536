package microvm

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// host is what a driver needs of its machine; the fields are guarded by the
// driver's mu.
type host struct{}

var errNotYet = fmt.Errorf("%w: machines are not built yet", atoll.ErrUnavailable)

// Probe says what works on this machine.
func (d *Driver) Probe(context.Context) (atoll.Features, error) { return atoll.Features{}, errNotYet }

// Create builds a sandbox.
func (d *Driver) Create(_ context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	return nil, &atoll.Error{Op: "create", ID: spec.Name, Err: errNotYet}
}

// Open finds a sandbox.
func (d *Driver) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	return nil, &atoll.Error{Op: "open", ID: id, Err: atoll.ErrNotFound}
}

// List returns what there is.
func (d *Driver) List(context.Context) ([]atoll.Status, error) { return nil, nil }

// Close ends what the driver runs beside itself; sandboxes live on.
func (d *Driver) Close() error { return nil }
