package virtual

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// A stored sandbox is a directory of the host:
//
//	lock            flock: held by the process that uses the sandbox
//	sandbox.json    record: its state, and the names of its files and session
//	history.json    its newest commands
//	blobs/          vfs.Dir: contents, by hash
//
// sandbox.json is replaced in one step, after everything it names was written: when a process dies,
// the sandbox is as it was after the last complete operation.

// record is the content of sandbox.json.
type record struct {
	Version    int              `json:"version"`
	ID         string           `json:"id"`
	Spec       atoll.Spec       `json:"spec"`
	Created    time.Time        `json:"created"`
	Active     time.Time        `json:"active"`
	Commands   int64            `json:"commands"`
	Stopped    bool             `json:"stopped,omitempty"`
	Paused     bool             `json:"paused,omitempty"`
	Generation int64            `json:"turn"`    // grows with every save
	Tree       string           `json:"tree"`    // the files, for vfs.Load
	Session    string           `json:"session"` // the key of the blob with the shell's state
	Snapshots  []storedSnapshot `json:"snapshots,omitempty"`
}

type storedSnapshot struct {
	Info    atoll.SnapshotInfo `json:"info"`
	Tree    string             `json:"tree"`
	Session string             `json:"session"`
}

const recordVersion = 1

// sweepEvery is the number of saves between two removals of unused blobs.
const sweepEvery = 32

// diskStore stores a sandbox in its directory.
type diskStore struct {
	dir   string
	guard chan struct{} // holds a token while the fields below are used
	lock  *os.File      // open while users > 0
	users int
	blobs *vfs.Dir
	rec   record // as last read or written
}

func newDiskStore(dir string) *diskStore {
	return &diskStore{dir: dir, guard: make(chan struct{}, 1)}
}

func (k *diskStore) hasRecord() bool {
	_, err := os.Lstat(filepath.Join(k.dir, "sandbox.json"))
	return err == nil
}

// saveNew stores a new sandbox. Its directory has another name and is locked until it is complete:
// List removes what a process leaves that dies meanwhile.
func (s *Sandbox) saveNew(parent string) (err error) {
	k := newDiskStore(filepath.Join(parent, newPrefix+s.id))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(k.dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(k.dir))
		}
	}()
	lock, err := os.OpenFile(filepath.Join(k.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // closing it unlocks it
	if ok, err := filelock.Try(lock); !ok || err != nil {
		return errors.Join(fmt.Errorf("%w: a new sandbox is locked", atoll.ErrUnavailable), err)
	}
	k.rec = record{Version: recordVersion, ID: s.id}
	if k.blobs, err = vfs.OpenDir(filepath.Join(k.dir, "blobs")); err != nil {
		return err
	}
	s.disk = k
	s.noteSession(s.sh)
	if err := s.save(context.Background()); err != nil {
		return err
	}
	whole := filepath.Join(parent, s.id)
	if err := os.Rename(k.dir, whole); err != nil {
		if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
			err = fmt.Errorf("id %s: %w", s.id, atoll.ErrExists)
		}
		return err
	}
	k.dir = whole
	return nil
}

// acquireStore locks the stored sandbox for this process, until releaseStore, and loads what another
// process has changed.
func (s *Sandbox) acquireStore(ctx context.Context) error {
	k := s.disk
	select {
	case k.guard <- struct{}{}:
		defer func() { <-k.guard }()
	case <-ctx.Done():
		return wrapTimeout(context.Cause(ctx))
	}
	if k.users == 0 {
		if err := k.waitForLock(ctx); err != nil {
			return err
		}
		if err := s.reloadChanges(); err != nil {
			return errors.Join(err, k.unlock())
		}
	}
	k.users++
	return nil
}

// releaseStore unlocks what acquireStore locked.
func (s *Sandbox) releaseStore() {
	k := s.disk
	k.guard <- struct{}{}
	defer func() { <-k.guard }()
	if k.users--; k.users == 0 {
		_ = k.unlock() // closing the file unlocks it; there is nothing to do about an error
	}
}

func (k *diskStore) unlock() error {
	err := k.lock.Close()
	k.lock = nil
	return err
}

