package microvm

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll"
)

// errBridgeRules says that nothing here can hold rules for such a machine.
var errBridgeRules = fmt.Errorf("network mode bridge with rules: %w: a machine on a bridge does not go through the gate: use nat", atoll.ErrUnsupported)

// noRules reports rules of a network that has no gate.
func noRules(n atoll.Network) error {
	if len(n.Allow)+len(n.Deny)+len(n.Headers) > 0 || n.Inspect || n.Rate > 0 || n.Bytes > 0 {
		return errBridgeRules
	}
	return nil
}

// bridgeMissing says why machines can't be attached to a bridge of this host; nil:
// they can.
func (d *Driver) bridgeMissing() error {
	if d.Bridge == "" {
		return fmt.Errorf("network mode bridge: %w: no bridge of the host is configured for it", atoll.ErrUnsupported)
	}
	return fmt.Errorf("network mode bridge: %w: not yet", atoll.ErrUnsupported)
}

// attach makes the network interface of a sandbox, and returns its address; none
// if it has none.
func (d *Driver) attach(r *record) (mac string, tap *os.File, err error) {
	if modeOf(r.Spec.Network) != atoll.NetworkBridge {
		return "", nil, nil
	}
	return "", nil, d.bridgeMissing()
}
