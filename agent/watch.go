package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// How long things take that the agent was asked for.
const (
	toStop   = 3 * time.Second // until a prompt that was interrupted has its result
	toLeave  = time.Second     // until an agent leaves whose input has ended, before it is told to
	toHurry  = 2 * time.Second // until an agent is ended that is not wanted any more
	mostPoor = 20              // requests that a model refuses for want of budget, until the agent is ended
)

// watch is what the time of a session is measured with. The session's mu
// guards it. Its timers call what may be called too late.
type watch struct {
	life    func() bool // stops listening to the context
	turn    *time.Timer // of the prompt
	idle    *time.Timer
	polite  *time.Timer // until the process is told to leave
	last    *time.Timer // until it is ended
	seen    time.Time   // the last sign of life
	waiting int         // questions that others have to answer
	pushed  bool        // the process was told to leave, or ended
	going   bool        // the process is to end with the prompt
	closed  bool        // nothing is set any more
}

func halted(timers ...*time.Timer) {
	for _, t := range timers {
		if t != nil {
			t.Stop()
		}
	}
}

// rest stops the timers of a prompt.
func (w *watch) rest() { halted(w.turn, w.idle) }

// finishWatch stops everything.
func (s *Session) finishWatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watch
	w.closed = true
	w.life()
	halted(w.turn, w.idle, w.polite, w.last)
}

// guardTime begins to measure the time of a prompt. The caller holds mu.
func (s *Session) guardTime() {
	w := &s.watch
	w.rest()
	w.seen = time.Now()
	if d := s.job.Timeout; d > 0 {
		w.turn = time.AfterFunc(d, func() { s.halt(stop{Timeout, fmt.Sprintf("it took longer than %v", d)}) })
	}
	if d := s.job.Idle; d > 0 {
		w.idle = time.AfterFunc(d, s.quiet)
	}
}

// alive notes a sign of life.
func (s *Session) alive() {
	s.mu.Lock()
	s.watch.seen = time.Now()
	s.mu.Unlock()
}

// quiet looks whether the agent has been silent for too long. One that waits
// for an answer of others is not.
func (s *Session) quiet() {
	s.mu.Lock()
	w := &s.watch
	d := s.job.Idle
	since := time.Since(w.seen)
	if w.waiting > 0 {
		since = 0
	}
	if since < d {
		if !w.closed && !s.current.over() {
			w.idle.Reset(d - since)
		}
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.halt(stop{Timeout, fmt.Sprintf("nothing came from it for %v", d)})
}

// halt ends the prompt that is under way: the agent is asked to stop, if it can
// be, and ended if it does not. The first reason counts.
func (s *Session) halt(why stop) {
	s.mu.Lock()
	p := s.current
	if p.over() || p.stop != nil || s.watch.closed {
		s.mu.Unlock()
		return
	}
	p.stop = &why
	if s.features.Interrupt {
		s.watch.turn = s.instead(s.watch.turn, toStop, func() {
			if !p.over() {
				s.kill(errStopped)
			}
		})
	}
	s.mu.Unlock()
	if !s.features.Interrupt {
		s.kill(errStopped)
		return
	}
	select {
	case s.hush <- struct{}{}:
	default: // it is asked already
	}
}

// depart ends the conversation, after the prompt that is under way was halted.
func (s *Session) depart(why stop) {
	s.mu.Lock()
	s.watch.going = true
	s.mu.Unlock()
	s.halt(why)
	if !s.underWay() {
		s.leave()
	}
}

// departing reports whether the conversation is to end.
func (s *Session) departing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch.going
}

// leave lets the process go: its input ends; one that was talked with and does
// not go by itself is told to; at last it is ended. The grace is short when it
// is not wanted any more.
func (s *Session) leave() {
	talked := s.in.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watch
	grace := s.job.Grace
	if s.current.over() || s.current.stop != nil {
		grace = min(grace, toHurry)
	}
	polite := max(grace/2, grace-toLeave)
	if talked {
		polite = min(polite, toLeave)
	}
	w.polite = s.instead(w.polite, polite, s.push)
	w.last = s.instead(w.last, grace, func() {
		s.push()
		s.kill(errStopped)
	})
}

// push tells the process to leave.
func (s *Session) push() {
	s.mu.Lock()
	s.watch.pushed = true
	s.mu.Unlock()
	select {
	case s.signals <- "TERM":
	default: // it was told
	}
}

// stay lets a process that was asked to leave go on.
func (s *Session) stay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	halted(s.watch.polite, s.watch.last)
}

// instead sets a timer in the place of another. The caller holds mu.
func (s *Session) instead(t *time.Timer, d time.Duration, f func()) *time.Timer {
	halted(t)
	if s.watch.closed {
		return nil
	}
	return time.AfterFunc(d, f)
}

// answered notes that the model was asked, and whether a budget is used up. An
// agent that asks on and on all the same is ended.
func (s *Session) answered(spent string) {
	s.mu.Lock()
	p := s.current
	if spent == "" {
		p.poor = 0
	} else {
		p.spent = spent
		p.poor++
	}
	enough := p.poor >= mostPoor
	s.mu.Unlock()
	if enough {
		s.halt(stop{Spent, spent})
	}
}

// stopOf returns why a context has ended.
func stopOf(ctx context.Context) stop {
	err := context.Cause(ctx)
	if errors.Is(err, atoll.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return stop{Timeout, err.Error()}
	}
	return stop{Aborted, err.Error()}
}
