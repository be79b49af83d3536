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
	"github.com/atoll-sandbox/atoll/internal/filelock"
	"github.com/atoll-sandbox/atoll/internal/qcow2"
)

// Kept is a disk that outlived its machine, or is to.
type Kept struct {
	Name    string    `json:"-"`
	Size    int64     `json:"size"`             // bytes that its files may have; 0: as many as there is room for
	Used    int64     `json:"-"`                // bytes of the host that it takes
	Created time.Time `json:"created,omitzero"` // when it was kept
	From    string    `json:"from,omitempty"`   // the machine that it was made for
	User    string    `json:"user,omitempty"`   // the machine that uses it now; empty: none
	Path    string    `json:"-"`                // of the qcow2 file
}

// Below disks/NAME: the disk, and what is known of it. A directory comes and goes
// by its name, in one step.
const (
	diskFile = "disk.qcow2"
	infoFile = "disk.json"
	flatFile = "flat.qcow2"
)

// disks makes the directory of kept disks and takes its lock.
func (s *Store) disks(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.path(disksDir), 0o700); err != nil {
		return nil, fmt.Errorf("disks: %w", full(err))
	}
	return filelock.Wait(ctx, s.path(disksDir, ".lock"), filelock.Exclusive)
}

// Keep makes the disk in a file, which is made one with what lies beneath it, a
// kept one of a name. The file is gone then. No machine may have it open. A name
// that is taken is ErrExists; but one that was kept from the same machine is done
// already. Killed at any instant, the disk is in one of both places, whole, and
// the same call goes on.
func (s *Store) Keep(ctx context.Context, name, file string, k Kept) error {
	if err := atoll.CheckName(name); err != nil {
		return err
	}
	unlock, err := s.disks(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	have, err := s.kept(name)
	switch {
	case err == nil && (k.From == "" || have.From != k.From):
		return fmt.Errorf("disk %s: %w", name, atoll.ErrExists)
	case err == nil: // what is left is the removal
		return ignore(os.Remove(file), fs.ErrNotExist)
	case !errors.Is(err, atoll.ErrNotFound):
		return err
	}
	chain, err := s.Chain(file)
	if err != nil {
		return missing(err)
	}
	fresh := s.path(disksDir, freshName+name)
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return full(err)
	}
	if err := s.fill(ctx, fresh, chain, k); err != nil {
		return full(errors.Join(err, os.RemoveAll(fresh)))
	}
	if err := os.Rename(fresh, s.path(disksDir, name)); err != nil {
		return err
	}
	if err := syncDir(s.path(disksDir)); err != nil {
		return err
	}
	return ignore(os.Remove(file), fs.ErrNotExist)
}

// fill puts a disk and what is known of it into a new directory.
func (s *Store) fill(ctx context.Context, dir string, chain []qcow2.Layer, k Kept) error {
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
	if err := writeJSON(filepath.Join(dir, infoFile), k); err != nil {
		return err
	}
	f, err := os.Open(to)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), syncDir(dir))
}

// kept reads what is known of a disk.
func (s *Store) kept(name string) (Kept, error) {
	if err := atoll.CheckName(name); err != nil {
		return Kept{}, err
	}
	var k Kept
	if err := readJSON(s.path(disksDir, name, infoFile), &k); err != nil {
		return Kept{}, fmt.Errorf("disk %s: %w", name, err)
	}
	k.Name, k.Path = name, s.path(disksDir, name, diskFile)
	return k, nil
}

func (s *Store) setUser(k Kept, user string) error {
	k.User = user
	return writeJSON(s.path(disksDir, k.Name, infoFile), k)
}

// Take gives a kept disk to a machine, which uses it where it is, until GiveBack.
// Again by the same user is fine; one that another uses is ErrState, one that is
// not there ErrNotFound. Snapshots may put layers beside Path; see Chain.
func (s *Store) Take(ctx context.Context, name, user string) (Kept, error) {
	if user == "" {
		return Kept{}, fmt.Errorf("%w: a disk for nobody", atoll.ErrInvalid)
	}
	unlock, err := s.disks(ctx)
	if err != nil {
		return Kept{}, err
	}
	defer unlock()
	k, err := s.kept(name)
	if err != nil {
		return Kept{}, err
	}
	switch k.User {
	case user:
		return k, nil
	case "":
		k.User = user
		return k, s.setUser(k, user)
	}
	return Kept{}, fmt.Errorf("disk %s: %w: %s uses it", name, atoll.ErrState, k.User)
}

// GiveBack ends a use of a kept disk, which no machine may have open any more. It
// is made one file again; as another name, if that is not empty and not the same:
// one that is taken is ErrExists. Of who doesn't use it, it does nothing. Killed
// at any instant, the same call goes on.
func (s *Store) GiveBack(ctx context.Context, name, user, as string) error {
	unlock, err := s.disks(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	k, err := s.kept(name)
	if errors.Is(err, atoll.ErrNotFound) && as != "" && as != name {
		if k, err := s.kept(as); err == nil && k.User == user { // renamed, not yet given back
			return s.setUser(k, "")
		}
	}
	if err != nil || k.User != user {
		return err
	}
	if err := s.flatten(ctx, k); err != nil {
		return err
	}
	if as == "" || as == name {
		return s.setUser(k, "")
	}
	if _, err := s.kept(as); err == nil {
		return fmt.Errorf("disk %s: %w", as, atoll.ErrExists)
	} else if !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	if err := os.Rename(s.path(disksDir, name), s.path(disksDir, as)); err != nil {
		return err
	}
	k.Name = as
	return errors.Join(syncDir(s.path(disksDir)), s.setUser(k, ""))
}

// flatten makes a kept disk one file, alone in its directory.
func (s *Store) flatten(ctx context.Context, k Kept) error {
	chain, err := s.Chain(k.Path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(k.Path)
	if len(chain) > 1 {
		flat := filepath.Join(dir, flatFile)
		if err := ignore(os.Remove(flat), fs.ErrNotExist); err != nil {
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

// Disks returns the kept disks, by name.
func (s *Store) Disks(ctx context.Context) ([]Kept, error) {
	entries, err := os.ReadDir(s.path(disksDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Kept
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		k, err := s.kept(e.Name())
		if errors.Is(err, atoll.ErrNotFound) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if k.Used, err = takes(filepath.Dir(k.Path)); err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

// takes returns how many bytes of the host the files of a directory take.
func takes(dir string) (n int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, ignore(err, fs.ErrNotExist)
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

// RemoveDisk removes a kept disk, and what is left of others that somebody began
// to remove. One that is in use is ErrState, one that is not there ErrNotFound.
func (s *Store) RemoveDisk(ctx context.Context, name string) error {
	unlock, err := s.disks(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	k, err := s.kept(name)
	if err != nil {
		return err
	}
	if k.User != "" {
		return fmt.Errorf("disk %s: %w: %s uses it", name, atoll.ErrState, k.User)
	}
	left, err := filepath.Glob(s.path(disksDir, goneName+"*"))
	if err != nil {
		return err
	}
	gone := s.path(disksDir, goneName+name)
	for _, path := range append(left, gone) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := os.Rename(s.path(disksDir, name), gone); err != nil {
		return err
	}
	return errors.Join(syncDir(s.path(disksDir)), os.RemoveAll(gone))
}
