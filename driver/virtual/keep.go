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
	"github.com/atoll-sandbox/atoll/internal/filelock"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// A kept sandbox is a directory of the host:
//
//	lock            flock: held by the process that works in it
//	sandbox.json    record: what it is, and where its files and session are
//	history.json    its newest commands
//	blobs/          vfs.Dir: contents, by hash
//
// sandbox.json is replaced in one step, after everything it names is there:
// whenever a process dies, the sandbox is as after the last whole operation.

// record is sandbox.json.
type record struct {
	Version   int            `json:"version"`
	ID        string         `json:"id"`
	Spec      atoll.Spec     `json:"spec"`
	Created   time.Time      `json:"created"`
	Active    time.Time      `json:"active"`
	Commands  int64          `json:"commands"`
	Stopped   bool           `json:"stopped,omitempty"`
	Paused    bool           `json:"paused,omitempty"`
	Turn      int64          `json:"turn"`    // grows with every save
	Tree      string         `json:"tree"`    // the files, for vfs.Load
	Session   string         `json:"session"` // the key of the blob with the shell's state
	Snapshots []keptSnapshot `json:"snapshots,omitempty"`
}

type keptSnapshot struct {
	Info    atoll.SnapshotInfo `json:"info"`
	Tree    string             `json:"tree"`
	Session string             `json:"session"`
}

const recordVersion = 1

// sweepEvery is how many saves pass between two removals of blobs that
// nothing names any more.
const sweepEvery = 32

// keeper keeps a sandbox in its directory.
type keeper struct {
	dir   string
	turn  chan struct{} // holds a token while the fields below are used
	lock  *os.File      // open while users > 0
	users int
	store *vfs.Dir
	rec   record // as last read or written
}

func newKeeper(dir string) *keeper {
	return &keeper{dir: dir, turn: make(chan struct{}, 1)}
}

func (k *keeper) exists() bool {
	_, err := os.Lstat(filepath.Join(k.dir, "sandbox.json"))
	return err == nil
}

// keepNew saves a new sandbox. Its directory is made under another name and
// locked until it is whole: what a process leaves that dies meanwhile, List
// sweeps away.
func (s *Sandbox) keepNew(parent string) (err error) {
	k := newKeeper(filepath.Join(parent, making+s.id))
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
	defer func() { _ = lock.Close() }() // this is what unlocks it
	if ok, err := filelock.Try(lock); !ok || err != nil {
		return errors.Join(fmt.Errorf("%w: a new sandbox is locked", atoll.ErrUnavailable), err)
	}
	k.rec = record{Version: recordVersion, ID: s.id}
	if k.store, err = vfs.OpenDir(filepath.Join(k.dir, "blobs")); err != nil {
		return err
	}
	s.keep = k
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

// hold takes the sandbox for this process, with all that another process has
// changed, until release.
func (s *Sandbox) hold(ctx context.Context) error {
	k := s.keep
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return timedOut(context.Cause(ctx))
	}
	if k.users == 0 {
		if err := k.acquire(ctx); err != nil {
			return err
		}
		if err := s.refresh(); err != nil {
			return errors.Join(err, k.unlock())
		}
	}
	k.users++
	return nil
}

// release gives up what hold took.
func (s *Sandbox) release() {
	k := s.keep
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	if k.users--; k.users == 0 {
		_ = k.unlock() // closing the file is what unlocks it, and can't fail usefully
	}
}

func (k *keeper) unlock() error {
	err := k.lock.Close()
	k.lock = nil
	return err
}

// acquire waits for the lock. There is no call that waits for a file lock
// and for a context, so it asks again after a growing while.
func (k *keeper) acquire(ctx context.Context) error {
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
			return errors.Join(fmt.Errorf("another process works in it: %w", timedOut(context.Cause(ctx))), f.Close())
		}
	}
}

// read returns the record of a directory.
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

