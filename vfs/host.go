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

// Host is a directory of the host that several trees can mount. Its files are
// reached from the open directory, name by name, and never through a link
// that leads out of it; only regular files and directories are opened. Other
// processes may change its content at any time.
type Host struct {
	dir string

	root  atomic.Pointer[os.Root]
	known atomic.Pointer[fs.FileInfo] // describes root; changed under mu

	mu sync.Mutex // held while the directory is reopened

	use account
}

// OpenHost opens a directory of the host. A missing one is ENOENT. The caller
// closes it when nothing uses its mounts any more.
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

// HostMounts reports whether directories of this host can be mounted.
func HostMounts() bool { return hostMounts }

// Dir returns the directory's path on the host.
func (h *Host) Dir() string { return h.dir }

// Check returns an error if the directory can't be used because it is missing
// or not a directory. A directory that has replaced the opened one is opened.
func (h *Host) Check() error {
	info, err := os.Stat(h.dir)
	switch {
	case err != nil:
		return pathError("mount", h.dir, hostErrno(err))
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
		return pathError("mount", h.dir, hostErrno(err))
	}
	if info, err = root.Stat("."); err != nil {
		_ = root.Close() // the error is err
		return pathError("mount", h.dir, hostErrno(err))
	}
	h.known.Store(&info)
	h.root.Store(root) // the previous root is closed by its finalizer when it is unused
	h.use.invalidateCount()
	return nil
}

// Close closes the directory.
func (h *Host) Close() error { return h.root.Load().Close() }

// rootDir returns the open directory.
func (h *Host) rootDir() *os.Root { return h.root.Load() }

// account counts the bytes and names of the files of a directory. It counts
// writes through this process at once, and recounts now and then to include
// the changes of others.
type account struct {
	mu        sync.Mutex
	known     bool // guarded by mu, as are the fields below
	bytes     int64
	names     int64
	countedAt time.Time     // end of the last count
	walkTime  time.Duration // duration of the last count
	open      map[fileID]*openNode
}

// fileID identifies a file on the host.
type fileID struct{ dev, ino uint64 }

// openNode is a file that is open here: when its last name is removed, its
// bytes stay counted until it is closed.
type openNode struct {
	files map[*os.File]bool // open descriptors
	lost  bool              // its last name was removed here
}

// maxCount exceeds every limit and still leaves room for additions.
const maxCount = math.MaxInt64 / 4

// countEvery is the shortest time for which a count is used.
const countEvery = 2 * time.Second

func (a *account) invalidateCount() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = false
}

// reserveUsage counts n more bytes and so many more names. If that would
// exceed the limit it returns EDQUOT and counts nothing.
func (h *Host) reserveUsage(n, names, limit int64) Errno {
	a := &h.use
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit > 0 {
		over := func() bool {
			return n > 0 && (n > limit || a.bytes > limit-n) || names > 0 && a.names+names > maxNamesFor(limit)
		}
		if age := time.Since(a.countedAt); !a.known || age > max(10*countEvery, 50*a.walkTime) || over() && age > max(countEvery, 20*a.walkTime) {
			h.countFiles()
		}
		if over() {
			return EDQUOT
		}
	}
	a.bytes, a.names = max(0, a.bytes+n), max(0, a.names+names)
	return 0
}

// maxNamesFor returns how many names a limit of bytes allows: files without
// content fill a disk too.
func maxNamesFor(limit int64) int64 { return 1000 + limit/512 }

