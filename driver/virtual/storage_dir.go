package virtual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/state/recordlog"
	"github.com/atoll-sandbox/atoll/vfs"
)

// storage is where a sandbox is stored: a directory of the host or, in a worker, what the worker's
// parent answers for it.
type storage interface {
	blobStore
	lock(ctx context.Context) (changed bool, err error) // changed: it must be read, because another process has written it
	unlock() error
	exists() bool // it was not destroyed
	read() (record, []atoll.Result, error)
	commit(r record, past []atoll.Result) (grown bool, err error)       // in one step, with the blobs that r names; grown: it should be compacted
	compact(r record, past []atoll.Result, used map[vfs.Key]bool) error // in one step; past is the whole history, other blobs are removed
	close()                                                             // releases what an idle sandbox does not need
}

// blobStore stores contents by hash. Those that are put are stored with the next commit.
type blobStore = vfs.Store

// A stored sandbox is a directory of the host:
//
//	log      recordlog.Log, locked by the process that uses the sandbox: its changes
//	blobs/   vfs.Dir: contents that are too large for the log, by hash; missing while there are none
//
// A commit of the log has small contents, new results of the history, and at its end the record: when a
// process dies, the sandbox is as it was after the last complete operation. What the log and blobs/ have
// not, since every sandbox has it, is in the driver's sharedBase.

// The kinds of entries of a log, besides recordlog.Commit: a record as JSON.
const (
	entryBlob    byte = 'b' // the key of a blob, then the blob
	entryHistory byte = 'h' // a list of atoll.Result as JSON, oldest first
)

const (
	maxLogBlob     = 4 << 10  // bytes of a blob that is stored in the log
	maxStagedBytes = 4 << 20  // bytes, and
	maxIndexed     = 1 << 17  // blobs of a log, and
	maxLogBytes    = 32 << 20 // their bytes: others are stored as large ones, so that a hostile worker can't fill this process's memory
	minCompact     = 64 << 10 // size of a log that is not compacted
	minSweep       = 1 << 20  // bytes of large blobs after which those without a use are removed
	logName        = "log"
)

// directory is the directory of a stored sandbox.
type directory struct {
	path string
	base *sharedBase // nil: none

	mu          sync.Mutex
	log         *recordlog.Log
	unread      bool               // another process has written the log since it was read; guarded by mu, as all below
	index       map[vfs.Key]extent // of the blobs in the log
	indexed     int64              // bytes of the blobs in the log
	staged      map[vfs.Key][]byte // small blobs for the next commit
	stagedBytes int
	large       *vfs.Dir // nil: not opened
	added       int64    // bytes of large blobs stored since the last sweep
	swept       int64    // bytes of large blobs that the last sweep has left
	stored      int64    // bytes that the large blobs occupy, as storedSize counts them; negative: not counted yet
}

// extent is where in the log a blob is.
type extent struct{ at, size int64 }

var _ storage = (*directory)(nil)

// newDirectory returns the directory of a stored sandbox.
func newDirectory(path string, base *sharedBase) *directory {
	return &directory{path: path, base: base, log: recordlog.New(filepath.Join(path, logName)), stored: -1}
}

