package rootdisk

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/qcow2"
)

// VirtualSize is that of every disk, in bytes: file systems are smaller where
// less is asked for. So any machine's disk fits the saved state of any other's.
const VirtualSize = 64 << 30

// Store keeps disks in a directory: bases/, uses/ and disks/ below it.
type Store struct {
	Dir string // made when it is needed
}

// Source is what a base disk is made of: an image, or a directory.
type Source struct {
	Images *image.Store
	Ref    string // of an image that is in Images; else ErrNotFound
	Dir    string // of the host, read without following links out of it; if Ref is empty
	Files  int    // the most files and directories that the disk may hold, its own included; 0: 4 million
}

// Base is a disk that others lie over: raw, never written to.
type Base struct {
	Path   string       `json:"path"`
	Digest string       `json:"digest"`          // "sha256:…" of what it was made of
	Used   int64        `json:"used"`            // bytes of its file system that are taken
	Config image.Config `json:"config,omitzero"` // of the image
}

// Use returns the base disk of a source, which is made if it is not there, and
// keeps it until Release. The user is named as files are, such as a sandbox by
// its id; again with the same name changes what it uses. Many may ask at once:
// one makes it, the others wait. When the host's disk is full, it is ErrQuota,
// and nothing is left. progress may be nil.
func (s *Store) Use(ctx context.Context, user string, from Source, progress func(atoll.Progress)) (Base, error) {
	return Base{}, fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Share lets a second user use what a first one uses, such as a fork.
func (s *Store) Share(ctx context.Context, from, to string) (Base, error) {
	return Base{}, fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Used returns what a user uses; nothing is ErrNotFound.
func (s *Store) Used(user string) (Base, error) {
	return Base{}, fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Users returns who uses base disks.
func (s *Store) Users() ([]string, error) {
	return nil, fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Release ends a use. Twice is fine.
func (s *Store) Release(user string) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Collect removes the base disks that nobody uses and no image in the store of
// images is made of, and what makers that died have left. images may be nil: then
// all that nobody uses.
func (s *Store) Collect(ctx context.Context, images *image.Store) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Overlay makes the root disk of a machine: a qcow2 file over a base. free is how
// many bytes can be written besides what the base holds; 0: as many as there is
// room for. So much the file system in it has; nothing has to grow.
func (s *Store) Overlay(file string, base Base, free int64) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Workspace makes the disk of a working directory: a qcow2 file with an empty
// file system for free bytes (0: all there is room for), whose root belongs to
// uid and gid.
func (s *Store) Workspace(file string, free int64, uid, gid int) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Chain returns a machine's disk and what lies beneath it, the top first: files
// of its own directory, base disks, kept disks; anything else is ErrInvalid.
func (s *Store) Chain(file string) ([]qcow2.Layer, error) {
	return nil, fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Kept is a disk that outlived its machine, or is to.
type Kept struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size"`           // bytes that its files may have
	Used    int64     `json:"used"`           // bytes of the host that it takes
	Created time.Time `json:"created"`        // when it was kept
	From    string    `json:"from,omitempty"` // the machine that it was made for
	User    string    `json:"user,omitempty"` // the machine that uses it now; empty: none
	Path    string    `json:"-"`              // of the qcow2 file
}

// Keep makes the disk in a file, which is made one with what lies beneath it, a
// kept one of a name. The file is gone then. No machine may have it open. A name
// that is taken is ErrExists; but where it was kept from the same machine, and the
// file is gone, it is done already. Killed at any instant, the disk is in one of
// both places, whole.
func (s *Store) Keep(ctx context.Context, name, file string, k Kept) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Take gives a kept disk to a machine, which uses it where it is, until GiveBack.
// Again by the same user is fine; one that another uses is ErrState, one that is
// not there ErrNotFound. Snapshots may put layers into the directory of Path.
func (s *Store) Take(ctx context.Context, name, user string) (Kept, error) {
	return Kept{}, fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// GiveBack ends a use of a kept disk. It is made one file again; as another name,
// if that is not empty and not the same: one that is taken is ErrExists. Of who
// doesn't use it, it does nothing.
func (s *Store) GiveBack(ctx context.Context, name, user, as string) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Disks returns the kept disks, by name.
func (s *Store) Disks(ctx context.Context) ([]Kept, error) {
	return nil, fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// RemoveDisk removes a kept disk. One that is in use is ErrState, one that is not
// there ErrNotFound.
func (s *Store) RemoveDisk(ctx context.Context, name string) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}
