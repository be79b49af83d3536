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

// Bounds of a watch.
const (
	maxWatched = 1 << 19 // names
	maxWatches = 32      // at once, of all hosts: each takes a queue of the kernel's, of which a user has few
)

// settle is how long changes that follow each other are gathered, and
// settleMost how long at most.
const (
	settle     = 5 * time.Millisecond
	settleMost = 50 * time.Millisecond
)

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// watchFiles tells a host of changes below a directory.
func (s *Server) watchFiles(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	_, name, err := request(q)
	var w *watch
	if err == nil {
		w, err = s.newWatch(name)
	}
	if err != nil {
		answer(st, explain(name, err))
		return
	}
	answer(st, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(io.Discard, st) // until the host wants no more
		_ = w.queue.Close()            // ends run
	})
	d := newDataWriter(st)
	w.out = sightWriter{w: d}
	err = w.run(d)
	_ = d.end(explain(name, err))           // a host that is gone needs no end
	_ = st.SetReadDeadline(time.Unix(1, 0)) // ends the goroutine
	wg.Wait()
	w.close()
}

// watch is a watch under way. It holds no descriptors but its queue while it
// waits: they would keep the kernel from telling that a directory is gone.
type watch struct {
	s     *Server
	w     *walker
	name  string // of the directory, as it was asked for
	id    inode
	queue *os.File
	buf   []byte
	dirs  map[string]*watchedDir // by path from the directory on; "" is itself
	marks map[int32]*watchedDir  // by the kernel's number
	count int                    // names in all dirs
	out   sightWriter
	err   error // of out
	mute  bool  // what is found was there before
}

// watchedDir is a directory and what was last seen in it.
type watchedDir struct {
	rel   string
	mark  int32
	dead  bool // the kernel has ended the watch: the directory was removed
	names map[string]seen
}

// seen is what was seen of a file.
type seen struct {
	mode, uid, gid uint32
	size, mtime    int64
	id             inode
}

func (s *seen) dir() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }

func seenOf(st *unix.Stat_t) seen {
	return seen{st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Nano(), inode{st.Dev, st.Ino}}
}

// stamp is another for another content, mode or owner. A directory's content is
// not its own.
func (s *seen) stamp() uint64 {
	h := uint64(14695981039346656037)
	add := func(v uint64) { h = (h ^ v) * 1099511628211; h ^= h >> 29 }
	add(uint64(s.mode))
	add(uint64(s.uid)<<32 | uint64(s.gid))
	if !s.dir() {
		add(uint64(s.size))
		add(uint64(s.mtime))
	}
	return h
}

// newWatch finds the directory and watches it.
func (s *Server) newWatch(name string) (_ *watch, err error) {
	if s.watches.Add(1) > maxWatches {
		s.watches.Add(-1)
		return nil, fmt.Errorf("%w: %d watches at once", atoll.ErrQuota, maxWatches)
	}
	w := &watch{s: s, name: name, buf: make([]byte, 32<<10), dirs: make(map[string]*watchedDir), marks: make(map[int32]*watchedDir)}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.w, err = s.walk(); err != nil {
		return nil, err
	}
	defer w.w.reset()
	if _, err := w.w.to(name, asDirectory); err != nil {
		return nil, err
	}
	l, err := openDir(w.w.at(), ".") // one that is closed to this process can't be watched
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
		_ = w.queue.Close() // it was only read
	}
}

// run tells what is there, then changes, until the host wants no more or the
// directory is gone.
func (w *watch) run(d *dataWriter) error {
	err := w.start()
	for err == nil {
		if err = d.flush(); err == nil {
			err = w.next()
		}
	}
	return err
}

// start looks at all there is.
func (w *watch) start() error {
	defer w.w.reset()
	if err := w.there(); err != nil {
		return err
	}
	w.mute = true
	if err := w.add(""); err != nil {
		return err
	}
	w.mute = false
	if w.err == nil {
		w.err = w.out.write(sight{kind: sightReady, dir: true})
	}
	return w.err
}