// createDirectory creates the directory of a new sandbox below parent. It has another name and is
// locked until publish: List removes what a process leaves that dies meanwhile.
func createDirectory(parent, id string, base *sharedBase) (*directory, error) {
	d := newDirectory(filepath.Join(parent, newPrefix+id), base)
	err := os.Mkdir(d.path, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(parent, 0o700); err == nil {
			err = os.Mkdir(d.path, 0o700)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := d.log.Create(); err != nil {
		return nil, errors.Join(err, d.discard())
	}
	return d, nil
}

// discard removes a new directory.
func (d *directory) discard() error {
	d.close()
	return os.RemoveAll(d.path)
}

// publish gives a new directory its name.
func (d *directory) publish(id string) error {
	whole := filepath.Join(filepath.Dir(d.path), id)
	if err := os.Rename(d.path, whole); err != nil {
		if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
			err = fmt.Errorf("id %s: %w", id, atoll.ErrExists)
		}
		return errors.Join(err, d.discard())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.path = whole
	d.log.SetPath(filepath.Join(whole, logName))
	if d.large != nil {
		_ = d.large.Close() // it was only a handle of the directory
		d.large = nil
	}
	return d.log.Unlock()
}

func (d *directory) exists() bool {
	for _, name := range []string{logName, oldRecordName} {
		if _, err := os.Lstat(filepath.Join(d.path, name)); err == nil {
			return true
		}
	}
	return false
}

// close closes the files of the directory, and so unlocks it.
func (d *directory) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.log.Close() // what was written does not depend on it
	if d.large != nil {
		_ = d.large.Close() // it was only a handle of the directory
	}
	d.index, d.large, d.indexed, d.stored = nil, nil, 0, -1
	d.staged, d.stagedBytes = nil, 0 // of a worker that has ended before its commit
}

// lock waits for the lock.
func (d *directory) lock(ctx context.Context) (changed bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed, err = d.log.Lock(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.convertOld(ctx); err == nil {
			changed, err = d.log.Lock(ctx)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
	case err != nil && ctx.Err() != nil:
		return false, fmt.Errorf("another process works in it: %w", wrapTimeout(err))
	}
	d.unread = changed
	if changed {
		d.stored = -1 // another process may have added some
	}
	return changed, err
}

// unlock releases the lock.
func (d *directory) unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Unlock()
}

// isLocked reports whether this process has the lock.
func (d *directory) isLocked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.IsLocked()
}

// read reads the log: the record, the history and where the blobs are.
func (d *directory) read() (r record, past []atoll.Result, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index, d.indexed, d.staged, d.stagedBytes = make(map[vfs.Key]extent), 0, nil, 0
	var last []byte
	var h history
	err = d.log.Read(func(kind byte, data []byte, at int64) error {
		switch kind {
		case entryBlob:
			if len(data) < len(vfs.Key{}) {
				return fmt.Errorf("%s: %w: a blob without a key", d.path, recordlog.ErrDamaged)
			}
			d.indexBlob(vfs.Key(data[:len(vfs.Key{})]), at, len(data))
		case entryHistory:
			var list []atoll.Result
			if json.Unmarshal(data, &list) == nil { // it is not essential
				h.addAll(list)
			}
		case recordlog.Commit:
			last = append(last[:0], data...)
		}
		return nil
	})
	if err == nil {
		err = decodeRecord(last, &r, recordVersion)
	}
	if err != nil {
		return r, nil, fmt.Errorf("%s: %w", filepath.Join(d.path, logName), err)
	}
	d.added, d.swept, d.unread = r.Added, r.Swept, false
	return r, h.listResults(), nil
}

// decodeRecord decodes a record that must be of a version.
func decodeRecord(b []byte, r *record, version int) error {
	if err := json.Unmarshal(b, r); err != nil {
		return err
	}
	if r.Version != version {
		return fmt.Errorf("%w: its record is of version %d; this atoll knows version %d", atoll.ErrUnsupported, r.Version, version)
	}
	return nil
}

