package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// hub passes notices to those who listen. While nobody does, it costs nothing.
//
// The kernel tells nobody that a port is listened on, without privileges that a
// guest doesn't have: so it is asked, often while something is done in the
// sandbox and seldom else, and only while somebody listens.
type hub struct {
	looking sync.Mutex              // held while it is looked; taken before mu
	ports   map[endpoint]atoll.Port // guarded by looking
	kills   int64                   // guarded by looking; of the kernel for want of memory
	stop    func()                  // guarded by looking; ends the observer and waits for it

	mu        sync.Mutex         // never held for long
	listeners map[*listener]bool // guarded by mu

	kicked atomic.Pointer[chan struct{}] // something is done; nil while nobody listens
}

// How often is looked: first, and when nothing happens.
const (
	lookSoon = 200 * time.Millisecond
	lookLate = 2 * time.Second
)

// maxNotices is how many wait for a slow listener.
const maxNotices = 256

// listener is one who is told.
type listener struct {
	span time.Duration // of idleness
	wake chan struct{} // holds one

	mu    sync.Mutex
	queue []atoll.Notice // guarded by mu
	lost  int            // guarded by mu; since the last that was taken

	idle bool // it was told so; guarded by hub.looking
}

// push queues a notice; where there is no room the oldest goes, of those that a
// program can make as many of as it likes if there is one.
func (l *listener) push(n atoll.Notice) {
	l.mu.Lock()
	if len(l.queue) >= maxNotices {
		cheap := slices.IndexFunc(l.queue, func(n atoll.Notice) bool { return n.Kind == atoll.NoticeDenied })
		l.queue = slices.Delete(l.queue, max(cheap, 0), max(cheap, 0)+1)
		l.lost++
	}
	l.queue = append(l.queue, n)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take returns what is queued.
func (l *listener) take() []atoll.Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.queue
	if l.lost > 0 {
		n := atoll.Notice{Kind: atoll.NoticeLost, Time: time.Now(), Message: fmt.Sprintf("%d notices came too fast", l.lost)}
		list = append([]atoll.Notice{n}, list...)
	}
	l.queue, l.lost = nil, 0
	return list
}

// notify tells all who listen. It never waits for any of them.
func (s *Server) notify(n atoll.Notice) { s.news.tell(n) }

// tell tells all who listen.
func (h *hub) tell(n atoll.Notice) {
	if n.Time.IsZero() {
		n.Time = time.Now()
	}
	const most = 1024 // names and messages come from programs
	n.Message, n.Command = n.Message[:min(len(n.Message), most)], n.Command[:min(len(n.Command), most)]
	for _, l := range h.all() {
		l.push(n)
	}
}

func (h *hub) all() []*listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.listeners))
}

// kick says that something is done: it is worth looking soon.
func (h *hub) kick() {
	if c := h.kicked.Load(); c != nil {
		select {
		case *c <- struct{}{}:
		default:
		}
	}
}

// join adds a listener, who is told from now on.
func (s *Server) join(span time.Duration) *listener {
	h, l := &s.news, &listener{span: max(span, lookSoon), wake: make(chan struct{}, 1)}
	l.push(atoll.Notice{Kind: atoll.NoticeReady, Time: time.Now()})
	h.looking.Lock()
	defer h.looking.Unlock()
	if h.stop == nil {
		h.ports = make(map[endpoint]atoll.Port)
		h.kills, _ = s.kills()
		stop, kicked, done := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
		h.kicked.Store(&kicked)
		h.stop = func() { close(stop); <-done }
		go func() {
			defer close(done)
			s.observe(stop, kicked)
		}()
	}
	s.look() // what there is now is not new to the one who comes
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == nil {
		h.listeners = make(map[*listener]bool)
	}
	h.listeners[l] = true
	return l
}

// leave takes a listener away, and the observer after the last.
func (s *Server) leave(l *listener) {
	h := &s.news
	h.looking.Lock()
	h.mu.Lock()
	delete(h.listeners, l)
	last := len(h.listeners) == 0
	h.mu.Unlock()
	var stop func()
	if last {
		stop, h.stop = h.stop, nil
		h.kicked.Store(nil)
	}
	h.looking.Unlock()
	if stop != nil {
		stop()
	}
}

// observe looks from time to time until it is stopped.
func (s *Server) observe(stop, kicked chan struct{}) {
	pause := lookSoon
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-kicked:
			if pause > lookSoon { // else one kick after the other would put it off for ever
				pause = lookSoon
				timer.Reset(pause)
			}
			continue
		case <-timer.C:
		}
		s.news.looking.Lock()
		if s.look() {
			pause = lookSoon
		} else {
			pause = min(2*pause, lookLate)
		}
		pause = s.rest(pause)
		s.news.looking.Unlock()
		timer.Reset(pause)
	}
}

// look tells what is different since the last look, and reports whether
// something is done in the sandbox. The caller holds news.looking.
func (s *Server) look() bool {
	h := &s.news
	changed := s.lookAtPorts()
	if n, err := s.kills(); err == nil && n > h.kills {
		h.tell(atoll.Notice{Kind: atoll.NoticeOutOfMemory, Message: fmt.Sprintf("the kernel ended %d processes for want of memory", n-h.kills)})
		h.kills = n
	}
	u, err := usageOf(0)
	if err != nil {
		return changed
	}
	idle := s.idle(u.cpu)
	for _, l := range h.all() {
		switch {
		case !l.idle && idle >= l.span:
			l.idle = true
			l.push(atoll.Notice{Kind: atoll.NoticeIdle, Time: time.Now(), Message: fmt.Sprintf("nothing was done for %v", idle.Round(time.Second))})
		case l.idle && idle < l.span:
			l.idle = false
			l.push(atoll.Notice{Kind: atoll.NoticeActive, Time: time.Now()})
		}
	}
	return changed || idle < lookEvery
}

// rest shortens a pause where somebody is to be told before that nothing was
// done. The caller holds
// news.looking.
func (s *Server) rest(pause time.Duration) time.Duration {
	since := time.Since(time.Unix(0, s.activity.last.Load()))
	for _, l := range s.news.all() {
		if left := l.span - since; !l.idle && left > 0 {
			pause = min(pause, left+time.Millisecond)
		}
	}
	return pause
}

// kills returns how many processes the kernel has ended for want of memory,
// where a cgroup counts them.
func (s *Server) kills() (int64, error) {
	b, err := cgroupFile(s.Config.Cgroup, "memory.events")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			return strconv.ParseInt(string(bytes.TrimSpace(n)), 10, 64)
		}
	}
	return 0, nil
}

// notices tells a host what happens, until it wants no more.
func (s *Server) notices(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var r noticeRequest
	if err := q.Into(&r); err != nil {
		answer(st, err)
		return
	}
	answer(st, nil)
	l := s.join(r.Idle)
	defer s.leave(l)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(io.Discard, st) // until the host wants no more
		cancel()
	})
	for ctx.Err() == nil {
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
		for _, n := range l.take() {
			b, err := json.Marshal(n)
			if err == nil {
				err = writeFrame(st, FrameData, b)
			}
			if err != nil {
				cancel()
				break
			}
		}
	}
	_ = st.SetReadDeadline(time.Unix(1, 0)) // ends the goroutine
	wg.Wait()
}
