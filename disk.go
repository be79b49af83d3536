package atoll

import (
	"context"
	"time"
)

// What a machine of its own has when nobody says so, and the least it works
// with: [Resources.Memory] and [Resources.CPU] of [Spec.Limits].
const (
	DefaultMachineMemory = 8 << 30 // bytes
	MinMachineMemory     = 1 << 30 // bytes
	DefaultMachineCPU    = 4       // virtual processors
	MinMachineCPU        = 1
)

// Fresher is a Stopper whose disks can be discarded.
type Fresher interface {
	// Fresh starts a stopped sandbox as it was when it was created: what has
	// been written to its disks since, and its snapshots, are gone. A sandbox
	// that runs is ErrState. When the start fails, the disks are gone all the
	// same, and Start or Fresh can try again.
	Fresh(ctx context.Context) error
}

// DiskKeeper is a sandbox whose working directory is a disk that can outlive
// it.
type DiskKeeper interface {
	// DestroyKeeping removes the sandbox as Destroy does, but for the disk of
	// its working directory: its driver keeps that under a name, for
	// Machine.Disk of another sandbox. A name that is taken is ErrExists, a
	// sandbox that has no such disk ErrState: then nothing has changed. A
	// sandbox that came with a kept disk gives it back under the same name; to
	// another name, it is renamed. Twice with the same name is not an error.
	DestroyKeeping(ctx context.Context, name string) error
}

// DiskStore is a Driver that keeps disks of destroyed sandboxes.
type DiskStore interface {
	// Disks returns the kept disks, by name.
	Disks(ctx context.Context) ([]Disk, error)
	// RemoveDisk forgets a disk and all on it. One that is in use is ErrState,
	// one that is not there ErrNotFound.
	RemoveDisk(ctx context.Context, name string) error
}

// Disk is the kept disk of a working directory.
type Disk struct {
	Name    string    `json:"name"`
	Owner   Owner     `json:"owner,omitzero"`    // whose it is, as the fleet says; drivers leave it zero
	Driver  string    `json:"driver,omitempty"`  // likewise
	Size    int64     `json:"size"`              // bytes that its files may have
	Used    int64     `json:"used"`              // bytes of the host that it takes
	Created time.Time `json:"created"`           // when it was kept
	From    string    `json:"from,omitempty"`    // the sandbox that it was made for, an id
	Sandbox string    `json:"sandbox,omitempty"` // the sandbox that uses it now, an id; empty: none
}

// Fresh starts a stopped sandbox with its disks discarded; see [Fresher].
func Fresh(ctx context.Context, sb Sandbox) error {
	f, err := able[Fresher](sb, "fresh start")
	if err != nil {
		return err
	}
	return f.Fresh(ctx)
}

// DestroyKeeping removes a sandbox but keeps the disk of its working directory
// under a name; see [DiskKeeper].
func DestroyKeeping(ctx context.Context, sb Sandbox, name string) error {
	if err := CheckName(name); err != nil {
		return &Error{Op: "keep disk", ID: sb.ID(), Err: err}
	}
	k, err := able[DiskKeeper](sb, "keep disk")
	if err != nil {
		return err
	}
	return k.DestroyKeeping(ctx, name)
}