// there goes to the directory, if it is still that one.
func (w *watch) there() error {
	var st unix.Stat_t
	_, err := w.w.to(w.name, asDirectory)
	if err == nil {
		err = unix.Fstat(w.w.at(), &st)
	}
	if err != nil || w.id != (inode{st.Dev, st.Ino}) {
		return fmt.Errorf("%w: it was removed", atoll.ErrNotFound)
	}
	return nil
}

// next waits for changes and tells them.
func (w *watch) next() error {
	got, lost, err := w.wait()
	if err != nil {
		return err
	}
	defer w.w.reset()
	if err := w.there(); err != nil {
		w.leave("")
		return errors.Join(err, w.err)
	}
	if err := w.learn(got, lost); err != nil {
		return err
	}
	return w.err
}

// news are the names that something happened to, with what, in each directory.
type news map[*watchedDir]map[string]uint32

// wait gathers what the kernel tells, until it tells nothing for a moment.
func (w *watch) wait() (got news, lost bool, err error) {
	if w.queue.SetReadDeadline(time.Time{}) != nil {
		return nil, false, os.ErrClosed
	}
	got = make(news)
	for until := (time.Time{}); ; {
		n, err := w.queue.Read(w.buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return got, lost, nil
		}
		if err != nil {
			return nil, false, err
		}
		lost = w.gather(got, w.buf[:n]) || lost
		now := time.Now()
		if until.IsZero() {
			until = now.Add(settleMost)
		}
		if !now.Before(until) {
			return got, lost, nil
		}
		if w.queue.SetReadDeadline(now.Add(settle)) != nil {
			return nil, false, os.ErrClosed
		}
	}
}

