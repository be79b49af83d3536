package vfs

// Snapshot is the content of a file system at one moment. It never changes
// and may be used by any number of file systems at once.
type Snapshot struct {
	table table
	payer *epoch
	used  Usage
	quota Quota
}

// Snapshot returns a snapshot of the current state. It copies nothing.
func (f *FS) Snapshot() *Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshotLocked()
}

// snapshotLocked is Snapshot for callers that hold the lock.
func (f *FS) snapshotLocked() *Snapshot {
	t := f.tree
	t.owner = new(epoch)
	return &Snapshot{table: t.table, payer: t.payer, used: t.used, quota: f.quota}
}

// toTree returns a new tree that begins as the snapshot.
func (s *Snapshot) toTree(payer *epoch, used Usage) *tree {
	return &tree{owner: new(epoch), payer: payer, table: s.table, used: used}
}

// Usage returns the usage when the snapshot was made. Its Bytes bound the
// memory that the snapshot can hold.
func (s *Snapshot) Usage() Usage {
	u := s.used
	u.Quota = s.quota
	return u
}

// Restore returns the file system to the state of a snapshot, charges
// included; everything that is not in the snapshot is removed. Open files can
// still read their old content, but no longer write.
//
// A snapshot of a file system with another base restores the charges that it
// had there.
func (f *FS) Restore(s *Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restoreLocked(s)
}

// restoreLocked is Restore for callers that hold the lock.
func (f *FS) restoreLocked(s *Snapshot) {
	f.tree.dead = true
	t := s.toTree(s.payer, s.used)
	if s == f.base {
		t = s.toTree(new(epoch), Usage{})
	}
	f.reattachMounts(t, f.now().UnixNano())
	if f.tree.wake != nil {
		f.tree.wakeObservers()
	}
	f.tree = t
}

// Fork returns a second file system that begins with the current state and
// the same options. Later changes of one are not visible in the other.
func (f *FS) Fork() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.snapshotLocked()
	return &FS{
		quota: f.quota, now: f.now, store: f.store, base: f.base, uid: f.uid, gid: f.gid,
		tree: s.toTree(s.payer, s.used),
	}
}

// ForkQuota is Fork with another quota. Content that exceeds the new quota
// stays; it can then only shrink.
func (f *FS) ForkQuota(q Quota) *FS {
	n := f.Fork()
	n.quota = q.effective()
	return n
}

// HeldBytes returns the number of bytes of file content that the snapshots
// keep in memory and live does not; live may be nil. It visits everything
// that the snapshots don't share.
func HeldBytes(live *FS, snapshots ...*Snapshot) int64 {
	seen := make(map[any]bool)
	if live != nil {
		measureUnseen(live.Snapshot(), seen)
	}
	var n int64
	for _, s := range snapshots {
		n += measureUnseen(s, seen)
	}
	return n
}

// measureUnseen adds up the blocks of a snapshot that are not in seen, and
// adds them to it.
func measureUnseen(s *Snapshot, seen map[any]bool) int64 {
	var n int64
	for p := range s.table.allPages {
		if seen[p] {
			continue
		}
		seen[p] = true
		for in := range p.allInodes {
			n += in.unseenBytes(seen)
		}
	}
	return n
}

// unseenBytes returns the memory of a file's blocks that are not in seen.
func (in *inode) unseenBytes(seen map[any]bool) int64 {
	var n int64
	for _, b := range in.blocks {
		if b != nil && !seen[b] {
			seen[b] = true
			data, _ := b.dataOrLazy()
			n += int64(cap(data))
		}
	}
	return n
}

// Lstat describes the file at a path of the snapshot; a symbolic link at the
// end is not followed.
func (s *Snapshot) Lstat(path string) (Info, error) {
	in, e := s.toTree(s.payer, s.used).lookupExisting(&s.quota, path, false)
	if e != 0 {
		return Info{}, pathError("lstat", path, e)
	}
	return in.toInfo(baseName(path)), nil
}
