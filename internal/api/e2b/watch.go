package e2b

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// The messages of watches.
type (
	watchRequest struct {
		Path         string `json:"path"`
		Recursive    bool   `json:"recursive"`
		IncludeEntry bool   `json:"includeEntry"`
	}
	watchEvent struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Entry *entry `json:"entry,omitempty"`
	}
	watcherReply struct {
		ID string `json:"watcherId"`
	}
	watcherRequest struct {
		ID string `json:"watcherId"`
	}
	watcherEventsReply struct {
		Events []watchEvent `json:"events"`
	}
)

// eventTypes are the kinds of changes in the words of E2B. A rename is a removal and a creation, and a
// change of permissions a write.
var eventTypes = map[atoll.FileOp]string{
	atoll.FileCreated: "EVENT_TYPE_CREATE", atoll.FileWritten: "EVENT_TYPE_WRITE", atoll.FileRemoved: "EVENT_TYPE_REMOVE",
}

// followChanges calls f for each change below a directory until ctx is done. ready is called first.
func (s *Server) followChanges(ctx context.Context, sb *fleet.Sandbox, in *watchRequest, ready func() error, f func(watchEvent) error) error {
	dir := absolutePath(in.Path)
	info, err := atoll.Stat(ctx, sb, dir)
	switch {
	case err != nil:
		return fileError(dir, err)
	case !info.IsDir():
		return invalidError("path %s is not a directory", shortenText(dir))
	}
	err = atoll.Watch(ctx, sb, dir, func(e atoll.FileEvent) error {
		if e.Op == atoll.FileReady {
			return ready()
		}
		name := strings.TrimPrefix(strings.TrimPrefix(e.Path, dir), "/")
		if !in.Recursive && strings.Contains(name, "/") || name == "" {
			return nil
		}
		out := watchEvent{Name: name, Type: eventTypes[e.Op]}
		if in.IncludeEntry && e.Op != atoll.FileRemoved {
			at := path.Join(dir, name)
			if info, err := atoll.Stat(ctx, sb, at); err == nil { // else it was removed meanwhile
				out.Entry = entryOf(ctx, sb, at, info)
			}
		}
		return f(out)
	})
	return fileError(dir, err)
}

// watchDir answers with the changes below a directory.
func (s *Server) watchDir(c *call) error {
	return streamOf(s, c, map[string]any{"keepalive": empty{}}, func(ctx context.Context, in *watchRequest, out *stream) error {
		sb, err := s.openSandbox(c)
		if err != nil {
			return err
		}
		timeout, err := c.readTimeout()
		if err != nil {
			return err
		}
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		err = s.followChanges(ctx, sb, in, func() error { return out.send(map[string]any{"start": empty{}}) }, func(e watchEvent) error {
			return out.send(map[string]any{"filesystem": e})
		})
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, atoll.ErrTimeout) {
			return &Error{Status: http.StatusRequestTimeout, Message: "the watch was ended at its timeout"}
		}
		return err
	})
}

// Limits of watchers that clients poll.
const (
	maxWatchers      = 16   // of a sandbox
	maxWatcherEvents = 4096 // that a watcher keeps; the oldest are dropped
	watcherIdle      = 10 * time.Minute
)

// watchers are the watchers that clients poll. The zero value is ready to use.
type watchers struct {
	mu   sync.Mutex
	all  map[string]*watcher // by id; guarded by mu
	done bool                // guarded by mu
	wg   sync.WaitGroup
}

// watcher collects changes until they are read.
type watcher struct {
	sandbox string
	cancel  context.CancelFunc
	idle    *time.Timer // removes it when its client has left

	mu     sync.Mutex
	events []watchEvent // guarded by mu
	err    error        // why it has ended; guarded by mu
}

// add adds an event and drops the oldest beyond the limit.
func (w *watcher) add(e watchEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	if over := len(w.events) - maxWatcherEvents; over > 0 {
		w.events = append([]watchEvent(nil), w.events[over:]...)
	}
	return nil
}

