package rootdisk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/state/jsondir"
	"github.com/atoll-sandbox/atoll/internal/vm/qcow2"
)

// KeptDisk is a persistent disk, which outlives its VM.
type KeptDisk struct {
	Name       string    `json:"-"`
	Size       int64     `json:"size"`             // size limit of its files in bytes; 0: the maximum
	Used       int64     `json:"-"`                // bytes of the host's disk
	Created    time.Time `json:"created,omitzero"` // time of Keep
	CreatedFor string    `json:"from,omitempty"`   // the VM that it was made for
	User       string    `json:"user,omitempty"`   // the VM that uses it now; empty: none
	Path       string    `json:"-"`                // of the qcow2 file
}

// Files in disks/NAME. The directory appears and disappears in one step, by a rename.
const (
	diskFile = "disk.qcow2"
	infoFile = "disk.json"
	flatFile = "flat.qcow2"
)

// lockDisks makes the directory of the persistent disks, and locks it.
func (s *Store) lockDisks(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.pathTo(disksDir), 0o700); err != nil {
		return nil, fmt.Errorf("disks: %w", wrapDiskFull(err))
	}
	return filelock.Acquire(ctx, s.pathTo(disksDir, disksLock), filelock.Exclusive)
}

// KeepDisk makes a VM's disk, merged with the layers below it, a persistent disk, and removes the file.
// No VM may have it open. A name that exists is ErrExists, unless that disk was kept from the same
// VM before. If the process is killed, the whole disk is in one of both places, and the same call
// completes the work.
func (s *Store) KeepDisk(ctx context.Context, name, file string, k KeptDisk) error {
	if err := atoll.CheckName(name); err != nil {
		return err
	}
	unlock, err := s.lockDisks(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	have, err := s.readDisk(name)
	switch {
	case err == nil && (k.CreatedFor == "" || have.CreatedFor != k.CreatedFor):
		return fmt.Errorf("disk %s: %w", name, atoll.ErrExists)
	case err == nil: // only the removal is left to do
		return ignoreError(os.Remove(file), fs.ErrNotExist)
	case !errors.Is(err, atoll.ErrNotFound):
		return err
	}
	chain, err := s.Chain(file)
	if err != nil {
		return wrapNotFound(err)
	}
	fresh := s.pathTo(disksDir, freshName+name)
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return wrapDiskFull(err)
	}
	if err := s.fillDiskDir(ctx, fresh, chain, k); err != nil {
		return wrapDiskFull(errors.Join(err, os.RemoveAll(fresh)))
	}
	if err := os.Rename(fresh, s.pathTo(disksDir, name)); err != nil {
		return err
	}
	if err := syncDir(s.pathTo(disksDir)); err != nil {
		return err
	}
	return ignoreError(os.Remove(file), fs.ErrNotExist)
}

// fillDiskDir writes a disk and its description into a new directory.
func (s *Store) fillDiskDir(ctx context.Context, dir string, chain []qcow2.Layer, k KeptDisk) error {
	if k.Created.IsZero() {
		k.Created = time.Now().UTC()
	}
	to, err := filepath.Join(dir, diskFile), error(nil)
	if len(chain) == 1 {
		err = os.Link(chain[0].File, to)
	} else {
		err = qcow2.Flatten(ctx, to, chain)
	}
	if err != nil {
		return err
	}
	k.User = ""
	if err := wrapDiskFull(jsondir.WriteFile(filepath.Join(dir, infoFile), k)); err != nil {
		return err
	}
	f, err := os.Open(to)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), syncDir(dir))
}

// readDisk returns the description of a persistent disk.
func (s *Store) readDisk(name string) (KeptDisk, error) {
	if err := atoll.CheckName(name); err != nil {
		return KeptDisk{}, err
	}
	var k KeptDisk
	if err := jsondir.ReadFile(s.pathTo(disksDir, name, infoFile), &k); err != nil {
		return KeptDisk{}, fmt.Errorf("disk %s: %w", name, err)
	}
	k.Name, k.Path = name, s.pathTo(disksDir, name, diskFile)
	return k, nil
}

func (s *Store) setUser(k KeptDisk, user string) error {
	k.User = user
	return wrapDiskFull(jsondir.WriteFile(s.pathTo(disksDir, k.Name, infoFile), k))
}

