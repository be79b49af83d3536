package server

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
	"github.com/atoll-sandbox/atoll/internal/assistant"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/turn"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Agents are what turns are done with: the path that requests take, and the desk
// of those under way, which the server closes when it ends.
type Agents struct {
	Pipeline *assistant.Pipeline
	Desk     *turn.Desk

	// Version returns that of an agent's program, as far as sandboxes are given
	// one; nil: none is.
	Version func(name string) string
}

// errNoAgents is why a server does no turns.
var errNoAgents = &atoll.Error{Op: "turn", Err: fmt.Errorf("%w: this server has no agents", atoll.ErrUnsupported)}

// onceAgents returns what makes the agents when they are first asked for. That
// it failed is no reason not to try again.
func (s *Server) onceAgents() func() (*Agents, error) {
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
		s.opened.Store(true)
		s.tidyTurns(a.Desk)
		return made, nil
	}
}

// Settle ends what turns have left whose server has died, now: else that is done
// when the first is asked for.
func (s *Server) Settle() error {
	_, err := s.agents()
	if errors.Is(err, errNoAgents) {
		return nil
	}
	return err
}

// tidyTime is how long it may take to find what turns of another time have left.
const tidyTime = 30 * time.Second

// tidyTurns removes the sandboxes of turns whose process has died. What can't be
// removed now goes at the end of its time.
func (s *Server) tidyTurns(d *turn.Desk) {
	ctx, cancel := context.WithTimeout(s.life, tidyTime)
	defer cancel()
	all := s.fleet.For(fleet.LocalCaller())
	list, err := all.List(ctx, fleet.Filter{AllOwners: true})
	if err != nil {
		s.log.WarnContext(ctx, "sandboxes of turns not looked for", "err", err)
		return
	}
	for _, i := range list {
		id := i.Labels[assistant.TurnLabel]
		if id == "" || i.Config.Lifecycle.Policy != atoll.PolicyOneshot {
			continue
		}
		if r, err := d.Get(i.Owner, id); !errors.Is(err, atoll.ErrNotFound) && (err != nil || r.State != turn.Finished) {
			continue // somebody is at it
		}
		sb, err := all.Open(ctx, i.ID)
		if err == nil {
			err = sb.Destroy(ctx)
		}
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			s.log.WarnContext(ctx, "sandbox of a turn not removed", "id", i.ID, "turn", id, "err", err)
		}
	}
}

// closeDesk ends the turns under way.
func (s *Server) closeDesk(ctx context.Context) error {
	if !s.opened.Load() {
		return nil
	}
	a, err := s.agents()
	if err != nil {
		return nil //nolint:nilerror // there is nothing to close
	}
	return a.Desk.Close(ctx)
}

// listAgents adds the agents that requests may name.
func (s *Server) listAgents(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "list-agents", Method: http.MethodGet, Path: "/v1/agents", Tags: []string{"agents"}, Summary: "The agents that the server has",
	}, func(_ context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[agent.Info]], error) {
		if err := a.May("list agents", atoll.ScopeRead); err != nil {
			return nil, err
		}
		if s.opts.Agents == nil {
			return list[agent.Info](nil, nil)
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
		return list(infos, nil)
	})
}
