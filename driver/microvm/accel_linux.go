package microvm

import (
	"context"
	"path/filepath"

	"github.com/atoll-sandbox/atoll/internal/vm/boot"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// acceleration describes how VMs run on this host.
type acceleration struct {
	accel  string // hypervisor.KVM or hypervisor.TCG
	slow   string // a warning if VMs are emulated although that was not configured
	nested bool   // VMs can run VMs
	why    string // why they can't
}

// detectAcceleration returns how VMs run on this host. It finds that out once.
func (d *Driver) detectAcceleration(ctx context.Context) acceleration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.accel != nil {
		return *d.host.accel
	}
	found := boot.ProbeAcceleration(ctx, filepath.Join(d.Dir, "boot"))
	a := acceleration{accel: hypervisor.KVM, nested: found.Nested, why: found.NestedProblem}
	switch {
	case d.Accel == hypervisor.TCG:
		a = acceleration{accel: hypervisor.TCG, why: "VMs are emulated here, as configured, and can't run others"}
	case d.Accel == "" && !found.KVM:
		a.accel, a.slow = hypervisor.TCG, "VMs are emulated, which is slow and a weaker isolation: "+found.KVMProblem
	}
	if ctx.Err() == nil {
		d.host.accel = &a
	}
	return a
}

// nestedSupport reports whether a sandbox can run VMs, and if not, why.
func nestedSupport(a acceleration, asked *bool) (ok bool, why string) {
	if asked != nil && !*asked {
		return false, "it was created without"
	}
	return a.nested, a.why
}
