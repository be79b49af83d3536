package vfs

// Observe takes a snapshot and returns it with a channel that is closed at
// the first change after it, or some time later without a change. To go on
// observing, call it again then: [Diff] of the two snapshots has every change,
// also across a [FS.Restore]. A tree that nothing observes has no extra cost.
// Changes in mounts are not observed.
func (f *FS) Observe() (*Snapshot, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.snapshotLocked()
	if f.tree.wake == nil {
		f.tree.wake = make(chan struct{})
	}
	return s, f.tree.wake
}

// wakeObservers closes the channel of Observe. It is called where an inode is
// copied before its first change since the last snapshot: that of Observe, or
// a later one.
func (t *tree) wakeObservers() {
	close(t.wake)
	t.wake = nil
}
