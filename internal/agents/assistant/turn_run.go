package assistant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/agents/session"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// turnRun is a running turn.
type turnRun struct {
	*Turn
	id     string
	handle *redactingTurn
	out    *hookOutput

	messages []dialect.Message // the conversation, as the Create hook returned it
	query    dialect.Request   // the request to the model
	access   *model.Access     // nil: no model
	text     strings.Builder   // text of all events, to recognize the chat later

	sb      *fleet.Sandbox // nil: not created yet
	destroy func(context.Context) error
	journal *session.Journal

	endTools     context.CancelFunc // ends the agent's tools
	isResultKept bool               // an earlier process has stored the result

	offered []tool.Tool // of the host, to the agent
	warm    *warmAgent  // the sandbox and the process, which may run further turns; nil: they end with the turn
	parted  atomic.Bool // the agent does not work for this turn any more

	answered atomic.Bool // the agent has done something for this turn

	restartable bool             // the turn was queued: until it is sent, another process can start it again
	sent        bool             // the agent or the model may have the prompt
	steered     []steeredMessage // that the agent was sent while it worked

	mu      sync.Mutex
	refused string // why the model endpoint refused a request; guarded by mu
}

// errTurnTime is the cause that cancels a turn over its time limit.
var errTurnTime = fmt.Errorf("%w: the turn took too long", atoll.ErrTimeout)

// cleanupTimeout limits the removal of a turn's sandbox.
const cleanupTimeout = time.Minute

// Run runs the turn with its id. Every failure is an Outcome of the Result; the only error is
// atoll.ErrLeft, of a turn that another process continues. When Run returns, the turn's own sandbox is
// removed and the chat is unlocked.
func (t *Turn) Run(ctx context.Context, id string, handle TurnHandle) (agent.Result, error) {
	return t.newRun(id, handle).runToEnd(ctx, t.timeLimit(), (*turnRun).runSteps)
}

// newRun returns the run of a turn.
func (t *Turn) newRun(id string, handle TurnHandle) *turnRun {
	r := &turnRun{Turn: t, id: id, destroy: func(context.Context) error { return nil }, endTools: func() {}}
	r.journal = r.newJournal()
	r.handle = &redactingTurn{TurnHandle: handle, journal: r.journal}
	r.out = &hookOutput{emit: r.emitEvent, open: make(map[string]*message)}
	return r
}

// runToEnd runs the steps of a turn within its time limit. A turn that is left to another process keeps its
// sandbox and saves nothing.
func (r *turnRun) runToEnd(ctx context.Context, limit time.Duration, steps func(*turnRun, context.Context) (agent.Result, error)) (res agent.Result, err error) {
	t, id := r.Turn, r.id
	defer t.release()
	defer func() { r.endTools() }()
	noted := t.request.Account.BeginAudit("turn", id, t.targetName())
	defer func() {
		if p := recover(); p != nil {
			r.journal.Finish(agent.Result{Outcome: agent.Crashed, Code: "internal"}, r.canResume())
			noted(fmt.Errorf("panic: %v", p))
			panic(p)
		}
		noted(errors.Join(err, auditError(res)))
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTurnTime)
	defer cancel()
	defer func() {
		if !errors.Is(err, atoll.ErrLeft) {
			r.removeSandbox(ctx)
		}
	}()
	if res, err = steps(r, ctx); errors.Is(err, atoll.ErrLeft) {
		return res, err
	}
	if r.restartable && !r.sent && errors.Is(context.Cause(ctx), atoll.ErrLeft) { // another process starts it again
		r.removeSandbox(ctx)
		return res, atoll.ErrLeft
	}
	if !r.isResultKept {
		res = r.decideOutcome(ctx, res, err)
		res = r.handle.finishTurn(res)
		r.keepResult(res)
	}
	r.saveChat(res)
	if !r.park(ctx, res) {
		r.removeSandbox(ctx)
	}
	r.journal.Finish(res, r.canResume())
	return res, nil
}

// timeLimit returns the turn's time limit: the assistant's or the default, or the
// request's if that is less. A caller with the scope of the host may request more for
// an agent without an assistant.
func (t *Turn) timeLimit() time.Duration {
	d := t.pipeline.opts.Timeout
	if s := t.assistant.Sandbox; s != nil && s.Timeout > 0 {
		d = s.Timeout
	}
	mayMore := t.assistant.ID == "" && slices.Contains(t.request.Account.Caller().Scopes, atoll.ScopeHost)
	if own := t.request.Timeout; own > 0 && (own < d || mayMore) {
		d = own
	}
	return d
}

