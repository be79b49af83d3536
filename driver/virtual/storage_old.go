package virtual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/state/recordlog"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Until November 2026 a stored sandbox had no log:
//
//	lock            flock: held by the process that uses the sandbox
//	sandbox.json    record
//	history.json    its newest commands
//	blobs/          all contents, by hash
//
// Such a directory is converted when the sandbox is first used.

const (
	oldRecordName    = "sandbox.json"
	oldHistoryName   = "history.json"
	oldLockName      = "lock"
	oldRecordVersion = 1
)

// readOldRecord returns the record of a directory without a log.
func (d *directory) readOldRecord() (record, error) {
	var r record
	name := filepath.Join(d.path, oldRecordName)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return r, atoll.ErrNotFound
	}
	if err == nil {
		err = decodeRecord(b, &r, oldRecordVersion)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// convertOld makes the log of a directory that has none yet; the caller holds mu. A kill leaves it as it
// was, or with a log. The error of a directory that is not there wraps fs.ErrNotExist.
func (d *directory) convertOld(ctx context.Context) error {
	lock, err := os.OpenFile(filepath.Join(d.path, oldLockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return d.waitForLog(err)
	}
	if err != nil {
		return err
	}
	defer lock.Close() // closing it unlocks it
	if err := filelock.Poll(ctx, lock); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(d.path, logName)); err == nil {
		return d.removeOld() // another process has converted it meanwhile
	}
	r, err := d.readOldRecord()
	if errors.Is(err, atoll.ErrNotFound) {
		return fmt.Errorf("%w: no record", fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	var past []atoll.Result
	if b, err := os.ReadFile(filepath.Join(d.path, oldHistoryName)); err != nil || json.Unmarshal(b, &past) != nil {
		past = nil // it is not essential
	}
	past = limitResults(past)
	if err := d.writeConverted(r, past); err != nil {
		return fmt.Errorf("convert %s: %w", d.path, err)
	}
	return d.removeOld()
}

// writeConverted writes the log of a directory that had none.
func (d *directory) writeConverted(r record, past []atoll.Result) error {
	old, err := vfs.OpenDir(filepath.Join(d.path, "blobs"))
	if err != nil {
		return err
	}
	defer old.Close() // it was only read
	var used map[vfs.Key]bool
	if r.Spec.Runtime != Sealed { // only a worker decodes what a worker has stored: its blobs stay where they are
		if used, err = usedBlobs(old, r); err != nil {
			return err
		}
	}
	var list []recordlog.Entry
	var size int
	large := make(map[vfs.Key]bool)
	for key := range used {
		if d.base.has(key) {
			continue
		}
		data, err := old.Get(key)
		if err != nil {
			return fmt.Errorf("blob %s: %w", key, err)
		}
		if len(data) <= maxLogBlob && len(list) < maxIndexed && size+len(data) <= maxLogBytes {
			list = append(list, blobEntry(key, data))
			size += len(data)
		} else {
			large[key] = true
			r.Swept += int64(len(data))
		}
	}
	if used == nil {
		r.Added = minSweep + 1 // the next commit sweeps blobs/
	}
	if list, err = appendRecord(list, r, past); err != nil {
		return err
	}
	temp := recordlog.New(filepath.Join(d.path, logName))
	if _, err := temp.Replace(list); err != nil {
		return err
	}
	if err := temp.Close(); err != nil || used == nil {
		return err
	}
	if err := old.Sweep(func(key vfs.Key) bool { return large[key] }); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(d.path, "blobs")) // it fails if it is not empty
	return nil
}

// removeOld removes what a directory with a log does not need. The lock is last: another process may
// wait for it.
func (d *directory) removeOld() error {
	for _, name := range []string{oldHistoryName, oldRecordName, oldLockName} {
		if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// waitForLog returns nil if another process has converted the directory since its log was missing, else err.
func (d *directory) waitForLog(err error) error {
	if _, lerr := os.Lstat(filepath.Join(d.path, logName)); lerr == nil {
		return nil
	}
	return err
}