// countFiles walks the directory and sets the counts; the caller holds use.mu.
func (h *Host) countFiles() {
	a := &h.use
	start := time.Now()
	a.bytes, a.names = 0, 0
	seen := make(map[fileID]bool)
	e := h.walkTree(".", func(_ string, info fs.FileInfo) bool {
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
		a.bytes, a.names = maxCount, maxCount // the usage is unknown: allow no more
	}
	for _, n := range a.open {
		for file := range n.files {
			if info, err := file.Stat(); err == nil && hostStat(info).nlink == 0 {
				a.bytes += info.Size()
				n.lost = true
			}
			break // all descriptors have the same file
		}
	}
	a.known, a.countedAt, a.walkTime = true, time.Now(), time.Since(start)
}

// trackOpen records a file that was opened.
func (h *Host) trackOpen(file *os.File, id fileID) {
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

// trackClose records that a file is about to be closed.
func (h *Host) trackClose(file *os.File, id fileID) {
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

// trackRemoved records that a name of a file was removed.
func (h *Host) trackRemoved(info fs.FileInfo) {
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

// openDir opens a directory. The trailing dot makes the host require a
// directory; a pipe that has replaced it would block the open otherwise.
func (h *Host) openDir(rel string) (*os.Root, error) { return h.rootDir().OpenRoot(rel + "/.") }

// list returns the sorted names in a directory, and the open directory.
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

// maxNames limits the number of names that are read from one directory.
const maxNames = 1 << 17

// namesOf returns the sorted names in an open directory.
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

// entriesOf describes the entries of an open directory, sorted by name.
func entriesOf(dir *os.Root) ([]fs.DirEntry, error) {
	names, err := namesOf(dir)
	list := make([]fs.DirEntry, 0, len(names))
	for _, name := range names {
		if info, err := dir.Lstat(name); err == nil { // else it was removed
			list = append(list, &dirEntry{info: hostInfo(info, name)})
		}
	}
	return list, err
}

// maxPending limits the names that a walk has still to visit.
const maxPending = 1 << 20

// walkTree calls do for everything beneath a directory, sorted by name and
// directories before their content, until do returns false. Files that are
// removed meanwhile are left out. A tree that is too deep or too broad is
// EFBIG.
func (h *Host) walkTree(rel string, do func(rel string, info fs.FileInfo) bool) Errno {
	todo := h.appendChildren(nil, rel)
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		info, err := h.rootDir().Lstat(at)
		if err != nil {
			continue
		}
		if !do(at, info) {
			return 0
		}
		if info.IsDir() {
			todo = h.appendChildren(todo, at)
		}
		if pathDepth(at) >= maxDepth || len(todo) > maxPending {
			return EFBIG
		}
	}
	return 0
}

// appendChildren appends the paths of a directory's entries, the last first.
func (h *Host) appendChildren(todo []string, rel string) []string {
	names, dir, err := h.list(rel)
	if err != nil {
		return todo // it was removed
	}
	_ = dir.Close() // it was only read
	for _, name := range slices.Backward(names) {
		todo = append(todo, joinRel(rel, name))
	}
	return todo
}

// joinRel returns the relative path of a name in a directory.
func joinRel(rel, name string) string {
	if rel == "." {
		return name
	}
	return rel + "/" + name
}

// hostIno is the first inode number of files in mounts; trees use lower ones.
const hostIno = 1 << 61

// inodeNumber folds a file's device and inode number on the host into one.
func (id fileID) inodeNumber() uint64 {
	const bits = 44
	dev := id.dev ^ id.dev>>16 ^ id.dev>>32
	if id.ino>>bits == 0 {
		return hostIno | dev<<bits&(hostIno-1) | id.ino
	}
	x := (id.ino ^ dev*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return hostIno | (x^x>>31)&(hostIno-1)
}

// hostInfo describes a file of the host as a file of a tree. Files of this
// process's user belong to the sandbox's root.
func hostInfo(info fs.FileInfo, name string) Info {
	s := hostStat(info)
	i := Info{
		name: name, mode: info.Mode() & (fs.ModeType | modeBits), size: info.Size(), ino: s.id.inodeNumber(),
		nlink: uint32(s.nlink), uid: s.uid, gid: s.gid, rdev: s.rdev, blocks: s.blocks,
		atime: toNanos(s.atime), mtime: toNanos(info.ModTime()), ctime: toNanos(s.ctime), btime: toNanos(s.ctime),
	}
	if i.uid == uint32(os.Geteuid()) {
		i.uid = 0
	}
	if i.gid == uint32(os.Getegid()) {
		i.gid = 0
	}
	return i
}

// errnoOf returns the reason that an error contains, EIO if there is none.
func errnoOf(err error) Errno {
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

// currentUsage returns how many bytes and names are in the directory,
// recounting them if the last count is old.
func (h *Host) currentUsage() (bytes, names int64) {
	a := &h.use
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known || time.Since(a.countedAt) > max(countEvery, 20*a.walkTime) {
		h.countFiles()
	}
	return a.bytes, a.names
}
