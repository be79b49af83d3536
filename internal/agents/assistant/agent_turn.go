package assistant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// codeSessionNotFound is the code of a result whose session does not exist any more.
const codeSessionNotFound = "session_not_found"

// runAgentTurn runs the turn's agent in the sandbox.
func (r *turnRun) runAgentTurn(ctx context.Context) (agent.Result, error) {
	if err := r.ensureSandbox(ctx); err != nil {
		return agent.Result{}, err
	}
	system, before, last := splitConversation(r.messages)
	session := r.resumableSession(before)
	res, err := r.runAgent(ctx, session, system, before, last)
	if err != nil || session == "" || res.Outcome != agent.Failed || res.Code != codeSessionNotFound {
		return res, err
	}
	r.emitEvent(agent.Event{Type: agent.Warning, Text: "the agent's session does not exist any more: a new one starts, with the conversation as a file"})
	return r.runAgent(ctx, "", system, before, last)
}

// resumableSession returns the agent's session that knows the earlier conversation;
// empty: a new session is needed.
func (r *turnRun) resumableSession(before []dialect.Message) string {
	if s := r.request.Turn.Session; s != "" {
		return s
	}
	if r.chat.diverged || !r.agent.Features().Resume {
		return ""
	}
	return r.chat.Sessions[r.targetName()]
}

// runAgent runs one turn of the agent.
func (r *turnRun) runAgent(ctx context.Context, session, system string, before []dialect.Message, last dialect.Message) (agent.Result, error) {
	f := r.agent.Features()
	turn := r.request.Turn
	turn.ID, turn.Session, turn.Model = r.id, session, r.query.Model
	if turn.Model == "" && r.connector != nil {
		turn.Model = r.connector.Model
	}
	turn.Prompt = promptOf(last)
	turn.System = r.systemPrompt(system)
	if !f.System && turn.System != "" {
		turn.Prompt = append([]agent.Content{{Text: turn.System}}, turn.Prompt...)
		turn.System = ""
	}
	if session == "" && len(before) > 0 {
		turn.Prompt = append(turn.Prompt,
			agent.Content{Name: "conversation.md", Type: "text/markdown", Data: formatTranscript(before)},
			agent.Content{Text: "(conversation.md has the earlier messages of this conversation.)"})
	}
	box := r.assistant.Sandbox
	turn.Ask, turn.Trust = turn.Ask || box.Ask, box.Trust
	if r.assistant.ID != "" {
		turn.Command, turn.Arguments = box.Program, maps.Clone(box.Arguments)
	}
	turn.Schema = r.query.Schema
	turn.MaxTurns = r.maxTurns()
	if !f.MaxTurns {
		turn.MaxTurns = 0 // newAccess limits the requests to its model
	}
	for _, s := range r.assistant.Skills {
		turn.Skills = append(turn.Skills, agent.Skill{Name: s.Name, Files: s.Files})
	}
	job, err := r.newJob(ctx)
	if err != nil {
		return agent.Result{}, err
	}
	job.Turn = turn
	warm := r.keepsWarm(&turn)
	key := ""
	if warm {
		if key, err = r.processKey(&job); err != nil {
			return agent.Result{}, err
		}
	}
	if res, ok, err := r.runWarm(ctx, &job, key); ok || err != nil {
		return res, err
	}
	if job.Journal, err = r.keepTurn(ctx); err != nil {
		return agent.Result{}, err
	}
	start := agent.StartSession
	if warm {
		start = func(ctx context.Context, job agent.Job) (*agent.Session, error) { return r.startWarm(ctx, job, key) }
	}
	if job.Journal == "" { // else its journal decides whether the turn can be started again
		if err := r.setSent(); err != nil {
			return agent.Result{}, err
		}
	}
	s, err := start(ctx, job)
	if err != nil {
		return agent.Result{}, err
	}
	if err := r.setSent(); err != nil {
		r.pipeline.log.Warn("queued turn not marked as sent", "turn", r.id, "err", err)
	}
	return r.waitSession(ctx, s)
}

