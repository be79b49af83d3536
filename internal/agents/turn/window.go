package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
)

// window holds the last events of a full log in memory. An event leaves it when every follower has got it; the
// turn waits for a follower that is behind, as a program waits for the reader of its pipe. A follower that
// gets nothing for followerPatience is not waited for any more. The log's mu guards all of it.
type window struct {
	lines     []windowLine // by ascending numbers, without gaps
	bytes     int
	followers map[*follower]bool
	room      chan struct{} // closed when a follower has got an event; nil: nothing waits for it
	patience  time.Duration
	maxBytes  int
}

// windowLine is an encoded event.
type windowLine struct {
	seq  int64
	text []byte
}

// Limits of a window.
const (
	windowBytes      = 4 << 20
	followerPatience = 30 * time.Second
)

func newWindow() window {
	return window{followers: make(map[*follower]bool), patience: followerPatience, maxBytes: windowBytes}
}

// add adds an event.
func (w *window) add(seq int64, text []byte) {
	w.lines = append(w.lines, windowLine{seq, text})
	w.bytes += len(text)
}

// isNeeded reports whether a follower that is waited for has not got an event yet.
func (w *window) isNeeded(seq int64) bool {
	for f := range w.followers {
		if f.next <= seq && !f.slow {
			return true
		}
	}
	return false
}

// waitForRoom removes events that no follower needs, until the window has room. It releases mu while it waits.
func (w *window) waitForRoom(mu *sync.Mutex) {
	for w.bytes > w.maxBytes {
		if !w.isNeeded(w.lines[0].seq) {
			w.bytes -= len(w.lines[0].text)
			w.lines[0] = windowLine{}
			w.lines = w.lines[1:]
			continue
		}
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room, first := w.room, w.lines[0].seq
		mu.Unlock()
		moved := waitFor(room, w.patience)
		mu.Lock()
		if !moved {
			for f := range w.followers {
				f.slow = f.slow || f.next <= first
			}
		}
	}
}

// waitFor waits until a channel is closed, and reports whether that was in time.
func waitFor(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// follower is a reader of a log while the turn runs.
type follower struct {
	log  *log
	f    func(agent.Event) error
	next int64 // number of the next event; guarded by the log's mu, as slow
	slow bool  // it has not got an event for long
}

// leave ends the follower.
func (r *follower) leave() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	delete(r.log.window.followers, r)
	r.log.window.notify()
}

// notify wakes the turn. The caller holds the log's mu.
func (w *window) notify() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// errInWindow ends the reading of stored events where the window has the next ones.
var errInWindow = errors.New("the event is in the window")

// deliverStored delivers an event of the file, unless the window has it.
func (r *follower) deliverStored(e agent.Event) error {
	r.log.mu.Lock()
	lines := r.log.window.lines
	in := len(lines) > 0 && e.Seq >= lines[0].seq
	r.log.mu.Unlock()
	if in {
		return errInWindow
	}
	return r.deliver(e)
}

// deliver delivers an event, and before it a notice of those that are missing. It drops one that was
// delivered.
func (r *follower) deliver(e agent.Event) error {
	if e.Seq < r.next {
		return nil
	}
	if missing := e.Seq - r.next; missing > 0 {
		gap := agent.Event{Seq: e.Seq - 1, Time: e.Time, Turn: e.Turn, Type: agent.Dropped, Text: fmt.Sprintf("%d events before this are not in the log", missing)}
		if err := r.f(gap); err != nil {
			return err
		}
	}
	if err := r.f(e); err != nil {
		return err
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.next, r.slow = e.Seq+1, false
	r.log.window.notify()
	return nil
}

// deliverWindow delivers the events of the window, if the stored ones before it were delivered; read is how much of
// the file was.
func (r *follower) deliverWindow(read int64) error {
	for {
		text := r.nextLine(read)
		if text == nil {
			return nil
		}
		var e agent.Event
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		if err := r.deliver(e); err != nil {
			return err
		}
	}
}

// nextLine returns the next event of the window that was not delivered; nil: there is none.
func (r *follower) nextLine(read int64) []byte {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	lines := r.log.window.lines
	if len(lines) == 0 || r.next < lines[0].seq && read < r.log.size {
		return nil
	}
	at := max(0, r.next-lines[0].seq)
	if at >= int64(len(lines)) {
		return nil
	}
	return lines[at].text
}
