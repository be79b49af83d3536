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
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// lost is the code of a result whose session is not there any more.
const lost = "session_not_found"

// agentTurn has the agent do it, in the sandbox.
func (r *run) agentTurn(ctx context.Context) (agent.Result, error) {
	if err := r.need(ctx); err != nil {
		return agent.Result{}, err
	}
	system, before, last := split(r.messages)
	session := r.session(before)
	res, err := r.attempt(ctx, session, system, before, last)
	if err != nil || session == "" || res.Outcome != agent.Failed || res.Code != lost {
		return res, err
	}
	r.emit(agent.Event{Type: agent.Warning, Text: "the agent's session is gone: it begins anew, with what was said as a file"})
	return r.attempt(ctx, "", system, before, last)
}

// session returns the agent's session that goes on, if it knows what was said
// before; empty: a new one.
func (r *run) session(before []dialect.Message) string {
	if s := r.ask.Turn.Session; s != "" {
		return s
	}
	if r.chat.stray || !r.with.Features().Resume {
		return ""
	}
	return r.chat.Sessions[r.who()]
}

// attempt does one turn of the agent.
func (r *run) attempt(ctx context.Context, session, system string, before []dialect.Message, last dialect.Message) (agent.Result, error) {
	f := r.with.Features()
	turn := r.ask.Turn
	turn.ID, turn.Session, turn.Model = r.id, session, r.query.Model
	if turn.Model == "" && r.conn != nil {
		turn.Model = r.conn.Model
	}
	turn.Prompt = promptOf(last)
	turn.System = r.system(system)
	if !f.System && turn.System != "" {
		turn.Prompt = append([]agent.Content{{Text: turn.System}}, turn.Prompt...)
		turn.System = ""
	}
	if session == "" && len(before) > 0 {
		turn.Prompt = append(turn.Prompt,
			agent.Content{Name: "conversation.md", Type: "text/markdown", Data: transcript(before)},
			agent.Content{Text: "(conversation.md has what was said in this conversation before this message.)"})
	}
	box := r.made.Sandbox
	turn.Ask, turn.Trust = turn.Ask || box.Ask, box.Trust
	if r.made.ID != "" {
		turn.Command, turn.Arguments = box.Program, maps.Clone(box.Arguments)
	}
	turn.MaxTurns = r.maxTurns()
	if !f.MaxTurns {
		turn.MaxTurns = 0 // newAccess bounds the requests to its model
	}
	for _, s := range r.made.Skills {
		turn.Skills = append(turn.Skills, agent.Skill{Name: s.Name, Files: s.Files})
	}
	job := agent.Job{
		Sandbox: r.sb, Agent: r.with, Turn: turn, Dir: r.plan.dir, State: r.plan.state, Path: r.plan.path, Patience: r.p.opts.Patience,
		Decide: r.desk.Decide, Emit: r.emit, Timeout: -1, Idle: box.Idle, Once: true,
	}
	if _, leads := atoll.As[atoll.Listener](r.sb); r.access != nil && (leads || !r.free) {
		job.Model = r.access.Endpoint()
	}
	if err := r.equip(ctx, &job); err != nil {
		return agent.Result{}, err
	}
	return r.converse(ctx, job)
}

// maxTurns is the lower of what request and assistant say; 0: neither says it.
func (r *run) maxTurns() int {
	n, box := r.ask.Turn.MaxTurns, r.made.Sandbox.MaxTurns
	if n == 0 || box > 0 && box < n {
		return box
	}
	return n
}

// system is what the agent is told besides its own prompt.
func (r *run) system(asked string) string {
	var parts []string
	if r.made.Sandbox.System != "" {
		parts = append(parts, r.made.Sandbox.System)
	}
	for _, m := range r.made.Prompts {
		if m.Role == dialect.System {
			parts = append(parts, said(m))
		}
	}
	if asked != "" {
		parts = append(parts, asked)
	}
	return strings.Join(parts, "\n\n")
}

// equip gives the agent the tools of this turn.
func (r *run) equip(ctx context.Context, job *agent.Job) error {
	offer := r.offer(ctx, r.clientTools()...)
	if len(offer.Tools) == 0 {
		return nil
	}
	if r.p.opts.ToolProgram == nil {
		return fmt.Errorf("%w: there is no atoll-tool to give tools with", atoll.ErrUnsupported)
	}
	name, err := r.p.opts.ToolProgram()
	if err != nil {
		return err
	}
	job.ToolProgram = name
	job.Tools = func(conn net.Conn) {
		if err := offer.Serve(ctx, conn); err != nil && ctx.Err() == nil {
			r.p.log.Debug("tools", "turn", r.id, "err", err)
		}
	}
	return nil
}

// converse runs the agent until its result, and interrupts it when somebody
// wants that.
func (r *run) converse(ctx context.Context, job agent.Job) (res agent.Result, err error) {
	s, err := agent.Begin(ctx, job)
	if err != nil {
		return agent.Result{}, err
	}
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-r.desk.Interrupted():
			if err := s.Interrupt(ctx); err != nil && ctx.Err() == nil {
				r.emit(agent.Event{Type: agent.Warning, Text: "the agent could not be interrupted: " + err.Error()})
			}
		case <-over:
		}
	}()
	defer func() {
		close(over)
		<-watched
		err = errors.Join(err, s.Close())
	}()
	return s.Wait(ctx)
}
