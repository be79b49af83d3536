package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Host is a directory of the host that trees can mount, several at once.
// What is in it is reached from its open directory, name by name, and never
// through a link that leads out of it; only files and directories are opened.
// Others may change what is in it at any time.
type Host struct {
	dir string

	root  atomic.Pointer[os.Root]
	known atomic.Pointer[fs.FileInfo] // of what root is; changed under mu

	mu sync.Mutex // held while the directory is opened again

	use account
}

// OpenHost opens a directory of the host. A missing one is ENOENT. Who opens
// it closes it, once nothing that mounts it is used any more.
func OpenHost(dir string) (*Host, error) {
	if !hostMounts {
		return nil, pathError("mount", dir, ENOTSUP)
	}
	h := &Host{dir: dir}
	if err := h.Check(); err != nil {
		return nil, err
	}
	return h, nil
}

// HostMounts says whether directories of this host can be mounted.
func HostMounts() bool { return hostMounts }

// Dir returns the directory's path on the host.
func (h *Host) Dir() string { return h.dir }

// Check says why the directory can't be used: it is not there, or it is none.
// One that has taken the place of the one that was opened is opened now.
func (h *Host) Check() error {
	info, err := os.Stat(h.dir)
	switch {
	case err != nil:
		return pathError("mount", h.dir, hostReason(err))
	case !info.IsDir():
		return pathError("mount", h.dir, ENOTDIR)
	}
	if was := h.known.Load(); was != nil && os.SameFile(*was, info) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return pathError("mount", h.dir, hostReason(err))
	}
	if info, err = root.Stat("."); err != nil {
		_ = root.Close() // the error that counts is there
		return pathError("mount", h.dir, hostReason(err))
	}
	h.known.Store(&info)
	h.root.Store(root) // what was there before closes when nobody uses it any more
	h.use.forget()
	return nil
}

// Close lets go of the directory.
func (h *Host) Close() error { return h.root.Load().Close() }

// top returns the open directory.
func (h *Host) top() *os.Root { return h.root.Load() }

// account knows how many bytes the files of a directory have. It counts
// what is written through this process at once and looks at what others
// have done now and then.
type account struct {
	mu    sync.Mutex
	known bool // guarded by mu, as all below
	bytes int64
	names int64
	when  time.Time     // of the last walk
	took  time.Duration // it
	open  map[fileID]*openNode
}

// fileID names a file on the host.
type fileID struct{ dev, ino uint64 }

// openNode is a file that is open here: when its last name goes, its bytes
// stay until it is closed.
type openNode struct {
	files map[*os.File]bool // those that are open
	lost  bool              // its last name was taken away here
}

// maxCount is more than any limit allows, and can still be added to.
const maxCount = math.MaxInt64 / 4

// countEvery is how long a count is believed at least.
const countEvery = 2 * time.Second

func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = false
}

// reserve counts n more bytes and so many more names, unless that would pass
// the limit.
func (h *Host) reserve(n, names, limit int64) Errno {
	a := &h.use
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit > 0 {
		over := func() bool {
			return n > 0 && (n > limit || a.bytes > limit-n) || names > 0 && a.names+names > mostNames(limit)
		}
		if age := time.Since(a.when); !a.known || age > max(10*countEvery, 50*a.took) || over() && age > max(countEvery, 20*a.took) {
			h.count()
		}
		if over() {
			return EDQUOT
		}
	}
	a.bytes, a.names = max(0, a.bytes+n), max(0, a.names+names)
	return 0
}

// mostNames is how many names a limit of bytes allows: files without content
// fill a disk too.
func mostNames(limit int64) int64 { return 1000 + limit/512 }

// count walks the directory; the caller holds use.mu.
func (h *Host) count() {
	a := &h.use
	start := time.Now()
	a.bytes, a.names = 0, 0
	seen := make(map[fileID]bool)
	e := h.walk(".", func(_ string, info fs.FileInfo) bool {
		a.names++
		if s := hostStat(info); info.Mode().IsRegular() {
			if s.nlink > 1 {
				if seen[s.id] {
					return true
				}
				seen[s.id] = true
			}
			a.bytes += info.Size()
		}
		return true
	})
	if e != 0 {
		a.bytes, a.names = maxCount, maxCount // nobody knows: nothing more goes in
	}
	for _, n := range a.open {
		for file := range n.files {
			if info, err := file.Stat(); err == nil && hostStat(info).nlink == 0 {
				a.bytes += info.Size()
				n.lost = true
			}
			break // they are all the same
		}
	}
	a.known, a.when, a.took = true, time.Now(), time.Since(start)
}

// opened notes a file that is open.
func (h *Host) opened(file *os.File, id fileID) {
	a := &h.use
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.open[id]
	if n == nil {
		if a.open == nil {
			a.open = make(map[fileID]*openNode)
		}
		n = &openNode{files: make(map[*os.File]bool)}
		a.open[id] = n
	}
	n.files[file] = true
}

