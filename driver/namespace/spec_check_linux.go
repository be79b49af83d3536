package namespace

import (
	"errors"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
)

// limitHint ends the error of a limit that this host can't set.
const limitHint = "; leave the limit out, or see 'atoll doctor --verbose' for how to get it"

// check reports what is wrong with a spec, and what this driver does not support.
func (d *Driver) check(spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	var errs []error
	no := func(what, why string) {
		errs = append(errs, fmt.Errorf("%s: %w by the namespace driver here: %s", what, atoll.ErrUnsupported, why))
	}
	if spec.Image != "" && spec.Runtime != "" {
		no("image "+spec.Image+" with the runtime "+spec.Runtime, "it has only the host's own root there")
	}
	switch spec.Runtime {
	case "":
	case runtimeRunsc:
		if err := d.checkRunsc(spec); err != nil {
			errs = append(errs, err)
		}
	default:
		no("runtime "+spec.Runtime, "there are its own and runsc")
	}
	if spec.VM != nil {
		no("machine", "it shares the host's kernel")
	}
	if spec.Pod != nil {
		no("pod", "it does not run in a cluster")
	}
	if spec.Network.Mode == atoll.NetworkBridge {
		no("network mode bridge", "sandboxes have no interface of their own: use nat or open")
	}
	if err := egress.Check(spec.Network); err != nil {
		errs = append(errs, err)
	}
	for _, m := range spec.Mounts {
		if m.Limit > 0 {
			no("a limit of the mount "+m.Target, "the host's file system has none for a directory")
		}
	}
	if n := spec.Limits.PIDs; n > 0 && n < minPIDs {
		errs = append(errs, fmt.Errorf("%w: limits.pids %d: at least %d", atoll.ErrInvalid, n, minPIDs))
	}
	if n := spec.Limits.Memory; n > 0 && n < minMemory {
		errs = append(errs, fmt.Errorf("%w: limits.memory %d: at least %d bytes", atoll.ErrInvalid, n, minMemory))
	}
	if n, total := spec.Limits.Memory, cgroup.HostMemory(); total > 0 && n > total {
		errs = append(errs, fmt.Errorf("%w: limits.memory %d MiB: this host has %d MiB", atoll.ErrInvalid, n>>20, total>>20))
	}
	if err := checkDisk(spec); err != nil {
		errs = append(errs, err)
	}
	t, err := d.cgroups()
	if err != nil {
		return err
	}
	if why := t.Missing()[cgroup.CPU]; lacksControl(t, cgroup.CPU, int64(spec.Limits.CPU*1000)) {
		no("limits.cpu", why+limitHint)
	}
	if why := t.Missing()[cgroup.Memory]; lacksControl(t, cgroup.Memory, spec.Limits.Memory) {
		no("limits.memory", why+limitHint)
	}
	return errors.Join(errs...)
}
