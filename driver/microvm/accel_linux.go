package microvm

import (
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// accel returns how processors are made, and a warning if that is slow although
// nobody asked for it.
func (d *Driver) accel() (accel, slow string) {
	if d.Accel != "" {
		return d.Accel, ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.accel == "" {
		d.host.accel = machine.TCG
		d.host.slow = "machines are emulated"
	}
	return d.host.accel, d.host.slow
}

// nested tells whether machines of this host can run machines themselves, or why
// not.
func (d *Driver) nested(accel string) (ok bool, why string) {
	if accel != machine.KVM {
		return false, "machines in a machine need one whose processors are the host's own: these are emulated"
	}
	return false, "not known"
}