// closing notes that a file is about to be closed.
func (h *Host) closing(file *os.File, id fileID) {
	a := &h.use
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.open[id]
	if delete(n.files, file); len(n.files) == 0 {
		delete(a.open, id)
		if info, err := file.Stat(); n.lost && err == nil {
			a.bytes = max(0, a.bytes-info.Size())
		}
	}
}

// unnamed notes that a name of a file was taken away.
func (h *Host) unnamed(info fs.FileInfo) {
	if info == nil {
		return
	}
	s := hostStat(info)
	a := &h.use
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = max(0, a.names-1)
	if s.nlink > 1 || !info.Mode().IsRegular() {
		return
	}
	if n := a.open[s.id]; n != nil {
		n.lost = true
		return
	}
	a.bytes = max(0, a.bytes-info.Size())
}

// openDir opens a directory. The dot makes even the last name one that can
// only be a directory, or a pipe that takes its place would block.
func (h *Host) openDir(rel string) (*os.Root, error) { return h.top().OpenRoot(rel + "/.") }

// list returns the names in a directory, in order, and the open directory.
func (h *Host) list(rel string) (names []string, dir *os.Root, err error) {
	if dir, err = h.openDir(rel); err != nil {
		return nil, nil, err
	}
	if names, err = namesOf(dir); err != nil {
		_ = dir.Close() // it was only read
		return nil, nil, err
	}
	return names, dir, nil
}

// maxNames bounds the names of one directory that are read.
const maxNames = 1 << 17

// namesOf returns the names in an open directory, in order.
func namesOf(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close() // it is only read
	names, err := f.Readdirnames(maxNames + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(names) > maxNames {
		err = EFBIG
	}
	slices.Sort(names)
	return names, err
}

// entriesOf describes what is in an open directory, in the order of names.
func entriesOf(dir *os.Root) ([]fs.DirEntry, error) {
	names, err := namesOf(dir)
	list := make([]fs.DirEntry, 0, len(names))
	for _, name := range names {
		if info, err := dir.Lstat(name); err == nil { // else it went away
			list = append(list, &dirEntry{info: hostInfo(info, name)})
		}
	}
	return list, err
}

// maxPending bounds the names that a walk has still to look at.
const maxPending = 1 << 20

// walk calls do for all beneath a directory, in the order of names and
// directories before what is in them, until it returns false. What goes away
// meanwhile is left out. A tree that is deeper or broader than a walk goes is
// EFBIG.
func (h *Host) walk(rel string, do func(rel string, info fs.FileInfo) bool) Errno {
	todo := h.below(nil, rel)
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		info, err := h.top().Lstat(at)
		if err != nil {
			continue
		}
		if !do(at, info) {
			return 0
		}
		if info.IsDir() {
			todo = h.below(todo, at)
		}
		if depth(at) >= maxDepth || len(todo) > maxPending {
			return EFBIG
		}
	}
	return 0
}

// below appends what is in a directory, the last name first.
func (h *Host) below(todo []string, rel string) []string {
	names, dir, err := h.list(rel)
	if err != nil {
		return todo // it went away
	}
	_ = dir.Close() // it was only read
	for _, name := range slices.Backward(names) {
		todo = append(todo, under(rel, name))
	}
	return todo
}

// under returns the path of a name in a directory.
func under(rel, name string) string {
	if rel == "." {
		return name
	}
	return rel + "/" + name
}

// hostIno begins the numbers of files in mounts, which are none of a tree's.
const hostIno = 1 << 61

// number folds a file's device and number on the host into one.
func (id fileID) number() uint64 {
	const bits = 44
	dev := id.dev ^ id.dev>>16 ^ id.dev>>32
	if id.ino>>bits == 0 {
		return hostIno | dev<<bits&(hostIno-1) | id.ino
	}
	x := (id.ino ^ dev*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return hostIno | (x^x>>31)&(hostIno-1)
}

// hostInfo describes a file of the host as one of a tree. Files of this
// process's user are the sandbox's root's.
func hostInfo(info fs.FileInfo, name string) Info {
	s := hostStat(info)
	i := Info{
		name: name, mode: info.Mode() & (fs.ModeType | modeBits), size: info.Size(), ino: s.id.number(),
		nlink: uint32(s.nlink), uid: s.uid, gid: s.gid, rdev: s.rdev, blocks: s.blocks,
		atime: timeStamp(s.atime), mtime: timeStamp(info.ModTime()), ctime: timeStamp(s.ctime), btime: timeStamp(s.ctime),
	}
	if i.uid == uint32(os.Geteuid()) {
		i.uid = 0
	}
	if i.gid == uint32(os.Getegid()) {
		i.gid = 0
	}
	return i
}

// reason is the reason in an error, EIO where it holds none.
func reason(err error) Errno {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[Errno](err); ok {
		return e
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ENOENT
	case errors.Is(err, fs.ErrExist):
		return EEXIST
	case errors.Is(err, fs.ErrPermission):
		return EACCES
	}
	return EIO
}

// used returns how many bytes and names are in the directory, as last
// counted.
func (h *Host) used() (bytes, names int64) {
	a := &h.use
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known || time.Since(a.when) > max(countEvery, 20*a.took) {
		h.count()
	}
	return a.bytes, a.names
}
