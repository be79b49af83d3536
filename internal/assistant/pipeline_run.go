package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/dialect"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/hook"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/tool"
)

// run is a turn that is being done.
type run struct {
	*Turn
	id   string
	desk *veil
	out  *output

	messages []dialect.Message // the conversation, as the hook left it
	query    dialect.Request   // what the model is asked with
	access   *model.Access     // nil: no model
	text     strings.Builder   // of all events, for who goes on with the chat

	sb   *fleet.Sandbox // nil: not made yet
	gone func(context.Context) error

	mu      sync.Mutex
	refused string // why the model endpoint refused, if it did; guarded by mu
}

// errTurnTime is why a turn ends that takes too long.
var errTurnTime = fmt.Errorf("%w: the turn took too long", atoll.ErrTimeout)

// cleanTime is how long the end of a turn may take to leave nothing behind.
const cleanTime = time.Minute

// Do does the turn, which has an id by now. What the agent did wrong is in the
// Result; an error means that there was no turn. When Do returns, what was made
// for it is gone and the chat is free.
func (t *Turn) Do(ctx context.Context, id string, desk Desk) (res agent.Result, err error) {
	defer t.let()
	noted := t.ask.Account.Note("turn", id, t.who())
	defer func() {
		if p := recover(); p != nil {
			noted(fmt.Errorf("panic: %v", p))
			panic(p)
		}
		noted(errors.Join(err, outcome(res)))
	}()
	r := &run{Turn: t, id: id, desk: &veil{Desk: desk}, gone: func(context.Context) error { return nil }}
	r.out = &output{emit: r.emit, open: make(map[string]*message)}
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit(), errTurnTime)
	defer cancel()
	defer r.clean(ctx)
	res, err = r.desk.end(r.do(ctx))
	return r.settle(ctx, res, err)
}

// outcome is the error that the audit has of a turn that did not go well.
func outcome(res agent.Result) error {
	switch res.Outcome {
	case agent.OK, "":
		return nil
	case agent.Timeout:
		return atoll.ErrTimeout
	case agent.Spent:
		return atoll.ErrQuota
	case agent.Aborted:
		return context.Canceled
	}
	return fmt.Errorf("%w: %s", atoll.ErrUnavailable, res.Code)
}

// limit is how long the turn may take: what the request says, where that is
// less. Only who may name what is the host's may say more, for an agent of no
// assistant.
func (t *Turn) limit() time.Duration {
	d := t.p.opts.Timeout
	if s := t.made.Sandbox; s != nil && s.Timeout > 0 {
		d = s.Timeout
	}
	mayMore := t.made.ID == "" && slices.Contains(t.ask.Account.Caller().Scopes, atoll.ScopeHost)
	if own := t.ask.Timeout; own > 0 && (own < d || mayMore) {
		d = own
	}
	return d
}

// emit tells of an event, and keeps what is said.
func (r *run) emit(e agent.Event) {
	if e.Result != nil && e.Result.Code == "program" && r.with.Features().Package != nil && r.plan.path == nil {
		told := *e.Result
		told.Message += fmt.Sprintf(" ('atoll agent install %s' gets it for sandboxes)", r.with.Name())
		e.Result = &told
	}
	if e.Type == agent.TextDone && e.Parent == "" && r.text.Len() < chatBytes {
		r.text.WriteString(r.desk.redactor().Text(e.Text) + "\n\n")
	}
	r.desk.Emit(e)
}

// clean leaves nothing behind but the workspace.
func (r *run) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if err := r.gone(ctx); err != nil && !errors.Is(err, atoll.ErrNotFound) {
		r.p.log.Error("sandbox of a turn not removed", "turn", r.id, "err", err)
	}
}

// do is the path: hook, model or agent, hook.
func (r *run) do(ctx context.Context) (agent.Result, error) {
	r.query, r.messages = r.options(), r.conversation()
	if r.hooked("Create") || r.hooked("Next") {
		if err := r.need(ctx); err != nil { // hooks have the sandbox in reach
			return agent.Result{}, err
		}
	}
	res, skip, err := r.before(ctx)
	if err != nil {
		return res, err
	}
	if !skip {
		if r.access, err = r.newAccess(); err != nil {
			return res, err
		}
		if r.with != nil {
			res, err = r.agentTurn(ctx)
		} else {
			res, err = r.modelTurn(ctx)
		}
		r.count(&res)
	}
	return r.after(ctx, res, err)
}