// emitEvent emits an event, and stores its text.
func (r *turnRun) emitEvent(e agent.Event) {
	if e.Result != nil && e.Result.Code == "program" && r.agent.Features().Package != nil && r.placement.path == nil {
		told := *e.Result
		told.Message += fmt.Sprintf(" ('atoll agent install %s' gets it for sandboxes)", r.agent.Name())
		e.Result = &told
	}
	if e.Message != nil {
		r.noteMessage(e)
	}
	if e.Type == agent.TextDone && e.Parent == "" && r.text.Len() < chatBytes {
		r.text.WriteString(r.handle.lockedRedactor().RedactText(e.Text) + "\n\n")
	}
	r.handle.Emit(e)
}

// removeSandbox removes the turn's own sandbox; the workspace remains.
func (r *turnRun) removeSandbox(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if r.warm != nil {
		r.warm.endProcess()
		r.warm = nil
	}
	if err := r.destroy(ctx); err != nil && !errors.Is(err, atoll.ErrNotFound) {
		r.pipeline.log.Error("sandbox of a turn not removed", "turn", r.id, "err", err)
		return
	}
	r.destroy = func(context.Context) error { return nil }
}

// runSteps runs the steps of the turn: Create hook, model or agent, Next hook.
func (r *turnRun) runSteps(ctx context.Context) (agent.Result, error) {
	r.query, r.messages = r.modelOptions(), r.allMessages()
	if p := r.assistant.Problem; p != "" {
		r.emitEvent(agent.Event{Type: agent.Warning, Text: "assistant " + r.assistant.ID + ": " + p})
	}
	if r.hasHook("Create") || r.hasHook("Next") || r.agent == nil {
		if err := r.setSent(); err != nil { // hooks must not run twice
			return agent.Result{}, err
		}
	}
	if r.hasHook("Create") || r.hasHook("Next") {
		if err := r.ensureSandbox(ctx); err != nil { // hooks can use it
			return agent.Result{}, err
		}
	}
	res, skip, err := r.callCreateHook(ctx)
	if err != nil {
		return res, err
	}
	if !skip {
		if r.access, err = r.newAccess(); err != nil {
			return res, err
		}
		if r.agent != nil {
			res, err = r.runWithRetries(ctx, r.runAgentTurn)
		} else {
			res, err = r.runWithRetries(ctx, r.runModelTurn)
		}
		if errors.Is(err, atoll.ErrLeft) {
			return res, err
		}
	}
	return r.callNextHook(ctx, res, err)
}

// ensureSandbox creates the sandbox, if the assistant has one and it is not created yet.
func (r *turnRun) ensureSandbox(ctx context.Context) error {
	if r.assistant.Sandbox == nil || r.sb != nil {
		return nil
	}
	if r.takeWarm(ctx) {
		return nil
	}
	sb, gone, err := r.openSandbox(ctx, r.id, r.handle.RegistryID())
	r.destroy = gone
	if err != nil {
		return err
	}
	r.useSandbox(sb)
	return nil
}

// useSandbox makes a sandbox that of the turn.
func (r *turnRun) useSandbox(sb *fleet.Sandbox) {
	r.sb = sb
	r.handle.setSandbox(sb)
	r.journal.Update(func(rec *agent.SessionRecord) { rec.Sandbox = sb.ID() })
	r.handle.Update(func(rec *agent.Record) { rec.Sandbox = sb.ID() })
}

