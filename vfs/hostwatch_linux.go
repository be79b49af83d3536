package vfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MountWatch tells of changes to a directory of a mount and all beneath it,
// whoever makes them.
type MountWatch struct {
	m      *mount
	top    string // of the watch, from the top of the mount
	id     fileID // of top
	prefix string // what top is called in changes
	queue  *os.File
	buf    []byte
	dirs   map[string]*watchedDir // by path from the top of the mount
	marks  map[int32]*watchedDir  // by the host's number for the watch
	count  int                    // names in all dirs
	out    []HostChange
}

// watchedDir is a directory and what was last seen in it.
type watchedDir struct {
	rel   string
	id    fileID
	mark  int32
	dead  bool // the host has ended the watch: the directory was removed
	names map[string]nameState
}

// settle is how long changes that follow each other are gathered, and
// settleMost how long at most.
const (
	settle     = 5 * time.Millisecond
	settleMost = 50 * time.Millisecond
)

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

func (m *mount) watch(rel, prefix string) (*MountWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, &fs.PathError{Op: "watch", Path: prefix, Err: hostReason(err)}
	}
	w := &MountWatch{
		m: m, top: rel, prefix: prefix, queue: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, 64<<10),
		dirs: make(map[string]*watchedDir), marks: make(map[int32]*watchedDir),
	}
	err = w.add(rel)
	if err == nil && w.dirs[rel] == nil {
		err = ENOENT
	}
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "watch", Path: prefix, Err: err}, w.Close())
	}
	w.id = w.dirs[rel].id
	w.out = nil // what is there at the beginning is no change
	return w, nil
}

// Close ends the watch, and a Next that waits.
func (w *MountWatch) Close() error { return w.queue.Close() }

// add watches a directory and all beneath it, noting as new what is in them.
// A directory that is not there, or not any more, is none.
func (w *MountWatch) add(rel string) error {
	todo := []string{rel}
	for len(todo) > 0 {
		rel := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		d, err := w.enter(rel)
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		for name, s := range d.names {
			below := under(rel, name)
			w.tell(Added, below, s)
			if s.mode.IsDir() && depth(below) < maxDepth {
				todo = append(todo, below)
			}
		}
	}
	return nil
}

// enter begins to watch one directory and then looks what is in it, so that
// nothing is missed. The directory is named by its descriptor: no link is
// followed on the way to it.
func (w *MountWatch) enter(rel string) (*watchedDir, error) {
	dir, err := w.m.host.openDir(rel)
	if err != nil {
		return nil, unlessGone(err)
	}
	defer dir.Close() // it is only read
	f, err := dir.Open(".")
	if err != nil {
		return nil, unlessGone(err)
	}
	defer f.Close() // likewise
	info, err := f.Stat()
	if err != nil {
		return nil, unlessGone(err)
	}
	d := &watchedDir{rel: rel, id: hostStat(info).id, names: make(map[string]nameState)}
	mark, err := w.mark(f)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return nil, fmt.Errorf("this host watches no more directories: %w", EDQUOT)
	case err != nil:
		return nil, unlessGone(err)
	}
	d.mark = mark
	w.dirs[rel], w.marks[mark] = d, d
	names, err := namesOf(dir)
	if err != nil {
		return d, unlessGone(err)
	}
	for _, name := range names {
		if info, err := dir.Lstat(name); err == nil {
			d.names[name] = stateOf(info)
		}
	}
	if w.count += len(d.names); w.count > maxWatched {
		return nil, fmt.Errorf("more than %d files: %w", maxWatched, EDQUOT)
	}
	return d, nil
}

func (w *MountWatch) mark(dir *os.File) (int32, error) {
	c, err := dir.SyscallConn()
	if err != nil {
		return 0, err
	}
	q, err := w.queue.SyscallConn()
	if err != nil {
		return 0, err
	}
	var mark int
	var fault error
	err = errors.Join(c.Control(func(fd uintptr) {
		err = q.Control(func(queue uintptr) {
			mark, fault = unix.InotifyAddWatch(int(queue), fmt.Sprintf("/proc/self/fd/%d", fd), watchMask)
		})
	}), err)
	return int32(mark), errors.Join(err, fault)
}

// unlessGone is nil for what only says that a directory went away meanwhile.
func unlessGone(err error) error {
	switch e := hostReason(err); e {
	case 0, ENOENT, ENOTDIR, ELOOP, EACCES:
		return nil
	default:
		return e
	}
}

// leave forgets a directory and all beneath it, noting as gone what was in
// them.
func (w *MountWatch) leave(rel string) {
	d := w.dirs[rel]
	if d == nil {
		return
	}
	delete(w.dirs, rel)
	if w.marks[d.mark] == d { // else it was found again elsewhere
		delete(w.marks, d.mark)
		w.unmark(d.mark)
	}
	w.count -= len(d.names)
	for _, name := range sortedNames(d.names) {
		w.tell(Deleted, under(rel, name), d.names[name])
		if d.names[name].mode.IsDir() {
			w.leave(under(rel, name))
		}
	}
}

func sortedNames[T any](m map[string]T) []string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (w *MountWatch) unmark(mark int32) {
	if q, err := w.queue.SyscallConn(); err == nil {
		_ = q.Control(func(queue uintptr) {
			_, _ = unix.InotifyRmWatch(int(queue), uint32(mark)) // it is gone with its directory
		})
	}
}

func (w *MountWatch) tell(kind ChangeKind, rel string, s nameState) {
	shown := w.prefix + "/" + rel
	switch {
	case w.top != ".":
		shown = w.prefix + rel[len(w.top):]
	case w.prefix == "/":
		shown = "/" + rel
	}
	w.out = append(w.out, HostChange{kind, shown, s.mode.IsDir()})
}