// need makes the sandbox, if the assistant has one and it is not there yet.
func (r *run) need(ctx context.Context) error {
	if r.made.Sandbox == nil || r.sb != nil {
		return nil
	}
	sb, gone, err := r.box(ctx, r.id)
	r.gone = gone
	if err != nil {
		return err
	}
	r.sb = sb
	r.desk.over(sb)
	r.desk.Note(func(rec *agent.Record) { rec.Sandbox = sb.ID() })
	return nil
}

// newAccess returns the way to the model for this turn.
func (r *run) newAccess() (*model.Access, error) {
	if r.conn == nil {
		return nil, nil
	}
	owner := r.chat.Owner
	who := model.Who{Owner: owner, Chat: r.chat.ID, Assistant: r.who(), Turn: r.id}
	b := r.made.Budget
	a := &model.Access{Connector: *r.conn, Who: who, Ledger: r.p.opts.Ledger, Client: r.p.opts.Client, Log: r.spent, Now: r.p.opts.Now}
	if r.with != nil && !r.with.Features().MaxTurns {
		if n := int64(r.maxTurns()); n > 0 && (b.Turn.Requests == 0 || n < b.Turn.Requests) {
			b.Turn.Requests = n
		}
	}
	for _, l := range []model.Limit{
		{Who: model.Who{Owner: owner, Turn: r.id}, Budget: r.ask.Budget},
		{Who: model.Who{Owner: owner, Turn: r.id}, Budget: b.Turn},
		{Who: model.Who{Owner: owner, Chat: r.chat.ID}, Budget: b.Chat},
		{Who: model.Who{Owner: owner}, Budget: b.Owner},
		{Who: model.Who{Assistant: r.who()}, Budget: b.Assistant},
	} {
		if l.Budget != (model.Budget{}) {
			a.Limits = append(a.Limits, l)
		}
	}
	return a, nil
}

// spent notes a request to the model.
func (r *run) spent(l model.Line) {
	if l.Refused != "" {
		r.mu.Lock()
		r.refused = l.Refused
		r.mu.Unlock()
	}
	r.p.log.Debug("model asked", "turn", r.id, "connector", l.Connector, "model", l.Model, "status", l.Status, "input", l.Usage.Input,
		"output", l.Usage.Output, "took", l.Duration, "first", l.First, "refused", l.Refused)
}

