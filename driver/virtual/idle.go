package virtual

import (
	"container/list"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/shell"
)

// A stored sandbox without operations is idle: its history is stored after notesDelay, and its files
// and session leave the memory after unloadDelay, or when more than maxLoaded others were used since.
const (
	notesDelay  = time.Second
	unloadDelay = 10 * time.Second
	maxLoaded   = 256
	manyIdle    = 256 // sandboxes that became idle, after which their memory is returned to the system at once

	notesTimeout = time.Second // to wait for another process that works in an idle sandbox
)

// idleList has the stored sandboxes that are in memory, the one that was used last at the end.
type idleList struct {
	keepLoaded bool // in a worker, whose memory is the sandbox's

	mu      sync.Mutex
	order   list.List                  // of *idleEntry; guarded by mu, as all below
	entries map[*Sandbox]*list.Element // in order
	timer   *time.Timer                // nil: none was needed
	running bool                       // the timer is set, or its function runs
	closed  bool
	freed   int // sandboxes that were unloaded since memory was returned to the system
}

type idleEntry struct {
	s     *Sandbox
	used  time.Time
	noted bool // its history is stored
}

// add notes that an operation in a sandbox has ended.
func (l *idleList) add(s *Sandbox) {
	l.mu.Lock()
	if l.entries == nil {
		l.entries = make(map[*Sandbox]*list.Element)
	}
	if e := l.entries[s]; e != nil {
		x := e.Value.(*idleEntry)
		x.used, x.noted = time.Now(), false
		l.order.MoveToBack(e)
	} else {
		l.entries[s] = l.order.PushBack(&idleEntry{s: s, used: time.Now()})
	}
	if !l.running && !l.closed {
		l.running = true
		if l.timer == nil {
			l.timer = time.AfterFunc(notesDelay, l.releaseIdle)
		} else {
			l.timer.Reset(notesDelay)
		}
	}
	var oldest *Sandbox
	if l.order.Len() > maxLoaded && !l.keepLoaded {
		oldest = l.order.Front().Value.(*idleEntry).s
	}
	l.mu.Unlock()
	if oldest != nil {
		l.release(oldest)
	}
}

// remove forgets a sandbox.
func (l *idleList) remove(s *Sandbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[s]; e != nil {
		l.order.Remove(e)
		delete(l.entries, s)
		l.freed++
	}
}

// returnMemory returns memory to the system once many sandboxes have become idle and none is in use.
func (l *idleList) returnMemory() {
	l.mu.Lock()
	now := l.order.Len() == 0 && l.freed >= manyIdle
	if now {
		l.freed, l.entries = 0, nil
	}
	l.mu.Unlock()
	if now {
		debug.FreeOSMemory()
	}
}

// releaseIdle stores the history of idle sandboxes, and unloads those that are idle for longer.
func (l *idleList) releaseIdle() {
	now := time.Now()
	l.mu.Lock()
	var noted, released []*Sandbox
	for e := l.order.Front(); e != nil; e = e.Next() {
		x := e.Value.(*idleEntry)
		switch idle := now.Sub(x.used); {
		case idle >= unloadDelay && !l.keepLoaded:
			released = append(released, x.s)
			x.used = now // if it can't be released now, it is tried again later
		case idle >= notesDelay && !x.noted:
			noted = append(noted, x.s)
			x.noted = true
		}
	}
	l.mu.Unlock()
	for _, s := range noted {
		s.storeNotes()
	}
	for _, s := range released {
		l.release(s)
	}
	l.returnMemory()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = l.needsTimer() && !l.closed
	if l.running {
		l.timer.Reset(notesDelay)
	}
}

// needsTimer reports whether a sandbox has something to be stored or released; the caller holds mu.
func (l *idleList) needsTimer() bool {
	for e := l.order.Front(); e != nil; e = e.Next() {
		if !l.keepLoaded || !e.Value.(*idleEntry).noted {
			return true
		}
	}
	return false
}

// release stores the history of a sandbox and unloads it, if it is idle.
func (l *idleList) release(s *Sandbox) {
	s.storeNotes()
	if s.unload() {
		l.remove(s)
	}
}

// close stores the history of all sandboxes and unloads those that are idle.
func (l *idleList) close() {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	all := make([]*Sandbox, 0, len(l.entries))
	for s := range l.entries {
		all = append(all, s)
	}
	l.mu.Unlock()
	for _, s := range all {
		l.release(s)
	}
}

// storeNotes stores the history of a sandbox, unless another process works in it.
func (s *Sandbox) storeNotes() {
	s.mu.Lock()
	needed := s.history.unsavedCommands > 0 && !s.destroyed
	s.mu.Unlock()
	if !needed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), notesTimeout)
	defer cancel()
	if s.acquireStore(ctx) != nil {
		return // the next change stores it
	}
	err := s.saveNotes(ctx)
	s.disk.release()
	if errors.Is(err, atoll.ErrNotFound) {
		s.d.idle.remove(s)
	}
}

// unload frees the memory and the descriptors of a sandbox that is idle, and reports whether it is
// unloaded. Its next use loads it again.
func (s *Sandbox) unload() bool {
	k := s.disk
	select {
	case k.guard <- struct{}{}:
		defer func() { <-k.guard }()
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.users > 0 || s.watchers > 0 || len(s.spec.Mounts) > 0 || s.history.unsavedCommands > 0 && !s.destroyed {
		return false
	}
	if s.k != nil && len(s.k.Procs()) > 0 {
		return false
	}
	for i := range s.snapshots {
		if s.snapshots[i].stored == nil {
			return false
		}
		s.snapshots[i].files, s.snapshots[i].state = nil, shell.State{}
	}
	s.fs, s.k, s.sh, s.state = nil, nil, nil, shell.State{}
	s.history = history{}
	if len(s.running) == 0 {
		s.running = nil
	}
	k.rec = notLoaded
	k.filesChanged, k.session = nil, shell.State{}
	k.storage.close()
	return true
}
