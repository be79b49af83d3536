package assistant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/skill"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/agents/session"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// App is the content of an app directory at one moment.
type App struct {
	Assistants map[string]*Assistant
	Faults     map[string]error // what is wrong with the files of assistants, by their ids
	Connectors map[string]model.Connector
	Tools      *tool.Servers
	Skills     []skill.Skill // for agents that are requested without an assistant
}

// Program is an agent's program on this host, as sandboxes mount it.
type Program struct {
	Mounts []atoll.Mount
	Path   []string // directories inside to prepend to PATH
}

// Options configure a pipeline.
type Options struct {
	Agents map[string]agent.Agent
	App    func(ctx context.Context) (*App, error) // returns the current app; faults of single files are no error

	// FindProgram finds an agent's program. Nil, or a Program without mounts: it
	// is looked up on PATH in the sandbox.
	FindProgram func(a agent.Agent) (Program, error)

	ToolProgram func() (string, error) // returns the file to place as atoll-tool
	Processes   tool.Processes         // that hooks may call
	Ledger      model.Ledger           // nil: in memory of each turn
	Client      *http.Client           // for requests to models; nil: one that all turns share

	Dir               string                                                  // of chats and memories; it is created
	Connector         string                                                  // default of requests and assistants that name none
	ChooseDriver      func(ctx context.Context, asked string) (string, error) // returns the driver for agents with programs of their own, or an error if asked can't run them. Nil: the driver that is asked for
	Images            map[string]string                                       // default images of agents' sandboxes, by agent
	Timeout           time.Duration                                           // default of a turn; 0: 1 hour, negative: none
	PermissionTimeout time.Duration                                           // until an unanswered permission is denied; 0: that of agents
	ChatRetention     time.Duration                                           // of chats after their last turn; 0: 30 days

	// AgentIdle is how long an agent's process and sandbox wait for the next turn of their chat, if the process accepts many
	// prompts. 0: they end with the turn.
	AgentIdle  time.Duration
	IdleAgents int // that wait at once; 0: 8

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// Pipeline is the path of every request: it resolves the request, calls the hook
// Create, a model or an agent, and the hook Next. Its methods are safe for concurrent
// use.
type Pipeline struct {
	opts  Options
	log   *slog.Logger
	chats *chatStore

	sessions *session.Store
	warm     *warmPool
}

// TurnHandle is a running turn: it receives events and answers permission requests.
type TurnHandle interface {
	Emit(e agent.Event)
	Update(f func(r *agent.Record))
	Decide(ctx context.Context, p agent.Permission) (agent.Decision, error)
	// CallClientTool has the client run one of its own tools.
	CallClientTool(ctx context.Context, call agent.ToolCall) (text string, failed bool, err error)
	Interrupted() <-chan struct{}

	// RegistryID returns the id of the registry of turns.
	RegistryID() string
	// Keep stores what another process needs to continue the turn, and returns the directory for
	// agent.Job.Journal; "" if the turn ends with this process.
	Keep(state any) (journal string, err error)
	// KeepResult stores the result and what another process needs to do what remains after it.
	KeepResult(res agent.Result, state any) error
	// Begin marks that a queued turn is the next one of its chat. It waits until the owner may have one more running turn, and
	// returns ErrState if the turn is interrupted meanwhile.
	Begin(ctx context.Context) error
	// SetSent marks that the agent or the model has the prompt: a queued turn is not started again from here on.
	SetSent() error
	// Receive sets what receives messages for the agent; nil: nothing does.
	Receive(f func(context.Context, agent.Message) error)
	// Journal returns the directory of Keep, of a turn that is continued.
	Journal() string
	// SkipReplayedEvents drops the next events that an earlier process has emitted.
	SkipReplayedEvents()
}

// TurnRequest is a request and its caller.
type TurnRequest struct {
	agent.Request

	Account *fleet.Account

	// Messages is the whole conversation that the client sent, the newest message
	// last; nil: Prompt is the newest message, and the chat's stored messages are
	// the earlier ones.
	Messages []dialect.Message
	Model    dialect.Request // temperature and the like; its messages and tools are ignored
	Tools    []dialect.Tool  // that the client runs itself
	// AnswersCalls has the turn wait for the results of the client's tools. Without it, a model that calls only those ends the turn, and the
	// client continues with a new request.
	AnswersCalls bool
	Metadata     map[string]string
	Locale       string

	ticket *ticket // of a queued turn
}

// New returns a pipeline.
func New(o Options) (*Pipeline, error) {
	if o.Timeout == 0 {
		o.Timeout = time.Hour
	}
	const forEver = 100 * 365 * 24 * time.Hour
	for _, d := range []*time.Duration{&o.Timeout, &o.PermissionTimeout, &o.ChatRetention} {
		if *d < 0 {
			*d = forEver
		}
	}
	if o.ChatRetention == 0 {
		o.ChatRetention = 30 * 24 * time.Hour
	}
	if o.Client == nil {
		o.Client = model.NewClient() // one for all turns: each client keeps idle connections
	}
	p := &Pipeline{opts: o, log: o.Log}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if p.chats, err = openChats(o.Dir, o.ChatRetention, p.currentTime, p.log); err != nil {
		return nil, fmt.Errorf("chats: %w", err)
	}
	p.warm = newWarmPool(&o, func(w *warmAgent, err error) {
		p.log.Error("sandbox of an idle agent not removed", "chat", w.chat, "sandbox", w.sandbox, "err", err)
	})
	p.sessions = session.Open(session.Options{Dir: o.Dir, Now: p.currentTime, Log: p.log})
	return p, nil
}

// Sessions returns the sessions of chats.
func (p *Pipeline) Sessions() *session.Store { return p.sessions }

func (p *Pipeline) currentTime() time.Time {
	if p.opts.Now != nil {
		return p.opts.Now().UTC()
	}
	return time.Now().UTC()
}

// Agents returns the agents that requests may name.
func (p *Pipeline) Agents() map[string]agent.Agent { return p.opts.Agents }

// Assistants returns the current assistants by their ids.
func (p *Pipeline) Assistants(ctx context.Context) (map[string]*Assistant, error) {
	app, err := p.opts.App(ctx)
	if err != nil {
		return nil, err
	}
	return app.Assistants, nil
}

// Turn is a resolved request. It can be run once.
type Turn struct {
	pipeline          *Pipeline
	request           *TurnRequest
	app               *App
	assistant         *Assistant  // the target; not nil
	agent             agent.Agent // nil: the model is called directly
	connector         *model.Connector
	connectorOptional bool // no connector was named, and the agent can run without one
	chat              *chat
	placement         placement
	release           func() // unlocks the chat
}

// Prepare resolves a request: everything that it names must exist, and its chat must
// not be busy. The caller then calls Do or Drop of the result.
func (p *Pipeline) Prepare(ctx context.Context, ask *TurnRequest) (*Turn, error) {
	t, err := p.prepareTurn(ctx, ask)
	var known *atoll.Error
	if err != nil && !errors.As(err, &known) {
		return nil, &atoll.Error{Op: "turn", Err: err}
	}
	return t, err
}

// resolveRequest checks a request, and returns a turn with its app, assistant and agent.
func (p *Pipeline) resolveRequest(ctx context.Context, ask *TurnRequest) (*Turn, error) {
	if err := ask.Account.RequireScope("turn", atoll.ScopeRun); err != nil {
		return nil, err
	}
	app, err := p.opts.App(ctx)
	if err != nil {
		return nil, err
	}
	t := &Turn{pipeline: p, request: ask, app: app}
	if err := t.resolveNames(); err != nil {
		return nil, err
	}
	return t, t.checkRequest()
}

func (p *Pipeline) prepareTurn(ctx context.Context, ask *TurnRequest) (_ *Turn, err error) {
	t, err := p.resolveRequest(ctx, ask)
	if err != nil {
		return nil, err
	}
	owner := ask.Account.Caller().Owner
	if t.chat, t.release, err = p.chats.acquireChat(owner, ask.Chat, t.chatContext(), ask.Messages); err != nil {
		return nil, err
	}
	ask.Chat = t.chat.ID
	t.adoptSession()
	if t.placement, err = t.planPlacement(); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// targetName returns the name of the assistant or agent, for chats and the audit log.
func (t *Turn) targetName() string {
	command := ""
	if t.assistant.Sandbox != nil {
		command = t.assistant.Sandbox.Command
	}
	return targetOf(t.assistant.ID, command)
}

// targetOf returns the name of an assistant, or of an agent without one.
func targetOf(assistant, agent string) string {
	if assistant != "" {
		return assistant
	}
	return "agent/" + agent
}

// chatContext returns the context of the turn's conversation.
func (t *Turn) chatContext() chatContext {
	return chatContext{target: t.targetName(), user: t.request.Model.User, metadata: t.request.Metadata, ticket: t.request.ticket}
}

// resolveNames finds the assistant, agent and connector of the request.
func (t *Turn) resolveNames() error {
	r := &t.request.Request
	switch {
	case r.Agent == "" && r.Assistant == "":
		return fieldError("agent", "%w: one of agent and assistant must be set", atoll.ErrInvalid)
	case r.Agent != "" && r.Assistant != "":
		return fieldError("agent", "%w: agent and assistant: only one of them may be set", atoll.ErrInvalid)
	case r.Assistant != "":
		t.assistant = t.app.Assistants[r.Assistant]
		if fault := t.app.Faults[r.Assistant]; t.assistant == nil && fault != nil {
			return fmt.Errorf("assistant %q: %w: its files are invalid: %s; 'atoll assistant check %s' lists all problems", r.Assistant, atoll.ErrUnavailable, FirstProblem(fault), r.Assistant)
		}
		if t.assistant == nil {
			return notFoundError("assistant", r.Assistant, t.app.Assistants)
		}
	default:
		t.assistant = &Assistant{Skills: t.app.Skills, Sandbox: &Sandbox{Command: r.Agent, Ask: r.Ask, Trust: r.Trust}}
	}
	if box := t.assistant.Sandbox; box != nil && box.Command != "" {
		t.agent = t.pipeline.opts.Agents[box.Command]
		if t.agent == nil {
			return notFoundError("agent", box.Command, t.pipeline.opts.Agents)
		}
	}
	return t.findConnector()
}

// findConnector finds the connector.
func (t *Turn) findConnector() error {
	name := t.request.Connector
	if name == "" {
		name = t.assistant.Connector
	}
	if name == "" {
		name = t.pipeline.opts.Connector
	}
	need, likes := t.agent == nil, []dialect.Name(nil)
	if !need {
		f := t.agent.Features()
		need = f.API != "" && f.Package != nil && len(t.request.Command) == 0 // other commands may need none
		likes = append(likes, dialect.Name(f.API))
	}
	if name == "" && !need && len(t.app.Connectors) == 0 {
		return nil
	}
	if name == "" && len(t.app.Connectors) == 0 {
		return fieldError("connector", "%w: no connector: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY in the environment of atoll, or put a file into connectors/ of its app directory (~/.config/atoll, or $ATOLL_APP); a server has those that it was started with: 'atoll serve --stop' ends one", atoll.ErrInvalid)
	}
	c, err := model.SelectConnector(t.app.Connectors, name, likes...)
	if err != nil && name == "" && !need {
		return nil
	}
	if err != nil {
		return fieldError("connector", "%w", err)
	}
	t.connector, t.connectorOptional = &c, name == "" && !need
	return nil
}

// notFoundError returns ErrNotFound with a similar name, or with the existing names.
func notFoundError[T any](what, name string, all map[string]T) error {
	known := slices.Sorted(maps.Keys(all))
	hint := suggest.Hint(name, known)
	if hint == "" && len(known) > 0 {
		hint = "; there is: " + strings.Join(known[:min(20, len(known))], ", ")
	}
	return fmt.Errorf("%s %q: %w%s", what, truncateName(name), atoll.ErrNotFound, hint)
}

// tryPlan checks with the agent that it can run the turn, before anything is created
// for it.
func (t *Turn) tryPlan() error {
	if t.agent == nil {
		return nil
	}
	turn := t.request.Turn
	turn.Prompt, turn.Skills, turn.System, turn.Schema = agent.Text("?"), nil, "", t.modelOptions().Schema
	box := t.assistant.Sandbox
	turn.Ask = turn.Ask || box.Ask
	if t.assistant.ID != "" {
		turn.Command, turn.Arguments = box.Program, box.Arguments
	}
	if !t.agent.Features().MaxTurns {
		turn.MaxTurns = 0 // newAccess limits the requests to its model
	}
	_, err := t.agent.Plan(&turn, agent.Environment{Dir: atoll.DefaultDir, State: stateDir, Model: "http://127.0.0.1:1"})
	return err
}

// CheckPrompt returns ErrInvalid for a prompt with parts that a request must not have.
func CheckPrompt(prompt []agent.Content) error {
	var errs []error
	for i, c := range prompt {
		field := fmt.Sprintf("prompt[%d]", i)
		if c.Path != "" {
			errs = append(errs, fieldError(field+".path", "%w: %s.path: must not be set in a request", atoll.ErrInvalid, field))
		}
		if c.Text == "" && c.Data == nil && c.Name == "" {
			errs = append(errs, fieldError(field, "%w: %s: it is empty", atoll.ErrInvalid, field))
		}
	}
	return errors.Join(errs...)
}

// checkRequest returns an error for fields that the request must not have.
func (t *Turn) checkRequest() error {
	r := &t.request.Request
	var errs []error
	bad := func(field, format string, a ...any) { errs = append(errs, fieldError(field, format, a...)) }
	if len(r.Prompt) == 0 && len(t.request.Messages) == 0 {
		bad("prompt", "prompt: it is empty")
	}
	if err := CheckPrompt(r.Prompt); err != nil {
		errs = append(errs, err)
	}
	if t.assistant.ID != "" && (r.Config != nil || len(r.Command) > 0 || r.Trust) {
		bad("config", "config, command, trust: they are set by the assistant")
	}
	if t.agent == nil && r.Sandbox != "" {
		bad("sandbox", "sandbox: this assistant uses none")
	}
	if r.Sandbox != "" && (r.Config != nil || r.Workspace != "") {
		bad("sandbox", "sandbox: an existing sandbox has its own config and workspaces")
	}
	if r.Dir != "" && (r.Sandbox == "" || !path.IsAbs(r.Dir) || path.Clean(r.Dir) != r.Dir) {
		bad("dir", "dir: must be a clean absolute path, in an existing sandbox")
	}
	if err := checkLabels(r.Labels); err != nil {
		bad("labels", "labels: %w", err)
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
		bad("budget", "budget: must not be negative; 0 means no limit")
	}
	if r.Retries < 0 || r.Retries > maxRetries {
		bad("retries", "retries: must be 0 to %d", maxRetries)
	}
	if r.Timeout < 0 || r.MaxTurns < 0 {
		bad("timeout", "timeout, max_turns: must not be negative")
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, errors.Join(errs...))
	}
	return t.tryPlan()
}

// Limits of the labels of a request.
const (
	maxLabels     = 20
	maxLabelName  = 100
	maxLabelValue = 4096
)

// checkLabels checks the labels of a request.
func checkLabels(all map[string]string) error {
	if len(all) > maxLabels {
		return fmt.Errorf("%d of them; at most %d", len(all), maxLabels)
	}
	for k, v := range all {
		if k == "" || len(k) > maxLabelName || strings.ContainsAny(k, "=\x00\n") || len(v) > maxLabelValue {
			return fmt.Errorf("%q: a name has 1 to %d bytes without '=' and newlines, a value at most %d bytes", truncateName(k), maxLabelName, maxLabelValue)
		}
	}
	return nil
}

// fieldError returns an error of one field of a request.
func fieldError(field, format string, a ...any) error {
	return &atoll.FieldError{Field: field, Err: fmt.Errorf(format, a...)}
}

// truncateName cuts a name for a message.
func truncateName(s string) string { return s[:min(len(s), 100)] }

// Record returns the turn's record before it starts.
func (t *Turn) Record() agent.Record {
	r := agent.Record{
		ID: t.request.ID, Owner: t.request.Account.Caller().Owner, Assistant: t.assistant.ID, Chat: t.chat.ID, Sandbox: t.request.Sandbox, Workspace: t.placement.workspace,
	}
	if t.agent != nil {
		r.Agent = t.agent.Name()
	}
	return r
}

// Release releases the chat of a turn that is not run.
func (t *Turn) Release() { t.release() }

// modelOptions returns the options of requests to the model, from the request or else
// from the assistant.
func (t *Turn) modelOptions() dialect.Request {
	q, own := t.request.Model, t.assistant.Options
	q.Messages, q.Tools = nil, nil
	if q.Model = t.request.Request.Model; q.Model == "" {
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
	if q.ThinkTokens == 0 {
		q.ThinkTokens = own.ThinkTokens
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
	if t.request.Schema != nil {
		q.Schema = t.request.Schema
	}
	return q
}

// hasHook reports whether the assistant has a hook.
func (t *Turn) hasHook(name string) bool {
	return t.assistant.Hooks != nil && t.assistant.Hooks.HasFunction(name)
}

// interface guards
var _ hook.Memory = (*hookMemory)(nil)
