package fleet

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Notices calls fn for each notice from inside the sandbox; see [atoll.Notifier].
func (s *Sandbox) Notices(ctx context.Context, fn func(atoll.Notice) error) error {
	m := s.secretMask(nil)
	return callInner(ctx, s, "notices", func(ctx context.Context, n atoll.Notifier) error {
		return n.Notices(ctx, func(n atoll.Notice) (err error) {
			n.Command, n.Message, n.Suggestion = m.redact(n.Command), m.redact(n.Message), m.redact(n.Suggestion)
			if n.Kind == atoll.NoticeProcessEnded {
				if n.Process, err = s.translateProcessID(ctx, n.Process); err != nil {
					return err
				}
			}
			return fn(n)
		})
	})
}

// translateProcessID returns the fleet's id of a command that the driver keeps, or the driver's id
// if the fleet did not start it.
func (s *Sandbox) translateProcessID(ctx context.Context, inner string) (string, error) {
	s.b.detaching.Lock() // a command that has already ended may not be recorded yet
	known, err := s.f.queryDetachments(ctx, s.b.id)
	s.b.detaching.Unlock()
	if d, ok := known[inner]; ok {
		return d.id, nil
	}
	return inner, err
}

// Ports returns the ports that programs inside listen on.
func (s *Sandbox) Ports(ctx context.Context) (list []atoll.Port, err error) {
	err = callInner(ctx, s, "ports", func(ctx context.Context, p atoll.PortLister) (err error) {
		list, err = p.Ports(ctx)
		return err
	})
	return list, err
}

// Limits of listening to sandboxes, which the leader does.
const (
	listenInterval = 5 * time.Second // between two searches for sandboxes that other processes have started
	minListenRetry = 100 * time.Millisecond
	maxListenRetry = 30 * time.Second // between two attempts to listen to a sandbox that fails

	noticeBurst = 50 // events of a sandbox at once
	noticeRate  = 5  // and per second
)

// noticeListeners are the listeners of all running sandboxes.
type noticeListeners struct {
	f  *Fleet
	wg sync.WaitGroup

	mu   sync.Mutex
	open map[string]context.CancelFunc // by sandbox; guarded by mu
}