// waitForLock waits for the lock. No call waits for a file lock and for a context, so it tries again
// with a growing pause.
func (k *diskStore) waitForLock(ctx context.Context) error {
	f, err := os.OpenFile(filepath.Join(k.dir, "lock"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
	}
	if err != nil {
		return err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ok, err := filelock.Try(f)
		if ok {
			k.lock = f
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
func readRecord(dir string) (record, error) {
	var r record
	b, err := os.ReadFile(filepath.Join(dir, "sandbox.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, atoll.ErrNotFound
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, "sandbox.json"), err)
	}
	if r.Version != recordVersion {
		return r, fmt.Errorf("%w: %s is of version %d; this atoll knows version %d", atoll.ErrUnsupported, dir, r.Version, recordVersion)
	}
	return r, nil
}

// reloadChanges reads what another process has saved since; the caller has the lock.
func (s *Sandbox) reloadChanges() error {
	k := s.disk
	r, err := readRecord(k.dir)
	if err != nil {
		return err
	}
	if s.fs != nil && r.Generation == k.rec.Generation {
		return nil
	}
	if k.blobs == nil {
		if k.blobs, err = vfs.OpenDir(filepath.Join(k.dir, "blobs")); err != nil {
			return err
		}
	}
	im, err := s.d.loadImage()
	if err != nil {
		return err
	}
	net, err := newNetwork(r.Spec.Network)
	if err != nil {
		return err
	}
	files, err := vfs.Load(k.blobs, r.Tree, s.d.fileOptions(im, r.Spec))
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	state, err := k.loadSession(r.Session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyRecord(r)
	s.setUpKernel(im, net, files)
	s.history = readHistory(k.dir)
	if err := s.sh.Restore(state); err != nil {
		return err
	}
	s.state, s.sessionDir = state, s.sh.Dir()
	k.rec = r // last: after an error the next use reads everything again
	return nil
}

// applyRecord copies a record into the sandbox; the caller holds mu.
func (s *Sandbox) applyRecord(r record) {
	s.spec, s.created, s.active, s.commands, s.stopped, s.paused = r.Spec, r.Created, r.Active, r.Commands, r.Stopped, r.Paused
	old := s.snapshots
	s.snapshots = nil
	for i := range r.Snapshots {
		kept := &r.Snapshots[i]
		shot := snapshot{info: kept.Info, stored: kept}
		for _, o := range old {
			if o.info.ID == kept.Info.ID {
				shot.files, shot.state = o.files, o.state
			}
		}
		s.snapshots = append(s.snapshots, shot)
	}
}

func (k *diskStore) loadSession(name string) (shell.State, error) {
	var state shell.State
	key, err := vfs.ParseKey(name)
	var b []byte
	if err == nil {
		b, err = k.blobs.Get(key)
	}
	if err == nil {
		err = state.UnmarshalBinary(b)
	}
	if err != nil {
		return state, fmt.Errorf("session: %w", err)
	}
	return state, nil
}

// loadSnapshot reads the files and session of a stored snapshot.
func (s *Sandbox) loadSnapshot(x *snapshot) error {
	im, err := s.d.loadImage()
	if err != nil {
		return err
	}
	files, err := vfs.Load(s.disk.blobs, x.stored.Tree, s.d.fileOptions(im, s.spec))
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", x.info.ID, err)
	}
	if x.state, err = s.disk.loadSession(x.stored.Session); err != nil {
		return fmt.Errorf("snapshot %s: %w", x.info.ID, err)
	}
	x.files = files.Snapshot()
	return nil
}

// save writes the current state of the sandbox to its directory. It does nothing for a sandbox that
// exists in memory only.
func (s *Sandbox) save(ctx context.Context) error {
	k := s.disk
	if k == nil {
		return nil
	}
	select {
	case k.guard <- struct{}{}:
		defer func() { <-k.guard }()
	case <-ctx.Done():
		return wrapTimeout(context.Cause(ctx))
	}
	if err := s.writeRecord(); err != nil {
		if !k.hasRecord() && k.rec.Generation > 0 {
			return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
		}
		return fmt.Errorf("keep: %w", err)
	}
	return nil
}

func (s *Sandbox) writeRecord() error {
	k := s.disk
	s.mu.Lock()
	r := record{
		Version: recordVersion, ID: s.id, Spec: s.spec, Created: s.created, Active: s.active, Commands: s.commands, Stopped: s.stopped, Paused: s.paused,
		Generation: k.rec.Generation + 1,
	}
	files, state := s.fs.Snapshot(), s.state
	shots := slices.Clone(s.snapshots)
	past := s.history.listResults()
	s.mu.Unlock()
	var err error
	if r.Tree, r.Session, err = k.putState(files, state); err != nil {
		return err
	}
	for i := range shots {
		x := &shots[i]
		if x.stored == nil {
			x.stored = &storedSnapshot{Info: x.info}
			if x.stored.Tree, x.stored.Session, err = k.putState(x.files, x.state); err != nil {
				return err
			}
		}
		r.Snapshots = append(r.Snapshots, *x.stored)
	}
	if err := k.blobs.Sync(); err != nil {
		return err
	}
	if err := errors.Join(writeJSON(k.dir, "history.json", past), writeJSON(k.dir, "sandbox.json", r)); err != nil {
		return err
	}
	k.rec = r
	s.noteStored(shots)
	return k.sweepBlobs()
}

// noteStored notes which snapshots are on disk now.
func (s *Sandbox) noteStored(shots []snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.snapshots {
		for _, x := range shots {
			if x.info.ID == s.snapshots[i].info.ID {
				s.snapshots[i].stored = x.stored
			}
		}
	}
}

func (k *diskStore) putState(files *vfs.Snapshot, state shell.State) (tree, session string, err error) {
	if tree, err = files.Save(k.blobs); err != nil {
		return "", "", err
	}
	b, err := state.MarshalBinary()
	if err != nil {
		return "", "", err
	}
	key := vfs.Key(sha256.Sum256(b))
	return tree, key.String(), k.blobs.Put(key, b)
}

// sweepBlobs removes, once in a while, the blobs that the record does not name. The caller has the
// lock, so no other process adds any; while another operation of this process is in progress it
// removes nothing, since a file that is being read may need one.
func (k *diskStore) sweepBlobs() error {
	if k.rec.Generation%sweepEvery != 0 || k.users > 1 {
		return nil
	}
	used := make(map[string]bool)
	for _, x := range append([]storedSnapshot{{Tree: k.rec.Tree, Session: k.rec.Session}}, k.rec.Snapshots...) {
		used[x.Session] = true
		keys, err := vfs.Keys(k.blobs, x.Tree)
		if err != nil {
			return err
		}
		for _, key := range keys {
			used[key.String()] = true
		}
	}
	return k.blobs.Sweep(func(key vfs.Key) bool { return used[key.String()] })
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

func readHistory(dir string) history {
	var h history
	b, err := os.ReadFile(filepath.Join(dir, "history.json"))
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

// removeDir removes the directory in one step, then its content.
func (k *diskStore) removeDir() error {
	trash := filepath.Join(filepath.Dir(k.dir), removedPrefix+filepath.Base(k.dir)+"-"+atoll.NewID())
	if err := os.Rename(k.dir, trash); err != nil {
		return err
	}
	if k.blobs != nil {
		_ = k.blobs.Close() // it was only a handle of the directory
	}
	for range 3 {
		if os.RemoveAll(trash) == nil {
			break
		}
	}
	return nil // the sandbox was removed; List removes what another process still writes there
}

// openStored returns a stored sandbox; its files are read when it is used.
func (d *Driver) openStored(id string) (*Sandbox, error) {
	k := newDiskStore(filepath.Join(d.Dir, id))
	s := &Sandbox{d: d, id: id, disk: k, sessionLock: make(chan struct{}, 1), closed: make(chan struct{})}
	s.terminals.Start, s.terminals.Now = s.startTerminal, d.Now
	r, err := readRecord(k.dir)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return nil, err
	case err == nil:
		s.applyRecord(r)
	}
	return s, nil // a record that can't be read fails every use but Destroy
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
		r, err := readRecord(filepath.Join(d.Dir, e.Name()))
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