// newAccess returns the access to the model with the turn's budgets; nil: no model.
func (r *turnRun) newAccess() (*model.Access, error) {
	if r.connector == nil {
		return nil, nil
	}
	owner := r.chat.Owner
	b := r.assistant.Budget
	a := &model.Access{Connector: *r.connector, Caller: r.modelCaller(), Ledger: r.pipeline.opts.Ledger, Client: r.pipeline.opts.Client, Log: r.logModelUse, Progress: r.noteUsage, Now: r.pipeline.opts.Now}
	if r.agent != nil && !r.agent.Features().MaxTurns {
		if n := int64(r.maxTurns()); n > 0 && (b.Turn.Requests == 0 || n < b.Turn.Requests) {
			b.Turn.Requests = n
		}
	}
	for _, l := range []model.Limit{
		{Caller: model.Caller{Owner: owner, Turn: r.id}, Budget: r.request.Budget},
		{Caller: model.Caller{Owner: owner, Turn: r.id}, Budget: b.Turn},
		{Caller: model.Caller{Owner: owner, Chat: r.chat.ID}, Budget: b.Chat},
		{Caller: model.Caller{Owner: owner}, Budget: b.Owner},
		{Caller: model.Caller{Assistant: r.targetName()}, Budget: b.Assistant},
	} {
		if l.Budget != (model.Budget{}) {
			a.Limits = append(a.Limits, l)
		}
	}
	return a, nil
}

// callCreateHook calls the hook Create. skip: the model is not called, and res is the
// answer.
func (r *turnRun) callCreateHook(ctx context.Context) (res agent.Result, skip bool, err error) {
	if !r.hasHook("Create") {
		return res, false, nil
	}
	raw, err := r.assistant.Hooks.Call(ctx, "Create", r.hookScope(), encodeForHook(r.messages), r.hookOptions())
	r.out.closeOpen()
	if err != nil {
		return res, false, hookError(err)
	}
	if raw == nil || string(raw) == "null" {
		return res, false, nil
	}
	var c createResult
	if err := json.Unmarshal(raw, &c); err != nil {
		return res, false, fmt.Errorf("%w: hook Create returned an invalid request: %w", atoll.ErrInvalid, err)
	}
	if len(c.Messages) > 0 && string(c.Messages) != "null" {
		if r.messages, err = decodeFromHook(c.Messages, r.messages); err != nil {
			return res, false, err
		}
	}
	if err := r.applyCreateResult(&c); err != nil {
		return res, false, err
	}
	if c.Skip || c.Content != nil {
		res.Outcome = agent.OK
		if c.Content != nil {
			res.Text = *c.Content
			r.emitEvent(agent.Event{Type: agent.TextDone, Text: res.Text})
		}
		return res, true, nil
	}
	return res, false, nil
}

// applyCreateResult applies the model options of the hook's result.
func (r *turnRun) applyCreateResult(c *createResult) error {
	if c.Connector != "" {
		conn, err := model.SelectConnector(r.app.Connectors, c.Connector)
		if err != nil {
			return fmt.Errorf("hook Create: %w", err)
		}
		r.connector, r.connectorOptional = &conn, false
	}
	if c.Model != "" {
		r.query.Model = c.Model
	}
	if c.Temperature != nil {
		r.query.Temperature = c.Temperature
	}
	if c.TopP != nil {
		r.query.TopP = c.TopP
	}
	if c.MaxTokens > 0 {
		r.query.MaxTokens = c.MaxTokens
	}
	return nil
}

// hookError returns the error of a request that the Create hook rejected.
func hookError(err error) error {
	var thrown *hook.ThrownError
	if errors.As(err, &thrown) {
		return &atoll.Error{Op: "hook Create", Err: fmt.Errorf("%w: %w", atoll.ErrDenied, thrown)}
	}
	return fmt.Errorf("hook Create: %w", err)
}

// hookOptions returns the model options for hooks.
func (r *turnRun) hookOptions() map[string]any {
	o := map[string]any{"model": r.query.Model, "metadata": r.request.Metadata}
	if r.connector != nil {
		o["connector"] = r.connector.Name
	}
	return o
}

// hookScope returns the ctx of hooks.
func (r *turnRun) hookScope() *hook.Scope {
	owner := r.chat.Owner
	s := &hook.Scope{
		Values: map[string]any{
			"chat_id": r.chat.ID, "assistant_id": r.assistant.ID, "turn_id": r.id, "locale": r.request.Locale, "metadata": r.request.Metadata,
			"authorized": map[string]any{"user_id": owner.User, "team_id": owner.App, "app": owner.App},
		},
		Dir: r.placement.dir, Output: r.out, Memory: r.openMemory(), Limits: r.assistant.HookLimits, Log: r.pipeline.log.With("turn", r.id, "assistant", r.assistant.ID),
	}
	if r.sb != nil {
		s.Sandbox = r.sb
	}
	if procs := r.pipeline.opts.Processes; procs != nil {
		who := tool.Caller{Owner: owner, Chat: r.chat.ID, Assistant: r.targetName(), Turn: r.id}
		s.Process = func(ctx context.Context, name string, args []any) (any, error) {
			f := procs[name]
			if f == nil {
				return nil, fmt.Errorf("process %q: %w", truncateName(name), atoll.ErrNotFound)
			}
			return f(ctx, who, args)
		}
	}
	return s
}