// refresh reads what another process has saved since; the caller has the
// lock.
func (s *Sandbox) refresh() error {
	k := s.keep
	r, err := readRecord(k.dir)
	if err != nil {
		return err
	}
	if s.fs != nil && r.Turn == k.rec.Turn {
		return nil
	}
	if k.store == nil {
		if k.store, err = vfs.OpenDir(filepath.Join(k.dir, "blobs")); err != nil {
			return err
		}
	}
	im, err := s.d.image()
	if err != nil {
		return err
	}
	net, err := newNetwork(r.Spec.Network)
	if err != nil {
		return err
	}
	files, err := vfs.Load(k.store, r.Tree, s.d.fileOptions(im, r.Spec))
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	state, err := k.session(r.Session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopt(r)
	s.assemble(im, net, files)
	s.past = readHistory(k.dir)
	if err := s.sh.Restore(state); err != nil {
		return err
	}
	s.state, s.where = state, s.sh.Dir()
	k.rec = r // last: after an error the next use reads it all again
	return nil
}

// adopt takes over what a record says; the caller holds mu.
func (s *Sandbox) adopt(r record) {
	s.spec, s.created, s.active, s.commands, s.stopped, s.paused = r.Spec, r.Created, r.Active, r.Commands, r.Stopped, r.Paused
	old := s.snapshots
	s.snapshots = nil
	for i := range r.Snapshots {
		kept := &r.Snapshots[i]
		shot := snapshot{info: kept.Info, kept: kept}
		for _, o := range old {
			if o.info.ID == kept.Info.ID {
				shot.files, shot.state = o.files, o.state
			}
		}
		s.snapshots = append(s.snapshots, shot)
	}
}

func (k *keeper) session(name string) (shell.State, error) {
	var state shell.State
	key, err := vfs.ParseKey(name)
	var b []byte
	if err == nil {
		b, err = k.store.Get(key)
	}
	if err == nil {
		err = state.UnmarshalBinary(b)
	}
	if err != nil {
		return state, fmt.Errorf("session: %w", err)
	}
	return state, nil
}

// loadSnapshot reads the files and session of a kept snapshot.
func (s *Sandbox) loadSnapshot(x *snapshot) error {
	im, err := s.d.image()
	if err != nil {
		return err
	}
	files, err := vfs.Load(s.keep.store, x.kept.Tree, s.d.fileOptions(im, s.spec))
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", x.info.ID, err)
	}
	if x.state, err = s.keep.session(x.kept.Session); err != nil {
		return fmt.Errorf("snapshot %s: %w", x.info.ID, err)
	}
	x.files = files.Snapshot()
	return nil
}

// save writes what the sandbox is now to its directory. It does nothing for
// one that is only in memory.
func (s *Sandbox) save(ctx context.Context) error {
	k := s.keep
	if k == nil {
		return nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return timedOut(context.Cause(ctx))
	}
	if err := s.write(); err != nil {
		if !k.exists() && k.rec.Turn > 0 {
			return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
		}
		return fmt.Errorf("keep: %w", err)
	}
	return nil
}

func (s *Sandbox) write() error {
	k := s.keep
	s.mu.Lock()
	r := record{
		Version: recordVersion, ID: s.id, Spec: s.spec, Created: s.created, Active: s.active, Commands: s.commands, Stopped: s.stopped, Paused: s.paused,
		Turn: k.rec.Turn + 1,
	}
	files, state := s.fs.Snapshot(), s.state
	shots := slices.Clone(s.snapshots)
	past := s.past.all()
	s.mu.Unlock()
	var err error
	if r.Tree, r.Session, err = k.put(files, state); err != nil {
		return err
	}
	for i := range shots {
		x := &shots[i]
		if x.kept == nil {
			x.kept = &keptSnapshot{Info: x.info}
			if x.kept.Tree, x.kept.Session, err = k.put(x.files, x.state); err != nil {
				return err
			}
		}
		r.Snapshots = append(r.Snapshots, *x.kept)
	}
	if err := k.store.Sync(); err != nil {
		return err
	}
	if err := errors.Join(writeJSON(k.dir, "history.json", past), writeJSON(k.dir, "sandbox.json", r)); err != nil {
		return err
	}
	k.rec = r
	s.noteKept(shots)
	return k.sweep()
}

// noteKept remembers which snapshots are on disk now.
func (s *Sandbox) noteKept(shots []snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.snapshots {
		for _, x := range shots {
			if x.info.ID == s.snapshots[i].info.ID {
				s.snapshots[i].kept = x.kept
			}
		}
	}
}