// runListeners emits events for the notices of all running sandboxes until ctx is done.
func (f *Fleet) runListeners(ctx context.Context) error {
	e := &noticeListeners{f: f, open: make(map[string]context.CancelFunc)}
	defer e.wg.Wait()
	for {
		wait := listenInterval
		if f.anyNotifier() {
			f.logError("listen", e.updateListeners(ctx))
		} else {
			wait = leaderInterval
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-f.sandboxesChanged:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
	}
}

// anyNotifier reports whether a driver of this fleet sends notices. A driver that was never probed
// has no running sandboxes.
func (f *Fleet) anyNotifier() bool {
	for _, b := range f.drivers {
		if ft, ok := b.cachedFeatures(); ok && ft.Notices {
			return true
		}
	}
	return false
}

// updateListeners starts listeners for running sandboxes and ends those of others.
func (e *noticeListeners) updateListeners(ctx context.Context) error {
	rows, err := e.f.registry.DB.QueryContext(ctx, "select id, driver from sandboxes where state in ('running', 'paused') and pool = ''")
	if err != nil {
		return err
	}
	defer rows.Close()
	running := make(map[string]bool)
	for rows.Next() {
		var id, driver string
		if err := rows.Scan(&id, &driver); err != nil {
			return err
		}
		if b := e.f.findDriver(driver); b != nil {
			if ft, ok := b.cachedFeatures(); ok && ft.Notices {
				running[id] = true
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, end := range e.open {
		if !running[id] {
			end()
		}
	}
	for id := range running {
		if e.open[id] != nil {
			continue
		}
		ctx, end := context.WithCancel(ctx)
		e.open[id] = end
		e.wg.Go(func() {
			defer func() {
				end()
				e.mu.Lock()
				delete(e.open, id)
				e.mu.Unlock()
			}()
			e.listenTo(ctx, id)
		})
	}
	return nil
}

// listenTo listens to one sandbox until ctx is done or the sandbox has ended.
func (e *noticeListeners) listenTo(ctx context.Context, id string) {
	r, err := e.f.loadRow(ctx, id)
	if err != nil {
		return // the next round tries again
	}
	l := &sandboxListener{f: e.f, b: e.f.ensureHandle(r), left: noticeBurst, filled: e.f.now()}
	defer l.b.setBusyInside(false)
	for wait := minListenRetry; ; wait = min(2*wait, maxListenRetry) {
		heard, err := l.listenOnce(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, atoll.ErrNotFound), errors.Is(err, atoll.ErrUnsupported):
			return
		case heard:
			wait = minListenRetry
		}
		l.b.setBusyInside(false)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// sandboxListener listens to one sandbox.
type sandboxListener struct {
	f *Fleet
	b *handle

	left   float64   // events allowed at once
	filled time.Time // when left was computed
	lost   int       // events dropped by the limit
}

// listenOnce listens until the connection ends, and reports whether a notice came.
func (l *sandboxListener) listenOnce(ctx context.Context) (heard bool, err error) {
	sb, err := l.b.openInner(ctx)
	if err != nil {
		return false, err
	}
	n, ok := atoll.As[atoll.Notifier](sb)
	if !ok {
		return false, unsupported
	}
	err = n.Notices(ctx, func(n atoll.Notice) error {
		heard = true
		l.handleNotice(ctx, n)
		return ctx.Err()
	})
	return heard, err
}

// noticeEvents maps notices to event types.
var noticeEvents = map[atoll.NoticeKind]string{
	atoll.NoticePortOpened:  "sandbox.port.opened",
	atoll.NoticePortClosed:  "sandbox.port.closed",
	atoll.NoticeOutOfMemory: "sandbox.oom",
	atoll.NoticeDenied:      "network.denied",
}

// handleNotice handles one notice.
func (l *sandboxListener) handleNotice(ctx context.Context, n atoll.Notice) {
	switch n.Kind {
	case atoll.NoticeActive:
		l.b.setBusyInside(true)
		return
	case atoll.NoticeIdle:
		l.b.setBusyInside(false)
		return
	case atoll.NoticeProcessEnded:
		l.recordProcessEnd(ctx, n.Process)
		return
	}
	what, ok := noticeEvents[n.Kind]
	if !ok || !l.allowEvent() {
		return
	}
	r := l.b.cachedRow()
	m := l.b.masks.maskFor(l.b).withValues(l.f.knownValues(&r.cfg))
	data := make(map[string]string)
	for k, v := range map[string]string{"address": n.Address, "command": m.redact(n.Command), "process": n.Process, "suggestion": n.Suggestion} {
		if v != "" {
			data[k] = truncate(v, 256)
		}
	}
	for k, v := range map[string]int{"port": n.Port, "pid": n.PID, "left_out": l.lost} {
		if v != 0 {
			data[k] = strconv.Itoa(v)
		}
	}
	l.lost = 0
	err := l.f.registry.Write(ctx, func(tx *sql.Tx) error {
		return l.f.events.Emit(ctx, tx, atoll.Event{Type: what, Owner: r.owner, Object: r.id, Name: r.name, Message: truncate(m.redact(n.Message), 1<<10), Data: data})
	})
	l.f.logError("notice", err)
}

// allowEvent reports whether one more event of the sandbox is within the limit: programs inside
// decide how many notices come.
func (l *sandboxListener) allowEvent() bool {
	now := l.f.now()
	l.left = min(noticeBurst, l.left+now.Sub(l.filled).Seconds()*noticeRate)
	l.filled = now
	if l.left < 1 {
		l.lost++
		return false
	}
	l.left--
	return true
}

// recordProcessEnd records the end of a detached command that this process is not connected to.
func (l *sandboxListener) recordProcessEnd(ctx context.Context, inner string) {
	known, err := l.f.queryDetachments(ctx, l.b.id)
	d, ok := known[inner]
	if err != nil || !ok || l.f.processes.find(l.b.id, d.id) != nil {
		return // the connection to the command records its end
	}
	s := &Sandbox{a: l.f.Account(LocalCaller()), f: l.f, b: l.b}
	_, err = s.rejoinDetached(ctx, d.id)
	l.f.logError("process", err)
}

// setBusyInside records whether programs inside are active. As long as they are, the sandbox is in
// use.
func (b *handle) setBusyInside(yes bool) {
	now := b.f.now()
	b.mu.Lock()
	changed := b.busyInside != yes
	b.busyInside = yes
	first := changed && !b.unsaved
	if changed {
		b.unsaved = true
		if now.After(b.active) {
			b.active = now
		}
	}
	b.mu.Unlock()
	if first {
		notify(b.f.callsChanged)
	}
}
