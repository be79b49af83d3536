package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Limits of watches.
const (
	maxWatched = 1 << 19 // names
	maxWatches = 32      // at once, of all hosts: each needs an inotify instance, of which a user has few
)

// Changes are collected until there is none for settleDelay, at most for maxSettleDelay.
const (
	settleDelay    = 5 * time.Millisecond
	maxSettleDelay = 50 * time.Millisecond
)

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// watchFiles handles OpWatch.
func (s *Server) watchFiles(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	_, name, err := parseFileRequest(q)
	var w *watch
	if err == nil {
		w, err = s.newWatch(name)
	}
	if err != nil {
		sendAnswer(st, wrapPathError(name, err))
		return
	}
	sendAnswer(st, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(io.Discard, st) // returns when the host ends the watch
		_ = w.queue.Close()            // ends run
	})
	d := newDataWriter(st)
	w.out = watchEventWriter{w: d}
	err = w.run(d)
	_ = d.finishStream(wrapPathError(name, err)) // fails if the host has disconnected
	_ = st.SetReadDeadline(time.Unix(1, 0))      // ends the goroutine
	wg.Wait()
	w.close()
}

// watch is a running watch. While it waits it holds no descriptors but its queue: the kernel would
// not report the removal of a directory that is open.
type watch struct {
	s            *Server
	w            *walker
	name         string // path of the directory as requested
	id           inode
	queue        *os.File
	buf          []byte
	dirs         map[string]*watchedDir // by relative path; "" is the directory itself
	byDescriptor map[int32]*watchedDir  // by inotify watch descriptor
	count        int                    // names in all dirs
	out          watchEventWriter
	err          error // first error of out
	initial      bool  // the initial scan is running: names existed before the watch
}

// watchedDir is a directory with the last known state of its entries.
type watchedDir struct {
	rel        string
	descriptor int32
	removed    bool // the kernel has ended the inotify watch, because the directory was removed
	names      map[string]fileSnapshot
}

// fileSnapshot is the last known state of a file.
type fileSnapshot struct {
	mode, uid, gid uint32
	size, mtime    int64
	id             inode
}

func (s *fileSnapshot) isDir() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }

func snapshotOf(st *unix.Stat_t) fileSnapshot {
	return fileSnapshot{st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Nano(), inode{st.Dev, st.Ino}}
}

// fingerprint returns a hash that changes with the content, mode or owner of a file. The content of
// a directory does not count.
func (s *fileSnapshot) fingerprint() uint64 {
	h := uint64(14695981039346656037)
	add := func(v uint64) { h = (h ^ v) * 1099511628211; h ^= h >> 29 }
	add(uint64(s.mode))
	add(uint64(s.uid)<<32 | uint64(s.gid))
	if !s.isDir() {
		add(uint64(s.size))
		add(uint64(s.mtime))
	}
	return h
}

// newWatch opens a watch of a directory.
func (s *Server) newWatch(name string) (_ *watch, err error) {
	if s.watches.Add(1) > maxWatches {
		s.watches.Add(-1)
		return nil, fmt.Errorf("%w: %d watches at once", atoll.ErrQuota, maxWatches)
	}
	w := &watch{s: s, name: name, buf: make([]byte, 32<<10), dirs: make(map[string]*watchedDir), byDescriptor: make(map[int32]*watchedDir)}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.w, err = s.newWalker(); err != nil {
		return nil, err
	}
	defer w.w.reset()
	if _, err := w.w.walkTo(name, asDirectory); err != nil {
		return nil, err
	}
	l, err := openDir(w.w.currentFD(), ".") // fails if the directory is not readable
	if err != nil {
		return nil, err
	}
	defer l.close()
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return nil, err
	}
	w.id = inode{st.Dev, st.Ino}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("fs.inotify.max_user_instances of this host: %w", err)
	}
	w.queue = os.NewFile(uintptr(fd), "inotify")
	return w, nil
}