func (k *keeper) put(files *vfs.Snapshot, state shell.State) (tree, session string, err error) {
	if tree, err = files.Save(k.store); err != nil {
		return "", "", err
	}
	b, err := state.MarshalBinary()
	if err != nil {
		return "", "", err
	}
	key := vfs.Key(sha256.Sum256(b))
	return tree, key.String(), k.store.Put(key, b)
}

// sweep removes, now and then, the blobs that the record does not name. The
// caller has the lock, so nobody else adds any; while another operation of
// this process goes on, a file that it reads may still need one.
func (k *keeper) sweep() error {
	if k.rec.Turn%sweepEvery != 0 || k.users > 1 {
		return nil
	}
	used := make(map[string]bool)
	for _, x := range append([]keptSnapshot{{Tree: k.rec.Tree, Session: k.rec.Session}}, k.rec.Snapshots...) {
		used[x.Session] = true
		keys, err := vfs.Keys(k.store, x.Tree)
		if err != nil {
			return err
		}
		for _, key := range keys {
			used[key.String()] = true
		}
	}
	return k.store.Sweep(func(key vfs.Key) bool { return used[key.String()] })
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
		return history{} // it is written before the record; what is lost is only a memory
	}
	return h
}

// gone begins the name of a directory that is being removed, making that of one
// that is not whole yet.
const (
	gone   = ".gone-"
	making = ".new-"
)

// remove takes the directory away in one step, then its content.
func (k *keeper) remove() error {
	trash := filepath.Join(filepath.Dir(k.dir), gone+filepath.Base(k.dir)+"-"+newID())
	if err := os.Rename(k.dir, trash); err != nil {
		return err
	}
	if k.store != nil {
		_ = k.store.Close() // it was only a way to the directory
	}
	for range 3 {
		if os.RemoveAll(trash) == nil {
			break
		}
	}
	return nil // the sandbox is gone; what another process still writes there, List sweeps away
}

// reopen returns a sandbox that is kept; its files are read when it is used.
func (d *Driver) reopen(id string) (*Sandbox, error) {
	k := newKeeper(filepath.Join(d.Dir, id))
	s := &Sandbox{d: d, id: id, keep: k, turn: make(chan struct{}, 1), gone: make(chan struct{})}
	s.terminals.Start, s.terminals.Now = s.startTerminal, d.Now
	r, err := readRecord(k.dir)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return nil, err
	case err == nil:
		s.adopt(r)
	}
	return s, nil // a record that can't be read fails every use but Destroy
}

// listKept reads the records of all sandboxes in Dir, and removes what a
// crash has left of those that were being destroyed.
func (d *Driver) listKept() ([]atoll.Status, error) {
	entries, err := os.ReadDir(d.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []atoll.Status
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), gone) {
			_ = os.RemoveAll(filepath.Join(d.Dir, e.Name())) // the next List tries again
			continue
		}
		if strings.HasPrefix(e.Name(), making) {
			sweepUnmade(filepath.Join(d.Dir, e.Name()))
			continue
		}
		if !goodID(e.Name()) {
			continue
		}
		r, err := readRecord(filepath.Join(d.Dir, e.Name()))
		if errors.Is(err, atoll.ErrNotFound) {
			continue // being made, or being destroyed
		}
		if err != nil {
			list = append(list, broken(e.Name(), err))
			continue
		}
		list = append(list, statusOf(r.ID, r.Spec, r.Created, r.Active, stateOf(r.Stopped, r.Paused)))
	}
	sortStatus(list)
	return list, nil
}

// sweepUnmade removes what a process that died has made of a sandbox. One that
// is still being made is locked, or has no lock yet and is young.
func sweepUnmade(dir string) {
	info, err := os.Stat(dir)
	if err != nil || time.Since(info.ModTime()) < 10*time.Second {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err == nil {
		defer func() { _ = f.Close() }() // this is what unlocks it
		if ok, err := filelock.Try(f); !ok || err != nil {
			return
		}
	}
	_ = os.RemoveAll(dir) // the next List tries again
}

// broken is the status of a sandbox whose record can't be read.
func broken(id string, err error) atoll.Status {
	return atoll.Status{
		ID: id, Driver: "virtual", State: atoll.Failed, Isolation: isolation,
		Conditions: []atoll.Condition{{Type: "ready", Reason: "unreadable", Message: err.Error()}},
	}
}
