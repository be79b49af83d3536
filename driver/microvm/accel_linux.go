package microvm

import (
	"context"
	"path/filepath"

	"github.com/atoll-sandbox/atoll/internal/boot"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// acceleration is what this host does for machines.
type acceleration struct {
	accel  string // machine.KVM or machine.TCG
	slow   string // a warning, if that is slow although nobody asked for it
	nested bool   // machines can run machines themselves
	why    string // why not
}

// acceleration finds it out once.
func (d *Driver) acceleration(ctx context.Context) acceleration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.accel != nil {
		return *d.host.accel
	}
	found := boot.Acceleration(ctx, filepath.Join(d.Dir, "boot"))
	a := acceleration{accel: machine.KVM, nested: found.Nested, why: found.NestedWhy}
	switch {
	case d.Accel == machine.TCG:
		a = acceleration{accel: machine.TCG, why: "machines are emulated here, as configured, and can't run others"}
	case d.Accel == "" && !found.KVM:
		a.accel, a.slow = machine.TCG, "machines are emulated, which is slow, and a weaker wall: "+found.Why
	}
	if ctx.Err() == nil {
		d.host.accel = &a
	}
	return a
}

// nestedOf tells whether a sandbox can run machines itself, and if not, why.
func nestedOf(a acceleration, asked *bool) (ok bool, why string) {
	if asked != nil && !*asked {
		return false, "it was made without"
	}
	return a.nested, a.why
}