// news are the names that something happened to, with what, in each
// directory.
type news map[*watchedDir]map[string]uint32

// Next waits for changes and returns them. After the directory has gone the
// error is ENOENT, after Close [os.ErrClosed].
func (w *MountWatch) Next() ([]HostChange, error) {
	for {
		got := make(news)
		lost := false
		if w.queue.SetReadDeadline(time.Time{}) != nil {
			return nil, os.ErrClosed
		}
		until := time.Time{}
		for {
			n, err := w.queue.Read(w.buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return nil, err
			}
			lost = w.gather(got, w.buf[:n]) || lost
			now := time.Now()
			if until.IsZero() {
				until = now.Add(settleMost)
			}
			if !now.Before(until) {
				break
			}
			if w.queue.SetReadDeadline(now.Add(settle)) != nil {
				return nil, os.ErrClosed
			}
		}
		if err := w.learn(got, lost); err != nil {
			return nil, &fs.PathError{Op: "watch", Path: w.prefix, Err: err}
		}
		if len(w.out) > 0 {
			out := w.out
			w.out = nil
			return out, w.there()
		}
		if err := w.there(); err != nil {
			return nil, err
		}
	}
}

// gather reads what the host has queued, and reports whether that was not
// all.
func (w *MountWatch) gather(got news, b []byte) (lost bool) {
	const head = int(unsafe.Sizeof(unix.InotifyEvent{}))
	for len(b) >= head {
		mark, mask, n := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
		name, _, _ := strings.Cut(string(b[head:head+n]), "\x00")
		b = b[head+n:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			lost = true
			continue
		}
		d := w.marks[mark]
		if d != nil && mask&unix.IN_IGNORED != 0 {
			d.dead = true
			delete(w.marks, mark)
		}
		if d == nil || name == "" {
			continue
		}
		if got[d] == nil {
			got[d] = make(map[string]uint32)
		}
		got[d][name] |= mask
	}
	return lost
}

// learn finds out what has become of the names, directories before what is
// in them.
func (w *MountWatch) learn(got news, lost bool) error {
	if lost {
		for _, d := range w.dirs {
			got[d] = nil
		}
	}
	dirs := make([]*watchedDir, 0, len(got))
	for d := range got {
		dirs = append(dirs, d)
	}
	slices.SortFunc(dirs, func(a, b *watchedDir) int { return strings.Compare(a.rel, b.rel) })
	for _, d := range dirs {
		if w.dirs[d.rel] != d {
			continue // gone with a directory above
		}
		names := got[d]
		if lost {
			w.again(d)
			names = w.everyName(d)
		}
		for _, name := range sortedNames(names) {
			if err := w.look(d, name, names[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// again watches a directory that may be another than it was.
func (w *MountWatch) again(d *watchedDir) {
	dir, err := w.m.host.openDir(d.rel)
	if err != nil {
		return // its name is looked at in the directory above
	}
	defer dir.Close() // it was only looked at
	f, err := dir.Open(".")
	if err != nil {
		return // likewise
	}
	defer f.Close() // likewise
	if mark, err := w.mark(f); err == nil && mark != d.mark {
		if w.marks[d.mark] == d {
			delete(w.marks, d.mark)
		}
		d.mark, w.marks[mark] = mark, d
	}
}

// unseen is the mask of a name that is looked at because events were lost.
const unseen = 0

// everyName returns the names that a directory has or had.
func (w *MountWatch) everyName(d *watchedDir) map[string]uint32 {
	all := make(map[string]uint32, len(d.names))
	for name := range d.names {
		all[name] = unseen
	}
	names, dir, err := w.m.host.list(d.rel)
	if err != nil {
		return all
	}
	_ = dir.Close() // it was only read
	for _, name := range names {
		all[name] = unseen
	}
	return all
}

// look compares a name with what it was.
func (w *MountWatch) look(d *watchedDir, name string, mask uint32) error {
	rel := under(d.rel, name)
	was, had := d.names[name]
	info, err := w.m.host.top().Lstat(rel)
	if err != nil {
		if had {
			w.forget(d, name, rel, was)
		}
		return nil
	}
	now := stateOf(info)
	if had && (was.mode.Type() != now.mode.Type() || now.mode.IsDir() && (was.id != now.id || w.dead(rel))) {
		w.forget(d, name, rel, was)
		had = false
	}
	d.names[name] = now
	if had {
		written := mask&(unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO) != 0 || mask == unseen && was.mtime != now.mtime
		if !was.sameAttr(now) || written && !now.mode.IsDir() {
			w.tell(Modified, rel, now)
		}
		return nil
	}
	if w.count++; w.count > maxWatched {
		return fmt.Errorf("more than %d files: %w", maxWatched, EDQUOT)
	}
	w.tell(Added, rel, now)
	if now.mode.IsDir() && depth(rel) < maxDepth {
		return w.add(rel)
	}
	return nil
}

// dead says whether a directory was removed since it was seen; one that has
// taken its place may have its number.
func (w *MountWatch) dead(rel string) bool {
	d := w.dirs[rel]
	return d != nil && d.dead
}

func (w *MountWatch) forget(d *watchedDir, name, rel string, was nameState) {
	delete(d.names, name)
	w.count--
	w.tell(Deleted, rel, was)
	if was.mode.IsDir() {
		w.leave(rel)
	}
}

// there says why the directory that is watched is not what it was.
func (w *MountWatch) there() error {
	info, err := w.m.host.top().Lstat(path.Clean(w.top))
	if err == nil {
		if s := hostStat(info); s.nlink > 0 && s.id == w.id {
			return nil
		}
	}
	return &fs.PathError{Op: "watch", Path: w.prefix, Err: ENOENT}
}