// readRecord returns the record of a sandbox without its lock.
func (d *directory) readRecord() (record, error) {
	var r record
	name := filepath.Join(d.path, logName)
	b, err := recordlog.ReadLast(name)
	if errors.Is(err, fs.ErrNotExist) {
		return d.readOldRecord()
	}
	if err == nil {
		err = decodeRecord(b, &r, recordVersion)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// commit appends a commit to the log.
func (d *directory) commit(r record, past []atoll.Result) (grown bool, err error) {
	return d.commitWithin(0, r, past)
}

// commitWithin is commit for a sandbox that may take a number of bytes of the host's disk; 0: no limit.
func (d *directory) commitWithin(most int64, r record, past []atoll.Result) (grown bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unread {
		return false, errUnread
	}
	var list []recordlog.Entry
	var keys []vfs.Key
	for key, data := range d.staged {
		list, keys = append(list, blobEntry(key, data)), append(keys, key)
	}
	r.Added, r.Swept = d.added, d.swept
	if list, err = appendRecord(list, r, past); err != nil {
		return false, err
	}
	if err := d.checkSpace(most, encodedSize(list)-d.stagedSize()); err != nil {
		return false, err
	}
	at, err := d.log.Append(list)
	if err != nil {
		return false, err
	}
	d.indexBlobs(keys, list, at)
	d.staged, d.stagedBytes = nil, 0
	now, first := d.log.Sizes()
	return now > minCompact && now > 2*first || d.added > max(minSweep, d.swept), nil
}

// errUnread is the error of a commit to a log whose end is not known.
var errUnread = fmt.Errorf("%w: another process has changed it, and it was not read", atoll.ErrState)

// appendRecord appends the last entries of a commit.
func appendRecord(list []recordlog.Entry, r record, past []atoll.Result) ([]recordlog.Entry, error) {
	if len(past) > 0 {
		b, err := json.Marshal(past)
		if err != nil {
			return nil, err
		}
		list = append(list, recordlog.Entry{Kind: entryHistory, Data: b})
	}
	r.Version = recordVersion
	b, err := json.Marshal(r)
	return append(list, recordlog.Entry{Kind: recordlog.Commit, Data: b}), err
}

func blobEntry(key vfs.Key, data []byte) recordlog.Entry {
	return recordlog.Entry{Kind: entryBlob, Data: slices.Concat(key[:], data)}
}

// indexBlobs notes where the first entries of a commit are, which are blobs.
func (d *directory) indexBlobs(keys []vfs.Key, list []recordlog.Entry, at []int64) {
	if d.index == nil {
		d.index = make(map[vfs.Key]extent)
	}
	for i, key := range keys {
		d.indexBlob(key, at[i], len(list[i].Data))
	}
}

// indexBlob notes where an entry with a blob is.
func (d *directory) indexBlob(key vfs.Key, at int64, n int) {
	size := int64(n - len(key))
	d.index[key] = extent{at + int64(len(key)), size}
	d.indexed += size
}

// compact replaces the log by one with a single commit, and removes the large blobs that are not used.
func (d *directory) compact(r record, past []atoll.Result, used map[vfs.Key]bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unread {
		return errUnread
	}
	var list []recordlog.Entry
	var keys []vfs.Key
	large, err := d.openLarge()
	if err != nil {
		return err
	}
	var swept int64
	for key := range used {
		if d.base.has(key) {
			continue
		}
		if n, ok := d.sizeIfLarge(key); ok {
			swept += n
			continue
		}
		data, err := d.getBlob(key)
		if err != nil {
			return fmt.Errorf("blob %s: %w", key, err)
		}
		list, keys = append(list, blobEntry(key, data)), append(keys, key)
	}
	r.Added, r.Swept = 0, swept
	if list, err = appendRecord(list, r, past); err != nil {
		return err
	}
	at, err := d.log.Replace(list)
	if err != nil {
		return err
	}
	d.index, d.indexed, d.staged, d.stagedBytes, d.added, d.swept, d.stored = nil, 0, nil, 0, 0, swept, -1
	d.indexBlobs(keys, list, at)
	if large == nil {
		return nil
	}
	return large.Sweep(func(key vfs.Key) bool { return used[key] && (d.index[key] == extent{}) && !d.base.has(key) })
}

// sizeIfLarge returns the size of a blob that is stored as a large one only.
func (d *directory) sizeIfLarge(key vfs.Key) (size int64, ok bool) {
	if _, small := d.staged[key]; small || d.large == nil {
		return 0, false
	}
	if _, small := d.index[key]; small {
		return 0, false
	}
	size, err := d.large.Size(key)
	return size, err == nil
}

// openLarge returns the store of large blobs; nil: it is missing.
func (d *directory) openLarge() (*vfs.Dir, error) {
	if d.large != nil {
		return d.large, nil
	}
	name := filepath.Join(d.path, "blobs")
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	large, err := vfs.OpenDir(name)
	if err == nil {
		d.large = large
	}
	return d.large, err
}

// Get returns a blob.
func (d *directory) Get(key vfs.Key) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.getBlob(key)
}

func (d *directory) getBlob(key vfs.Key) ([]byte, error) {
	if data, ok := d.staged[key]; ok {
		return data, nil
	}
	if e, ok := d.index[key]; ok {
		data := make([]byte, e.size)
		return data, d.log.ReadAt(data, e.at)
	}
	large, err := d.openLarge()
	if err != nil {
		return nil, err
	}
	if large != nil {
		if data, err := large.Get(key); !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	return d.base.get(key)
}

// Has reports whether a blob is stored, or will be with the next commit.
func (d *directory) Has(key vfs.Key) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hasBlob(key)
}

func (d *directory) hasBlob(key vfs.Key) (bool, error) {
	if _, ok := d.staged[key]; ok {
		return true, nil
	}
	if _, ok := d.index[key]; ok || d.base.has(key) {
		return true, nil
	}
	large, err := d.openLarge()
	if large == nil || err != nil {
		return false, err
	}
	return large.Has(key)
}

// Put stores a blob.
func (d *directory) Put(key vfs.Key, data []byte) error { return d.putWithin(0, key, data) }

// putWithin is Put for a sandbox that may take a number of bytes of the host's disk; 0: no limit.
func (d *directory) putWithin(most int64, key vfs.Key, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if has, err := d.hasBlob(key); has || err != nil {
		return err
	}
	if d.fitsLog(len(data)) {
		if err := d.checkSpace(most, int64(len(data))+blobEntrySize); err != nil {
			return err
		}
		if d.staged == nil {
			d.staged = make(map[vfs.Key][]byte)
		}
		d.staged[key] = data
		d.stagedBytes += len(data)
		return nil
	}
	if err := d.checkSpace(most, storedSize(1, int64(len(data)))); err != nil {
		return err
	}
	if d.large == nil {
		large, err := vfs.OpenDir(filepath.Join(d.path, "blobs"))
		if err != nil {
			return err
		}
		d.large = large
	}
	d.added += int64(len(data))
	if d.stored >= 0 {
		d.stored += storedSize(1, int64(len(data))) // until the next sweep, even if it can't be stored
	}
	return d.large.Put(key, data)
}

// fitsLog reports whether another blob is stored in the log.
func (d *directory) fitsLog(size int) bool {
	return size <= maxLogBlob && d.stagedBytes+size <= maxStagedBytes &&
		len(d.index)+len(d.staged) < maxIndexed && d.indexed+int64(d.stagedBytes+size) <= maxLogBytes
}

const (
	entryOverhead = 16                                    // bytes of a log for an entry besides its data, at most
	blobEntrySize = entryOverhead + int64(len(vfs.Key{})) // and for one with a blob, besides the blob
	blobOverhead  = 4 << 10                               // bytes of the host's disk for a large blob besides its content, at most: a block and an inode
)

// storedSize returns what large blobs take of the host's disk.
func storedSize(blobs, bytes int64) int64 { return bytes + blobs*blobOverhead }

// encodedSize returns what a commit takes of the host's disk.
func encodedSize(list []recordlog.Entry) (n int64) {
	for _, e := range list {
		n += entryOverhead + int64(len(e.Data))
	}
	return n
}

// stagedSize returns what the staged blobs will take of the host's disk.
func (d *directory) stagedSize() int64 {
	return int64(d.stagedBytes) + int64(len(d.staged))*blobEntrySize
}

// checkSpace returns an error if the directory would take more than a number of bytes of the host's disk with another n;
// 0: no limit.
func (d *directory) checkSpace(most, n int64) error {
	if most <= 0 {
		return nil
	}
	size, err := d.logSize()
	if err != nil {
		return err
	}
	large, err := d.largeSize()
	if err != nil {
		return err
	}
	if size+large+d.stagedSize()+n > most {
		return fmt.Errorf("%w: the files and snapshots of the sandbox may take %d MB of the host's disk", atoll.ErrQuota, most>>20)
	}
	return nil
}

// checkLog returns an error if the log is longer than a number of bytes.
func (d *directory) checkLog(most int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	size, err := d.logSize()
	if err == nil && size > most {
		err = fmt.Errorf("%w: the log of the sandbox has %d bytes and was not compacted", atoll.ErrQuota, size)
	}
	return err
}

// logSize returns the size of the log in bytes.
func (d *directory) logSize() (int64, error) {
	if size, _ := d.log.Sizes(); size > 0 {
		return size, nil
	}
	info, err := os.Stat(filepath.Join(d.path, logName)) // it was not read yet
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// largeSize returns what the large blobs take of the host's disk.
func (d *directory) largeSize() (int64, error) {
	if d.stored >= 0 {
		return d.stored, nil
	}
	large, err := d.openLarge()
	if err != nil {
		return 0, err
	}
	d.stored = 0
	if large == nil {
		return 0, nil
	}
	blobs, bytes, err := large.Usage()
	if err != nil {
		d.stored = -1
		return 0, err
	}
	d.stored = storedSize(blobs, bytes)
	return d.stored, nil
}

// Prefixes of the names of directories that are being removed, and that are being created.
const (
	removedPrefix = ".gone-"
	newPrefix     = ".new-"
)

// remove removes the directory in one step, then its content.
func (d *directory) remove() error {
	trash := filepath.Join(filepath.Dir(d.path), removedPrefix+filepath.Base(d.path)+"-"+atoll.NewID())
	if err := os.Rename(d.path, trash); err != nil {
		return err
	}
	d.close()
	_ = os.Remove(filepath.Join(trash, logName)) // first: processes that have it open see that it was removed
	for range 3 {
		if os.RemoveAll(trash) == nil {
			break
		}
	}
	return nil // the sandbox was removed; List removes what another process still writes there
}

// listStored reads the records of all sandboxes in Dir, and removes the remains of sandboxes whose
// creation or removal was interrupted.
func (d *Driver) listStored() ([]atoll.Status, error) {
	entries, err := os.ReadDir(d.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []atoll.Status
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removedPrefix) {
			_ = os.RemoveAll(filepath.Join(d.Dir, e.Name())) // the next List tries again
			continue
		}
		if strings.HasPrefix(e.Name(), newPrefix) {
			removeUnfinished(filepath.Join(d.Dir, e.Name()))
			continue
		}
		if atoll.CheckID(e.Name()) != nil {
			continue
		}
		if st, err := d.readStored(e.Name()); err == nil { // else it is being created or destroyed
			list = append(list, st)
		}
	}
	sortStatus(list)
	return list, nil
}

// readStored returns the status of a stored sandbox. The only error is atoll.ErrNotFound: one that can't
// be read has a status that says so.
func (d *Driver) readStored(id string) (atoll.Status, error) {
	if atoll.CheckID(id) != nil {
		return atoll.Status{}, atoll.ErrNotFound
	}
	r, err := newDirectory(filepath.Join(d.Dir, id), nil).readRecord()
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return atoll.Status{}, err
	case err != nil:
		return unreadableStatus(id, err), nil
	}
	return sandboxStatus(r.ID, r.Spec, r.Created, r.Active, sandboxState(r.Stopped, r.Paused)), nil
}

// removeUnfinished removes a directory whose creation was interrupted. A directory that is still being
// created is locked, or has no lock yet and is young.
func removeUnfinished(dir string) {
	info, err := os.Stat(dir)
	if err != nil || time.Since(info.ModTime()) < 10*time.Second {
		return
	}
	for _, name := range []string{logName, oldLockName} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		defer f.Close() // closing it unlocks it
		if ok, err := filelock.Try(f); !ok || err != nil {
			return
		}
	}
	_ = os.RemoveAll(dir) // the next List tries again
}

// unreadableStatus returns the status of a sandbox whose record can't be read.
func unreadableStatus(id string, err error) atoll.Status {
	return atoll.Status{
		ID: id, Driver: "virtual", State: atoll.Failed, Isolation: isolation,
		Conditions: []atoll.Condition{{Type: "ready", Reason: "unreadable", Message: err.Error()}},
	}
}
