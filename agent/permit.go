package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// mostQuestions bounds how many requests for permission wait at once.
const mostQuestions = 64

// question is a request for permission that nobody has decided yet.
type question struct {
	Permission

	session string
	cancel  context.CancelFunc // tells who decides that it is too late
}

// request tells that the agent asks for permission, and has it decided beside
// the loop.
func (s *Session) request(e Event) {
	if e.Permission == nil || s.question(e.Permission.ID) != nil {
		return
	}
	q := &question{Permission: *e.Permission, session: e.Session, cancel: func() {}}
	q.Deadline, q.Decision, q.By = time.Now().Add(s.job.Patience), nil, ""
	p := q.Permission
	e.Permission = &p
	s.tell(e)
	s.asked = append(s.asked, q)
	s.count()
	refusal := ""
	switch {
	case !s.job.Turn.Ask:
		refusal = "nothing was to be asked in this turn"
	case s.job.Decide == nil:
		refusal = "nobody is there to decide"
	case len(s.asked) > mostQuestions:
		refusal = "too many questions are open"
	}
	if refusal != "" { // the Talk is at work, so it is told later
		s.late = append(s.late, func() { s.resolve(q, Decision{Message: refusal}, "policy") })
		return
	}
	ctx, cancel := s.derive(q.Deadline)
	q.cancel = cancel
	s.helpers.Go(func() {
		defer cancel()
		d, by := judge(ctx, s.job.Decide, p)
		// The session's own end is what ends this, not the question's.
		_ = s.do(context.WithoutCancel(ctx), func() error { s.resolve(q, d, by); return nil })
	})
}

// judge has a request decided. Whatever goes wrong denies.
func judge(ctx context.Context, decide func(context.Context, Permission) (Decision, error), p Permission) (Decision, string) {
	type answer struct {
		Decision

		ok bool
	}
	given := make(chan answer, 1)
	go func() { // it may not listen to ctx
		a := answer{}
		defer func() {
			_ = recover() // it has not decided, so it denies
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
	return Decision{Message: "nobody decided in time"}, "deadline"
}

// question returns the one with an id; nil: there is none.
func (s *Session) question(id string) *question {
	for _, q := range s.asked {
		if q.ID == id {
			return q
		}
	}
	return nil
}

// forget drops a question that needs no answer any more. It reports whether it
// was open.
func (s *Session) forget(id string) bool {
	q := s.question(id)
	if q == nil {
		return false
	}
	q.cancel()
	s.asked = slices.DeleteFunc(s.asked, func(o *question) bool { return o == q })
	s.count()
	return true
}

// count lets the watch know how many questions are open.
func (s *Session) count() {
	s.mu.Lock()
	s.watch.waiting, s.watch.seen = len(s.asked), time.Now()
	s.mu.Unlock()
}

// resolve answers a question, once.
func (s *Session) resolve(q *question, d Decision, by string) {
	if s.question(q.ID) != q {
		return
	}
	s.forget(q.ID)
	if by != "end" {
		s.guard(func() {
			if err := s.talk.Decide(exchange{s}, q.ID, d); err != nil {
				d = Decision{Message: err.Error()}
			}
		})
	}
	p := q.Permission
	p.Decision, p.By = &d, by
	s.tell(Event{Type: PermissionResolved, Session: q.session, Permission: &p})
}

// Decide answers a request for permission, in place of Job.Decide.
func (s *Session) Decide(id string, d Decision) error {
	return s.do(context.Background(), func() error {
		q := s.question(id)
		if q == nil {
			return fmt.Errorf("%w: nothing with the id %q waits for a decision", atoll.ErrNotFound, id)
		}
		s.resolve(q, d, "caller")
		return nil
	})
}
