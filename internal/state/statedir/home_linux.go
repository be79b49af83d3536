package statedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// Home is the directory of a driver's sandboxes, with records of the type T.
// Processes and goroutines may use it concurrently.
type Home[T any] struct {
	Dir string

	// Clear releases the resources of a sandbox outside of its directory:
	// processes, images, numbers. It is called with the sandbox's lock held and
	// with the current path of its directory, which is removed afterwards. It may
	// be called again after an incomplete call. The record is nil if it was never
	// written completely.
	Clear func(dir string, r *T) error

	// Recover finishes or undoes an act on a sandbox whose process died, or that failed. It is called
	// with the sandbox's lock held and may be called again after an error. It changes
	// and saves the record as needed. nil: the driver records no acts.
	Recover func(r *T, act *journal.Act) error
}

// RecordFile and LockFile are files in the directory of each sandbox.
const (
	RecordFile = "sandbox.json"
	LockFile   = "lock"
)

const (
	newPrefix     = ".new-"
	removedSuffix = ".gone"
)

// staleAge is the age after which a directory in creation counts as left behind by a dead
// process.
const staleAge = time.Minute

// maxRecord limits the bytes of a record.
const maxRecord = 16 << 20

// Path returns the directory of a sandbox.
func (h *Home[T]) Path(id string) string { return filepath.Join(h.Dir, id) }

// Claim creates the directory of a sandbox with its record and locks it. The
// caller holds the lock until it closes the returned file. An existing id is
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
	if held, err = lockDir(tmp, unix.LOCK_NB); err != nil {
		return nil, err
	}
	err = saveRecord(tmp, r)
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

// Load reads the record of a sandbox; a missing sandbox is
// atoll.ErrNotFound.
func (h *Home[T]) Load(id string) (*T, error) {
	if atoll.CheckID(id) != nil {
		return nil, atoll.ErrNotFound
	}
	return loadRecord[T](h.Path(id))
}

func loadRecord[T any](dir string) (*T, error) {
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
		return nil, fmt.Errorf("%s: %d bytes: too large for a record", f.Name(), info.Size())
	}
	r := new(T)
	if err := json.NewDecoder(f).Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", RecordFile, err)
	}
	return r, nil
}

// Save replaces the record of a sandbox atomically. The caller holds the
// sandbox's lock.
func (h *Home[T]) Save(id string, r *T) error { return saveRecord(h.Path(id), r) }

func saveRecord(dir string, r any) error { return saveJSON(dir, RecordFile, r) }

// saveJSON replaces a file of a directory atomically.
func saveJSON(dir, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, name+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return errors.Join(err, os.Remove(tmp)) // it may be written in part
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

// Remove removes a sandbox. It is renamed first, so that no process finds it while it is
// cleared. The caller holds its lock. A missing sandbox is not an error.
func (h *Home[T]) Remove(id string, r *T) error {
	gone := h.Path(id) + removedSuffix
	err := os.Rename(h.Path(id), gone)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.clearDir(gone, r)
}

// Destroy removes a sandbox, whatever act on it was interrupted. It waits for its lock until ctx is done.
// A missing sandbox is not an error.
func (h *Home[T]) Destroy(ctx context.Context, id string) error {
	held, err := h.Lock(ctx, id)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	r, err := h.Load(id)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.Remove(id, r)
}

// HasDir reports whether there is a directory of a sandbox, in use, in creation or in removal.
func (h *Home[T]) HasDir(id string) bool {
	for _, name := range []string{id, id + removedSuffix} {
		if _, err := os.Lstat(filepath.Join(h.Dir, name)); err == nil {
			return true
		}
	}
	making, err := filepath.Glob(filepath.Join(h.Dir, newPrefix+id+"-*"))
	return err != nil || len(making) > 0
}

// clearDir clears and removes a directory whose lock is held.
func (h *Home[T]) clearDir(dir string, r *T) error {
	if h.Clear != nil {
		if err := h.Clear(dir, r); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// ForEach calls visit for every sandbox, with its record or the error of reading it,
// finishes or undoes the acts that dead processes left behind, and removes their directories. It ignores errors of that;
// the next call tries again. half reports whether a record belongs to a sandbox that
// is not created completely; if no process is creating it, it is removed too.
func (h *Home[T]) ForEach(half func(*T) bool, visit func(id string, r *T, err error)) error {
	entries, err := os.ReadDir(h.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if isAbandoned(e) {
			_ = h.removeAbandoned(name) // see above
			continue
		}
		if atoll.CheckID(name) != nil {
			continue
		}
		h.recoverIdle(name)
		r, err := h.Load(name)
		switch {
		case errors.Is(err, atoll.ErrNotFound):
		case err == nil && half(r):
			_ = h.removeUnfinished(name, half) // see above
		default:
			visit(name, r, err)
		}
	}
	return nil
}

// Claimed reports whether a directory that Clear is called with was that of a sandbox. Otherwise
// the process that made it died before it had claimed the sandbox's id: what the host keeps under
// that id may belong to another sandbox.
func Claimed(dir string) bool { return !strings.HasPrefix(filepath.Base(dir), newPrefix) }

// isAbandoned reports whether a directory belongs to a sandbox in removal, or in creation
// for longer than staleAge.
func isAbandoned(e os.DirEntry) bool {
	if id, gone := strings.CutSuffix(e.Name(), removedSuffix); gone {
		return atoll.CheckID(id) == nil
	}
	if !strings.HasPrefix(e.Name(), newPrefix) {
		return false
	}
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > staleAge
}

// removeUnfinished removes a sandbox that is not created completely, if no process is creating it.
func (h *Home[T]) removeUnfinished(id string, half func(*T) bool) error {
	held, err := lockDir(h.Path(id), unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	r, err := h.Load(id)
	if err != nil || !half(r) { // it was finished meanwhile
		return err
	}
	return h.Remove(id, r)
}

// removeAbandoned removes a directory whose creation or removal was interrupted.
func (h *Home[T]) removeAbandoned(name string) error {
	dir := filepath.Join(h.Dir, name)
	held, err := lockDir(dir, unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	r, err := loadRecord[T](dir)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return h.clearDir(dir, r)
}
