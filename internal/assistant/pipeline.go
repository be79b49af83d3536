package assistant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/dialect"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/hook"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/skill"
	"github.com/atoll-sandbox/atoll/internal/spell"
	"github.com/atoll-sandbox/atoll/internal/tool"
)

// App is what an app directory holds, as it is at one moment.
type App struct {
	Assistants map[string]*Assistant
	Connectors map[string]model.Connector
	Tools      *tool.Servers
	Skills     []skill.Skill // for agents that are asked without an assistant
}

// Program is an agent's program on this host, as sandboxes get to see it.
type Program struct {
	Mounts []atoll.Mount
	Path   []string // directories inside that programs are looked for in first
}

// Options say what a pipeline works with.
type Options struct {
	Agents map[string]agent.Agent
	App    func(ctx context.Context) (*App, error) // as it is now; what is wrong with single files is no error

	// Program finds an agent's program. Nil, or a Program without mounts: it
	// is looked for on PATH in the sandbox.
	Program func(a agent.Agent) (Program, error)

	ToolProgram func() (string, error) // finds the file that is placed as atoll-tool
	Processes   tool.Processes         // what hooks may call
	Ledger      model.Ledger           // nil: in memory of each turn
	Client      *http.Client           // that asks models; nil: the default

	Dir       string                                                  // of chats and memories; it is made
	Connector string                                                  // of requests that name none, nor does their assistant
	Driver    func(ctx context.Context, asked string) (string, error) // of sandboxes for agents with programs of their own; asked is refused if it can't have them. Nil: whatever is asked
	Timeout   time.Duration                                           // of a turn that says none; 0: 1 hour, negative: none
	Patience  time.Duration                                           // until a permission that nobody answers is denied; 0: that of agents
	Keep      time.Duration                                           // of chats after their last turn; 0: 30 days

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// Pipeline is the one path that every request takes: what it means, the hook
// before, a model or an agent, the hook after. Its methods may be called at once
// from many goroutines.
type Pipeline struct {
	opts  Options
	log   *slog.Logger
	chats *chats
}

// Desk is where a turn is under way: who listens, who decides.
type Desk interface {
	Emit(e agent.Event)
	Note(f func(r *agent.Record))
	Decide(ctx context.Context, p agent.Permission) (agent.Decision, error)
	// Want has the client call a tool of its own.
	Want(ctx context.Context, call agent.ToolCall) (text string, failed bool, err error)
	Interrupted() <-chan struct{}
}

// Ask is a request and who makes it.
type Ask struct {
	agent.Request

	Account *fleet.Account

	// What a client's dialect says besides. Messages is the whole conversation,
	// the newest last; nil: Prompt is all, and the chat's own messages are the
	// rest.
	Messages []dialect.Message
	Model    dialect.Request // temperature and the like; its messages and tools are not looked at
	Tools    []dialect.Tool  // that the client calls itself
	Metadata map[string]string
	Locale   string
}

// New returns a pipeline.
func New(o Options) (*Pipeline, error) {
	if o.Timeout == 0 {
		o.Timeout = time.Hour
	}
	const forEver = 100 * 365 * 24 * time.Hour
	for _, d := range []*time.Duration{&o.Timeout, &o.Patience, &o.Keep} {
		if *d < 0 {
			*d = forEver
		}
	}
	if o.Keep == 0 {
		o.Keep = 30 * 24 * time.Hour
	}
	p := &Pipeline{opts: o, log: o.Log}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if p.chats, err = openChats(o.Dir, o.Keep, p.now, p.log); err != nil {
		return nil, fmt.Errorf("chats: %w", err)
	}
	return p, nil
}

func (p *Pipeline) now() time.Time {
	if p.opts.Now != nil {
		return p.opts.Now().UTC()
	}
	return time.Now().UTC()
}

// Agents lists the agents that requests may name.
func (p *Pipeline) Agents() map[string]agent.Agent { return p.opts.Agents }

// Assistants returns the assistants that there are now, by their ids.
func (p *Pipeline) Assistants(ctx context.Context) (map[string]*Assistant, error) {
	app, err := p.opts.App(ctx)
	if err != nil {
		return nil, err
	}
	return app.Assistants, nil
}

// Turn is a request that was understood, and can be done once.
type Turn struct {
	p    *Pipeline
	ask  *Ask
	app  *App
	made *Assistant  // what is asked; not nil
	with agent.Agent // nil: the model is asked directly
	conn *model.Connector
	free bool // nobody named the connector, and the agent may do without
	chat *chat
	plan placing
	let  func() // lets go of the chat
}

// Prepare understands a request: what it names must be there, and its chat must
// be free. The caller then calls Do or Drop of what it returns.
func (p *Pipeline) Prepare(ctx context.Context, ask *Ask) (*Turn, error) {
	t, err := p.prepare(ctx, ask)
	var known *atoll.Error
	if err != nil && !errors.As(err, &known) {
		return nil, &atoll.Error{Op: "turn", Err: err}
	}
	return t, err
}

func (p *Pipeline) prepare(ctx context.Context, ask *Ask) (_ *Turn, err error) {
	if err := ask.Account.May("turn", atoll.ScopeRun); err != nil {
		return nil, err
	}
	app, err := p.opts.App(ctx)
	if err != nil {
		return nil, err
	}
	t := &Turn{p: p, ask: ask, app: app}
	if err := t.resolve(); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	owner := ask.Account.Caller().Owner
	if t.chat, t.let, err = p.chats.take(owner, ask.Chat, t.setting(), ask.Messages); err != nil {
		return nil, err
	}
	ask.Chat = t.chat.ID
	if t.plan, err = t.place(); err != nil {
		t.let()
		return nil, err
	}
	return t, nil
}

// who names what is asked, for chats and audit.
func (t *Turn) who() string {
	if t.made.ID != "" {
		return t.made.ID
	}
	return "agent/" + t.made.Sandbox.Command
}

// setting is what the turn's conversation is had in.
func (t *Turn) setting() setting {
	return setting{who: t.who(), user: t.ask.Model.User, metadata: t.ask.Metadata}
}

// resolve finds what the request names.
func (t *Turn) resolve() error {
	r := &t.ask.Request
	switch {
	case r.Agent == "" && r.Assistant == "":
		return fieldError("agent", "%w: one of agent and assistant must be set", atoll.ErrInvalid)
	case r.Agent != "" && r.Assistant != "":
		return fieldError("agent", "%w: agent and assistant: only one of them may be set", atoll.ErrInvalid)
	case r.Assistant != "":
		t.made = t.app.Assistants[r.Assistant]
		if t.made == nil {
			return missing("assistant", r.Assistant, t.app.Assistants)
		}
	default:
		t.made = &Assistant{Skills: t.app.Skills, Sandbox: &Sandbox{Command: r.Agent, Ask: r.Ask, Trust: r.Trust}}
	}
	if box := t.made.Sandbox; box != nil && box.Command != "" {
		t.with = t.p.opts.Agents[box.Command]
		if t.with == nil {
			return missing("agent", box.Command, t.p.opts.Agents)
		}
	}
	return t.connect()
}

// connect finds the connector.
func (t *Turn) connect() error {
	name := t.ask.Connector
	if name == "" {
		name = t.made.Connector
	}
	if name == "" {
		name = t.p.opts.Connector
	}
	need, likes := t.with == nil, []dialect.Name(nil)
	if !need {
		f := t.with.Features()
		need = f.API != "" && f.Package != nil && len(t.ask.Command) == 0 // commands that nobody knows may need none
		likes = append(likes, dialect.Name(f.API))
	}
	if name == "" && !need && len(t.app.Connectors) == 0 {
		return nil
	}
	if name == "" && len(t.app.Connectors) == 0 {
		return fieldError("connector", "%w: there is no way to a model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY for atoll, or put a file into connectors/ of its app directory", atoll.ErrInvalid)
	}
	c, err := model.Pick(t.app.Connectors, name, likes...)
	if err != nil && name == "" && !need {
		return nil
	}
	if err != nil {
		return fieldError("connector", "%w", err)
	}
	t.conn, t.free = &c, name == "" && !need
	return nil
}

// missing says what was meant by a name that is not there, or what there is.
func missing[T any](what, name string, all map[string]T) error {
	known := slices.Sorted(maps.Keys(all))
	hint := spell.Hint(name, known)
	if hint == "" && len(known) > 0 {
		hint = "; there is: " + strings.Join(known[:min(20, len(known))], ", ")
	}
	return fmt.Errorf("%s %q: %w%s", what, short(name), atoll.ErrNotFound, hint)
}

// trial asks the agent whether it can do the turn, before anything is made for
// it.
func (t *Turn) trial() error {
	if t.with == nil {
		return nil
	}
	turn := t.ask.Turn
	turn.Prompt, turn.Skills, turn.System = agent.Text("?"), nil, ""
	box := t.made.Sandbox
	turn.Ask = turn.Ask || box.Ask
	if t.made.ID != "" {
		turn.Command, turn.Arguments = box.Program, box.Arguments
	}
	if !t.with.Features().MaxTurns {
		turn.MaxTurns = 0 // the requests of its model are bounded
	}
	_, err := t.with.Plan(&turn, agent.Site{Dir: atoll.DefaultDir, State: stateDir, Model: "http://127.0.0.1:1"})
	return err
}

// check refuses what the request may not say.
func (t *Turn) check() error {
	r := &t.ask.Request
	var errs []error
	bad := func(field, format string, a ...any) { errs = append(errs, fieldError(field, format, a...)) }
	if len(r.Prompt) == 0 && len(t.ask.Messages) == 0 {
		bad("prompt", "prompt: there is nothing to do")
	}
	for i, c := range r.Prompt {
		if c.Path != "" {
			bad(fmt.Sprintf("prompt[%d].path", i), "prompt[%d].path: is only told, never asked", i)
		}
	}
	if t.made.ID != "" && (r.Config != nil || len(r.Command) > 0 || r.Trust) {
		bad("config", "config, command, trust: an assistant says them itself")
	}
	if t.with == nil && r.Sandbox != "" {
		bad("sandbox", "sandbox: this assistant works in none")
	}
	if r.Sandbox != "" && (r.Config != nil || r.Workspace != "") {
		bad("sandbox", "sandbox: one that is there has its config and workspaces")
	}
	if r.Workspace != "" {
		if err := atoll.CheckName(r.Workspace); err != nil {
			bad("workspace", "workspace: %w", err)
		}
	}
	if r.Config != nil {
		if err := r.Config.Check(); err != nil {
			errs = append(errs, err)
		}
	}
	if b := r.Budget; b.Requests < 0 || b.Input < 0 || b.Output < 0 || b.Tokens < 0 || b.Cost < 0 || b.Time < 0 {
		bad("budget", "budget: must not be negative; 0 is no bound")
	}
	if r.Timeout < 0 || r.MaxTurns < 0 {
		bad("timeout", "timeout, max_turns: must not be negative")
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, errors.Join(errs...))
	}
	return t.trial()
}

