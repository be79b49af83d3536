package microvm

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// The files of a sandbox's directory besides its record and those of its VM. Only the host uses that
// directory.
const (
	rootFile  = "root.qcow2"
	workFile  = "workspace.qcow2"
	egressDir = "gate" // of its egress proxy
)

// record is the persistent state of a sandbox.
type record struct {
	ID      string      `json:"id"`
	Spec    atoll.Spec  `json:"spec"`
	Created time.Time   `json:"created"`
	State   atoll.State `json:"state"` // starting, running, paused, stopped
	Started time.Time   `json:"started,omitzero"`
	Boot    string      `json:"boot,omitempty"` // statedir.BootID when it was started

	UID   int    `json:"uid,omitempty"`   // user that QEMU runs as; 0: the user that created the sandbox
	Accel string `json:"accel,omitempty"` // of the VM that runs, or ran last
	Type  string `json:"type,omitempty"`  // likewise

	Nested      bool   `json:"nested,omitempty"`       // it can run VMs
	NestedWhy   string `json:"nested_why,omitempty"`   // why not, if that is reported
	TemplateWhy string `json:"template_why,omitempty"` // why it was booted and not started from a template
	DiskSize    int64  `json:"disk_size,omitempty"`    // size of its file systems, as in Limits.Disk

	Failure string `json:"failure,omitempty"` // why the last start failed; empty: it did not

	Kept string `json:"kept,omitempty"` // name of the persistent disk that it was created with
	Keep string `json:"keep,omitempty"` // name under which its working directory is kept when it is removed

	newDisks     bool // its disks were made by this call, and no VM has used them yet
	fromTemplate bool // this call started it from a template that was warmed up
}

// stateHome returns the store of this driver's sandboxes.
func (d *Driver) stateHome() *statedir.Home[record] {
	return &statedir.Home[record]{Dir: d.Dir, Clear: d.clearSandbox, Recover: d.recoverSandbox}
}

func (d *Driver) sandboxDir(id string) string { return filepath.Join(d.Dir, id) }

// load reads the record of a sandbox.
func (d *Driver) load(id string) (*record, error) { return d.stateHome().Load(id) }

func (d *Driver) save(r *record) error { return d.stateHome().Save(r.ID, r) }

// The user IDs of the host that hypervisors get: one each, in a part that nothing else hands out.
const (
	firstUser = 0x6f000000
	users     = 4000
)

// userIDs returns the user IDs of hypervisors.
func (d *Driver) userIDs() statedir.RangeAllocator {
	return statedir.RangeAllocator{Dir: filepath.Join(d.Dir, "ids"), First: firstUser, PerRange: 1, Count: users}
}

// isRoot reports whether this process can run hypervisors as users of their own.
func isRoot() bool { return os.Geteuid() == 0 }

// clearSandbox ends a sandbox that is being removed, whose directory is now dir, and releases all it
// has elsewhere. r is nil when its record was never complete.
func (d *Driver) clearSandbox(dir string, r *record) error {
	if r == nil {
		return nil
	}
	if !statedir.Claimed(dir) {
		return d.userIDs().Release(r.ID, r.UID)
	}
	ctx, cancel := newEndContext()
	defer cancel()
	if err := d.killVMIn(ctx, dir, r); err != nil {
		return err
	}
	if egress.IsNeeded(r.Spec.Network) {
		if err := egress.Open(filepath.Join(dir, egressDir)).WaitForExit(ctx); err != nil {
			return err
		}
	}
	return errors.Join(d.releaseDisks(ctx, dir, r), d.userIDs().Release(r.ID, r.UID))
}

// openVM returns the VM of a sandbox that runs, or an error that matches atoll.ErrNotFound.
func (d *Driver) openVM(id string) (*hypervisor.VM, error) {
	return hypervisor.Open(d.sandboxDir(id))
}
