package vfs

// Observe notes the present state and returns with it a channel that is
// closed at the first change after it, or some time later when there is
// none. Who goes on observing calls it again then: [Diff] of both snapshots
// has every change, also over a [FS.Restore]. It costs nothing where nobody
// observes. Changes in mounts are not seen.
func (f *FS) Observe() (*Snapshot, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.snapshot()
	if f.tree.wake == nil {
		f.tree.wake = make(chan struct{})
	}
	return s, f.tree.wake
}

// stir wakes those who observe the tree. It is called where an inode is
// copied before its first change since the last snapshot: that of Observe, or
// a later one.
func (t *tree) stir() {
	close(t.wake)
	t.wake = nil
}

// Lstat describes what a path named when the snapshot was made.
func (s *Snapshot) Lstat(path string) (Info, error) {
	in, e := s.grow(s.payer, s.used).lookupExisting(&s.quota, path, false)
	if e != 0 {
		return Info{}, pathError("lstat", path, e)
	}
	return in.info(base(path)), nil
}
