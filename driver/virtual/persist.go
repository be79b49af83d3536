package virtual

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// record is the state of a stored sandbox, as every commit of its log has it.
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
	Added      int64            `json:"added,omitempty"` // bytes of large blobs stored since the last sweep; the directory sets it
	Swept      int64            `json:"swept,omitempty"` // bytes of large blobs that the last sweep has left; likewise
}

type storedSnapshot struct {
	Info    atoll.SnapshotInfo `json:"info"`
	Tree    string             `json:"tree"`
	Session string             `json:"session"`
}

const recordVersion = 2

// diskStore stores a sandbox.
type diskStore struct {
	storage storage
	guard   chan struct{} // holds a token while the fields below are used
	users   int           // while it is positive the storage is locked
	rec     *record       // as last read or written; notLoaded: not at all

	filesChanged <-chan struct{} // closed when files differ from rec.Tree; nil: they may
	session      shell.State     // stored as rec.Session
}

// notLoaded is the record of a sandbox that is not in memory.
var notLoaded = &record{Generation: 1}

func newDiskStore(p storage) *diskStore {
	return &diskStore{storage: p, guard: make(chan struct{}, 1), rec: notLoaded}
}

// saveNew stores a new sandbox.
func (s *Sandbox) saveNew(parent string) error {
	base, err := s.d.openBase()
	if err != nil {
		return err
	}
	dir, err := createDirectory(parent, s.id, base)
	if err != nil {
		return err
	}
	s.dir = dir
	if err := s.saveFirst(dir); err != nil {
		return errors.Join(err, dir.discard())
	}
	return dir.publish(s.id)
}

// saveFirst stores the sandbox in new storage, which no other process uses yet.
func (s *Sandbox) saveFirst(p storage) error {
	k := newDiskStore(p)
	k.rec = &record{ID: s.id}
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
		changed, err := k.storage.lock(ctx)
		if err != nil {
			return err
		}
		if changed || s.fs == nil {
			if err := s.load(); err != nil {
				return errors.Join(err, k.storage.unlock())
			}
		}
	}
	k.users++
	return nil
}

// releaseStore unlocks what acquireStore locked.
func (s *Sandbox) releaseStore() {
	s.disk.release()
	s.d.idle.add(s)
}

// release ends a use of the storage.
func (k *diskStore) release() {
	k.guard <- struct{}{}
	defer func() { <-k.guard }()
	if k.users--; k.users == 0 {
		_ = k.storage.unlock() // there is nothing to do about an error
	}
}

// load reads what is stored; the caller has the lock.
func (s *Sandbox) load() error {
	k := s.disk
	r, past, err := k.storage.read()
	if err != nil {
		return err
	}
	im, err := s.d.loadImage()
	if err != nil {
		return err
	}
	net, err := s.d.newNetwork(r.Spec.Network)
	if err != nil {
		return err
	}
	files, err := vfs.Load(k.storage, r.Tree, s.d.fileOptions(im, r.Spec))
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	state, err := loadSession(k.storage, r.Session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyRecord(r)
	s.setUpKernel(im, net, files)
	s.history.reload(past)
	if err := s.sh.Restore(state); err != nil {
		s.fs = nil // the next use reads everything again
		return err
	}
	s.state, s.sessionDir = state, s.sh.Dir()
	k.rec, k.session = &r, state
	_, k.filesChanged = files.Observe()
	return nil
}

// applyRecord copies a record into the sandbox; the caller holds mu.
func (s *Sandbox) applyRecord(r record) {
	s.spec, s.created, s.stopped, s.paused = r.Spec, r.Created, r.Stopped, r.Paused
	s.commands = r.Commands + int64(s.history.unsavedCommands)
	if r.Active.After(s.active) {
		s.active = r.Active
	}
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
	b, err := getSession(blobs, name)
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
	files, err := vfs.Load(s.disk.storage, x.stored.Tree, s.d.fileOptions(im, s.spec))
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", x.info.ID, err)
	}
	if x.state, err = loadSession(s.disk.storage, x.stored.Session); err != nil {
		return fmt.Errorf("snapshot %s: %w", x.info.ID, err)
	}
	x.files = files.Snapshot()
	return nil
}

// save stores what has changed. It does nothing for a sandbox that exists in memory only, and writes
// nothing if the history, the time of the last use and the number of commands are all that has changed:
// these wait for the next change, or until the sandbox is idle.
func (s *Sandbox) save(ctx context.Context) error { return s.saveIf(ctx, s.hasChanged) }

// saveNotes is save for a sandbox that becomes idle: it stores the history, too.
func (s *Sandbox) saveNotes(ctx context.Context) error {
	return s.saveIf(ctx, func(*record) bool { return true })
}

