package keep

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Home is where the sandboxes of a driver are, whose records are of the type T.
// Any number of processes may use one, and any number of goroutines.
type Home[T any] struct {
	Dir string

	// Clear ends what a sandbox has outside of its directory, and gives it back:
	// processes, images, numbers. It is called with the sandbox's lock held, and
	// with its directory as it is called then; afterwards that is removed. It may
	// be called again for what was cleared half. A record that was never complete
	// is nil.
	Clear func(dir string, r *T) error
}

// RecordFile and LockFile are in the directory of each sandbox.
const (
	RecordFile = "sandbox.json"
	LockFile   = "lock"
)

const (
	newPrefix  = ".new-"
	goneSuffix = ".gone"
)

// patience is how old a directory on its way in is when its maker must have
// died.
const patience = time.Minute

// maxRecord bounds what is read of a record.
const maxRecord = 16 << 20

// Path returns the directory of a sandbox.
func (h *Home[T]) Path(id string) string { return filepath.Join(h.Dir, id) }

// Claim makes the directory of a sandbox, with its record. This process then
// holds its lock, until it closes what is returned. An id that is taken is
// atoll.ErrExists.
func (h *Home[T]) Claim(id string, r *T) (held *os.File, err error) {
	if err := atoll.CheckID(id); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return nil, err
	}
	tmp := filepath.Join(h.Dir, newPrefix+id+"-"+atoll.NewID())
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if held, err = lock(tmp, unix.LOCK_NB); err != nil {
		return nil, err
	}
	err = save(tmp, r)
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, h.Path(id), unix.RENAME_NOREPLACE)
	}
	if errors.Is(err, unix.EEXIST) {
		err = fmt.Errorf("id %s: %w", id, atoll.ErrExists)
	}
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// Load reads the record of a sandbox; one that is not there is
// atoll.ErrNotFound.
func (h *Home[T]) Load(id string) (*T, error) {
	if atoll.CheckID(id) != nil {
		return nil, atoll.ErrNotFound
	}
	return load[T](h.Path(id))
}

func load[T any](dir string) (*T, error) {
	f, err := os.Open(filepath.Join(dir, RecordFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, atoll.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxRecord {
		return nil, fmt.Errorf("%s: %d bytes: it is none", f.Name(), info.Size())
	}
	r := new(T)
	if err := json.NewDecoder(f).Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", RecordFile, err)
	}
	return r, nil
}

// Save replaces the record of a sandbox in one step. Who calls it holds the
// sandbox's lock.
func (h *Home[T]) Save(id string, r *T) error { return save(h.Path(id), r) }

func save(dir string, r any) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, RecordFile+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return errors.Join(err, os.Remove(tmp)) // it may be there in part
	}
	return os.Rename(tmp, filepath.Join(dir, RecordFile))
}

// Erase removes what there is of a sandbox, so that nobody finds it while it is
// cleared. Who calls it holds its lock. What is gone is no error.
func (h *Home[T]) Erase(id string, r *T) error {
	gone := h.Path(id) + goneSuffix
	err := os.Rename(h.Path(id), gone)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.clear(gone, r)
}

// clear removes a directory whose lock is held.
func (h *Home[T]) clear(dir string, r *T) error {
	if h.Clear != nil {
		if err := h.Clear(dir, r); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// Each calls visit for every sandbox, with its record or why that can't be read,
// and sweeps what processes that died have left of others. What can't be swept
// is left to the next time: it hinders nobody else. half tells of a record that
// its sandbox is not made yet; if nobody is at that any more, it is swept too.
func (h *Home[T]) Each(half func(*T) bool, visit func(id string, r *T, err error)) error {
	entries, err := os.ReadDir(h.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if abandoned(e) {
			_ = h.sweep(name) // see above
			continue
		}
		if atoll.CheckID(name) != nil {
			continue
		}
		r, err := h.Load(name)
		switch {
		case errors.Is(err, atoll.ErrNotFound):
		case err == nil && half(r):
			_ = h.sweepHalf(name) // see above
		default:
			visit(name, r, err)
		}
	}
	return nil
}

// abandoned tells whether a directory is of a sandbox on its way out, or in since
// long.
func abandoned(e os.DirEntry) bool {
	if id, gone := strings.CutSuffix(e.Name(), goneSuffix); gone {
		return atoll.CheckID(id) == nil
	}
	if !strings.HasPrefix(e.Name(), newPrefix) {
		return false
	}
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > patience
}

// sweepHalf removes a sandbox that is half made, if nobody is at it.
func (h *Home[T]) sweepHalf(id string) error {
	held, err := lock(h.Path(id), unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	r, err := h.Load(id) // it may have been finished meanwhile, but then somebody else has found it
	if err != nil {
		return err
	}
	return h.Erase(id, r)
}

// sweep removes what is left of a sandbox whose making or removal broke off.
func (h *Home[T]) sweep(name string) error {
	dir := filepath.Join(h.Dir, name)
	held, err := lock(dir, unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	r, err := load[T](dir)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return h.clear(dir, r)
}