func (w *watch) close() {
	w.s.watches.Add(-1)
	if w.w != nil {
		w.w.close()
	}
	if w.queue != nil {
		_ = w.queue.Close() // only read
	}
}

// run reports the existing files and then changes, until the host ends the watch or the directory
// is removed.
func (w *watch) run(d *dataWriter) error {
	err := w.start()
	for err == nil {
		if err = d.flush(); err == nil {
			err = w.reportChanges()
		}
	}
	return err
}

// start scans the directory tree.
func (w *watch) start() error {
	defer w.w.reset()
	if err := w.checkDir(); err != nil {
		return err
	}
	w.initial = true
	if err := w.addTree(""); err != nil {
		return err
	}
	w.initial = false
	if w.err == nil {
		w.err = w.out.write(watchEvent{kind: watchReady, dir: true})
	}
	return w.err
}

// checkDir walks to the directory and checks that it is still the same.
func (w *watch) checkDir() error {
	var st unix.Stat_t
	_, err := w.w.walkTo(w.name, asDirectory)
	if err == nil {
		err = unix.Fstat(w.w.currentFD(), &st)
	}
	if err != nil || w.id != (inode{st.Dev, st.Ino}) {
		return fmt.Errorf("%w: it was removed", atoll.ErrNotFound)
	}
	return nil
}

// reportChanges waits for changes and reports them.
func (w *watch) reportChanges() error {
	got, lost, err := w.collectEvents()
	if err != nil {
		return err
	}
	defer w.w.reset()
	if err := w.checkDir(); err != nil {
		w.removeDir("")
		return errors.Join(err, w.err)
	}
	if err := w.checkAll(got, lost); err != nil {
		return err
	}
	return w.err
}

// changedNames maps each directory to the names with events, and their inotify masks.
type changedNames map[*watchedDir]map[string]uint32

// collectEvents collects events until there is none for settleDelay.
func (w *watch) collectEvents() (got changedNames, lost bool, err error) {
	if w.queue.SetReadDeadline(time.Time{}) != nil {
		return nil, false, os.ErrClosed
	}
	got = make(changedNames)
	for until := (time.Time{}); ; {
		n, err := w.queue.Read(w.buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return got, lost, nil
		}
		if err != nil {
			return nil, false, err
		}
		lost = w.parseEvents(got, w.buf[:n]) || lost
		now := time.Now()
		if until.IsZero() {
			until = now.Add(maxSettleDelay)
		}
		if !now.Before(until) {
			return got, lost, nil
		}
		if w.queue.SetReadDeadline(now.Add(settleDelay)) != nil {
			return nil, false, os.ErrClosed
		}
	}
}

// parseEvents parses inotify events into got. It reports whether events were lost.
func (w *watch) parseEvents(got changedNames, b []byte) (lost bool) {
	const head = int(unsafe.Sizeof(unix.InotifyEvent{}))
	for len(b) >= head {
		mark, mask, n := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
		name, _, _ := strings.Cut(string(b[head:head+n]), "\x00")
		b = b[head+n:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			lost = true
			continue
		}
		d := w.byDescriptor[mark]
		if d != nil && mask&unix.IN_IGNORED != 0 {
			d.removed = true
			delete(w.byDescriptor, mark)
		}
		if d == nil || name == "" || isTemp(name) {
			continue
		}
		if got[d] == nil {
			got[d] = make(map[string]uint32)
		}
		got[d][name] |= mask
	}
	return lost
}

// checkAll checks the changed names, parent directories first. With lost, it checks everything.
func (w *watch) checkAll(got changedNames, lost bool) error {
	if lost {
		for _, d := range w.dirs {
			got[d] = nil
		}
	}
	dirs := slices.SortedFunc(maps.Keys(got), func(a, b *watchedDir) int { return strings.Compare(a.rel, b.rel) })
	for _, d := range dirs {
		if w.dirs[d.rel] != d {
			continue // removed together with a parent directory
		}
		if err := w.checkDirNames(d, got[d], lost); err != nil {
			return err
		}
	}
	return nil
}

