package atoll

import (
	"context"
	"time"
)

// FreshStarter is a Stopper whose disks can be discarded.
type FreshStarter interface {
	// StartFresh starts a stopped sandbox in the state of its creation: everything written to its
	// disks since then is discarded, and so are its snapshots. A running sandbox is ErrState.
	// If the start fails, the disks are discarded all the same; Start and Fresh can try again.
	StartFresh(ctx context.Context) error
}

// DiskKeeper is a sandbox whose working directory is a disk that can outlive the sandbox.
type DiskKeeper interface {
	// DestroyKeepDisk removes the sandbox as Destroy does but keeps the disk of its working
	// directory under a name, for VM.Disk of another sandbox. A name that is in use is
	// ErrExists; a sandbox without such a disk is ErrState. In both cases nothing changes. A
	// sandbox that was created with a persistent disk returns it under the same name; another name
	// renames it. Calling it twice with the same name is not an error.
	DestroyKeepDisk(ctx context.Context, name string) error
}

// DiskStore is a Driver that keeps disks of destroyed sandboxes.
type DiskStore interface {
	// Disks returns the persistent disks, by name.
	Disks(ctx context.Context) ([]Disk, error)
	// RemoveDisk removes a disk and its files. A disk that is in use is ErrState, a missing
	// one ErrNotFound.
	RemoveDisk(ctx context.Context, name string) error
}

// Disk is the persistent disk of a working directory.
type Disk struct {
	Name       string    `json:"name"`
	Owner      Owner     `json:"owner,omitzero"`    // set by the fleet; drivers leave it zero
	Driver     string    `json:"driver,omitempty"`  // set by the fleet
	Size       int64     `json:"size"`              // bytes available to its files
	Used       int64     `json:"used"`              // bytes used on the host
	Created    time.Time `json:"created"`           // when the disk was kept
	CreatedFor string    `json:"from,omitempty"`    // id of the sandbox that it was created for
	Sandbox    string    `json:"sandbox,omitempty"` // id of the sandbox that uses it now; empty: none
}

// StartFresh starts a stopped sandbox with its disks discarded; see [FreshStarter].
func StartFresh(ctx context.Context, sb Sandbox) error {
	f, err := requireAbility[FreshStarter](sb, "fresh start")
	if err != nil {
		return err
	}
	return f.StartFresh(ctx)
}

// DestroyKeepDisk removes a sandbox but keeps the disk of its working directory
// under a name; see [DiskKeeper].
func DestroyKeepDisk(ctx context.Context, sb Sandbox, name string) error {
	if err := CheckName(name); err != nil {
		return &Error{Op: "keep disk", ID: sb.ID(), Err: err}
	}
	k, err := requireAbility[DiskKeeper](sb, "keep disk")
	if err != nil {
		return err
	}
	return k.DestroyKeepDisk(ctx, name)
}