// fieldError is a mistake in one field of a request.
func fieldError(field, format string, a ...any) error {
	return &atoll.FieldError{Field: field, Err: fmt.Errorf(format, a...)}
}

// short cuts a name for a message.
func short(s string) string { return s[:min(len(s), 100)] }

// Record is what is known of the turn before it begins.
func (t *Turn) Record() agent.Record {
	r := agent.Record{
		ID: t.ask.ID, Owner: t.ask.Account.Caller().Owner, Assistant: t.made.ID, Chat: t.chat.ID, Sandbox: t.ask.Sandbox, Workspace: t.plan.workspace,
	}
	if t.with != nil {
		r.Agent = t.with.Name()
	}
	return r
}

// Drop gives up a turn that was not begun.
func (t *Turn) Drop() { t.let() }

// options returns what the model is asked with, as far as request and assistant
// say it.
func (t *Turn) options() dialect.Request {
	q, own := t.ask.Model, t.made.Options
	q.Messages, q.Tools = nil, nil
	if q.Model = t.ask.Request.Model; q.Model == "" {
		q.Model = own.Model
	}
	if q.Temperature == nil {
		q.Temperature = own.Temperature
	}
	if q.TopP == nil {
		q.TopP = own.TopP
	}
	if q.MaxTokens == 0 {
		q.MaxTokens = own.MaxTokens
	}
	if q.Think == 0 {
		q.Think = own.Think
	}
	if q.Effort == "" {
		q.Effort = own.Effort
	}
	if q.Stop == nil {
		q.Stop = slices.Clone(own.Stop)
	}
	if q.Schema == nil {
		q.Schema = own.Schema
	}
	if t.ask.Schema != nil {
		q.Schema = t.ask.Schema
	}
	return q
}

// hooked reports whether the assistant has a hook.
func (t *Turn) hooked(name string) bool { return t.made.Hooks != nil && t.made.Hooks.Has(name) }

// interface guards
var _ hook.Memory = (*memory)(nil)
