package microvm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/keep"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// The files of a sandbox's directory, which is the host's alone, besides its
// record and those of its machine.
const (
	rootFile    = "root.qcow2"
	workFile    = "workspace.qcow2"
	gateName    = "gate"
	snapshotDir = "snapshots"
)

// record is what is kept of a sandbox.
type record struct {
	ID      string      `json:"id"`
	Spec    atoll.Spec  `json:"spec"`
	Created time.Time   `json:"created"`
	State   atoll.State `json:"state"` // starting, running, paused, stopped
	Started time.Time   `json:"started,omitzero"`
	Boot    string      `json:"boot,omitempty"` // in which run of the host's kernel it was started

	UID   int    `json:"uid,omitempty"`   // whom QEMU runs as; 0: who made the sandbox
	Accel string `json:"accel,omitempty"` // of the machine that runs, or ran
	Type  string `json:"type,omitempty"`  // likewise

	Nested      bool   `json:"nested,omitempty"`       // it can run machines itself
	NestedWhy   string `json:"nested_why,omitempty"`   // why not, if that is to be told
	TemplateWhy string `json:"template_why,omitempty"` // why it was booted, and not cloned
	DiskSize    int64  `json:"disk_size,omitempty"`    // what its file systems were made for, as Limits.Disk has it

	Restoring string `json:"restoring,omitempty"` // the snapshot whose disks are being put into place

	Kept string `json:"kept,omitempty"` // name of the kept disk that it came with
	Keep string `json:"keep,omitempty"` // name under which its working directory is kept when it is cleared

	untouched bool // its disks were made by this call, and no machine had them yet
	woken     bool // this call woke it from a template that has rehearsed
}

// home returns where the sandboxes of this driver are.
func (d *Driver) home() *keep.Home[record] {
	return &keep.Home[record]{Dir: d.Dir, Clear: d.clear}
}

func (d *Driver) dir(id string) string { return filepath.Join(d.Dir, id) }

// load reads the record of a sandbox.
func (d *Driver) load(id string) (*record, error) { return d.home().Load(id) }

func (d *Driver) save(r *record) error { return d.home().Save(r.ID, r) }

// The user numbers of the host that hypervisors get: one each, in a part that
// nothing else hands out.
const (
	firstUser = 0x6f000000
	users     = 4000
)

func (d *Driver) numbers() keep.Numbers {
	return keep.Numbers{Dir: filepath.Join(d.Dir, "ids"), First: firstUser, Per: 1, Count: users}
}

// root tells whether this process may run hypervisors as users of their own.
func root() bool { return os.Geteuid() == 0 }

// clear ends a sandbox that is on its way out, in its directory as that is called
// now, and gives back what it has elsewhere.
func (d *Driver) clear(dir string, r *record) error {
	if r == nil {
		return nil
	}
	ctx, cancel := endContext()
	defer cancel()
	if err := d.endMachine(ctx, dir, r); err != nil {
		return err
	}
	if gated(r.Spec.Network) {
		if err := gate.Open(filepath.Join(dir, gateName)).Ended(ctx); err != nil {
			return err
		}
	}
	return errors.Join(d.leaveDisks(ctx, dir, r), d.numbers().Free(r.UID))
}

// process returns the machine of a sandbox that runs, or an error that matches
// atoll.ErrNotFound.
func (d *Driver) machine(id string) (*machine.Machine, error) { return machine.Open(d.dir(id)) }

// broken is the status of a sandbox whose record can't be read.
func (d *Driver) broken(id string, err error) atoll.Status {
	return atoll.Status{
		ID: id, Driver: d.Name(), State: atoll.Failed, Isolation: emulated,
		Conditions: []atoll.Condition{{Type: "ready", Reason: "unreadable", Message: err.Error()}},
	}
}

// bootID tells this run of the host's kernel from others.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("which run of the kernel this is: %w", err)
	}
	return string(b[:len(b)-1]), nil
}
