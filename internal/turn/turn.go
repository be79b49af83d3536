// Package turn keeps turns that are under way and their logs: who listens may
// come and go, and come back to where he was.
package turn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// The states of a turn.
const (
	Running  = "running"
	Waiting  = "waiting"
	Finished = "finished"
)

// Work does a turn. What it returns becomes the turn's last event; an error is
// a turn that failed.
type Work func(ctx context.Context, t *Turn) (agent.Result, error)

// Turn is one that is under way. Its methods may be called at once from many
// goroutines.
type Turn struct {
	d      *Desk
	log    *log
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it has its last event

	mu        sync.Mutex
	rec       agent.Record         // guarded by mu, as all below
	asked     map[string]*question // permissions that are asked for
	wanted    map[string]*want     // tools of the client without a result
	interrupt chan struct{}        // closed by Interrupt
	halted    bool
	over      bool
	mark      int64
}

// question is a permission that is asked for.
type question struct {
	permission agent.Permission
	answer     chan agent.Decision // holds one
	by         string              // who answered; set before answer
	answered   bool                // and so no question any more
	taken      bool                // Decide waits for the answer, or will find it here
}

// want is a tool of the client that is to be called.
type want struct {
	call   agent.ToolCall
	answer chan Answer // holds one
}

// Answer is what came of a client's tool.
type Answer struct {
	Text   string
	Failed bool
}

// ID returns the turn's id.
func (t *Turn) ID() string { return t.rec.ID }

// Record returns what is known of the turn now.
func (t *Turn) Record() agent.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record()
}

// record is called with mu held.
func (t *Turn) record() agent.Record {
	r := t.rec
	r.Events = t.log.last()
	r.State = t.state()
	for _, id := range slices.Sorted(maps.Keys(t.asked)) {
		if q := t.asked[id]; !q.answered {
			r.Permissions = append(r.Permissions, q.permission)
		}
	}
	return r
}

// state is called with mu held.
func (t *Turn) state() string {
	switch {
	case t.over:
		return Finished
	case len(t.wanted) > 0:
		return Waiting
	}
	for _, q := range t.asked {
		if !q.answered {
			return Waiting
		}
	}
	return Running
}

// Note changes what is known of the turn: its agent, sandbox, workspace, chat.
func (t *Turn) Note(f func(r *agent.Record)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.rec)
	t.d.save(t.record())
}

// Emit tells those who listen of an event. It numbers it; one of type Finished
// is left out: the turn's own end is the last event.
func (t *Turn) Emit(e agent.Event) {
	switch {
	case e.Type == agent.Finished:
		return
	case e.Type == agent.PermissionRequested && e.Permission != nil:
		t.expect(*e.Permission)
	case e.Type == agent.PermissionResolved && e.Permission != nil:
		t.settle(e.Permission.ID)
	}
	t.emit(e)
}

func (t *Turn) emit(e agent.Event) {
	e.Turn = t.rec.ID
	if e.Time.IsZero() {
		e.Time = t.d.now()
	}
	t.log.append(e)
}

// Interrupted is closed when somebody wants the turn interrupted.
func (t *Turn) Interrupted() <-chan struct{} { return t.interrupt }

// Decide asks whoever has the turn for a permission, and waits for the answer
// until the deadline, which denies; so does the end of ctx.
func (t *Turn) Decide(ctx context.Context, p agent.Permission) (agent.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, t.d.opts.Patience)
	defer cancel()
	p.Deadline, _ = ctx.Deadline()
	q, err := t.ask(p)
	if err != nil {
		return agent.Decision{Message: "nobody can be asked"}, err
	}
	select {
	case d := <-q.answer:
		return d, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	answered := q.answered
	if !answered {
		delete(t.asked, p.ID)
	}
	t.mu.Unlock()
	if answered { // somebody was quicker
		return <-q.answer, nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return agent.Decision{Message: "nobody has answered in time"}, nil
	}
	return agent.Decision{Message: "the turn was ended"}, context.Cause(ctx)
}

// ask notes that Decide waits for a permission, which may have been expected.
func (t *Turn) ask(p agent.Permission) (*question, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.asked[p.ID]
	switch {
	case t.over:
		return nil, fmt.Errorf("%w: the turn has ended", atoll.ErrState)
	case q != nil && q.taken:
		return nil, fmt.Errorf("permission %s: %w", p.ID, atoll.ErrExists)
	case q == nil && len(t.asked) >= maxOpen:
		return nil, fmt.Errorf("%w: %d permissions are asked for already", atoll.ErrQuota, len(t.asked))
	case q == nil:
		q = &question{answer: make(chan agent.Decision, 1)}
		t.asked[p.ID] = q
	}
	q.permission, q.taken = p, true
	if q.answered {
		delete(t.asked, p.ID)
	}
	return q, nil
}

// expect lets a permission be answered from when its event is out, which is
// before Decide is called.
func (t *Turn) expect(p agent.Permission) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over && t.asked[p.ID] == nil && len(t.asked) < maxOpen {
		t.asked[p.ID] = &question{permission: p, answer: make(chan agent.Decision, 1)}
	}
}

// settle forgets a permission that was resolved without Decide.
func (t *Turn) settle(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.asked[id]; q != nil && !q.taken {
		delete(t.asked, id)
	}
}

// maxOpen is how many permissions or tools of a client one turn waits for at
// once.
const maxOpen = 64

