package kernel

import "sync"

// lockTable holds the advisory locks of files, as flock(2) gives them: they belong to open file descriptions, and end
// with those.
type lockTable struct {
	mu    sync.Mutex
	files map[uint64]*fileLock // guarded by mu; by inode
}

// fileLock is the lock of a file: one holder that excludes all others, or holders that share it.
type fileLock struct {
	exclusive bool
	holders   map[*FileDescription]bool
}

// tryLock locks a file for a description, or changes the lock that it has. It returns false if others hold the file.
func (t *lockTable) tryLock(ino uint64, o *FileDescription, exclusive bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.files[ino]
	if l == nil {
		l = &fileLock{holders: make(map[*FileDescription]bool)}
		if t.files == nil {
			t.files = make(map[uint64]*fileLock)
		}
		t.files[ino] = l
	}
	others := len(l.holders)
	if l.holders[o] {
		others--
	}
	if others > 0 && (exclusive || l.exclusive) {
		return false
	}
	l.holders[o], l.exclusive = true, exclusive
	o.locks.Store(t)
	o.lockedInode.Store(ino)
	return true
}

// unlock removes the lock of a description; one that has none is not an error.
func (t *lockTable) unlock(ino uint64, o *FileDescription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.files[ino]
	if l == nil {
		return
	}
	if delete(l.holders, o); len(l.holders) == 0 {
		delete(t.files, ino)
	}
}

// excludes reports whether another description has a file locked exclusively.
func (t *lockTable) excludes(ino uint64, o *FileDescription) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.files[ino]
	return l != nil && l.exclusive && !l.holders[o]
}

// TryLock locks an open file, shared or exclusively, as flock(2) does without waiting: the lock belongs to the open file
// description, and a second call changes it. It returns false if other descriptions prevent it.
func (p *Proc) TryLock(h *Handle, exclusive bool) bool {
	o, ino, ok := h.lockable()
	return ok && p.k.locks.tryLock(ino, o, exclusive)
}

// Unlock removes the lock of an open file. Without a lock it does nothing.
func (p *Proc) Unlock(h *Handle) {
	if o, ino, ok := h.lockable(); ok {
		p.k.locks.unlock(ino, o)
	}
}

// IsLocked reports whether another open file description has the file locked exclusively.
func (p *Proc) IsLocked(h *Handle) bool {
	o, ino, ok := h.lockable()
	return ok && p.k.locks.excludes(ino, o)
}

// lockable returns the description of a handle and the inode of its file.
func (h *Handle) lockable() (*FileDescription, uint64, bool) {
	o := h.Open()
	if o == nil {
		return nil, 0, false
	}
	if o.file == nil {
		return nil, 0, false
	}
	info, err := o.file.Stat()
	return o, info.Ino(), err == nil
}
