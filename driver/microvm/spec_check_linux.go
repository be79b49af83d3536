package microvm

import (
	"context"
	"errors"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// check reports what is wrong with a spec, and what this driver does not support.
func (d *Driver) check(ctx context.Context, spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	var errs []error
	no := func(what, why string) {
		errs = append(errs, fmt.Errorf("%s: %w by the microvm driver here: %s", what, atoll.ErrUnsupported, why))
	}
	if spec.Runtime != "" {
		no("runtime "+spec.Runtime, "VMs have no other")
	}
	if spec.Pod != nil {
		no("pod", "it does not run in a cluster")
	}
	switch spec.Network.Mode {
	case atoll.NetworkOpen:
		no("network mode open", "a VM does not share the host's network: use nat or bridge")
	case atoll.NetworkBridge:
		if err := d.requireBridge(); err != nil {
			errs = append(errs, err)
		}
		if err := refuseRules(spec.Network); err != nil {
			errs = append(errs, err)
		}
	}
	if err := egress.Check(spec.Network); err != nil {
		errs = append(errs, err)
	}
	if len(spec.Mounts) > 0 {
		proto := ""
		if spec.VM != nil {
			proto = spec.VM.Share
		}
		if err := d.requireShares(ctx, proto); err != nil {
			errs = append(errs, err)
		}
	}
	for _, m := range spec.Mounts {
		if m.Limit > 0 {
			no("a limit of the mount "+m.Target, "the host's file system has none for a directory")
		}
	}
	if m := spec.VM; m != nil {
		if err := hypervisor.CheckArgs(m.Args); err != nil {
			errs = append(errs, &atoll.FieldError{Field: "machine.qemu_extra_args", Err: fmt.Errorf("machine.qemu_extra_args: %w", err)})
		}
	}
	if err := d.checkImage(spec); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, d.checkLimits(spec.Limits)...)...)
}
