// Package turn is the turn registry: it runs turns of agents, keeps their event
// logs, and lets clients follow a turn from any event on.
package turn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

// Work runs a turn. Its result becomes the turn's last event; an error means that
// the turn failed.
type Work func(ctx context.Context, t *Turn) (agent.Result, error)

// Turn is a running turn. Its methods are safe for concurrent use.
type Turn struct {
	registry  *Registry
	log       *log
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed after the last event
	kept      atomic.Bool   // another process can continue it
	queued    atomic.Bool   // it waits for the turns before it in its chat
	unsent    atomic.Bool   // it was queued, and its prompt was not sent: another process can start it again
	continued bool          // an earlier process has begun it; set before its work
	told      int           // events of the session that an earlier process has emitted

	requestBytes int // of its request; set before its work

	notifying sync.Mutex    // held during a call of Options.Notify; acquired before mu
	notified  notifiedState // guarded by notifying

	mu          sync.Mutex
	rec         agent.Record                  // guarded by mu, as all below
	permissions map[string]*permissionRequest // undecided, or not yet claimed by Decide
	clientCalls map[string]*clientCall        // calls of the client's tools without a result
	interrupt   chan struct{}                 // closed by Interrupt
	interrupted bool
	receive     func(context.Context, agent.Message) error // nil: messages are not received
	messages    map[string]agent.MessageState              // of messages to the agent, by id
	dropped     []agent.Message                            // with their prompts
	finished    bool
	left        bool     // another process may continue it: its record is no longer ours
	savedState  string   // of the record that saveState has saved last
	savedOpen   []string // ids of its permissions
	lastSeen    int64
	toSkip      int                     // events to drop: they were emitted by an earlier process
	decided     map[string]keptDecision // decisions of an earlier process that the agent may not have received
}

// permissionRequest is a request for permission.
type permissionRequest struct {
	permission agent.Permission
	answer     chan agent.Decision // has a buffer of one
	by         string              // what decided; set before answer
	answered   bool
	claimed    bool // Decide waits for the answer, or has received it
}

// clientCall is a pending call of a tool of the client.
type clientCall struct {
	call   agent.ToolCall
	event  int64           // number of its event; the largest number before that is written
	answer chan ToolAnswer // has a buffer of one
}

// ToolAnswer is the result of a client's tool.
type ToolAnswer struct {
	Text   string
	Failed bool
}

// ID returns the turn's id.
func (t *Turn) ID() string { return t.rec.ID }

// Record returns the current state of the turn.
func (t *Turn) Record() agent.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.currentRecord()
}

// currentRecord returns the record with its current state. The caller holds mu.
func (t *Turn) currentRecord() agent.Record {
	r := t.rec
	r.Events = t.log.lastSeq()
	r.State = t.currentState()
	for _, id := range slices.Sorted(maps.Keys(t.permissions)) {
		if q := t.permissions[id]; !q.answered {
			r.Permissions = append(r.Permissions, q.permission)
		}
	}
	return r
}

// currentState returns the turn's state. The caller holds mu.
func (t *Turn) currentState() string {
	switch {
	case t.finished:
		return Finished
	case t.queued.Load():
		return Queued
	case len(t.clientCalls) > 0:
		return Waiting
	}
	for _, q := range t.permissions {
		if !q.answered {
			return Waiting
		}
	}
	return Running
}

// Update changes the turn's record, such as its sandbox and workspace, and saves it.
func (t *Turn) Update(f func(r *agent.Record)) {
	defer t.notifyState()
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.rec)
	t.registry.save(t.currentRecord())
}