// count puts what was counted into the result, in place of what the agent told.
func (r *run) count(res *agent.Result) {
	if r.access == nil {
		return
	}
	s := r.access.Spent()
	if s.Requests > 0 {
		name := res.Usage.Model
		res.Usage = agent.Usage{
			Model: name, Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite, Requests: s.Requests, Cost: s.Cost, Counted: true,
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused != "" && res.Outcome == agent.Failed && s.Refused > 0 {
		res.Outcome, res.Code, res.Message = agent.Spent, "budget", r.refused
	}
}

// before calls the hook Create. skip: there is nothing more to ask, and res is
// the answer.
func (r *run) before(ctx context.Context) (res agent.Result, skip bool, err error) {
	if !r.hooked("Create") {
		return res, false, nil
	}
	raw, err := r.made.Hooks.Call(ctx, "Create", r.scope(), forHook(r.messages), r.hookOptions())
	r.out.end()
	if err != nil {
		return res, false, rejected(err)
	}
	if raw == nil || string(raw) == "null" {
		return res, false, nil
	}
	var c created
	if err := json.Unmarshal(raw, &c); err != nil {
		return res, false, fmt.Errorf("%w: hook Create returned what is no request: %w", atoll.ErrInvalid, err)
	}
	if len(c.Messages) > 0 && string(c.Messages) != "null" {
		if r.messages, err = fromHook(c.Messages, r.messages); err != nil {
			return res, false, err
		}
	}
	if err := r.adopt(&c); err != nil {
		return res, false, err
	}
	if c.Skip || c.Content != nil {
		res.Outcome = agent.OK
		if c.Content != nil {
			res.Text = *c.Content
			r.emit(agent.Event{Type: agent.TextDone, Text: res.Text})
		}
		return res, true, nil
	}
	return res, false, nil
}

// adopt takes over how the hook wants the model asked.
func (r *run) adopt(c *created) error {
	if c.Connector != "" {
		conn, err := model.Pick(r.app.Connectors, c.Connector)
		if err != nil {
			return fmt.Errorf("hook Create: %w", err)
		}
		r.conn, r.free = &conn, false
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

// rejected is the error of a request that a hook did not let pass.
func rejected(err error) error {
	var thrown *hook.Thrown
	if errors.As(err, &thrown) {
		return &atoll.Error{Op: "hook Create", Err: fmt.Errorf("%w: %w", atoll.ErrDenied, thrown)}
	}
	return fmt.Errorf("hook Create: %w", err)
}

// hookOptions are what hooks see of how the model is asked.
func (r *run) hookOptions() map[string]any {
	o := map[string]any{"model": r.query.Model, "metadata": r.ask.Metadata}
	if r.conn != nil {
		o["connector"] = r.conn.Name
	}
	return o
}

// scope is what hooks see.
func (r *run) scope() *hook.Scope {
	owner := r.chat.Owner
	s := &hook.Scope{
		Values: map[string]any{
			"chat_id": r.chat.ID, "assistant_id": r.made.ID, "turn_id": r.id, "locale": r.ask.Locale, "metadata": r.ask.Metadata,
			"authorized": map[string]any{"user_id": owner.User, "team_id": owner.App, "app": owner.App},
		},
		Dir: r.plan.dir, Output: r.out, Memory: r.memory(), Limits: r.made.HookLimits, Log: r.p.log.With("turn", r.id, "assistant", r.made.ID),
	}
	if r.sb != nil {
		s.Sandbox = r.sb
	}
	if procs := r.p.opts.Processes; procs != nil {
		who := tool.Who{Owner: owner, Chat: r.chat.ID, Assistant: r.who(), Turn: r.id}
		s.Process = func(ctx context.Context, name string, args []any) (any, error) {
			f := procs[name]
			if f == nil {
				return nil, fmt.Errorf("process %q: %w", short(name), atoll.ErrNotFound)
			}
			return f(ctx, who, args)
		}
	}
	return s
}

// payload is what the hook Next gets.
type payload struct {
	Messages   []spoken `json:"messages"`
	Completion any      `json:"completion"`
	Error      any      `json:"error,omitempty"`
}

// after calls the hook Next, which may replace the answer. That it fails is told
// and changes nothing.
func (r *run) after(ctx context.Context, res agent.Result, err error) (agent.Result, error) {
	if !r.hooked("Next") {
		return res, err
	}
	p := payload{Messages: forHook(r.messages)}
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
	raw, herr := r.made.Hooks.Call(ctx, "Next", r.scope(), p, r.hookOptions())
	r.out.end()
	if herr != nil {
		r.p.log.Warn("hook Next failed", "turn", r.id, "assistant", r.made.ID, "err", herr)
		r.emit(agent.Event{Type: agent.Warning, Text: "hook Next: " + herr.Error()})
		return res, err
	}
	if text, structured, ok := replaced(raw); ok && err == nil {
		res.Text = text
		if structured != nil {
			res.Structured = structured
		}
		r.emit(agent.Event{Type: agent.TextDone, Text: text})
	}
	return res, err
}

// settle keeps what the next turn of the chat needs.
func (r *run) settle(ctx context.Context, res agent.Result, err error) (agent.Result, error) {
	if err != nil {
		return res, err
	}
	if ctx.Err() != nil && res.Outcome == agent.Aborted && errors.Is(context.Cause(ctx), atoll.ErrTimeout) {
		res.Outcome, res.Code = agent.Timeout, "timeout"
	}
	if res.Session != "" && r.with != nil {
		r.chat.Sessions[r.who()] = res.Session
	}
	said := r.ask.Messages
	if said == nil {
		said = r.conversation()
	}
	var prints []imprint
	for _, text := range []string{res.Text, strings.TrimSpace(r.text.String())} {
		if strings.TrimSpace(text) == "" {
			continue
		}
		answer := dialect.Message{Role: dialect.Assistant, Parts: textParts(text)}
		prints = append(prints, r.setting().imprint(append(said[:len(said):len(said)], answer)))
	}
	if len(prints) > 0 {
		answer := dialect.Message{Role: dialect.Assistant, Parts: textParts(res.Text)}
		_, before, last := split(said)
		if r.ask.Messages == nil {
			before = r.chat.Messages
		}
		r.chat.Messages = append(append(before[:len(before):len(before)], last), answer)
	}
	if serr := r.p.chats.save(r.chat, prints); serr != nil {
		r.p.log.Error("chat not kept", "chat", r.chat.ID, "err", serr)
		r.emit(agent.Event{Type: agent.Warning, Text: "the chat could not be kept: the next turn of it begins anew"})
	}
	return res, nil
}