// nextPayload is the argument of the hook Next.
type nextPayload struct {
	Messages   []hookMessage `json:"messages"`
	Completion any           `json:"completion"`
	Error      any           `json:"error,omitempty"`
}

// callNextHook calls the hook Next, which may replace the answer. A failure of the hook
// is emitted as a warning and changes nothing.
func (r *turnRun) callNextHook(ctx context.Context, res agent.Result, err error) (agent.Result, error) {
	if !r.hasHook("Next") {
		return res, err
	}
	p := nextPayload{Messages: encodeForHook(r.messages)}
	switch {
	case err != nil:
		p.Error = err.Error()
	case res.Outcome != agent.OK && res.Outcome != "":
		p.Error = strings.TrimSpace(string(res.Outcome) + " " + res.Message)
	}
	p.Completion = map[string]any{
		"content": res.Text, "structured": res.Structured, "outcome": res.Outcome, "session": res.Session, "model": res.Usage.Model,
		"usage": map[string]any{"prompt_tokens": res.Usage.Input, "completion_tokens": res.Usage.Output, "total_tokens": res.Usage.Input + res.Usage.Output},
	}
	raw, herr := r.assistant.Hooks.Call(ctx, "Next", r.hookScope(), p, r.hookOptions())
	r.out.closeOpen()
	if herr != nil {
		r.pipeline.log.Warn("hook Next failed", "turn", r.id, "assistant", r.assistant.ID, "err", herr)
		r.emitEvent(agent.Event{Type: agent.Warning, Text: "hook Next: " + herr.Error()})
		return res, err
	}
	if text, structured, ok := replacementAnswer(raw); ok && err == nil {
		res.Text = text
		if structured != nil {
			res.Structured = structured
		}
		r.emitEvent(agent.Event{Type: agent.TextDone, Text: text})
	}
	return res, err
}

// saveChat stores the chat for its next turn. After a failure, the client may repeat its last message or go on
// with or without the part of the answer that it has received: each of them continues this chat.
func (r *turnRun) saveChat(res agent.Result) {
	if r.chat.Turn == r.id {
		return // an earlier process has saved it
	}
	r.chat.Turn = r.id
	if res.Session != "" && r.agent != nil {
		r.chat.Sessions[r.targetName()] = res.Session
	}
	said := r.request.Messages
	if said == nil {
		said = r.allMessages()
	}
	var prints []fingerprints
	add := func(messages []dialect.Message) {
		if p := r.chatContext().computeFingerprints(messages); p.Said != "" && !slices.Contains(prints, p) {
			prints = append(prints, p)
		}
	}
	partial := strings.TrimSpace(r.text.String())
	for _, text := range []string{res.Text, partial} {
		if strings.TrimSpace(text) != "" {
			add(append(said[:len(said):len(said)], dialect.Message{Role: dialect.Assistant, Parts: textParts(text)}))
		}
	}
	if res.Outcome != agent.OK {
		add(said)
		prints = append(prints, r.chat.Prints[:min(len(r.chat.Prints), maxPrints)]...)
	}
	if len(prints) > 0 {
		_, before, last := splitConversation(said)
		if r.request.Messages == nil {
			before = r.chat.Messages
		}
		r.chat.Messages = append(append(before[:len(before):len(before)], last), r.steeredMessages()...)
		if text := cmp.Or(res.Text, partial); text != "" {
			r.chat.Messages = append(r.chat.Messages, dialect.Message{Role: dialect.Assistant, Parts: textParts(text)})
		}
	}
	if err := r.pipeline.chats.save(r.chat, prints); err != nil {
		r.pipeline.log.Error("chat not kept", "chat", r.chat.ID, "err", err)
		r.emitEvent(agent.Event{Type: agent.Warning, Text: "the chat could not be saved: its next turn starts a new conversation"})
	}
}

// maxPrints limits the fingerprints of a chat that a failed turn keeps.
const maxPrints = 8
