package vfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MountWatch reports changes of a directory of a mount and everything beneath
// it, by any process. Only Close may be called concurrently with Next.
type MountWatch struct {
	m      *mount
	top    string // watched directory, from the top of the mount
	id     fileID // of top
	prefix string // path of top in reported changes
	queue  *os.File
	buf    []byte
	dirs   map[string]*watchedDir // by path from the top of the mount
	marks  map[int32]*watchedDir  // by inotify watch descriptor
	count  int                    // names in all dirs
	out    []HostChange
}

// watchedDir is a directory and its last known content.
type watchedDir struct {
	rel   string
	id    fileID
	mark  int32
	dead  bool // the host has ended the watch: the directory was removed
	names map[string]nameState
}

// gatherDelay is how long Next waits for further changes before it returns a
// batch; maxGatherDelay limits the total wait.
const (
	gatherDelay    = 5 * time.Millisecond
	maxGatherDelay = 50 * time.Millisecond
)

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

func (m *mount) watchDir(rel, prefix string) (*MountWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, &fs.PathError{Op: "watch", Path: prefix, Err: hostErrno(err)}
	}
	w := &MountWatch{
		m: m, top: rel, prefix: prefix, queue: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, 64<<10),
		dirs: make(map[string]*watchedDir), marks: make(map[int32]*watchedDir),
	}
	err = w.watchTree(rel)
	if err == nil && w.dirs[rel] == nil {
		err = ENOENT
	}
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "watch", Path: prefix, Err: err}, w.Close())
	}
	w.id = w.dirs[rel].id
	w.out = nil // the initial content is no change
	return w, nil
}

// Close stops the watch and unblocks Next.
func (w *MountWatch) Close() error { return w.queue.Close() }

// watchTree watches a directory and everything beneath it, and records its
// content as added. A missing directory is not an error.
func (w *MountWatch) watchTree(rel string) error {
	todo := []string{rel}
	for len(todo) > 0 {
		rel := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		d, err := w.watchOneDir(rel)
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		for name, s := range d.names {
			below := joinRel(rel, name)
			w.recordChange(Added, below, s)
			if s.mode.IsDir() && pathDepth(below) < maxDepth {
				todo = append(todo, below)
			}
		}
	}
	return nil
}

// watchOneDir starts watching one directory and then reads its content, so
// that no change is missed. The directory is named by its descriptor, so that
// no link is followed.
func (w *MountWatch) watchOneDir(rel string) (*watchedDir, error) {
	dir, err := w.m.host.openDir(rel)
	if err != nil {
		return nil, ignoreGone(err)
	}
	defer dir.Close() // it is only read
	f, err := dir.Open(".")
	if err != nil {
		return nil, ignoreGone(err)
	}
	defer f.Close() // likewise
	info, err := f.Stat()
	if err != nil {
		return nil, ignoreGone(err)
	}
	d := &watchedDir{rel: rel, id: hostStat(info).id, names: make(map[string]nameState)}
	mark, err := w.addInotifyWatch(f, rel)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return nil, fmt.Errorf("inotify watches of this host are exhausted (fs.inotify.max_user_watches): %w", EDQUOT)
	case err != nil:
		return nil, ignoreGone(err)
	}
	d.mark = mark
	w.dirs[rel], w.marks[mark] = d, d
	names, err := namesOf(dir)
	if err != nil {
		return d, ignoreGone(err)
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

func (w *MountWatch) addInotifyWatch(dir *os.File, rel string) (int32, error) {
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
			if errors.Is(fault, unix.ENOENT) { // no /proc in a sealed process
				mark, fault = w.addWatchByPath(int(queue), dir, rel)
			}
		})
	}), err)
	return int32(mark), errors.Join(err, fault)
}

// addWatchByPath watches an open directory by its path, and fails if that
// leads elsewhere.
func (w *MountWatch) addWatchByPath(queue int, dir *os.File, rel string) (int, error) {
	path := filepath.Join(w.m.host.dir, rel)
	mark, err := unix.InotifyAddWatch(queue, path, watchMask|unix.IN_DONT_FOLLOW|unix.IN_ONLYDIR)
	if err != nil {
		return 0, err
	}
	there, err := os.Lstat(path)
	if err == nil {
		var here os.FileInfo
		if here, err = dir.Stat(); err == nil && !os.SameFile(here, there) {
			err = ENOENT
		}
	}
	if err != nil {
		_, _ = unix.InotifyRmWatch(queue, uint32(mark)) // it may be another directory's
		return 0, err
	}
	return mark, nil
}

// ignoreGone returns nil for an error that only means that a directory was
// removed meanwhile.
func ignoreGone(err error) error {
	switch e := hostErrno(err); e {
	case 0, ENOENT, ENOTDIR, ELOOP, EACCES:
		return nil
	default:
		return e
	}
}

