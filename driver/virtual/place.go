package virtual

import (
	"bytes"
	"context"
	"encoding/json"
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
	"github.com/atoll-sandbox/atoll/vfs"
)

// place is where a sandbox is stored: a directory of the host or, in a worker, what the worker's
// parent answers for it.
type place interface {
	lock(ctx context.Context) error
	unlock() error
	exists() bool // it was not destroyed
	readRecord() (record, error)
	readHistory() history
	openBlobs() (blobStore, error)
	write(r record, past []atoll.Result) error // in one step, after the blobs that r names
	sweep(used map[string]bool) error          // removes the blobs with other keys
}

// blobStore stores contents by hash.
type blobStore interface {
	vfs.Store
	Sync() error
}

// A stored sandbox is a directory of the host:
//
//	lock            flock: held by the process that uses the sandbox
//	sandbox.json    record: its state, and the names of its files and session
//	history.json    its newest commands
//	blobs/          vfs.Dir: contents, by hash
//
// sandbox.json is replaced in one step, after everything it names was written: when a process dies,
// the sandbox is as it was after the last complete operation.

// directory is the directory of a stored sandbox. The methods of place but exists are called one at
// a time.
type directory struct {
	path   string
	locked *os.File // the lock that this process holds; nil: none
	blobs  *vfs.Dir
}

var _ place = (*directory)(nil)

// createDirectory creates the directory of a new sandbox below parent. It has another name and is
// locked until publish: List removes what a process leaves that dies meanwhile.
func createDirectory(parent, id string) (*directory, error) {
	d := &directory{path: filepath.Join(parent, newPrefix+id)}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(d.path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(err, d.discard())
	}
	d.locked = lock
	if ok, err := filelock.Try(lock); !ok || err != nil {
		return nil, errors.Join(fmt.Errorf("%w: a new sandbox is locked", atoll.ErrUnavailable), err, d.discard())
	}
	return d, nil
}

// discard removes a new directory.
func (d *directory) discard() error {
	var err error
	if d.locked != nil {
		err = d.unlock()
	}
	return errors.Join(err, os.RemoveAll(d.path))
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
	d.path = whole
	return d.unlock()
}

func (d *directory) exists() bool {
	_, err := os.Lstat(filepath.Join(d.path, "sandbox.json"))
	return err == nil
}

func (d *directory) openBlobs() (blobStore, error) {
	if d.blobs == nil {
		blobs, err := vfs.OpenDir(filepath.Join(d.path, "blobs"))
		if err != nil {
			return nil, err
		}
		d.blobs = blobs
	}
	return d.blobs, nil
}

func (d *directory) sweep(used map[string]bool) error {
	if _, err := d.openBlobs(); err != nil {
		return err
	}
	return d.blobs.Sweep(func(key vfs.Key) bool { return used[key.String()] })
}

func (d *directory) write(r record, past []atoll.Result) error {
	return errors.Join(writeJSON(d.path, "history.json", past), writeJSON(d.path, "sandbox.json", r))
}

// unlock releases the lock: closing the file unlocks it.
func (d *directory) unlock() error {
	err := d.locked.Close()
	d.locked = nil
	return err
}

// lock waits for the lock. No call waits for a file lock and for a context, so it tries again
// with a growing pause.
func (d *directory) lock(ctx context.Context) error {
	f, err := os.OpenFile(filepath.Join(d.path, "lock"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
	}
	if err != nil {
		return err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ok, err := filelock.Try(f)
		if ok {
			d.locked = f
			return nil
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("another process works in it: %w", wrapTimeout(context.Cause(ctx))), f.Close())
		}
	}
}

// readRecord returns the record in a directory.
func (d *directory) readRecord() (record, error) {
	var r record
	b, err := os.ReadFile(filepath.Join(d.path, "sandbox.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, atoll.ErrNotFound
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(d.path, "sandbox.json"), err)
	}
	if r.Version != recordVersion {
		return r, fmt.Errorf("%w: %s is of version %d; this atoll knows version %d", atoll.ErrUnsupported, d.path, r.Version, recordVersion)
	}
	return r, nil
}

// writeJSON replaces a file in one step.
func writeJSON(dir, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	temp := name + ".tmp"
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(temp, name)
}

func (d *directory) readHistory() history {
	var h history
	b, err := os.ReadFile(filepath.Join(d.path, "history.json"))
	if err != nil || json.NewDecoder(bytes.NewReader(b)).Decode(&h.list) != nil {
		return history{} // it is not essential: without a readable file the history is empty
	}
	return h
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
	if d.blobs != nil {
		_ = d.blobs.Close() // it was only a handle of the directory
	}
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
		r, err := (&directory{path: filepath.Join(d.Dir, e.Name())}).readRecord()
		if errors.Is(err, atoll.ErrNotFound) {
			continue // it is being created or destroyed
		}
		if err != nil {
			list = append(list, unreadableStatus(e.Name(), err))
			continue
		}
		list = append(list, sandboxStatus(r.ID, r.Spec, r.Created, r.Active, sandboxState(r.Stopped, r.Paused)))
	}
	sortStatus(list)
	return list, nil
}

// removeUnfinished removes a directory whose creation was interrupted. A directory that is still being
// created is locked, or has no lock yet and is young.
func removeUnfinished(dir string) {
	info, err := os.Stat(dir)
	if err != nil || time.Since(info.ModTime()) < 10*time.Second {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err == nil {
		defer func() { _ = f.Close() }() // closing it unlocks it
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