// hasChanged reports whether a record has a change that must not wait.
func (s *Sandbox) hasChanged(r *record) bool {
	old := s.disk.rec
	return r.Tree != old.Tree || r.Session != old.Session || r.Stopped != old.Stopped || r.Paused != old.Paused ||
		!slices.EqualFunc(r.Snapshots, old.Snapshots, func(a, b storedSnapshot) bool { return a.Info.ID == b.Info.ID })
}

func (s *Sandbox) saveIf(ctx context.Context, needed func(*record) bool) error {
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
	err := s.writeRecord(needed)
	if errors.Is(err, atoll.ErrQuota) && k.rec.Generation > 0 && k.users <= 1 { // what the record does not name may be too much
		if err = s.compact(); err == nil {
			err = s.writeRecord(needed)
		}
	}
	if err != nil {
		if k.rec.Generation > 0 && !k.storage.exists() {
			return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
		}
		return fmt.Errorf("saving the sandbox: %w", err)
	}
	return nil
}

func (s *Sandbox) writeRecord(needed func(*record) bool) error {
	k := s.disk
	s.mu.Lock()
	r := record{
		ID: s.id, Spec: s.spec, Created: s.created, Active: s.active, Commands: s.commands, Stopped: s.stopped, Paused: s.paused,
		Generation: k.rec.Generation + 1, Tree: k.rec.Tree, Session: k.rec.Session,
	}
	files, state := s.fs, s.state
	shots := slices.Clone(s.snapshots)
	past, commands := s.history.listUnsaved()
	s.mu.Unlock()
	filesChanged := k.filesChanged
	var err error
	if isChanged(k.filesChanged) {
		var now *vfs.Snapshot
		now, filesChanged = files.Observe()
		if r.Tree, err = now.Save(k.storage); err != nil {
			return err
		}
	}
	if state != k.session {
		if r.Session, err = saveSession(k.storage, state); err != nil {
			return err
		}
	}
	for i := range shots {
		x := &shots[i]
		if x.stored == nil {
			x.stored = &storedSnapshot{Info: x.info}
			if x.stored.Tree, x.stored.Session, err = putState(k.storage, x.files, x.state); err != nil {
				return err
			}
		}
		r.Snapshots = append(r.Snapshots, *x.stored)
	}
	if !needed(&r) {
		k.filesChanged, k.session = filesChanged, state
		return nil
	}
	grown, err := k.storage.commit(r, past)
	if err != nil {
		return err
	}
	k.rec, k.filesChanged, k.session = &r, filesChanged, state
	s.noteStored(shots, len(past), commands)
	if !grown || k.users > 1 { // a file that another operation reads may need a blob that the record does not
		return nil
	}
	return s.compact()
}

// isChanged reports whether a channel of vfs.FS.Observe has reported a change.
func isChanged(c <-chan struct{}) bool {
	if c == nil {
		return true
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// compact stores the state in as little space as it needs.
func (s *Sandbox) compact() error {
	k := s.disk
	used, err := usedBlobs(k.storage, *k.rec)
	if err != nil {
		return err
	}
	s.mu.Lock()
	past := s.history.listSaved()
	s.mu.Unlock()
	return k.storage.compact(*k.rec, past, used)
}

// usedBlobs returns the keys of all blobs that a record needs.
func usedBlobs(blobs blobStore, r record) (map[vfs.Key]bool, error) {
	used := make(map[vfs.Key]bool)
	for _, x := range append([]storedSnapshot{{Tree: r.Tree, Session: r.Session}}, r.Snapshots...) {
		parts, err := sessionParts(blobs, x.Session)
		if err != nil {
			return nil, err
		}
		for _, name := range append(parts, x.Session) {
			key, err := vfs.ParseKey(name)
			if err != nil {
				return nil, err
			}
			used[key] = true
		}
		keys, err := vfs.Keys(blobs, x.Tree)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			used[key] = true
		}
	}
	return used, nil
}

// noteStored notes which snapshots are on disk now, and how many results and commands of the history.
func (s *Sandbox) noteStored(shots []snapshot, results, commands int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.noteSaved(results, commands)
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
	session, err = saveSession(blobs, state)
	return tree, session, err
}

// saveSession stores a session, and returns its name.
func saveSession(blobs blobStore, state shell.State) (string, error) {
	b, err := state.MarshalBinary()
	if err != nil {
		return "", err
	}
	return putSession(blobs, b)
}

// openStored returns a stored sandbox; its files are read when it is used.
func (d *Driver) openStored(id string) (*Sandbox, error) {
	base, err := d.openBase()
	if err != nil {
		return nil, err
	}
	dir := newDirectory(filepath.Join(d.Dir, id), base)
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

// newStoredSandbox returns a sandbox whose state is read from storage when it is used.
func (d *Driver) newStoredSandbox(id string, p storage) *Sandbox {
	s := &Sandbox{d: d, id: id, disk: newDiskStore(p), sessionLock: make(chan struct{}, 1), closed: make(chan struct{})}
	s.terminals.Start, s.terminals.Now = s.startTerminal, d.Now
	return s
}