// forgetTree stops watching a directory and everything beneath it, and
// records its content as deleted.
func (w *MountWatch) forgetTree(rel string) {
	d := w.dirs[rel]
	if d == nil {
		return
	}
	delete(w.dirs, rel)
	if w.marks[d.mark] == d { // else the directory was found elsewhere
		delete(w.marks, d.mark)
		w.removeInotifyWatch(d.mark)
	}
	w.count -= len(d.names)
	for _, name := range sortedNames(d.names) {
		w.recordChange(Deleted, joinRel(rel, name), d.names[name])
		if d.names[name].mode.IsDir() {
			w.forgetTree(joinRel(rel, name))
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

func (w *MountWatch) removeInotifyWatch(mark int32) {
	if q, err := w.queue.SyscallConn(); err == nil {
		_ = q.Control(func(queue uintptr) {
			_, _ = unix.InotifyRmWatch(int(queue), uint32(mark)) // fails if the directory was removed
		})
	}
}

func (w *MountWatch) recordChange(kind ChangeKind, rel string, s nameState) {
	shown := w.prefix + "/" + rel
	switch {
	case w.top != ".":
		shown = w.prefix + rel[len(w.top):]
	case w.prefix == "/":
		shown = "/" + rel
	}
	w.out = append(w.out, HostChange{kind, shown, s.mode.IsDir()})
}

// eventsByDir maps the names in each directory to the inotify events that
// they had.
type eventsByDir map[*watchedDir]map[string]uint32

// Next waits for changes and returns them. It returns ENOENT after the watched
// directory was removed, and [os.ErrClosed] after Close.
func (w *MountWatch) Next() ([]HostChange, error) {
	for {
		got := make(eventsByDir)
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
			lost = w.parseEvents(got, w.buf[:n]) || lost
			now := time.Now()
			if until.IsZero() {
				until = now.Add(maxGatherDelay)
			}
			if !now.Before(until) {
				break
			}
			if w.queue.SetReadDeadline(now.Add(gatherDelay)) != nil {
				return nil, os.ErrClosed
			}
		}
		if err := w.applyEvents(got, lost); err != nil {
			return nil, &fs.PathError{Op: "watch", Path: w.prefix, Err: err}
		}
		if len(w.out) > 0 {
			out := w.out
			w.out = nil
			return out, w.checkTop()
		}
		if err := w.checkTop(); err != nil {
			return nil, err
		}
	}
}

// parseEvents adds the events in b to got, and reports whether the host lost
// some.
func (w *MountWatch) parseEvents(got eventsByDir, b []byte) (lost bool) {
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

// applyEvents compares the changed names with their last state, directories
// before their content.
func (w *MountWatch) applyEvents(got eventsByDir, lost bool) error {
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
			continue // removed with a directory above
		}
		names := got[d]
		if lost {
			w.rewatchDir(d)
			names = w.everyName(d)
		}
		for _, name := range sortedNames(names) {
			if err := w.compareName(d, name, names[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewatchDir watches a directory again, in case another has replaced it.
func (w *MountWatch) rewatchDir(d *watchedDir) {
	dir, err := w.m.host.openDir(d.rel)
	if err != nil {
		return // the directory above reports it
	}
	defer dir.Close() // it is only read
	f, err := dir.Open(".")
	if err != nil {
		return // likewise
	}
	defer f.Close() // likewise
	if mark, err := w.addInotifyWatch(f, d.rel); err == nil && mark != d.mark {
		if w.marks[d.mark] == d {
			delete(w.marks, d.mark)
		}
		d.mark, w.marks[mark] = mark, d
	}
}

// eventLost is the mask of a name that is compared because events were lost.
const eventLost = 0

// everyName returns the names that a directory has now or had before.
func (w *MountWatch) everyName(d *watchedDir) map[string]uint32 {
	all := make(map[string]uint32, len(d.names))
	for name := range d.names {
		all[name] = eventLost
	}
	names, dir, err := w.m.host.list(d.rel)
	if err != nil {
		return all
	}
	_ = dir.Close() // it was only read
	for _, name := range names {
		all[name] = eventLost
	}
	return all
}

// compareName compares a name with its last state and records the change.
func (w *MountWatch) compareName(d *watchedDir, name string, mask uint32) error {
	rel := joinRel(d.rel, name)
	was, had := d.names[name]
	info, err := w.m.host.rootDir().Lstat(rel)
	if err != nil {
		if had {
			w.forgetName(d, name, rel, was)
		}
		return nil
	}
	now := stateOf(info)
	if had && (was.mode.Type() != now.mode.Type() || now.mode.IsDir() && (was.id != now.id || w.isRemoved(rel))) {
		w.forgetName(d, name, rel, was)
		had = false
	}
	d.names[name] = now
	if had {
		written := mask&(unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO) != 0 || mask == eventLost && was.mtime != now.mtime
		if !was.sameAttr(now) || written && !now.mode.IsDir() {
			w.recordChange(Modified, rel, now)
		}
		return nil
	}
	if w.count++; w.count > maxWatched {
		return fmt.Errorf("more than %d files: %w", maxWatched, EDQUOT)
	}
	w.recordChange(Added, rel, now)
	if now.mode.IsDir() && pathDepth(rel) < maxDepth {
		return w.watchTree(rel)
	}
	return nil
}

// isRemoved reports whether a directory was removed since it was last seen;
// a new one with its name may have the same inode number.
func (w *MountWatch) isRemoved(rel string) bool {
	d := w.dirs[rel]
	return d != nil && d.dead
}

func (w *MountWatch) forgetName(d *watchedDir, name, rel string, was nameState) {
	delete(d.names, name)
	w.count--
	w.recordChange(Deleted, rel, was)
	if was.mode.IsDir() {
		w.forgetTree(rel)
	}
}

// checkTop returns ENOENT if the watched directory was removed or replaced.
func (w *MountWatch) checkTop() error {
	info, err := w.m.host.rootDir().Lstat(path.Clean(w.top))
	if err == nil {
		if s := hostStat(info); s.nlink > 0 && s.id == w.id {
			return nil
		}
	}
	return &fs.PathError{Op: "watch", Path: w.prefix, Err: ENOENT}
}