// ClaimDisk assigns a persistent disk to a VM, which uses it in place until GiveBack. It is no error if
// the same user has it. If another has it, the error is ErrState; if it does not exist,
// ErrNotFound. Snapshots may add layers beside Path; see Chain.
func (s *Store) ClaimDisk(ctx context.Context, name, user string) (KeptDisk, error) {
	if user == "" {
		return KeptDisk{}, fmt.Errorf("%w: the user of the disk is empty", atoll.ErrInvalid)
	}
	unlock, err := s.lockDisks(ctx)
	if err != nil {
		return KeptDisk{}, err
	}
	defer unlock()
	k, err := s.readDisk(name)
	if err != nil {
		return KeptDisk{}, err
	}
	switch k.User {
	case user:
		return k, nil
	case "":
		k.User = user
		return k, s.setUser(k, user)
	}
	return KeptDisk{}, fmt.Errorf("disk %s: %w: %s uses it", name, atoll.ErrState, k.User)
}

// ReleaseDisk ends the use of a persistent disk, which no VM may have open. The disk becomes a single
// file again, and is renamed if as is not empty; a name that exists is ErrExists. If the user does
// not have the disk, nothing happens. If the process is killed, the same call completes the work.
func (s *Store) ReleaseDisk(ctx context.Context, name, user, as string) error {
	unlock, err := s.lockDisks(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	k, err := s.readDisk(name)
	if errors.Is(err, atoll.ErrNotFound) && as != "" && as != name {
		if k, err := s.readDisk(as); err == nil && k.User == user { // renamed, but still assigned
			return s.setUser(k, "")
		}
	}
	if err != nil || k.User != user {
		return err
	}
	if err := s.flattenDisk(ctx, k); err != nil {
		return err
	}
	if as == "" || as == name {
		return s.setUser(k, "")
	}
	if _, err := s.readDisk(as); err == nil {
		return fmt.Errorf("disk %s: %w", as, atoll.ErrExists)
	} else if !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	if err := os.Rename(s.pathTo(disksDir, name), s.pathTo(disksDir, as)); err != nil {
		return err
	}
	k.Name = as
	return errors.Join(syncDir(s.pathTo(disksDir)), s.setUser(k, ""))
}

// flattenDisk merges the layers of a persistent disk into one file, and removes all others from its
// directory.
func (s *Store) flattenDisk(ctx context.Context, k KeptDisk) error {
	chain, err := s.Chain(k.Path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(k.Path)
	if len(chain) > 1 {
		flat := filepath.Join(dir, flatFile)
		if err := ignoreError(os.Remove(flat), fs.ErrNotExist); err != nil {
			return err
		}
		if err := qcow2.Flatten(ctx, flat, chain); err != nil {
			return err
		}
		if err := os.Rename(flat, k.Path); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != diskFile && e.Name() != infoFile {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(append(errs, syncDir(dir))...)
}

// Disks returns the persistent disks, sorted by name.
func (s *Store) Disks(ctx context.Context) ([]KeptDisk, error) {
	entries, err := os.ReadDir(s.pathTo(disksDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []KeptDisk
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		k, err := s.readDisk(e.Name())
		if errors.Is(err, atoll.ErrNotFound) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if k.Used, err = diskUsage(filepath.Dir(k.Path)); err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

// diskUsage returns the bytes of the host's disk that the files of a directory use.
func diskUsage(dir string) (n int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, ignoreError(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			n += st.Blocks * 512
		}
	}
	return n, nil
}

// RemoveDisk removes a persistent disk, and completes other removals that were interrupted. A disk
// in use is ErrState, one that does not exist ErrNotFound.
func (s *Store) RemoveDisk(ctx context.Context, name string) error {
	unlock, err := s.lockDisks(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	k, err := s.readDisk(name)
	if err != nil {
		return err
	}
	if k.User != "" {
		return fmt.Errorf("disk %s: %w: %s uses it", name, atoll.ErrState, k.User)
	}
	left, err := filepath.Glob(s.pathTo(disksDir, removedName+"*"))
	if err != nil {
		return err
	}
	gone := s.pathTo(disksDir, removedName+name)
	for _, path := range append(left, gone) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := os.Rename(s.pathTo(disksDir, name), gone); err != nil {
		return err
	}
	return errors.Join(syncDir(s.pathTo(disksDir)), os.RemoveAll(gone))
}
