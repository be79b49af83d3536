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

// hub distributes notices to listeners. Without listeners it costs nothing.
//
// The kernel does not report that a program listens on a port, except to a process with privileges
// that a guest does not have. So the hub polls while there are listeners: often during activity in
// the sandbox, otherwise seldom.
type hub struct {
	pollMu sync.Mutex              // held during a poll; locked before mu
	ports  map[endpoint]atoll.Port // guarded by pollMu
	kills  int64                   // guarded by pollMu; number of processes killed for lack of memory
	stop   func()                  // guarded by pollMu; ends the polling goroutine and waits for it

	mu        sync.Mutex         // held only briefly
	listeners map[*listener]bool // guarded by mu

	wake atomic.Pointer[chan struct{}] // signals activity; nil without listeners
}

// The poll interval after activity, and its maximum.
const (
	minPollInterval = 200 * time.Millisecond
	maxPollInterval = 2 * time.Second
)

// maxNotices is the number of notices that wait for a slow listener.
const maxNotices = 256

// listener is a subscription of a host.
type listener struct {
	idleAfter time.Duration // time without activity that is reported
	wake      chan struct{} // has capacity 1

	mu    sync.Mutex
	queue []atoll.Notice // guarded by mu
	lost  int            // guarded by mu; dropped since the last drainQueue

	idle bool // idleness was reported; guarded by hub.pollMu
}

// push queues a notice. If the queue is full it drops the oldest denial, because a program can
// cause any number of them, or else the oldest notice.
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

// drainQueue returns the queued notices and empties the queue.
func (l *listener) drainQueue() []atoll.Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.queue
	if l.lost > 0 {
		n := atoll.Notice{Kind: atoll.NoticeLost, Time: time.Now(), Message: fmt.Sprintf("%d notices were dropped", l.lost)}
		list = append([]atoll.Notice{n}, list...)
	}
	l.queue, l.lost = nil, 0
	return list
}

// notifyHosts sends a notice to all listeners. It never blocks.
func (s *Server) notifyHosts(n atoll.Notice) { s.news.emitNotice(n) }

// emitNotice queues a notice for all listeners.
func (h *hub) emitNotice(n atoll.Notice) {
	if n.Time.IsZero() {
		n.Time = time.Now()
	}
	const most = 1024 // bytes; names and messages come from programs
	n.Message, n.Command = n.Message[:min(len(n.Message), most)], n.Command[:min(len(n.Command), most)]
	for _, l := range h.listListeners() {
		l.push(n)
	}
}

func (h *hub) listListeners() []*listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.listeners))
}

// wakePoller makes the next poll happen soon, because of activity.
func (h *hub) wakePoller() {
	if c := h.wake.Load(); c != nil {
		select {
		case *c <- struct{}{}:
		default:
		}
	}
}

// addListener adds a listener, which gets notices from now on.
func (s *Server) addListener(span time.Duration) *listener {
	h, l := &s.news, &listener{idleAfter: max(span, minPollInterval), wake: make(chan struct{}, 1)}
	l.push(atoll.Notice{Kind: atoll.NoticeReady, Time: time.Now()})
	h.pollMu.Lock()
	defer h.pollMu.Unlock()
	if h.stop == nil {
		h.ports = make(map[endpoint]atoll.Port)
		h.kills, _ = s.readOOMKills()
		stop, kicked, done := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
		h.wake.Store(&kicked)
		h.stop = func() { close(stop); <-done }
		go func() {
			defer close(done)
			s.pollChanges(stop, kicked)
		}()
	}
	s.checkChanges() // so that the new listener is not notified of what exists already
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == nil {
		h.listeners = make(map[*listener]bool)
	}
	h.listeners[l] = true
	return l
}

// removeListener removes a listener. After the last it ends the polling.
func (s *Server) removeListener(l *listener) {
	h := &s.news
	h.pollMu.Lock()
	h.mu.Lock()
	delete(h.listeners, l)
	last := len(h.listeners) == 0
	h.mu.Unlock()
	var stop func()
	if last {
		stop, h.stop = h.stop, nil
		h.wake.Store(nil)
	}
	h.pollMu.Unlock()
	if stop != nil {
		stop()
	}
}

// pollChanges polls until it is stopped.
func (s *Server) pollChanges(stop, kicked chan struct{}) {
	pause := minPollInterval
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-kicked:
			if pause > minPollInterval { // otherwise constant activity would postpone the poll for ever
				pause = minPollInterval
				timer.Reset(pause)
			}
			continue
		case <-timer.C:
		}
		s.news.pollMu.Lock()
		if s.checkChanges() {
			pause = minPollInterval
		} else {
			pause = min(2*pause, maxPollInterval)
		}
		pause = s.shortenPause(pause)
		s.news.pollMu.Unlock()
		timer.Reset(pause)
	}
}

// checkChanges reports the changes since the last poll to the listeners. It returns whether there
// is activity in the sandbox. The caller must hold news.pollMu.
func (s *Server) checkChanges() bool {
	h := &s.news
	changed := s.checkPorts()
	if n, err := s.readOOMKills(); err == nil && n > h.kills {
		h.emitNotice(atoll.Notice{Kind: atoll.NoticeOutOfMemory, Message: fmt.Sprintf("the kernel killed %d processes for lack of memory", n-h.kills)})
		h.kills = n
	}
	u, err := readUsage(0)
	if err != nil {
		return changed
	}
	idle := s.idleTime(u.cpu)
	for _, l := range h.listListeners() {
		switch {
		case !l.idle && idle >= l.idleAfter:
			l.idle = true
			l.push(atoll.Notice{Kind: atoll.NoticeIdle, Time: time.Now(), Message: fmt.Sprintf("no activity for %v", idle.Round(time.Second))})
		case l.idle && idle < l.idleAfter:
			l.idle = false
			l.push(atoll.Notice{Kind: atoll.NoticeActive, Time: time.Now()})
		}
	}
	return changed || idle < cpuSampleInterval
}

// shortenPause shortens the pause before the next poll if a listener is to be notified of idleness
// before. The caller must hold news.pollMu.
func (s *Server) shortenPause(pause time.Duration) time.Duration {
	since := time.Since(time.Unix(0, s.activity.last.Load()))
	for _, l := range s.news.listListeners() {
		if left := l.idleAfter - since; !l.idle && left > 0 {
			pause = min(pause, left+time.Millisecond)
		}
	}
	return pause
}

// readOOMKills returns the number of processes that the kernel has killed for lack of memory, or 0
// if the cgroup does not count them.
func (s *Server) readOOMKills() (int64, error) {
	b, err := readCgroupFile(s.Config.Cgroup, "memory.events")
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

// handleNotices handles OpNotices.
func (s *Server) handleNotices(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var r noticeRequest
	if err := q.DecodeBody(&r); err != nil {
		sendAnswer(st, err)
		return
	}
	sendAnswer(st, nil)
	l := s.addListener(r.Idle)
	defer s.removeListener(l)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(io.Discard, st) // returns when the host ends the subscription
		cancel()
	})
	for ctx.Err() == nil {
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
		for _, n := range l.drainQueue() {
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
