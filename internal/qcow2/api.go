package qcow2

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// The formats of a layer.
const (
	Raw   = "raw"
	Qcow2 = "qcow2"
)

// Layer is a file of a chain.
type Layer struct {
	File   string
	Format string // Raw or Qcow2
	Size   int64  // of the disk it stands for, in bytes
	Used   int64  // bytes of the host that it takes
}

// Options say what a new file is.
type Options struct {
	// Size is the disk's, in bytes, a multiple of 512; 0: that of the backing file.
	Size int64
	// Backing is what is read where nothing has been written; empty: zeros.
	Backing string
	Format  string // of Backing
	// Patches are written at once, at multiples of 512.
	Patches []Patch
}

// Patch is content at a place of the disk.
type Patch struct {
	Offset int64
	Data   []byte
}

// Create makes a file; one that is there is ErrExists. On failure there is none.
func Create(file string, o Options) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Chain returns a file and what lies beneath it, the top first. expect is asked
// for each backing file's absolute path before it is opened; one that it doesn't
// know, a loop, and a file with features that could lead elsewhere (external
// data, encryption) are ErrInvalid.
func Chain(top, format string, expect func(file string) bool) ([]Layer, error) {
	return nil, fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Freeze makes what a file holds a layer beneath a new, empty one of the same
// name. No machine may have it open. Crash safe: at any instant the name is the
// old file or the new one; a second name of the old file may be left at frozen.
func Freeze(file, frozen string) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Flatten makes one file of a chain, the top first, that needs nothing beneath
// it. On failure there is none.
func Flatten(ctx context.Context, to string, chain []Layer) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}

// Copy copies a file: as a reference where the file system can, else without its
// holes. On failure there is none.
func Copy(ctx context.Context, to, from string) error {
	return fmt.Errorf("%w: yet", atoll.ErrUnsupported)
}
