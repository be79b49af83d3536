package rootdisk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/state/jsondir"
	"github.com/atoll-sandbox/atoll/internal/vm/qcow2"
)

// VirtualSize is the size of every disk in bytes; file systems may be smaller. So each VM's disk
// fits the saved state of another VM.
const VirtualSize = 64 << 30

// Store stores disks in a directory, below bases/, uses/ and disks/.
type Store struct {
	Dir string // created if it is missing
}

const (
	basesDir = "bases"
	usesDir  = "uses"
	disksDir = "disks"

	baseSuffix  = ".ext4"
	lockSuffix  = ".lock"
	freshName   = ".new-" // prefix of unfinished files
	removedName = ".gone-"
	lockName    = "lock"  // lock of the bases
	disksLock   = ".lock" // lock of the persistent disks
)

// Base is a raw, read-only disk below overlays.
type Base struct {
	Path   string       `json:"path"`
	Digest string       `json:"digest"`          // "sha256:…" of the source
	Used   int64        `json:"used"`            // used bytes of its file system
	Config image.Config `json:"config,omitzero"` // of the image
}

func (s *Store) pathTo(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// lockBases makes the directories and locks the bases: Shared to make and use them, Exclusive to
// remove some.
func (s *Store) lockBases(ctx context.Context, how int) (unlock func(), err error) {
	for _, dir := range []string{basesDir, usesDir} {
		if err := os.MkdirAll(s.pathTo(dir), 0o700); err != nil {
			return nil, fmt.Errorf("disks: %w", wrapDiskFull(err))
		}
	}
	return filelock.Acquire(ctx, s.pathTo(basesDir, lockName), how)
}

// Share makes a second user, such as a fork, use the base disk of a first one.
func (s *Store) Share(ctx context.Context, from, to string) (Base, error) {
	unlock, err := s.lockBases(ctx, filelock.Shared)
	if err != nil {
		return Base{}, err
	}
	defer unlock()
	b, err := s.BaseOf(from)
	if err != nil {
		return Base{}, err
	}
	return b, s.writeUse(to, b)
}

func (s *Store) writeUse(user string, b Base) error { return wrapDiskFull(s.useDir().Write(user, b)) }

// BaseOf returns the base disk of a user; ErrNotFound if it has none.
func (s *Store) BaseOf(user string) (Base, error) {
	if err := s.useDir().CheckName(user); err != nil {
		return Base{}, err
	}
	var b Base
	if err := s.useDir().Read(user, &b); err != nil {
		return Base{}, fmt.Errorf("base disk of %s: %w", user, err)
	}
	b.Path = s.pathTo(basesDir, filepath.Base(b.Path)) // the store may have been moved
	return b, nil
}

// Users returns the users of base disks.
func (s *Store) Users() ([]string, error) { return s.useDir().Names() }

// Release ends the use of a user. Twice is no error.
func (s *Store) Release(user string) error { return s.useDir().Remove(user) }

// useDir returns the directory of the users' base disks.
func (s *Store) useDir() jsondir.Dir { return jsondir.Dir(s.pathTo(usesDir)) }

// CollectGarbage removes unused base disks, except those of the images in a store, and unfinished files.
// images may be nil.
func (s *Store) CollectGarbage(ctx context.Context, images *image.Store) error {
	unlock, err := s.lockBases(ctx, filelock.Exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	keep, err := s.wantedBases(ctx, images)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.pathTo(basesDir))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != lockName && !slices.Contains(keep, e.Name()) {
			errs = append(errs, ignoreError(os.Remove(s.pathTo(basesDir, e.Name())), fs.ErrNotExist))
		}
	}
	return errors.Join(append(errs, s.useDir().Sweep())...)
}

// RemoveUnfinished removes what killed processes have left of base disks, uses and persistent disks, unless another process is
// active.
func (s *Store) RemoveUnfinished() error {
	return errors.Join(
		s.removeLeft(s.pathTo(basesDir, lockName), s.pathTo(basesDir, freshName+"*"), s.pathTo(usesDir, atomicfile.TempPattern)),
		s.removeLeft(s.pathTo(disksDir, disksLock), s.pathTo(disksDir, freshName+"*"), s.pathTo(disksDir, removedName+"*")))
}

// removeLeft removes the files and directories with names like patterns, unless another process has a lock.
func (s *Store) removeLeft(lock string, patterns ...string) error {
	var left []string
	for _, pattern := range patterns {
		list, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		left = append(left, list...)
	}
	if len(left) == 0 {
		return nil
	}
	f, err := os.OpenFile(lock, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ignoreError(err, fs.ErrNotExist)
	}
	defer f.Close()
	if alone, err := filelock.Try(f); err != nil || !alone {
		return err
	}
	var errs []error
	for _, path := range left {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// wantedBases returns the names of the base disks to keep.
func (s *Store) wantedBases(ctx context.Context, images *image.Store) ([]string, error) {
	users, err := s.Users()
	if err != nil {
		return nil, err
	}
	var keep []string
	for _, user := range users {
		b, err := s.BaseOf(user)
		if errors.Is(err, atoll.ErrNotFound) { // released meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		keep = append(keep, filepath.Base(b.Path))
	}
	if images == nil {
		return keep, nil
	}
	list, err := images.Images(ctx)
	if err != nil {
		return nil, err
	}
	for _, im := range list {
		root, err := images.Resolve(ctx, im.Ref)
		if errors.Is(err, atoll.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		keep = append(keep, baseKey(root.Layers)+baseSuffix)
	}
	return keep, nil
}

// Chain returns a VM's disk and the layers below it, topmost first. A layer is a base disk, or a
// file in the disk's directory whose name begins like the disk's, such as disk.1.qcow2 below
// disk.qcow2; anything else is ErrInvalid. Layers are found by their names, so a store that was
// moved keeps its disks.
func (s *Store) Chain(file string) ([]qcow2.Layer, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	bases, err := filepath.Abs(s.pathTo(basesDir))
	if err != nil {
		return nil, err
	}
	chain, err := qcow2.ReadChain(file, qcow2.Qcow2, func(beneath string) (string, bool) {
		name := filepath.Base(beneath)
		if filepath.Base(filepath.Dir(beneath)) == basesDir && strings.HasSuffix(name, baseSuffix) {
			return filepath.Join(bases, name), true
		}
		own := filepath.Join(filepath.Dir(file), name)
		return own, own != file && strings.HasPrefix(name, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	})
	if err != nil {
		return nil, err
	}
	for _, l := range chain {
		if l.Format == qcow2.Raw && l.Size != VirtualSize {
			return nil, fmt.Errorf("%w: %s is truncated: it has %d bytes of %d", atoll.ErrInvalid, l.File, l.Size, int64(VirtualSize))
		}
	}
	return chain, nil
}

// syncDir flushes the entries of a directory to disk.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreError(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}

// wrapDiskFull adds ErrQuota to the error of a full disk.
func wrapDiskFull(err error) error {
	if !errors.Is(err, atoll.ErrQuota) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return fmt.Errorf("%w: the host's disk is full: %w", atoll.ErrQuota, err)
	}
	return err
}