// newJob returns the job of the turn's agent, without its turn.
func (r *turnRun) newJob(ctx context.Context) (agent.Job, error) {
	job := agent.Job{
		Sandbox: r.sb, Agent: r.agent, Dir: r.placement.dir, State: r.placement.state, Path: r.placement.path, PermissionTimeout: r.pipeline.opts.PermissionTimeout,
		Decide: r.handle.Decide, Emit: r.emitEvent, Timeout: -1, Idle: r.assistant.Sandbox.Idle, Once: true,
	}
	if _, leads := atoll.As[atoll.Listener](r.sb); r.access != nil && (leads || !r.connectorOptional) {
		job.Model = r.access.Endpoint()
	}
	return job, r.addTools(ctx, &job)
}

// maxTurns returns the lower limit of request and assistant; 0: no limit.
func (r *turnRun) maxTurns() int {
	n, box := r.request.Turn.MaxTurns, r.assistant.Sandbox.MaxTurns
	if n == 0 || box > 0 && box < n {
		return box
	}
	return n
}

// systemPrompt returns the text to add to the agent's own system prompt.
func (r *turnRun) systemPrompt(asked string) string {
	var parts []string
	if r.assistant.Sandbox.System != "" {
		parts = append(parts, r.assistant.Sandbox.System)
	}
	for _, m := range r.assistant.Prompts {
		if m.Role == dialect.System {
			parts = append(parts, messageText(m))
		}
	}
	if asked != "" {
		parts = append(parts, asked)
	}
	return strings.Join(parts, "\n\n")
}

// addTools adds the tools of this turn to the job.
func (r *turnRun) addTools(ctx context.Context, job *agent.Job) error {
	offer := r.toolOffer(ctx, r.clientTools()...)
	r.offered = offer.Tools
	if len(offer.Tools) == 0 {
		return nil
	}
	if r.pipeline.opts.ToolProgram == nil {
		return fmt.Errorf("%w: atoll-tool is missing, which tools require", atoll.ErrUnsupported)
	}
	name, err := r.pipeline.opts.ToolProgram()
	if err != nil {
		return err
	}
	job.ToolProgram = name
	// Tools end with the session, not with ctx: a call that fails before the agent is interrupted would look to it
	// like any failed call, with which it goes on.
	ctx, r.endTools = context.WithCancel(context.WithoutCancel(ctx))
	job.Tools = func(conn net.Conn) {
		if err := offer.Serve(ctx, conn); err != nil && ctx.Err() == nil {
			r.pipeline.log.Debug("tools", "turn", r.id, "err", err)
		}
	}
	return nil
}

// messageReceiver returns what receives messages for the agent. An assistant's hook Create sees, changes or rejects every prompt: a
// message must not evade it.
func (r *turnRun) messageReceiver(s *agent.Session) func(context.Context, agent.Message) error {
	if !r.hasHook("Create") {
		return s.Steer
	}
	return func(context.Context, agent.Message) error {
		return fmt.Errorf("%w: the assistant's hook Create sees every prompt first", atoll.ErrUnsupported)
	}
}

// waitSession waits for the agent's result, and forwards interrupts and the end of ctx to it. It returns ErrLeft for an agent
// that is left to another process. A session that ends with the turn ends with ctx by itself, so that its result has what is known
// until then.
func (r *turnRun) waitSession(ctx context.Context, s *agent.Session) (res agent.Result, err error) {
	goesOn := r.warm != nil && r.warm.session == s
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		interrupted, done := r.handle.Interrupted(), ctx.Done()
		if !goesOn {
			done = nil
		}
		for {
			select {
			case <-interrupted:
				_ = s.Interrupt(ctx) // never fails
				interrupted = nil
			case <-done:
				if !errors.Is(context.Cause(ctx), atoll.ErrLeft) || !s.Leave() {
					s.Stop(agent.StopReasonOf(ctx))
				}
				done = nil
			case <-over:
				return
			}
		}
	}()
	r.handle.Receive(r.messageReceiver(s))
	defer func() {
		r.handle.Receive(nil)
		close(over)
		<-watched
		r.endTools()
		if !goesOn {
			err = errors.Join(err, s.Close())
			return
		}
		r.parted.Store(true)
		if s.WasLeft() || !s.AcceptsPrompt() {
			r.warm.endProcess()
		}
		r.warm.services.detach()
	}()
	res, err = s.Wait(context.WithoutCancel(ctx))
	if cause := context.Cause(ctx); err == nil && s.WasLeft() {
		return res, cause
	}
	return res, err
}
