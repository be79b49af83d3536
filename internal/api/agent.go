package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Agents are the parts that turns need: the pipeline of requests, and the registry of turns, which
// the server closes when it ends.
type Agents struct {
	Pipeline *assistant.Pipeline
	Turns    *turn.Registry

	// Version returns the version of an agent's program that sandboxes are given; nil: they are
	// given none.
	Version func(name string) string
}

// errNoAgents is the error of turns on a server without agents.
var errNoAgents = &atoll.Error{Op: "turn", Err: fmt.Errorf("%w: this server has no agents", atoll.ErrUnsupported)}

// lazyAgents returns a function that makes the agents at its first call. After an error, the next
// call tries again.
func (s *Server) lazyAgents() func() (*Agents, error) {
	var mu sync.Mutex
	var made *Agents
	return func() (*Agents, error) {
		mu.Lock()
		defer mu.Unlock()
		if made != nil {
			return made, nil
		}
		if s.opts.Agents == nil {
			return nil, errNoAgents
		}
		a, err := s.opts.Agents()
		if err != nil {
			return nil, err
		}
		made = a
		s.agentsUsed.Store(true)
		s.resumeTurns(a)
		s.removeDeadTurns(a.Turns)
		return made, nil
	}
}

// ReconcileTurns continues or ends the turns whose server has died, now rather than at the first turn.
func (s *Server) ReconcileTurns() error {
	_, err := s.agents()
	if errors.Is(err, errNoAgents) {
		return nil
	}
	return err
}

// tidyTimeout bounds the search for sandboxes of dead turns.
const tidyTimeout = 30 * time.Second

// removeDeadTurns removes the sandboxes of turns whose process has died. Those of other registries are left alone. The ones that
// fail to be removed expire later.
func (s *Server) removeDeadTurns(d *turn.Registry) {
	ctx, cancel := context.WithTimeout(s.lifetime, tidyTimeout)
	defer cancel()
	all := s.fleet.Account(fleet.LocalCaller())
	list, err := all.List(ctx, fleet.Filter{AllOwners: true})
	if err != nil {
		s.log.WarnContext(ctx, "list sandboxes of dead turns", "err", err)
		return
	}
	for _, i := range list {
		id := i.Labels[assistant.TurnLabel]
		if id == "" || i.Config.Lifecycle.Policy != atoll.PolicyOneshot {
			continue
		}
		if registry := i.Labels[assistant.RegistryLabel]; registry != "" && registry != d.ID() {
			continue // the turn of another server, which may run
		}
		if r, err := d.Get(i.Owner, id); !errors.Is(err, atoll.ErrNotFound) && (err != nil || r.State != turn.Finished) {
			continue // the turn is in progress
		}
		if used, err := usedByTurn(d, i); used || err != nil {
			continue // a later turn of the chat is
		}
		sb, err := all.Open(ctx, i.ID)
		if err == nil {
			err = sb.Destroy(ctx)
		}
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			s.log.WarnContext(ctx, "remove sandbox of a dead turn", "id", i.ID, "turn", id, "err", err)
		}
	}
}

// usedByTurn reports whether a turn that has not ended works in a sandbox: later turns of a chat may work in that of the first one.
func usedByTurn(d *turn.Registry, i atoll.Info) (bool, error) {
	all, err := d.List(i.Owner, turn.Filter{Chat: i.Labels[assistant.ChatLabel]})
	return slices.ContainsFunc(all, func(r agent.Record) bool { return r.Sandbox == i.ID && r.State != turn.Finished }), err
}

// endIdleAgents ends the agents of a caller that wait for the next turn of their chats, for what they have in use. It returns whether
// there were any.
func (s *Server) endIdleAgents(ctx context.Context, a *fleet.Account) bool {
	if !s.agentsUsed.Load() {
		return false
	}
	has, err := s.agents()
	if err != nil {
		return false
	}
	n, err := has.Pipeline.EndIdle(ctx, a.Caller().Owner)
	return n > 0 && err == nil
}

// resumeTurns continues the turns that another server has left.
func (s *Server) resumeTurns(a *Agents) {
	a.Turns.Resume(func(left turn.Left) (turn.Work, error) {
		if left.Request != nil {
			return s.resumeQueued(a, left)
		}
		t, err := a.Pipeline.PrepareResume(s.lifetime, assistant.LeftTurn{Record: left.Record, State: left.State, Result: left.Result}, s.fleet.Account)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, handle *turn.Turn) (agent.Result, error) {
			defer s.endWithToken(ctx, &call{id: left.Record.ID, caller: t.Caller()}, handle)()
			return s.runWithMessages(ctx, a.Turns, s.fleet.Account(t.Caller()), handle, func() (agent.Result, error) { return t.Run(ctx, handle) })
		}, nil
	})
}

// closeTurns ends all turns, or leaves them to the next server.
func (s *Server) closeTurns(ctx context.Context) error {
	if !s.agentsUsed.Load() {
		return nil
	}
	a, err := s.agents()
	if err != nil {
		return nil // there is nothing to close
	}
	return errors.Join(a.Turns.Close(ctx), a.Pipeline.Close(ctx))
}

// registerAgents registers the list of agents.
func (s *Server) registerAgents(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "list-agents", Method: http.MethodGet, Path: "/v1/agents", Tags: []string{"agents"}, Summary: "List the agents of the server",
	}, func(_ context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[agent.Info]], error) {
		if err := a.RequireScope("list agents", atoll.ScopeRead); err != nil {
			return nil, err
		}
		if s.opts.Agents == nil {
			return listReply[agent.Info](nil, nil)
		}
		has, err := s.agents()
		if err != nil {
			return nil, err
		}
		all := has.Pipeline.Agents()
		infos := make([]agent.Info, 0, len(all))
		for _, name := range slices.Sorted(maps.Keys(all)) {
			i := agent.Info{Name: name, Features: all[name].Features()}
			if has.Version != nil {
				i.Version = has.Version(name)
			}
			infos = append(infos, i)
		}
		return listReply(infos, nil)
	})
}