// Want has the client call one of its own tools, and waits for what comes of it
// until the deadline, whereupon the call has failed.
func (t *Turn) Want(ctx context.Context, call agent.ToolCall) (text string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.d.opts.Patience)
	defer cancel()
	w := &want{call: call, answer: make(chan Answer, 1)}
	t.mu.Lock()
	if t.over || t.wanted[call.ID] != nil || len(t.wanted) >= maxOpen {
		t.mu.Unlock()
		return "", true, fmt.Errorf("%w: tool call %s", atoll.ErrState, call.ID)
	}
	t.wanted[call.ID] = w
	t.d.wait(t, call.ID)
	t.mu.Unlock()
	t.emit(agent.Event{Type: agent.ToolWanted, Tool: &call})
	defer t.unwant(call.ID)
	select {
	case a := <-w.answer:
		return a.Text, a.Failed, nil
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "the client has not said in time what came of it", true, nil
	}
	return "", true, context.Cause(ctx)
}

func (t *Turn) unwant(id string) {
	t.mu.Lock()
	delete(t.wanted, id)
	t.mu.Unlock()
	t.d.unwait(t, id)
}

// Mark notes up to which event a client has been told that will come again.
func (t *Turn) Mark(seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mark = seq
}

// Marked returns what Mark has noted.
func (t *Turn) Marked() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mark
}

// answer gives what came of a client's tool; false: nobody waits for it.
func (t *Turn) answer(id string, a Answer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.wanted[id]
	if w == nil {
		return false
	}
	delete(t.wanted, id)
	w.answer <- a
	return true
}

// decide answers a permission.
func (t *Turn) decide(id, by string, d agent.Decision) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.asked[id]
	if q == nil || q.answered {
		return fmt.Errorf("permission %s: %w: nobody asks for it, or it is decided", clip(id), atoll.ErrNotFound)
	}
	if q.taken {
		delete(t.asked, id)
	}
	q.by, q.answered = by, true
	q.answer <- d
	return nil
}

// halt wants the turn interrupted.
func (t *Turn) halt() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return fmt.Errorf("%w: the turn has ended", atoll.ErrState)
	}
	if !t.halted {
		t.halted = true
		close(t.interrupt)
	}
	return nil
}

// run does the turn, and sees to its one end.
func (t *Turn) run(ctx context.Context, work Work) {
	defer close(t.done)
	begun := t.d.now()
	res := t.do(ctx, work)
	if res.Duration == 0 {
		res.Duration = t.d.now().Sub(begun)
	}
	t.finish(res)
}

// do calls work, whose panic is a turn that crashed.
func (t *Turn) do(ctx context.Context, work Work) (res agent.Result) {
	defer func() {
		if p := recover(); p != nil {
			t.d.panicked(t.rec.ID, p)
			res = agent.Result{Outcome: agent.Crashed, Code: "internal", Message: "the server failed; its log says more under turn " + t.rec.ID}
		}
	}()
	res, err := work(ctx, t)
	if err != nil {
		return failed(ctx, err)
	}
	if res.Outcome == "" {
		res.Outcome = agent.OK
	}
	return res
}

// failed is the result of a turn that came to nothing.
func failed(ctx context.Context, err error) agent.Result {
	res := agent.Result{Outcome: agent.Failed, Code: codeOf(err), Message: err.Error()}
	switch {
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), atoll.ErrTimeout):
		res.Outcome, res.Code = agent.Aborted, "aborted"
		res.Message = context.Cause(ctx).Error()
	case errors.Is(err, atoll.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		res.Outcome = agent.Timeout
	}
	return res
}

// codes are the words for the reasons of errors.
var codes = []struct {
	err  error
	code string
}{
	{atoll.ErrNotFound, "not_found"}, {atoll.ErrExists, "exists"}, {atoll.ErrInvalid, "invalid_request"}, {atoll.ErrState, "state"},
	{atoll.ErrQuota, "quota"}, {atoll.ErrUnsupported, "unsupported"}, {atoll.ErrTimeout, "timeout"}, {atoll.ErrDenied, "denied"}, {atoll.ErrUnavailable, "unavailable"},
}

func codeOf(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return "internal"
}

// finish writes the turn's last event.
func (t *Turn) finish(res agent.Result) {
	t.mu.Lock()
	t.over = true
	for id, q := range t.asked { // whoever asked is gone: nothing is allowed
		delete(t.asked, id)
		if !q.answered {
			q.answered = true
			q.answer <- agent.Decision{Message: "the turn has ended"}
		}
	}
	t.rec.Ended, t.rec.Result = t.d.now(), &res
	t.mu.Unlock()
	t.emit(agent.Event{Type: agent.Finished, Result: &res, Session: res.Session})
	t.mu.Lock()
	rec := t.record()
	t.mu.Unlock()
	t.d.retire(t, rec)
}

// clip shortens what a client wrote, for a message.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return fmt.Sprintf("%.*q…", most, s[:most])
	}
	return s
}

// errClosing is why the turns of a desk that closes end.
var errClosing = fmt.Errorf("%w: the server is shutting down", atoll.ErrUnavailable)

// errCancelled is why a turn ends that its owner gave up.
var errCancelled = errors.New("the turn was cancelled")

const (
	defaultPatience = 5 * time.Minute
	defaultKeep     = 7 * 24 * time.Hour
	forEver         = 100 * 365 * 24 * time.Hour
)
