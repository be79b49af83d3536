package agent

import (
	"fmt"
	"time"
)

const (
	interruptTimeout = 3 * time.Second // until an interrupted prompt has its result
	exitWait         = time.Second     // until an agent whose input has ended gets SIGTERM
	maxHurriedGrace  = 2 * time.Second // until an agent that is no longer wanted is killed
	maxRefusals      = 20              // requests refused for an exceeded budget, until the agent is stopped
)

// watchdog holds the timers of a session. The session's mu guards it. The
// functions of its timers may be called too late, and check for that.
type watchdog struct {
	stopContextWatch func() bool // stops watching the context
	turnTimer        *time.Timer // limits the prompt
	idleTimer        *time.Timer
	termTimer        *time.Timer // until SIGTERM
	killTimer        *time.Timer // until SIGKILL
	lastActivity     time.Time
	waiting          int  // undecided requests for permission
	signalled        bool // the process got a signal
	ending           bool // the process is to end with the prompt
	closed           bool // no timer is set any more
}

func stopTimers(timers ...*time.Timer) {
	for _, t := range timers {
		if t != nil {
			t.Stop()
		}
	}
}

// stopPromptTimers stops the timers of a prompt.
func (w *watchdog) stopPromptTimers() { stopTimers(w.turnTimer, w.idleTimer) }

// stopWatchdog stops all timers and the watch of the context.
func (s *Session) stopWatchdog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watchdog
	w.closed = true
	w.stopContextWatch()
	stopTimers(w.turnTimer, w.idleTimer, w.termTimer, w.killTimer)
}

// startPromptTimers starts the timers of a prompt. The caller holds mu.
func (s *Session) startPromptTimers() {
	w := &s.watchdog
	w.stopPromptTimers()
	w.lastActivity = time.Now()
	if d := s.job.Timeout; d > 0 {
		w.turnTimer = time.AfterFunc(d, func() { s.stopPrompt(StopReason{Timeout, fmt.Sprintf("it took longer than %v", d)}) })
	}
	if d := s.job.Idle; d > 0 {
		w.idleTimer = time.AfterFunc(d, s.checkIdle)
	}
}

// noteActivity resets the idle time.
func (s *Session) noteActivity() {
	s.mu.Lock()
	s.watchdog.lastActivity = time.Now()
	s.mu.Unlock()
}

// checkIdle stops the prompt if the agent was idle for too long. An agent that
// waits for a permission is not idle.
func (s *Session) checkIdle() {
	s.mu.Lock()
	w := &s.watchdog
	d := s.job.Idle
	since := time.Since(w.lastActivity)
	if w.waiting > 0 {
		since = 0
	}
	if since < d {
		if !w.closed && !s.current.isDone() {
			w.idleTimer.Reset(d - since)
		}
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.stopPrompt(StopReason{Timeout, fmt.Sprintf("no output from the agent for %v", d)})
}

// stopPrompt stops the running prompt: it interrupts the agent, if that is
// supported, and kills it if that has no effect. Only the first reason counts.
func (s *Session) stopPrompt(why StopReason) {
	s.mu.Lock()
	p := s.current
	if p.isDone() || p.stop != nil || s.watchdog.closed {
		s.mu.Unlock()
		return
	}
	p.stop = &why
	if s.features.Interrupt {
		s.startInterruptTimer(p)
	}
	s.mu.Unlock()
	if !s.features.Interrupt {
		s.kill(errStopped)
		return
	}
	select {
	case s.interrupts <- struct{}{}:
	default: // an interrupt is pending
	}
}

// startInterruptTimer kills the agent if an interrupted prompt has no result in time. The caller holds mu.
func (s *Session) startInterruptTimer(p *promptRun) {
	s.watchdog.turnTimer = s.replaceTimer(s.watchdog.turnTimer, interruptTimeout, func() {
		if !p.isDone() {
			s.kill(errStopped)
		}
	})
}

// endSession stops the running prompt, and then ends the process.
func (s *Session) endSession(why StopReason) {
	s.mu.Lock()
	s.watchdog.ending = true
	s.mu.Unlock()
	s.stopPrompt(why)
	if !s.promptRunning() {
		s.shutDownProcess()
	}
}

// isEnding reports whether endSession was called.
func (s *Session) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watchdog.ending
}

// shutDownProcess closes the process's input, sends it SIGTERM if it does not exit
// by itself, and kills it at last. The grace period is short when its result is
// not wanted any more.
func (s *Session) shutDownProcess() {
	wasOpen := s.stdin.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watchdog
	grace := s.job.Grace
	if s.current.isDone() || s.current.stop != nil {
		grace = min(grace, maxHurriedGrace)
	}
	untilTerm := max(grace/2, grace-exitWait)
	if wasOpen {
		untilTerm = min(untilTerm, exitWait)
	}
	w.termTimer = s.replaceTimer(w.termTimer, untilTerm, s.sendTerm)
	w.killTimer = s.replaceTimer(w.killTimer, grace, func() {
		s.sendTerm()
		s.kill(errStopped)
	})
}

// sendTerm sends SIGTERM to the process.
func (s *Session) sendTerm() {
	s.mu.Lock()
	s.watchdog.signalled = true
	s.mu.Unlock()
	select {
	case s.signals <- "TERM":
	default: // one is pending
	}
}

// cancelShutdown lets a process go on after shutDownProcess.
func (s *Session) cancelShutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	stopTimers(s.watchdog.termTimer, s.watchdog.killTimer)
}

// replaceTimer stops t and returns a new timer; nil after stopWatchdog. The caller
// holds mu.
func (s *Session) replaceTimer(t *time.Timer, d time.Duration, f func()) *time.Timer {
	stopTimers(t)
	if s.watchdog.closed {
		return nil
	}
	return time.AfterFunc(d, f)
}

// recordAnswer records an answer of the model endpoint; spent names a used up
// budget. An agent that goes on asking after maxRefusals is stopped.
func (s *Session) recordAnswer(a ModelAnswer, spent string) {
	s.mu.Lock()
	p := s.current
	s.answer = a
	switch {
	case spent != "":
		p.spent = spent
		p.refusals++
	case ErrorCode(a.Status) == "":
		p.refusals = 0
	}
	enough := p.refusals >= maxRefusals
	s.mu.Unlock()
	if enough {
		s.stopPrompt(StopReason{BudgetExceeded, spent})
	}
}