// Emit numbers and logs an event. Events of type Finished are dropped: the turn's
// result becomes the last event.
func (t *Turn) Emit(e agent.Event) {
	if e.Message != nil {
		e.Message = t.noteMessage(*e.Message)
	}
	switch {
	case e.Type == agent.Finished || t.skipsReplayedEvent():
		return
	case e.Type == agent.PermissionRequested && e.Permission != nil:
		t.expectPermission(*e.Permission)
		t.saveState() // before its event: who sees that finds the request
	case e.Type == agent.PermissionResolved && e.Permission != nil:
		t.dropPermission(e.Permission.ID)
	}
	t.emitEvent(e)
	if e.Type == agent.PermissionRequested || e.Type == agent.PermissionResolved {
		t.notifyState()
	}
}

// emitEvent logs an event and returns its number.
func (t *Turn) emitEvent(e agent.Event) int64 {
	e.Turn = t.rec.ID
	if e.Time.IsZero() {
		e.Time = t.registry.currentTime()
	}
	return t.log.append(e)
}

// Interrupted returns a channel that is closed when the turn is to be interrupted.
func (t *Turn) Interrupted() <-chan struct{} { return t.interrupt }

// Decide waits for the owner's decision about a permission. The deadline and the
// end of ctx deny.
func (t *Turn) Decide(ctx context.Context, p agent.Permission) (agent.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, t.registry.opts.PermissionTimeout)
	defer cancel()
	p.Deadline, _ = ctx.Deadline()
	q, err := t.openRequest(p)
	if err != nil {
		return agent.Decision{Message: "no request can be made"}, err
	}
	t.notifyState() // of a turn that was continued, which has no event of this request
	defer t.notifyState()
	select {
	case d := <-q.answer:
		return d, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	answered := q.answered
	if !answered {
		delete(t.permissions, p.ID)
	}
	t.mu.Unlock()
	if answered { // the answer came at the same moment
		return <-q.answer, nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return agent.Decision{Message: "no answer before the deadline"}, nil
	}
	return agent.Decision{Message: "the turn was ended"}, context.Cause(ctx)
}

// openRequest returns the request that Decide waits for; expectPermission may have
// created it before.
func (t *Turn) openRequest(p agent.Permission) (*permissionRequest, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.permissions[p.ID]
	switch {
	case t.finished:
		return nil, fmt.Errorf("%w: the turn has ended", atoll.ErrState)
	case q != nil && q.claimed:
		return nil, fmt.Errorf("permission %s: %w", p.ID, atoll.ErrExists)
	case q == nil && len(t.permissions) >= maxOpen:
		return nil, fmt.Errorf("%w: %d permission requests are pending", atoll.ErrQuota, len(t.permissions))
	case q == nil:
		q = &permissionRequest{answer: make(chan agent.Decision, 1)}
		t.permissions[p.ID] = q
	}
	q.permission, q.claimed = p, true
	t.answerDecided(q)
	if q.answered {
		delete(t.permissions, p.ID)
	}
	return q, nil
}

// expectPermission accepts a decision from the moment of the request's event,
// which is before Decide is called.
func (t *Turn) expectPermission(p agent.Permission) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.finished && t.permissions[p.ID] == nil && len(t.permissions) < maxOpen {
		t.permissions[p.ID] = &permissionRequest{permission: p, answer: make(chan agent.Decision, 1)}
	}
}

// dropPermission removes a permission that was resolved without Decide.
func (t *Turn) dropPermission(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.decided, id)
	if q := t.permissions[id]; q != nil && !q.claimed {
		delete(t.permissions, id)
	}
}

// maxOpen limits the pending permissions, and the pending client calls, of a turn.
const maxOpen = 64

// decide answers a permission request.
func (t *Turn) decide(id, by string, d agent.Decision) error {
	err := t.decidePermission(id, by, d)
	if err == nil {
		t.notifyState()
	}
	return err
}