// checkDirNames checks names in one directory. A directory that was removed is handled by the check
// of its parent.
func (w *watch) checkDirNames(d *watchedDir, names map[string]uint32, lost bool) error {
	l, err := w.openDir(d.rel)
	if err != nil {
		return ignoreRemoved(err)
	}
	defer l.close()
	if lost {
		if names, err = w.rescanDir(d, l); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := w.checkName(l, d, name, names[name]); err != nil {
			return err
		}
	}
	return nil
}

// openDir opens a watched directory. It follows no links below the watched top.
func (w *watch) openDir(rel string) (*listing, error) {
	l, err := openDir(w.w.currentFD(), ".")
	for _, c := range splitPath(rel) {
		if err != nil {
			return nil, err
		}
		var next *listing
		next, err = openDir(l.fd, c)
		l.close()
		l = next
	}
	return l, err
}

// ignoreRemoved returns nil for errors that only mean that a directory was removed or is not
// readable.
func ignoreRemoved(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// rescanDir renews the inotify watch of a directory, which may have been replaced, and returns all
// its old and current names.
func (w *watch) rescanDir(d *watchedDir, l *listing) (map[string]uint32, error) {
	mark, err := w.addInotify(l)
	if err != nil {
		return nil, err
	}
	if mark != d.descriptor {
		if w.byDescriptor[d.descriptor] == d {
			delete(w.byDescriptor, d.descriptor)
		}
		d.descriptor, d.removed, w.byDescriptor[mark] = mark, false, d
	}
	all := make(map[string]uint32, len(d.names))
	for name := range d.names {
		all[name] = noMask
	}
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return all, ignoreRemoved(err)
		}
		for _, n := range names {
			if !isTemp(n) {
				all[n] = noMask
			}
		}
	}
}

// noMask is the mask of a name that is checked because events were lost.
const noMask = 0

// addInotify adds an inotify watch for a directory.
func (w *watch) addInotify(l *listing) (int32, error) {
	c, err := w.queue.SyscallConn()
	if err != nil {
		return 0, err
	}
	var mark int
	var fault error
	err = c.Control(func(queue uintptr) {
		mark, fault = unix.InotifyAddWatch(int(queue), fmt.Sprintf("/proc/self/fd/%d", l.fd), watchMask)
	})
	if errors.Is(fault, unix.ENOSPC) {
		fault = fmt.Errorf("fs.inotify.max_user_watches of this host: %w", fault)
	}
	return int32(mark), errors.Join(err, fault)
}

// addTree watches a directory tree and reports its content. A directory that is removed meanwhile
// is skipped.
func (w *watch) addTree(rel string) error {
	todo := []string{rel}
	for len(todo) > 0 && w.err == nil {
		rel := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, err := w.addDir(rel)
		if err = ignoreRemoved(err); err != nil {
			return err
		}
		todo = append(todo, below...)
	}
	return w.err
}

// addDir starts to watch one directory and then scans it, so that no change is missed. It returns
// its subdirectories.
func (w *watch) addDir(rel string) (below []string, err error) {
	l, err := w.openDir(rel)
	if err != nil {
		return nil, err
	}
	defer l.close()
	d := &watchedDir{rel: rel, names: make(map[string]fileSnapshot)}
	if d.descriptor, err = w.addInotify(l); err != nil {
		return nil, err
	}
	w.dirs[rel], w.byDescriptor[d.descriptor] = d, d
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return below, err
		}
		for _, n := range names {
			var st unix.Stat_t
			if isTemp(n) || unix.Fstatat(l.fd, n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // not complete yet, or removed again
			}
			if w.addName(d, n, &st) && w.isWatchable(l, n, &st) {
				below = append(below, joinRel(rel, n))
			}
			if w.count > maxWatched {
				return nil, fmt.Errorf("%w: more than %d files", atoll.ErrQuota, maxWatched)
			}
		}
	}
}

