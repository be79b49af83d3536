package main

import (
	"context"
	"log/slog"

	acp "github.com/coder/acp-go-sdk"
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

func (a *app) acpCommand() *cobra.Command {
	var f turnFlags
	var spec specFlags
	var mount, alone bool
	cmd := &cobra.Command{
		Use:   "acp AGENT [flags] [-- COMMAND...]",
		Short: "Let an editor drive an agent in a sandbox, by the Agent Client Protocol",
		Long: `Let an editor drive an agent, or an assistant, in a sandbox, by the Agent Client
Protocol on standard input and output. Each session of the editor is a chat.

The agent does not see the editor's files as they are: the project is copied into
the session's workspace when the session begins, and what the agent changes stays
there ('atoll workspace cp' brings it back). With --in-place the project's directory
itself is in the sandbox, and the agent changes it; nothing else of this machine is.

It asks the editor before it uses tools, if the agent can; --alone lets it work
without asking, within the walls.`,
		Example: `  atoll acp claude --in-place              the editor's command for an agent
  atoll acp opencode -c deepseek/v3 --alone --allow registry.npmjs.org
  atoll acp acp --image my/agent -- my-agent --acp`,
		Args:              needArgs(1, -1, "an agent"),
		ValidArgsFunction: a.offer(0, a.agentNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := spec.config(a.config)
			if err != nil {
				return err
			}
			cfg.Driver = get[string](a.config.flagsOnly(), "driver") // else one that runs real programs
			r, err := f.request("")
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
	spec.add(cmd)
	spec.addFleet(cmd)
	return cmd
}

// serveACP answers an editor until it is gone.
func (a *app) serveACP(ctx context.Context, name string, s *acpAgent) error {
	l, err := a.client(ctx)
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
	s.conn = acp.NewAgentSideConnection(s, a.out, a.in)
	s.conn.SetLogger(slog.New(slog.DiscardHandler)) // standard error is the editor's log: nothing of it is for people
	select {
	case <-s.conn.Done():
	case <-ctx.Done():
	}
	s.stop(context.WithoutCancel(ctx))
	return nil
}

// find says who is driven: an agent, or an assistant.
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
			s.like.Assistant, s.like.Config, s.name, s.asks = name, nil, name, !s.alone && info.Agent != ""
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