// decidePermission answers a permission request. The decision is recorded first.
func (t *Turn) decidePermission(id, by string, d agent.Decision) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.permissions[id]
	if q == nil || q.answered {
		return fmt.Errorf("permission %s: %w: it was not requested, or is decided", clipText(id), atoll.ErrNotFound)
	}
	if err := t.recordDecision(keptDecision{ID: id, By: by, Decision: d}); err != nil {
		return fmt.Errorf("permission %s: the decision is not recorded: %w", clipText(id), err)
	}
	if q.claimed {
		delete(t.permissions, id)
	}
	q.by, q.answered = by, true
	q.answer <- d
	return nil
}

// requestInterrupt closes the channel of Interrupted.
func (t *Turn) requestInterrupt() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished {
		return fmt.Errorf("%w: the turn has ended", atoll.ErrState)
	}
	if t.interrupted {
		return nil
	}
	if err := t.recordInterrupt(); err != nil {
		return err
	}
	t.interrupted = true
	close(t.interrupt)
	return nil
}

// runToEnd runs the work and finishes the turn, unless it is left to another process.
func (t *Turn) runToEnd(ctx context.Context, work Work) {
	defer close(t.done)
	t.notifyState()
	res, left := t.callWork(ctx, work)
	if left {
		t.mu.Lock()
		t.left = true
		t.mu.Unlock()
		t.registry.dropRunning(t, t.Record())
		return
	}
	if wait := t.registry.currentTime().Sub(t.startTime()); wait > res.Duration { // that of an agent is without its sandbox
		res.Duration = wait
	}
	t.finishTurn(res)
}

// startTime returns when the turn has started, or has left its queue.
func (t *Turn) startTime() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rec.Started
}

// callWork calls work; a panic becomes a crashed result. Left: the turn goes on in another process.
func (t *Turn) callWork(ctx context.Context, work Work) (res agent.Result, left bool) {
	defer func() {
		if p := recover(); p != nil {
			t.registry.logPanic(t.rec.ID, p)
			res = agent.Result{Outcome: agent.Crashed, Code: "internal", Message: "the server failed; its log says more under turn " + t.rec.ID}
		}
	}()
	res, err := work(ctx, t)
	switch {
	case errors.Is(err, atoll.ErrLeft) && (t.kept.Load() || t.isRestartable()):
		return res, true
	case err != nil:
		return failedResult(ctx, err), false
	case res.Outcome == "":
		res.Outcome = agent.OK
	}
	return res, false
}

// failedResult returns the result for an error of the work.
func failedResult(ctx context.Context, err error) agent.Result {
	end := agent.Ending{Err: err}
	if ctx.Err() != nil {
		why := agent.StopReasonOf(ctx)
		end.Stop = &why
	}
	return end.Result()
}

// finishTurn denies pending permissions and writes the turn's last event.
func (t *Turn) finishTurn(res agent.Result) {
	t.mu.Lock()
	t.finished = true
	for id, q := range t.permissions { // nothing waits for them any more: deny
		delete(t.permissions, id)
		if !q.answered {
			q.answered = true
			q.answer <- agent.Decision{Message: "the turn has ended"}
		}
	}
	t.rec.Ended, t.rec.Result = t.registry.currentTime(), &res
	t.mu.Unlock()
	t.emitEvent(agent.Event{Type: agent.Finished, Result: &res, Session: res.Session})
	t.mu.Lock()
	rec := t.currentRecord()
	t.mu.Unlock()
	t.registry.removeRunning(t, rec)
	t.notifyState()
}

// clipText shortens a client's text for a message.
func clipText(s string) string {
	const most = 100
	if len(s) > most {
		return fmt.Sprintf("%.*q…", most, s[:most])
	}
	return s
}

// errClosing is the cause that cancels the turns of a closing registry.
var errClosing = fmt.Errorf("%w: the server is shutting down", atoll.ErrUnavailable)

// errCancelled is the cause that cancels a turn for its owner.
var errCancelled = errors.New("the turn was cancelled")

const (
	defaultPermissionTimeout = 5 * time.Minute
	defaultRetention         = 7 * 24 * time.Hour
	unlimited                = 100 * 365 * 24 * time.Hour
)
