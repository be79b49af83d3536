package vfs

// Snapshot is what a file system held at one moment. It never changes and
// may be used by any number of file systems at once.
type Snapshot struct {
	table table
	payer *epoch
	used  Usage
	quota Quota
}

// Snapshot notes the present state. It copies nothing.
func (f *FS) Snapshot() *Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot()
}

func (f *FS) snapshot() *Snapshot {
	t := f.tree
	t.owner = new(epoch)
	return &Snapshot{table: t.table, payer: t.payer, used: t.used, quota: f.quota}
}

// grow returns a tree that begins as the snapshot.
func (s *Snapshot) grow(payer *epoch, used Usage) *tree {
	return &tree{owner: new(epoch), payer: payer, table: s.table, used: used}
}

// Usage returns what was charged when the snapshot was made. Its Bytes are
// the most that the snapshot can hold in memory.
func (s *Snapshot) Usage() Usage {
	u := s.used
	u.Quota = s.quota
	return u
}

// Restore goes back to a snapshot: everything is as it was then, also the
// charges; what is not in the snapshot is gone. Files that are open keep
// reading what they had and can't be written any more.
//
// A snapshot of a file system with another base brings the charges it had
// there.
func (f *FS) Restore(s *Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restore(s)
}

func (f *FS) restore(s *Snapshot) {
	f.tree.dead = true
	t := s.grow(s.payer, s.used)
	if s == f.base {
		t = s.grow(new(epoch), Usage{})
	}
	f.remount(t, f.now().UnixNano())
	if f.tree.wake != nil {
		f.tree.stir()
	}
	f.tree = t
}

// Fork returns a second file system that begins as this one is now, with the
// same options. From then on neither sees what the other does.
func (f *FS) Fork() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.snapshot()
	return &FS{
		quota: f.quota, now: f.now, store: f.store, base: f.base, uid: f.uid, gid: f.gid,
		tree: s.grow(s.payer, s.used),
	}
}

// Held returns the bytes of file content that the snapshots keep in memory
// and live doesn't; a nil live holds nothing. It looks at all that they
// don't share.
func Held(live *FS, snapshots ...*Snapshot) int64 {
	seen := make(map[any]bool)
	if live != nil {
		measure(live.Snapshot(), seen)
	}
	var n int64
	for _, s := range snapshots {
		n += measure(s, seen)
	}
	return n
}

// measure adds up the blocks of a snapshot that have not been seen.
func measure(s *Snapshot, seen map[any]bool) int64 {
	var n int64
	for p := range s.table.pages {
		if seen[p] {
			continue
		}
		seen[p] = true
		for in := range p.inodes {
			n += in.unseen(seen)
		}
	}
	return n
}

// unseen returns the memory of a file's blocks that have not been seen.
func (in *inode) unseen(seen map[any]bool) int64 {
	var n int64
	for _, b := range in.blocks {
		if b != nil && !seen[b] {
			seen[b] = true
			data, _ := b.bytes()
			n += int64(cap(data))
		}
	}
	return n
}
