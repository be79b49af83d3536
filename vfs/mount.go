package vfs

import (
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
)

// Mount describes a directory of the host that is visible in a tree.
type Mount struct {
	Target   string // path in the tree; created if it is missing
	Host     *Host
	ReadOnly bool  // every change fails with EROFS
	Limit    int64 // bytes of all files in it; a write that exceeds it fails with EDQUOT; 0 means no limit
}

// mount is an attached Mount.
type mount struct {
	host     *Host
	path     string // of the target, without links
	readOnly bool
	limit    int64
	files    atomic.Int32 // files that are open through this mount

	mu   sync.Mutex
	open map[*hostFile]bool // guarded by mu; nil once it is unmounted
}

// eCross is the internal reason that a path can't be walked in the tree
// alone, because it leads into a mount. It is never returned to callers of
// the package.
const eCross Errno = 255

// Mount makes a directory of the host visible at m.Target. The content of the
// tree there is hidden, and neither the target nor a directory above it can be
// moved or removed. Charges, quotas, snapshots and forks don't include the
// content of mounts; a Restore leaves mounts attached. Paths are walked in the
// tree: an absolute link in a mount leads to the root of the tree.
func (f *FS) Mount(m Mount) error {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.makeDirs(m.Target, fs.ModeDir|0o755, now)
	if e == eCross {
		e = EBUSY // beneath another mount
	}
	if e != 0 {
		return pathError("mount", m.Target, e)
	}
	in, e := f.tree.lookupExisting(&f.quota, m.Target, true)
	switch {
	case e != 0:
		return pathError("mount", m.Target, e)
	case !in.isDir():
		return pathError("mount", m.Target, ENOTDIR)
	case in.ino == rootIno || f.tree.hasMountWithin(in):
		return pathError("mount", m.Target, EBUSY)
	}
	full, e := f.tree.absPath(&f.quota, in, "")
	if e != 0 {
		return pathError("mount", m.Target, e)
	}
	at := &mount{host: m.Host, path: full, readOnly: m.ReadOnly, limit: m.Limit, open: make(map[*hostFile]bool)}
	f.mounts = append(f.mounts, at)
	f.tree.attachMount(in.ino, at)
	return nil
}

// Unmount detaches all mounts and closes the files that are open in them.
func (f *FS) Unmount() {
	f.mu.Lock()
	list := f.mounts
	f.mounts, f.tree.mounts = nil, nil
	f.mu.Unlock()
	for _, m := range list {
		m.mu.Lock()
		open := m.open
		m.open = nil
		m.mu.Unlock()
		for h := range open {
			h.close()
		}
	}
}

// Mounts returns all mounts, in the order in which they were attached.
func (f *FS) Mounts() []Mount {
	f.mu.RLock()
	defer f.mu.RUnlock()
	list := make([]Mount, 0, len(f.mounts))
	for _, m := range f.mounts {
		list = append(list, Mount{Target: m.path, Host: m.host, ReadOnly: m.readOnly, Limit: m.limit})
	}
	return list
}

// UsageAt returns the usage and the limits of the mount that a path leads
// into, and its target; or [FS.Usage] and "/" for a path in no mount. For a
// mount without a limit the sizes are those of the host's file system.
func (f *FS) UsageAt(path string) (Usage, string, error) {
	full, err := f.Resolve(path)
	if err != nil {
		return Usage{}, "", err
	}
	f.mu.RLock()
	mounts := f.mounts
	f.mu.RUnlock()
	for _, m := range mounts {
		if full == m.path || strings.HasPrefix(full, m.path+"/") {
			u, err := m.readUsage()
			return u, m.path, err
		}
	}
	return f.Usage(), "/", nil
}

// readUsage returns the usage and the limits of the mount.
func (m *mount) readUsage() (Usage, error) {
	total, free, err := m.host.diskSpace()
	if err != nil {
		return Usage{}, pathError("statfs", m.path, hostErrno(err))
	}
	u := Usage{Bytes: total - free, Quota: Quota{Bytes: total}}
	if m.limit > 0 {
		bytes, names := m.host.currentUsage()
		u = Usage{Bytes: bytes, Nodes: int(names), Quota: Quota{Bytes: min(m.limit, bytes+free), Nodes: int(maxNamesFor(m.limit))}}
	}
	return u, nil
}

func (t *tree) attachMount(ino uint64, m *mount) {
	if t.mounts == nil {
		t.mounts = make(map[uint64]*mount)
	}
	t.mounts[ino] = m
}

// hasMountWithin reports whether a directory, or one beneath it, is a mount
// point.
func (t *tree) hasMountWithin(dir *inode) bool {
	for ino := range t.mounts {
		if t.isWithin(t.table.get(ino), dir) {
			return true
		}
	}
	return false
}

// reattachMounts attaches the mounts to a tree that replaces another. It
// creates their missing directories, whatever the quota.
func (f *FS) reattachMounts(t *tree, now int64) {
	for _, m := range f.mounts {
		cur := t.table.get(rootIno)
		for name := range strings.SplitSeq(m.path[1:], "/") {
			in := t.table.get(cur.dir.find(name))
			if in != nil && !in.isDir() {
				t.removeName(t.ownInode(cur), name, in, now)
				cur, in = t.table.get(cur.ino), nil
			}
			if in == nil {
				in = f.newInode(t, location{dir: cur, name: name}, fs.ModeDir|0o755, now)
			}
			cur = in
		}
		t.attachMount(cur.ino, m)
	}
}

// remainingPath returns the part of the path that is still to walk.
func (w *walker) remainingPath() string {
	s := w.rest
	for i := len(w.stack) - 1; i >= 0; i-- {
		s += w.stack[i]
	}
	return s
}
