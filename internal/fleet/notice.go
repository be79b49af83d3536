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

// Notices tells what happens inside; see [atoll.Notifier].
func (s *Sandbox) Notices(ctx context.Context, fn func(atoll.Notice) error) error {
	m := s.mask(nil)
	return with(ctx, s, "notices", func(ctx context.Context, n atoll.Notifier) error {
		return n.Notices(ctx, func(n atoll.Notice) (err error) {
			n.Command, n.Message = m.text(n.Command), m.text(n.Message)
			if n.Kind == atoll.NoticeProcessEnded {
				if n.Process, err = s.ours(ctx, n.Process); err != nil {
					return err
				}
			}
			return fn(n)
		})
	})
}

// ours returns our id of a command that the driver keeps, or the driver's of one
// that it was not asked for by us.
func (s *Sandbox) ours(ctx context.Context, inner string) (string, error) {
	s.b.detaching.Lock() // one that has ended already may not be taken down yet
	known, err := s.f.detachments(ctx, s.b.id)
	s.b.detaching.Unlock()
	if d, ok := known[inner]; ok {
		return d.id, nil
	}
	return inner, err
}

// Ports returns the ports that programs inside listen on.
func (s *Sandbox) Ports(ctx context.Context) (list []atoll.Port, err error) {
	err = with(ctx, s, "ports", func(ctx context.Context, p atoll.Porter) (err error) {
		list, err = p.Ports(ctx)
		return err
	})
	return list, err
}

// How the leading process listens to what happens in sandboxes.
const (
	listenBeat  = 5 * time.Second // between looks for sandboxes that other processes started
	listenFirst = 100 * time.Millisecond
	listenLast  = 30 * time.Second // between tries to listen to one that can't be heard

	noticeBurst = 50 // events of a sandbox at once
	noticeRate  = 5  // and a second
)

// ears is who listens to which sandbox.
type ears struct {
	f  *Fleet
	wg sync.WaitGroup

	mu   sync.Mutex
	open map[string]context.CancelFunc // by sandbox; guarded by mu
}

// listen makes events of what happens in all running sandboxes, until ctx is
// done.
func (f *Fleet) listen(ctx context.Context) error {
	e := &ears{f: f, open: make(map[string]context.CancelFunc)}
	defer e.wg.Wait()
	for {
		wait := listenBeat
		if f.hears() {
			f.report("listen", e.look(ctx))
		} else {
			wait = beat
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-f.stirred:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
	}
}

// hears reports whether a driver of this fleet tells what happens inside. One
// that nobody has asked yet has no sandboxes that run.
func (f *Fleet) hears() bool {
	for _, b := range f.bays {
		if ft, ok := b.asked(); ok && ft.Notices {
			return true
		}
	}
	return false
}

// look begins to listen to sandboxes that run, and ends it for others.
func (e *ears) look(ctx context.Context) error {
	rows, err := e.f.store.db.QueryContext(ctx, "select id, driver from sandboxes where state in ('running', 'paused') and pool = ''")
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
		if b := e.f.bay(driver); b != nil {
			if ft, ok := b.asked(); ok && ft.Notices {
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
			e.hear(ctx, id)
		})
	}
	return nil
}

// hear listens to one sandbox until ctx is done or it is no more.
func (e *ears) hear(ctx context.Context, id string) {
	r, err := e.f.loadRow(ctx, id)
	if err != nil {
		return // it is asked for again
	}
	l := &listener{f: e.f, b: e.f.enter(r), left: noticeBurst, filled: e.f.now()}
	defer l.b.stir(false)
	for wait := listenFirst; ; wait = min(2*wait, listenLast) {
		heard, err := l.connect(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, atoll.ErrNotFound), errors.Is(err, atoll.ErrUnsupported):
			return
		case heard:
			wait = listenFirst
		}
		l.b.stir(false)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// listener hears one sandbox.
type listener struct {
	f *Fleet
	b *box

	left   float64   // events that may come at once
	filled time.Time // when left was computed
	lost   int       // events that were too many
}

// connect listens until that breaks. It reports whether it heard anything.
func (l *listener) connect(ctx context.Context) (heard bool, err error) {
	sb, err := l.b.inner(ctx)
	if err != nil {
		return false, err
	}
	n, ok := atoll.As[atoll.Notifier](sb)
	if !ok {
		return false, unsupported
	}
	err = n.Notices(ctx, func(n atoll.Notice) error {
		heard = true
		l.take(ctx, n)
		return ctx.Err()
	})
	return heard, err
}

// noticed are the types of the events that notices become.
var noticed = map[atoll.NoticeKind]string{
	atoll.NoticePortOpened:  "sandbox.port.opened",
	atoll.NoticePortClosed:  "sandbox.port.closed",
	atoll.NoticeOutOfMemory: "sandbox.oom",
	atoll.NoticeDenied:      "network.denied",
}

// take does what a notice asks for.
func (l *listener) take(ctx context.Context, n atoll.Notice) {
	switch n.Kind {
	case atoll.NoticeActive:
		l.b.stir(true)
		return
	case atoll.NoticeIdle:
		l.b.stir(false)
		return
	case atoll.NoticeProcessEnded:
		l.ended(ctx, n.Process)
		return
	}
	what, ok := noticed[n.Kind]
	if !ok || !l.may() {
		return
	}
	r := l.b.known()
	m := l.b.secrets.of(l.b)
	data := make(map[string]string)
	for k, v := range map[string]string{"address": n.Address, "command": m.text(n.Command), "process": n.Process} {
		if v != "" {
			data[k] = clip(v, 256)
		}
	}
	for k, v := range map[string]int{"port": n.Port, "pid": n.PID, "left_out": l.lost} {
		if v != 0 {
			data[k] = strconv.Itoa(v)
		}
	}
	l.lost = 0
	err := l.f.store.write(ctx, func(tx *sql.Tx) error {
		return l.f.emit(ctx, tx, atoll.Event{Type: what, Owner: r.owner, Object: r.id, Name: r.name, Message: clip(m.text(n.Message), 1<<10), Data: data})
	})
	l.f.report("notice", err)
}

// may reports whether one more event of the sandbox is taken down: programs
// inside decide how many notices there are.
func (l *listener) may() bool {
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

// ended takes the end of a detached command down that no process of ours is
// connected to.
func (l *listener) ended(ctx context.Context, inner string) {
	known, err := l.f.detachments(ctx, l.b.id)
	d, ok := known[inner]
	if err != nil || !ok || l.f.processes.find(l.b.id, d.id) != nil {
		return // whoever is connected to it sees it too
	}
	s := &Sandbox{a: l.f.For(LocalCaller()), f: l.f, b: l.b}
	_, err = s.rejoin(ctx, d.id)
	l.f.report("process", err)
}

// stir notes whether something runs inside: as long as it does, the sandbox is
// in use.
func (b *box) stir(yes bool) {
	now := b.f.now()
	b.mu.Lock()
	changed := b.stirring != yes
	b.stirring = yes
	first := changed && !b.unsaved
	if changed {
		b.unsaved = true
		if now.After(b.active) {
			b.active = now
		}
	}
	b.mu.Unlock()
	if first {
		poke(b.f.stir)
	}
}
