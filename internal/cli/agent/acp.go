package agent

import (
	"context"
	"log/slog"

	"github.com/coder/acp-go-sdk"
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
)

func (a commands) acpCommand() *cobra.Command {
	var f turnFlags
	var spec sandboxflag.Flags
	var mount, alone bool
	cmd := &cobra.Command{
		Use:   "acp AGENT [flags] [-- COMMAND...]",
		Short: "Serve an agent to an editor (Agent Client Protocol)",
		Long: `Serve an agent or an assistant in a sandbox to an editor, by the Agent Client
Protocol on standard input and output. Each session of the editor is a chat.

The project is copied into the workspace of the session when it starts. Changes
of the agent stay there until 'atoll workspace cp' copies them back. With
--in-place the agent works on the project's directory itself; nothing else of
this machine is in the sandbox.

The agent asks the editor before it uses tools, if it can; --alone lets it work
without asking.`,
		Example: `  atoll acp claude --in-place              the editor's command for an agent
  atoll acp opencode -c deepseek/v3 --alone --allow registry.npmjs.org
  atoll acp acp --image my/agent -- my-agent --acp`,
		Args:              app.CheckArgCount(1, -1, "an agent"),
		ValidArgsFunction: a.CompleteFrom(0, a.agentNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := spec.Config(a.Config, a.HasVMs(cmd.Context()))
			if err != nil {
				return err
			}
			cfg.Driver = config.Get[string](a.Config.FlagsOnly(), "driver") // else one that runs real programs
			r, err := f.buildRequest("")
			if err != nil {
				return err
			}
			r.Prompt, r.Config, r.Command = nil, &cfg, args[1:]
			return a.serveACP(cmd.Context(), args[0], &acpAgent{a: a, like: r, mount: mount, alone: alone})
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.BoolVar(&mount, "in-place", false, "put the project's directory itself into the sandbox, for the agent to change")
	fl.BoolVar(&alone, "alone", false, "let it use tools without asking")
	fl.StringVarP(&f.connector, "connector", "c", "", "`CONNECTOR` to the model (see 'atoll assistant ls'; default: of the environment's keys)")
	fl.StringVarP(&f.turn.Model, "model", "m", "", "`MODEL` to ask (default: the connector's)")
	fl.StringVar(&f.turn.System, "system", "", "`TEXT` added to the agent's own instructions")
	fl.BoolVar(&f.turn.Trust, "trust", false, "let it follow settings, hooks and tools of the project")
	fl.Int64Var(&f.budget.Tokens, "max-tokens", 0, "stop a turn at this many tokens in and out")
	fl.Float64Var(&f.budget.Cost, "max-cost", 0, "stop a turn at this many US `DOLLARS`")
	fl.DurationVar(&f.timeout, "timeout", 0, "end a turn after this `DURATION` (default 1h)")
	spec.AddAll(cmd)
	spec.AddFleet(cmd)
	return cmd
}

// serveACP answers an editor until it is gone.
func (a commands) serveACP(ctx context.Context, name string, s *acpAgent) error {
	l, err := a.Client(ctx)
	if err != nil {
		return err
	}
	s.c = l.Client
	if err := s.find(ctx, name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.sessions, s.life = make(map[string]*acpSession), ctx.Done()
	s.conn = acp.NewAgentSideConnection(s, a.Out, a.In)
	s.conn.SetLogger(slog.New(slog.DiscardHandler)) // standard error is the editor's log: nothing of it is for people
	select {
	case <-s.conn.Done():
	case <-ctx.Done():
	}
	s.stop(context.WithoutCancel(ctx))
	return nil
}

// find looks up the agent or assistant to run.
func (s *acpAgent) find(ctx context.Context, name string) error {
	agents, err := s.c.Agents(ctx)
	if err != nil {
		return err
	}
	for _, info := range agents {
		if info.Name == name {
			s.like.Agent, s.name, s.asks = name, name, info.Features.Approvals && !s.alone
			return nil
		}
	}
	assistants, err := s.c.Assistants(ctx)
	if err != nil {
		return err
	}
	for _, info := range assistants {
		if info.ID == name {
			s.like.Assistant, s.like.Config, s.name, s.model, s.asks = name, nil, name, info.Model, !s.alone && info.Agent != ""
			return nil
		}
	}
	return &atoll.Error{Op: "acp", ID: name, Err: atoll.ErrNotFound}
}

// stop ends the turns that are under way.
func (s *acpAgent) stop(ctx context.Context) {
	s.mu.Lock()
	var under []string
	for _, session := range s.sessions {
		if session.turn != "" {
			under = append(under, session.turn)
		}
	}
	for _, session := range s.sessions {
		defer session.tools.close()
	}
	s.mu.Unlock()
	for _, id := range under {
		_ = s.c.CancelTurn(ctx, id) // it may have ended
	}
}

// outcomes are what a prompt's end is called in the protocol; what is not named
// is an error.
var outcomes = map[agent.Outcome]acp.StopReason{
	agent.OK:       acp.StopReasonEndTurn,
	agent.MaxTurns: acp.StopReasonMaxTurnRequests,
	agent.Refused:  acp.StopReasonRefusal,
	agent.Aborted:  acp.StopReasonCancelled,
}
