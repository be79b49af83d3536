package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// lockFileName is a file in a repository of the host. Each atoll and its gits hold an exclusive lock on it
// while they change anything for which git uses lock files. It lists those of git's lock files that did
// not exist when they began. A process that acquires the lock and finds such a list knows that the writer
// and all its gits have been killed, and that lock files of the list were created since.
const lockFileName = "atoll-at-work"

// lockRecord is the content of the file.
type lockRecord struct {
	Host   string   `json:"host"`
	Absent []string `json:"absent"` // relative to the repository's common directory
}

// withLock calls do, which may change refs, the index, HEAD and the configuration, with a Repo that holds
// the lock. It first removes lock files that gits of a killed atoll have left. A lock file of another
// process is ErrLocked, before anything has changed.
func (r *Repo) withLock(ctx context.Context, refs []string, do func(*Repo) error) (err error) {
	if r.host.lockFile != nil {
		return do(r) // the lock is held already
	}
	f, err := r.acquireLock(ctx)
	if errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return do(r) // git reports missing permissions itself; stale lock files stay
	}
	if err != nil {
		return err
	}
	defer joinClose(&err, f.Close)
	if err := r.removeStaleLocks(f); err != nil {
		return err
	}
	names := r.listLockFiles(refs)
	if err := r.checkUnlocked(names); err != nil {
		return err
	}
	if err := r.writeLockRecord(f, names); err != nil {
		return r.wrapDiskFullError(err)
	}
	own := *r
	own.host.lockFile = f
	err = do(&own)
	// All gits of do have ended, also killed ones.
	err = errors.Join(err, r.removeStaleLocks(f))
	var bad *gitError
	if lerr := r.checkUnlocked(names); lerr != nil && errors.As(err, &bad) && ctx.Err() == nil {
		err = fmt.Errorf("%w (%w)", lerr, err) // another process was faster
	}
	return err
}

// wrapDiskFullError makes an error of a full disk ErrFull.
func (r *Repo) wrapDiskFullError(err error) error {
	if serr := r.checkWritable(); serr != nil {
		return fmt.Errorf("%w: it can't be written: %w", ErrDiskFull, errors.Join(err, serr))
	}
	return err
}

// acquireLock waits until no other atoll changes the repository.
func (r *Repo) acquireLock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(r.common, lockFileName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, r.wrapDiskFullError(err)
	}
	if err := filelock.Poll(ctx, f); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("waiting for another atoll that changes %s: %w", r.common, err)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// listLockFiles returns the files with which git locks refs, and those that it locks together with them.
func (r *Repo) listLockFiles(refs []string) []string {
	var names []string
	for _, name := range []string{"index", "HEAD", "ORIG_HEAD"} {
		names = append(names, filepath.Join(r.gitDir, name+".lock"))
	}
	for _, name := range append([]string{"packed-refs", "config", "reftable/tables.list"}, refs...) {
		names = append(names, filepath.Join(r.common, filepath.FromSlash(name)+".lock"))
	}
	return names
}

// checkUnlocked returns ErrLocked if one of the files exists, with its holder and a remedy.
func (r *Repo) checkUnlocked(names []string) error {
	for _, name := range names {
		info, err := os.Lstat(name)
		if err != nil {
			continue // it does not exist, or git will report the error
		}
		who, known := r.findLockHolders(name)
		since := info.ModTime().Format(time.DateTime)
		switch {
		case len(who) > 0:
			return fmt.Errorf("%w: %s exists since %s and belongs to %s: try again when that has ended", ErrLocked, name, since, printable(strings.Join(who, ", ")))
		case known:
			return fmt.Errorf("%w: %s exists since %s and no process of this host has it open: a killed git left it there; unless git runs there from another host, remove it and try again", ErrLocked, name, since)
		}
		return fmt.Errorf("%w: %s exists since %s: if no git is running there, remove it and try again", ErrLocked, name, since)
	}
	return nil
}

// writeLockRecord records that none of the files exists.
func (r *Repo) writeLockRecord(f *os.File, names []string) error {
	var t lockRecord
	var err error
	if t.Host, err = os.Hostname(); err != nil {
		return err
	}
	for _, name := range names {
		rel, err := filepath.Rel(r.common, name)
		if err != nil {
			return err
		}
		t.Absent = append(t.Absent, rel)
	}
	b, err := json.Marshal(t)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	return err
}

// removeStaleLocks removes the lock files that killed gits of the previous holder have left, and clears
// its record. A file that a process may be using, or that may come from another machine, stays.
func (r *Repo) removeStaleLocks(f *os.File) error {
	const most = 4 << 20
	b, err := io.ReadAll(io.NewSectionReader(f, 0, most))
	if err != nil {
		return err
	}
	var t lockRecord
	here, err := os.Hostname()
	if err == nil && json.Unmarshal(b, &t) == nil && t.Host == here { // a partial record was written before any git started
		for _, rel := range t.Absent {
			if filepath.IsLocal(rel) && strings.HasSuffix(rel, ".lock") {
				err = errors.Join(err, r.removeStaleLock(filepath.Join(r.common, rel)))
			}
		}
	}
	return errors.Join(err, f.Truncate(0))
}

func (r *Repo) removeStaleLock(name string) error {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // not a lock file of git
	}
	if who, known := r.findLockHolders(name); !known || len(who) > 0 {
		return nil
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