func joinRel(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

// addName records and reports a new name. It returns whether it is a directory.
func (w *watch) addName(d *watchedDir, name string, st *unix.Stat_t) bool {
	s := snapshotOf(st)
	if _, known := d.names[name]; !known {
		w.count++
	}
	d.names[name] = s
	w.emitEvent(watchCreated, joinRel(d.rel, name), s)
	return s.isDir()
}

// isWatchable reports whether a subdirectory can be watched: it must not be on another file system
// that only exposes kernel data.
func (w *watch) isWatchable(l *listing, name string, st *unix.Stat_t) bool {
	var at unix.Stat_t
	if unix.Fstat(l.fd, &at) != nil {
		return false
	}
	if at.Dev == st.Dev {
		return true
	}
	below, err := openDir(l.fd, name)
	if err != nil {
		return false
	}
	defer below.close()
	return !isKernelFS(below.fd)
}

// removeDir drops a directory tree and reports its removal.
func (w *watch) removeDir(rel string) {
	d := w.dirs[rel]
	if d == nil {
		return
	}
	delete(w.dirs, rel)
	if w.byDescriptor[d.descriptor] == d { // otherwise it was found again under another path
		delete(w.byDescriptor, d.descriptor)
		w.removeInotify(d.descriptor)
	}
	w.count -= len(d.names)
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		s := d.names[name]
		if s.isDir() {
			w.removeDir(joinRel(rel, name))
		}
		w.emitEvent(watchRemoved, joinRel(rel, name), s)
	}
}

func (w *watch) removeInotify(mark int32) {
	if c, err := w.queue.SyscallConn(); err == nil {
		_ = c.Control(func(queue uintptr) {
			_, _ = unix.InotifyRmWatch(int(queue), uint32(mark)) // fails if the directory was removed
		})
	}
}

func (w *watch) emitEvent(kind watchEventKind, rel string, s fileSnapshot) {
	if w.initial {
		kind = watchExisting
	}
	if w.err == nil {
		w.err = w.out.write(watchEvent{kind: kind, dir: s.isDir(), stamp: s.fingerprint(), path: rel})
	}
}

// checkName compares a name with its last known state and reports the difference.
func (w *watch) checkName(l *listing, d *watchedDir, name string, mask uint32) error {
	rel := joinRel(d.rel, name)
	was, had := d.names[name]
	var st unix.Stat_t
	if err := unix.Fstatat(l.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if had {
			w.removeName(d, name, was)
		}
		return nil
	}
	now := snapshotOf(&st)
	if had && (was.mode&unix.S_IFMT != now.mode&unix.S_IFMT || now.isDir() && (was.id != now.id || w.isRemoved(rel))) {
		w.removeName(d, name, was)
		had = false
	}
	if !had {
		if w.count >= maxWatched {
			return fmt.Errorf("%w: more than %d files", atoll.ErrQuota, maxWatched)
		}
		if w.addName(d, name, &st) && w.isWatchable(l, name, &st) {
			return w.addTree(rel)
		}
		return nil
	}
	d.names[name] = now
	if was.fingerprint() != now.fingerprint() || !now.isDir() && (mask&(unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO) != 0 || was.id != now.id) {
		w.emitEvent(watchWritten, rel, now)
	}
	return nil
}

// isRemoved reports whether the directory that was watched under a path has been removed.
func (w *watch) isRemoved(rel string) bool {
	d := w.dirs[rel]
	return d != nil && d.removed
}

// removeName drops a name with everything below it and reports the removal.
func (w *watch) removeName(d *watchedDir, name string, was fileSnapshot) {
	delete(d.names, name)
	w.count--
	if was.isDir() {
		w.removeDir(joinRel(d.rel, name))
	}
	w.emitEvent(watchRemoved, joinRel(d.rel, name), was)
}
