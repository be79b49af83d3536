package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// keptTurn is what another process needs to continue a turn whose agent has started. It has no secrets
// of the request: what they were for is done.
type keptTurn struct {
	Request  agent.Request     `json:"request"`
	Messages []dialect.Message `json:"messages,omitempty"` // of the request
	User     string            `json:"user,omitempty"`     // of the request's model options
	Tools    []dialect.Tool    `json:"tools,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Locale   string            `json:"locale,omitempty"`

	Scopes []atoll.Scope `json:"scopes"` // of the caller
	Token  string        `json:"token,omitempty"`
	Link   *atoll.Link   `json:"link,omitempty"`

	Conversation []dialect.Message `json:"conversation"` // as the hook Create returned it
	Model        string            `json:"model,omitempty"`
	Connector    string            `json:"connector,omitempty"` // its name; empty: none
	Optional     bool              `json:"optional,omitempty"`  // connectorOptional
	Dir          string            `json:"dir,omitempty"`       // of the workspace inside
	State        string            `json:"state,omitempty"`     // of the agents inside
	Text         string            `json:"text,omitempty"`      // of the events before the agent's, or of all before the result
}

// newKeptTurn returns the state of the turn at this moment.
func (r *turnRun) newKeptTurn() keptTurn {
	caller := r.request.Account.Caller()
	k := keptTurn{
		Request: r.request.Request, Messages: r.request.Messages, User: r.request.Model.User, Tools: r.request.Tools, Metadata: r.request.Metadata, Locale: r.request.Locale,
		Scopes: caller.Scopes, Token: caller.Token, Link: caller.Link,
		Conversation: r.messages, Model: r.query.Model, Optional: r.connectorOptional, Dir: r.placement.dir, State: r.placement.state, Text: r.text.String(),
	}
	k.Request.Config, k.Request.Env = nil, nil
	if r.connector != nil {
		k.Connector = r.connector.Name
	}
	return k
}

// keepTurn stores what another process needs to continue the turn, and returns the directory for the journal of
// its agent's session; "" if the turn ends with this process.
func (r *turnRun) keepTurn(ctx context.Context) (string, error) {
	if !r.sb.CanResume() {
		return "", nil
	}
	journal, err := r.handle.Keep(r.newKeptTurn())
	if err == nil && journal != "" && r.request.Sandbox == "" && r.warm == nil { // else an earlier turn has done it
		err = r.sb.OutliveProcess(ctx)
	}
	return journal, err
}

// keepResult stores the result of a turn that has a sandbox, before the chat is saved and the sandbox removed: a process that is
// killed meanwhile costs nothing. A turn whose result can't be stored ends without that.
func (r *turnRun) keepResult(res agent.Result) {
	if r.sb == nil {
		return
	}
	if err := r.handle.KeepResult(res, r.newKeptTurn()); err != nil {
		r.pipeline.log.Warn("result of a turn not kept", "turn", r.id, "err", err)
	}
}

// ResumedTurn is a turn that another process has begun. It can be run once.
type ResumedTurn struct {
	*Turn
	record agent.Record
	kept   keptTurn
	result *agent.Result // nil: its agent may run
}

// LeftTurn is a turn that another process has left. State and Result are those of TurnHandle.Keep and TurnHandle.KeepResult;
// without Result, its agent may run.
type LeftTurn struct {
	Record agent.Record
	State  json.RawMessage
	Result *agent.Result
}

// PrepareResume resolves a turn that another process has left. The caller then calls Run or Release of the result.
func (p *Pipeline) PrepareResume(ctx context.Context, left LeftTurn, account func(fleet.Caller) *fleet.Account) (*ResumedTurn, error) {
	rec := left.Record
	t := &ResumedTurn{record: rec, result: left.Result}
	k := &t.kept
	if err := json.Unmarshal(left.State, k); err != nil {
		return nil, fmt.Errorf("turn %s: its state: %w", rec.ID, err)
	}
	app, err := p.opts.App(ctx)
	if err != nil {
		return nil, err
	}
	t.Turn = &Turn{pipeline: p, app: app, request: &TurnRequest{
		Request: k.Request, Messages: k.Messages, Model: dialect.Request{User: k.User}, Tools: k.Tools, Metadata: k.Metadata, Locale: k.Locale,
		Account: account(fleet.Caller{Owner: rec.Owner, Scopes: k.Scopes, Token: k.Token, Link: k.Link}),
	}}
	t.request.Request.Connector = k.Connector
	if err := t.resolveNames(); err != nil {
		return nil, err
	}
	if k.Connector == "" {
		t.connector = nil
	}
	t.connectorOptional = k.Optional
	t.placement = placement{dir: k.Dir, state: k.State, workspace: rec.Workspace}
	if t.chat, t.release, err = p.chats.acquireChat(rec.Owner, rec.Chat, t.chatContext(), k.Messages); err != nil {
		return nil, err
	}
	return t, nil
}

// Caller returns the user of the turn.
func (t *ResumedTurn) Caller() fleet.Caller { return t.request.Account.Caller() }

// minRest is the least time that a continued turn gets: to find that its agent has ended meanwhile.
const minRest = 10 * time.Second

// Run continues the turn to its end; see [Turn.Run].
func (t *ResumedTurn) Run(ctx context.Context, handle TurnHandle) (agent.Result, error) {
	if t.result != nil {
		r := t.newRun(t.record.ID, handle)
		r.isResultKept = true
		return r.runToEnd(ctx, cleanupTimeout, func(r *turnRun, ctx context.Context) (agent.Result, error) {
			r.prepareEnd(ctx, t)
			return *t.result, nil
		})
	}
	rest := max(minRest, t.timeLimit()-t.pipeline.currentTime().Sub(t.record.Started))
	return t.newRun(t.record.ID, handle).runToEnd(ctx, rest, func(r *turnRun, ctx context.Context) (agent.Result, error) {
		return r.resumeSteps(ctx, t)
	})
}

// resumeSteps continues the agent's session, and runs the steps after it.
func (r *turnRun) resumeSteps(ctx context.Context, t *ResumedTurn) (res agent.Result, err error) {
	k := &t.kept
	r.query.Model, r.messages = k.Model, k.Conversation
	r.text.WriteString(k.Text)
	r.sb, err = r.request.Account.OpenForTurn(ctx, t.record.Sandbox)
	if errors.Is(err, atoll.ErrNotFound) {
		err = fmt.Errorf("%w: its sandbox was removed: %w", agent.ErrSessionLost, err)
	}
	if err != nil {
		return res, err
	}
	r.handle.setSandbox(r.sb)
	if r.request.Sandbox == "" {
		r.destroy = r.sb.Destroy
	}
	if r.access, err = r.newAccess(); err != nil {
		return res, err
	}
	if err = r.adoptUsage(ctx); err != nil {
		return res, err
	}
	res, err = r.resumeAgent(ctx)
	if errors.Is(err, atoll.ErrLeft) {
		return res, err
	}
	return r.callNextHook(ctx, res, err)
}

// prepareEnd prepares what remains to be done for a turn with a result: to save its chat and to remove its sandbox.
func (r *turnRun) prepareEnd(ctx context.Context, t *ResumedTurn) {
	k := &t.kept
	r.query.Model, r.messages = k.Model, k.Conversation
	r.text.WriteString(k.Text)
	sb, err := r.request.Account.OpenForTurn(ctx, t.record.Sandbox)
	switch {
	case errors.Is(err, atoll.ErrNotFound): // it was removed
	case err != nil:
		r.pipeline.log.Error("sandbox of a turn not removed", "turn", r.id, "err", err)
	case r.request.Sandbox == "":
		r.destroy = sb.Destroy
	}
	if err := r.adoptUsage(ctx); err != nil {
		r.pipeline.log.Error("usage of a turn not charged", "turn", r.id, "err", err)
	}
}

// resumeAgent continues the agent's session.
func (r *turnRun) resumeAgent(ctx context.Context) (agent.Result, error) {
	job, err := r.newJob(ctx)
	if err != nil {
		return agent.Result{}, err
	}
	job.Journal = r.handle.Journal()
	r.handle.SkipReplayedEvents()
	s, err := agent.ResumeSession(ctx, job)
	if err != nil {
		return agent.Result{}, err
	}
	return r.waitSession(ctx, s)
}