// gather reads what the kernel has queued, and reports whether that was not
// all.
func (w *watch) gather(got news, b []byte) (lost bool) {
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

// learn finds out what has become of the names, directories before what is in
// them.
func (w *watch) learn(got news, lost bool) error {
	if lost {
		for _, d := range w.dirs {
			got[d] = nil
		}
	}
	dirs := slices.SortedFunc(maps.Keys(got), func(a, b *watchedDir) int { return strings.Compare(a.rel, b.rel) })
	for _, d := range dirs {
		if w.dirs[d.rel] != d {
			continue // gone with a directory above
		}
		if err := w.learnDir(d, got[d], lost); err != nil {
			return err
		}
	}
	return nil
}

// learnDir finds out what has become of names in one directory. One that is not
// there any more is looked at in the directory above.
func (w *watch) learnDir(d *watchedDir, names map[string]uint32, lost bool) error {
	l, err := w.open(d.rel)
	if err != nil {
		return unlessGone(err)
	}
	defer l.close()
	if lost {
		if names, err = w.again(d, l); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := w.look(l, d, name, names[name]); err != nil {
			return err
		}
	}
	return nil
}

// open opens a watched directory. Nothing on the way is a link.
func (w *watch) open(rel string) (*listing, error) {
	l, err := openDir(w.w.at(), ".")
	for _, c := range parts(rel) {
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

// unlessGone is nil for what only says that a directory went away, or that its
// owner keeps it closed.
func unlessGone(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// again watches a directory that may be another than it was, and returns all
// names that it has or had.
func (w *watch) again(d *watchedDir, l *listing) (map[string]uint32, error) {
	mark, err := w.mark(l)
	if err != nil {
		return nil, err
	}
	if mark != d.mark {
		if w.marks[d.mark] == d {
			delete(w.marks, d.mark)
		}
		d.mark, d.dead, w.marks[mark] = mark, false, d
	}
	all := make(map[string]uint32, len(d.names))
	for name := range d.names {
		all[name] = unseen
	}
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return all, unlessGone(err)
		}
		for _, n := range names {
			if !isTemp(n) {
				all[n] = unseen
			}
		}
	}
}

// unseen is the mask of a name that is looked at because events were lost.
const unseen = 0

// mark makes the kernel tell of a directory.
func (w *watch) mark(l *listing) (int32, error) {
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

// add watches a directory and all beneath it, telling what is in them. A
// directory that is not there, or not any more, is none.
func (w *watch) add(rel string) error {
	todo := []string{rel}
	for len(todo) > 0 && w.err == nil {
		rel := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, err := w.enter(rel)
		if err = unlessGone(err); err != nil {
			return err
		}
		todo = append(todo, below...)
	}
	return w.err
}

// enter begins to watch one directory and then looks what is in it, so that
// nothing is missed. It returns the directories in it.
func (w *watch) enter(rel string) (below []string, err error) {
	l, err := w.open(rel)
	if err != nil {
		return nil, err
	}
	defer l.close()
	d := &watchedDir{rel: rel, names: make(map[string]seen)}
	if d.mark, err = w.mark(l); err != nil {
		return nil, err
	}
	w.dirs[rel], w.marks[d.mark] = d, d
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return below, err
		}
		for _, n := range names {
			var st unix.Stat_t
			if isTemp(n) || unix.Fstatat(l.fd, n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // not yet, or gone again
			}
			if w.found(d, n, &st) && w.wanted(l, n, &st) {
				below = append(below, under(rel, n))
			}
			if w.count > maxWatched {
				return nil, fmt.Errorf("%w: more than %d files", atoll.ErrQuota, maxWatched)
			}
		}
	}
}

func under(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

// found notes a new name, tells of it, and reports whether it is a directory.
func (w *watch) found(d *watchedDir, name string, st *unix.Stat_t) bool {
	s := seenOf(st)
	if _, known := d.names[name]; !known {
		w.count++
	}
	d.names[name] = s
	w.tell(sightCreated, under(d.rel, name), s)
	return s.dir()
}

// wanted reports whether a directory is watched: not too deep, and not of a
// file system that only shows the kernel.
func (w *watch) wanted(l *listing, name string, st *unix.Stat_t) bool {
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
	return !unreal(below.fd)
}

// leave forgets a directory and all beneath it, telling that it is gone.
func (w *watch) leave(rel string) {
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
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		s := d.names[name]
		if s.dir() {
			w.leave(under(rel, name))
		}
		w.tell(sightRemoved, under(rel, name), s)
	}
}

func (w *watch) unmark(mark int32) {
	if c, err := w.queue.SyscallConn(); err == nil {
		_ = c.Control(func(queue uintptr) {
			_, _ = unix.InotifyRmWatch(int(queue), uint32(mark)) // it is gone with its directory
		})
	}
}

func (w *watch) tell(kind sightKind, rel string, s seen) {
	if w.mute {
		kind = sightHave
	}
	if w.err == nil {
		w.err = w.out.write(sight{kind: kind, dir: s.dir(), stamp: s.stamp(), path: rel})
	}
}

// look compares a name with what it was.
func (w *watch) look(l *listing, d *watchedDir, name string, mask uint32) error {
	rel := under(d.rel, name)
	was, had := d.names[name]
	var st unix.Stat_t
	if err := unix.Fstatat(l.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if had {
			w.forget(d, name, was)
		}
		return nil
	}
	now := seenOf(&st)
	if had && (was.mode&unix.S_IFMT != now.mode&unix.S_IFMT || now.dir() && (was.id != now.id || w.dead(rel))) {
		w.forget(d, name, was)
		had = false
	}
	if !had {
		if w.count >= maxWatched {
			return fmt.Errorf("%w: more than %d files", atoll.ErrQuota, maxWatched)
		}
		if w.found(d, name, &st) && w.wanted(l, name, &st) {
			return w.add(rel)
		}
		return nil
	}
	d.names[name] = now
	if was.stamp() != now.stamp() || !now.dir() && (mask&(unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO) != 0 || was.id != now.id) {
		w.tell(sightWritten, rel, now)
	}
	return nil
}

// dead reports whether the directory that was watched under a path is gone.
func (w *watch) dead(rel string) bool {
	d := w.dirs[rel]
	return d != nil && d.dead
}

// forget tells that a name is gone, with all beneath it.
func (w *watch) forget(d *watchedDir, name string, was seen) {
	delete(d.names, name)
	w.count--
	if was.dir() {
		w.leave(under(d.rel, name))
	}
	w.tell(sightRemoved, under(d.rel, name), was)
}