// createWatcher creates a watcher that its client polls.
func (s *Server) createWatcher(c *call, in *watchRequest) (*watcherReply, error) {
	sb, err := s.openSandbox(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.r.Context()))
	w := &watcher{sandbox: sb.ID(), cancel: cancel}
	id := "w" + atoll.NewID()[1:]
	if err := s.watchers.add(id, w); err != nil {
		cancel()
		return nil, err
	}
	ready := make(chan error, 1)
	go func() {
		defer s.watchers.wg.Done()
		err := s.followChanges(ctx, sb, in, func() error { ready <- nil; return nil }, w.add)
		if err == nil {
			err = errStreamClosed
		}
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
		select {
		case ready <- err: // it did not begin
		default:
		}
	}()
	select {
	case err = <-ready:
	case <-c.r.Context().Done():
		err = context.Cause(c.r.Context())
	}
	if err != nil {
		s.watchers.removeWatcher(id, sb.ID())
		return nil, err
	}
	return &watcherReply{id}, nil
}

// watcherEvents returns the changes since the last call.
func (s *Server) watcherEvents(c *call, in *watcherRequest) (*watcherEventsReply, error) {
	w := s.watchers.find(in.ID, c.a.Caller().Sandbox)
	if w == nil {
		return nil, missingWatcher(in.ID)
	}
	w.idle.Reset(watcherIdle)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) == 0 && w.err != nil {
		return nil, w.err
	}
	out := &watcherEventsReply{Events: w.events}
	if out.Events == nil {
		out.Events = []watchEvent{}
	}
	w.events = nil
	return out, nil
}

// removeWatcher ends a watcher.
func (s *Server) removeWatcher(c *call, in *watcherRequest) (*empty, error) {
	if !s.watchers.removeWatcher(in.ID, c.a.Caller().Sandbox) {
		return nil, missingWatcher(in.ID)
	}
	return &empty{}, nil
}

func missingWatcher(id string) error {
	return &Error{Status: http.StatusNotFound, Message: "watcher with id " + shortenText(id) + " not found"}
}

// add adds a watcher, whose goroutine ends with wg.Done.
func (s *watchers) add(id string, w *watcher) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, o := range s.all {
		if o.sandbox == w.sandbox {
			n++
		}
	}
	switch {
	case s.done:
		return errStopping
	case n >= maxWatchers:
		return &Error{Status: http.StatusTooManyRequests, Message: "the sandbox has 16 watchers, which is the limit: remove one"}
	}
	if s.all == nil {
		s.all = make(map[string]*watcher)
	}
	s.all[id] = w
	s.wg.Add(1)
	w.idle = time.AfterFunc(watcherIdle, func() { s.removeWatcher(id, w.sandbox) })
	return nil
}

// find returns a watcher of a sandbox, or nil.
func (s *watchers) find(id, sandbox string) *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.all[id]; w != nil && w.sandbox == sandbox {
		return w
	}
	return nil
}

// removeWatcher ends a watcher of a sandbox and reports whether there was one.
func (s *watchers) removeWatcher(id, sandbox string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.all[id]
	if w == nil || w.sandbox != sandbox {
		return false
	}
	w.endWatch()
	delete(s.all, id)
	return true
}

func (w *watcher) endWatch() {
	w.idle.Stop()
	w.cancel()
}

// forgetSandbox ends the watchers of a sandbox.
func (s *watchers) forgetSandbox(sandbox string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.all {
		if w.sandbox == sandbox {
			w.endWatch()
			delete(s.all, id)
		}
	}
}

// close ends all watchers and waits for them.
func (s *watchers) close() {
	s.mu.Lock()
	s.done = true
	for _, w := range s.all {
		w.endWatch()
	}
	s.all = nil
	s.mu.Unlock()
	s.wg.Wait()
}
