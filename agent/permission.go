package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// maxPending limits how many requests for permission wait at once.
const maxPending = 64

// pendingPermission is an undecided request for permission.
type pendingPermission struct {
	Permission

	session string
	cancel  context.CancelFunc // cancels Job.Decide
}

// requestPermission emits a request for permission and has Job.Decide decide it.
func (s *Session) requestPermission(e Event) {
	if e.Permission == nil || s.findPending(e.Permission.ID) != nil {
		return
	}
	q := &pendingPermission{Permission: *e.Permission, session: e.Session, cancel: func() {}}
	q.Deadline, q.Decision, q.By = time.Now().Add(s.job.PermissionTimeout), nil, ""
	p := q.Permission
	e.Permission = &p
	s.emitEvent(e)
	s.pending = append(s.pending, q)
	s.updateWaiting()
	refusal := ""
	switch {
	case !s.job.Turn.Ask:
		refusal = "this turn does not request permissions"
	case s.job.Decide == nil:
		refusal = "no decision function is set"
	case len(s.pending) > maxPending:
		refusal = "too many permission requests are pending"
	}
	if refusal != "" { // the Conversation is being called, so resolve later
		s.deferred = append(s.deferred, func() { s.resolvePermission(q, Decision{Message: refusal}, "policy") })
		return
	}
	if !s.resumes { // else the journal may have the decision
		s.askDecision(q)
	}
}

// askDecision starts Job.Decide in a goroutine.
func (s *Session) askDecision(q *pendingPermission) {
	ctx, cancel := s.withDeadline(q.Deadline)
	q.cancel = cancel
	p, decide := q.Permission, s.job.Decide
	s.goroutines.Go(func() {
		defer cancel()
		d, by := decidePermission(ctx, decide, p)
		// The session's own end is what ends this, not the question's.
		_ = s.doInLoop(context.WithoutCancel(ctx), func() error { return s.applyDecision(q, d, by) })
	})
}

// applyDecision answers a pending request with a decision from outside, which is recorded first.
func (s *Session) applyDecision(q *pendingPermission, d Decision, by string) error {
	if s.findPending(q.ID) != q || s.left.Load() {
		return nil
	}
	if err := s.recordInput(sessionInput{ID: q.ID, Decision: &d, By: by}); err != nil {
		d, by = Decision{Message: "the decision could not be recorded: " + err.Error()}, "error"
	}
	s.resolvePermission(q, d, by)
	return nil
}

// decidePermission calls decide. An error, a panic and a done context deny.
func decidePermission(ctx context.Context, decide func(context.Context, Permission) (Decision, error), p Permission) (Decision, string) {
	type answer struct {
		Decision

		ok bool
	}
	given := make(chan answer, 1)
	go func() { // decide may ignore ctx
		a := answer{}
		defer func() {
			_ = recover() // a panic denies
			given <- a
		}()
		if d, err := decide(ctx, p); err == nil {
			a = answer{d, true}
		}
	}()
	select {
	case a := <-given:
		if a.ok {
			return a.Decision, "policy"
		}
		if ctx.Err() == nil {
			return Decision{Message: "the request could not be decided"}, "error"
		}
	case <-ctx.Done():
	}
	return Decision{Message: "no decision before the deadline"}, "deadline"
}

// findPending returns the pending request with an id, or nil.
func (s *Session) findPending(id string) *pendingPermission {
	for _, q := range s.pending {
		if q.ID == id {
			return q
		}
	}
	return nil
}

// dropPending removes a request that needs no decision any more. It reports
// whether it was pending.
func (s *Session) dropPending(id string) bool {
	q := s.findPending(id)
	if q == nil {
		return false
	}
	q.cancel()
	s.pending = slices.DeleteFunc(s.pending, func(o *pendingPermission) bool { return o == q })
	s.updateWaiting()
	return true
}

// updateWaiting updates the watchdog's count of pending requests.
func (s *Session) updateWaiting() {
	s.mu.Lock()
	s.watchdog.waiting, s.watchdog.lastActivity = len(s.pending), time.Now()
	s.mu.Unlock()
}

// resolvePermission answers a pending request; later calls do nothing.
func (s *Session) resolvePermission(q *pendingPermission, d Decision, by string) {
	if s.findPending(q.ID) != q {
		return
	}
	s.dropPending(q.ID)
	if by != "end" {
		s.callConversation(func() {
			if err := s.conversation.Decide(exchange{s}, q.ID, d); err != nil {
				d = Decision{Message: err.Error()}
			}
		})
	}
	p := q.Permission
	p.Decision, p.By = &d, by
	s.emitEvent(Event{Type: PermissionResolved, Session: q.session, Permission: &p})
}

// Decide answers a request for permission, in place of Job.Decide. It returns
// ErrNotFound if no such request is pending.
func (s *Session) Decide(id string, d Decision) error {
	return s.doInLoop(context.Background(), func() error {
		q := s.findPending(id)
		if q == nil {
			return fmt.Errorf("%w: no pending permission request has the id %q", atoll.ErrNotFound, id)
		}
		return s.applyDecision(q, d, "caller")
	})
}
