package virtual

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

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

// diskStore stores a sandbox.
type diskStore struct {
	place place
	guard chan struct{} // holds a token while the fields below are used
	users int           // while it is positive the place is locked
	blobs blobStore
	rec   record // as last read or written
}

func newDiskStore(p place) *diskStore {
	return &diskStore{place: p, guard: make(chan struct{}, 1)}
}

// saveNew stores a new sandbox.
func (s *Sandbox) saveNew(parent string) error {
	dir, err := createDirectory(parent, s.id)
	if err != nil {
		return err
	}
	s.dir = dir
	if err := s.saveFirst(dir); err != nil {
		return errors.Join(err, dir.discard())
	}
	return dir.publish(s.id)
}

// saveFirst stores the sandbox in a new place, which no other process uses yet.
func (s *Sandbox) saveFirst(p place) (err error) {
	k := newDiskStore(p)
	k.rec = record{Version: recordVersion, ID: s.id}
	if k.blobs, err = p.openBlobs(); err != nil {
		return err
	}
	s.disk = k
	s.noteSession(s.sh)
	return s.save(context.Background())
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
		if err := k.place.lock(ctx); err != nil {
			return err
		}
		if err := s.reloadChanges(); err != nil {
			return errors.Join(err, k.place.unlock())
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
		_ = k.place.unlock() // closing the file unlocks it; there is nothing to do about an error
	}
}

// reloadChanges reads what another process has saved since; the caller has the lock.
func (s *Sandbox) reloadChanges() error {
	k := s.disk
	r, err := k.place.readRecord()
	if err != nil {
		return err
	}
	if s.fs != nil && r.Generation == k.rec.Generation {
		return nil
	}
	if k.blobs == nil {
		if k.blobs, err = k.place.openBlobs(); err != nil {
			return err
		}
	}
	im, err := s.d.loadImage()
	if err != nil {
		return err
	}
	net, err := s.d.newNetwork(r.Spec.Network)
	if err != nil {
		return err
	}
	files, err := vfs.Load(k.blobs, r.Tree, s.d.fileOptions(im, r.Spec))
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	state, err := loadSession(k.blobs, r.Session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyRecord(r)
	s.setUpKernel(im, net, files)
	s.history = k.place.readHistory()
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

func loadSession(blobs blobStore, name string) (shell.State, error) {
	var state shell.State
	key, err := vfs.ParseKey(name)
	var b []byte
	if err == nil {
		b, err = blobs.Get(key)
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
	if x.state, err = loadSession(s.disk.blobs, x.stored.Session); err != nil {
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
		if !k.place.exists() && k.rec.Generation > 0 {
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
	if r.Tree, r.Session, err = putState(k.blobs, files, state); err != nil {
		return err
	}
	for i := range shots {
		x := &shots[i]
		if x.stored == nil {
			x.stored = &storedSnapshot{Info: x.info}
			if x.stored.Tree, x.stored.Session, err = putState(k.blobs, x.files, x.state); err != nil {
				return err
			}
		}
		r.Snapshots = append(r.Snapshots, *x.stored)
	}
	if err := k.blobs.Sync(); err != nil {
		return err
	}
	if err := k.place.write(r, past); err != nil {
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

// putState stores files and a session, and returns their names.
func putState(blobs blobStore, files *vfs.Snapshot, state shell.State) (tree, session string, err error) {
	if tree, err = files.Save(blobs); err != nil {
		return "", "", err
	}
	b, err := state.MarshalBinary()
	if err != nil {
		return "", "", err
	}
	key := vfs.Key(sha256.Sum256(b))
	return tree, key.String(), blobs.Put(key, b)
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
	return k.place.sweep(used)
}

// openStored returns a stored sandbox; its files are read when it is used.
func (d *Driver) openStored(id string) (*Sandbox, error) {
	dir := &directory{path: filepath.Join(d.Dir, id)}
	s := d.newStoredSandbox(id, dir)
	s.dir = dir
	r, err := dir.readRecord()
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return nil, err
	case err == nil:
		s.applyRecord(r)
	}
	return s, nil // a record that can't be read fails every use but Destroy
}

// newStoredSandbox returns a sandbox whose state is read from a place when it is used.
func (d *Driver) newStoredSandbox(id string, p place) *Sandbox {
	s := &Sandbox{d: d, id: id, disk: newDiskStore(p), sessionLock: make(chan struct{}, 1), closed: make(chan struct{})}
	s.terminals.Start, s.terminals.Now = s.startTerminal, d.Now
	return s
}
