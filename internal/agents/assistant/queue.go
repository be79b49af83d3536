package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// ticket is a place in the queue of a chat.
type ticket struct {
	key   string
	ready chan struct{} // closed when it is the first one and the chat has no turn in this process
	told  bool          // ready is closed; guarded by the store's mu
}

// joinQueue returns a place at the end of the queue of a chat.
func (c *chatStore) joinQueue(o atoll.Owner, id string) *ticket {
	t := &ticket{key: o.String() + "/" + id, ready: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queues[t.key] = append(c.queues[t.key], t)
	c.callNext(t.key)
	return t
}

// leaveQueue gives up a place.
func (c *chatStore) leaveQueue(t *ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queues[t.key] = slices.DeleteFunc(c.queues[t.key], func(o *ticket) bool { return o == t })
	c.callNext(t.key)
}

// callNext wakes the first one in the queue of a chat without a turn. The caller holds mu.
func (c *chatStore) callNext(key string) {
	q := c.queues[key]
	if len(q) == 0 {
		delete(c.queues, key)
		return
	}
	if !c.busy[key] && !q[0].told {
		q[0].told = true
		close(q[0].ready)
	}
}

// QueuedTurn is a request that waits for the turns before it in its chat. It can be run once.
type QueuedTurn struct {
	pipeline *Pipeline
	request  *TurnRequest
	record   agent.Record
}

// Queue resolves a request as Prepare does, but for its chat, which may have a turn: the request is the next one after those that are
// queued. The caller then calls Run or Release of the result.
func (p *Pipeline) Queue(ctx context.Context, ask *TurnRequest) (*QueuedTurn, error) {
	q, err := p.queueTurn(ctx, ask)
	var known *atoll.Error
	if err != nil && !errors.As(err, &known) {
		return nil, &atoll.Error{Op: "turn", Err: err}
	}
	return q, err
}

func (p *Pipeline) queueTurn(ctx context.Context, ask *TurnRequest) (*QueuedTurn, error) {
	if ask.Chat == "" {
		return nil, fieldError("chat", "%w: chat: a queued turn needs the chat whose turns it waits for", atoll.ErrInvalid)
	}
	t, err := p.resolveRequest(ctx, ask)
	if err != nil {
		return nil, err
	}
	owner := ask.Account.Caller().Owner
	if err := owner.Check(); err != nil {
		return nil, err
	}
	ask.Chat = ChatKey(ask.Chat)
	q := &QueuedTurn{pipeline: p, request: ask, record: agent.Record{ID: ask.ID, Owner: owner, Assistant: t.assistant.ID, Chat: ask.Chat, Sandbox: ask.Sandbox, Workspace: ask.Workspace}}
	if t.agent != nil {
		q.record.Agent = t.agent.Name()
	}
	ask.ticket = p.chats.joinQueue(owner, ask.Chat)
	return q, nil
}

// Record returns the turn's record before it starts.
func (q *QueuedTurn) Record() agent.Record { return q.record }

// Release gives up the place in the queue of a turn that is not run.
func (q *QueuedTurn) Release() { q.pipeline.chats.leaveQueue(q.request.ticket) }

// busyInterval is how often a chat is asked for whose turn another process runs.
const busyInterval = 500 * time.Millisecond

// Run waits for the turns before this one, and runs it; see [Turn.Run].
func (q *QueuedTurn) Run(ctx context.Context, id string, handle TurnHandle) (agent.Result, error) {
	defer q.Release()
	t, err := q.waitForChat(ctx, handle)
	if errors.Is(err, errInterrupted) {
		return agent.Result{Outcome: agent.Aborted, Code: "interrupted", Message: "it was interrupted in the queue"}, nil
	}
	if err != nil {
		return agent.Result{}, err
	}
	q.Release() // the turn has the chat: the next one waits for that
	if err := handle.Begin(ctx); err != nil {
		t.Release()
		if errors.Is(err, atoll.ErrState) {
			return agent.Result{Outcome: agent.Aborted, Code: "interrupted", Message: "it was interrupted in the queue"}, nil
		}
		return agent.Result{}, err
	}
	handle.Update(func(r *agent.Record) { r.Workspace = t.placement.workspace })
	r := t.newRun(id, handle)
	r.restartable = true
	return r.runToEnd(ctx, t.timeLimit(), (*turnRun).runSteps)
}

// waitForChat waits until the chat has no turn, and takes it.
func (q *QueuedTurn) waitForChat(ctx context.Context, handle TurnHandle) (*Turn, error) {
	select {
	case <-q.request.ticket.ready:
	case <-handle.Interrupted():
		return nil, errInterrupted
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		ask := *q.request // Prepare changes it
		t, err := q.pipeline.Prepare(ctx, &ask)
		if !errors.Is(err, atoll.ErrState) {
			return t, err
		}
		timer := time.NewTimer(busyInterval)
		select {
		case <-timer.C:
		case <-handle.Interrupted():
			timer.Stop()
			return nil, errInterrupted
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// StoredRequest is a request as the registry of turns stores it.
type StoredRequest struct {
	Request  agent.Request     `json:"request"`
	Messages []dialect.Message `json:"messages,omitempty"`
	Model    dialect.Request   `json:"model,omitzero"`
	Tools    []dialect.Tool    `json:"tools,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Locale   string            `json:"locale,omitempty"`
	Answers  bool              `json:"answers,omitempty"` // TurnRequest.AnswersCalls

	Scopes []atoll.Scope `json:"scopes"` // of the caller
	Token  string        `json:"token,omitempty"`
	Link   *atoll.Link   `json:"link,omitempty"`
}

// Stored returns the request as it is stored.
func (r *TurnRequest) Stored() StoredRequest {
	caller := r.Account.Caller()
	s := StoredRequest{
		Request: r.Request, Messages: r.Messages, Model: r.Model, Tools: r.Tools, Metadata: r.Metadata, Locale: r.Locale, Answers: r.AnswersCalls,
		Scopes: caller.Scopes, Token: caller.Token, Link: caller.Link,
	}
	s.Model.Messages, s.Model.Tools = nil, nil
	return s
}

// IsSecret reports whether a request has values that are not stored longer than needed.
func (r *TurnRequest) IsSecret() bool {
	c := r.Config
	return len(r.Env) > 0 || c != nil && (len(c.Env) > 0 || len(c.Secrets) > 0 || len(c.Network.Headers) > 0 || len(c.Prepare) > 0)
}

// For returns the request of an account.
func (s StoredRequest) For(a *fleet.Account) *TurnRequest {
	return &TurnRequest{Request: s.Request, Messages: s.Messages, Model: s.Model, Tools: s.Tools, Metadata: s.Metadata, Locale: s.Locale, AnswersCalls: s.Answers, Account: a}
}

// QueueStored queues the stored request of a turn that another process has left.
func (p *Pipeline) QueueStored(ctx context.Context, rec agent.Record, raw json.RawMessage, account func(fleet.Caller) *fleet.Account) (*QueuedTurn, fleet.Caller, error) {
	var s StoredRequest
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fleet.Caller{}, fmt.Errorf("turn %s: its request: %w", rec.ID, err)
	}
	ask := s.For(account(fleet.Caller{Owner: rec.Owner, Scopes: s.Scopes, Token: s.Token, Link: s.Link}))
	ask.ID, ask.Chat = rec.ID, rec.Chat
	q, err := p.Queue(ctx, ask)
	return q, ask.Account.Caller(), err
}

// setSent marks that the turn's agent or model may have the prompt.
func (r *turnRun) setSent() error {
	if r.sent {
		return nil
	}
	r.sent = true
	return r.handle.SetSent()
}
