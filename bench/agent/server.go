package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// serverSite is everything that turns pass through: a client, the server, the
// pipeline with its model endpoint, the fleet.
type serverSite struct {
	client *client.Client
	last   []func() error // cleanups, called from the last to the first
}

func (s *serverSite) close() error {
	var errs []error
	for i := len(s.last) - 1; i >= 0; i-- {
		errs = append(errs, s.last[i]())
	}
	return errors.Join(errs...)
}

// startSite starts a server with the agent, of which so many processes wait for a further turn at most.
func (b *bench) startSite(ctx context.Context, idle int) (s *serverSite, err error) {
	s = &serverSite{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	asked, err := s.serve(ctx, b.model)
	if err != nil {
		return s, err
	}
	log := slog.New(slog.DiscardHandler)
	home := filepath.Join(b.dir, "server-"+b.name)
	f, err := fleet.Open(ctx, fleet.Options{Home: home, Drivers: []atoll.Driver{b.driver}, Log: log})
	if err != nil {
		return s, err
	}
	s.last = append(s.last, func() error { return f.Close(context.WithoutCancel(ctx)) })
	turns, err := turn.Open(turn.Options{Dir: filepath.Join(home, "turns"), Log: log, Keep: true, PerOwner: 64})
	if err != nil {
		return s, err
	}
	s.last = append(s.last, func() error { return turns.Close(context.WithoutCancel(ctx)) })
	app := &assistant.App{Assistants: map[string]*assistant.Assistant{}, Connectors: map[string]model.Connector{
		"bench": {Name: "bench", API: dialect.Anthropic, Base: asked, Key: "sk-bench", Model: "bench-1", Models: []string{"*"}},
	}}
	p, err := assistant.New(assistant.Options{
		Agents: map[string]agent.Agent{b.agent.Name(): b.agent}, Dir: filepath.Join(home, "chats"), Log: log, Ledger: f.Usage(), AgentIdle: time.Hour, IdleAgents: idle,
		App: func(context.Context) (*assistant.App, error) { return app, nil },
		FindProgram: func(agent.Agent) (assistant.Program, error) {
			return assistant.Program{Mounts: []atoll.Mount{{Source: filepath.Dir(b.program), Target: programs, ReadOnly: true}}, Path: []string{programs}}, nil
		},
	})
	if err != nil {
		return s, err
	}
	agents := func() (*api.Agents, error) { return &api.Agents{Pipeline: p, Turns: turns}, nil }
	srv := api.New(api.Options{Fleet: f, Log: log, Agents: agents}) //nolint:contextcheck // it lives until Shutdown
	url, err := s.serve(ctx, srv.Handler())
	if err != nil {
		return s, err
	}
	s.last = append(s.last, func() error { return srv.Shutdown(context.WithoutCancel(ctx)) })
	token, err := f.Account(fleet.LocalCaller()).CreateToken(ctx, atoll.Token{Owner: atoll.Owner{App: "bench", User: "ann"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	if err != nil {
		return s, err
	}
	s.client, err = client.New(client.Options{Host: url, Token: token.Secret})
	if err == nil {
		s.last = append(s.last, s.client.Close)
	}
	return s, err
}

// serve serves h on the loopback interface and returns its URL.
func (s *serverSite) serve(ctx context.Context, h http.Handler) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go srv.Serve(l) //nolint:errcheck // it ends with Close
	s.last = append(s.last, srv.Close)
	return "http://" + l.Addr().String(), nil
}

// runServed runs a turn as a client sees it, in a new chat with a workspace and
// a sandbox of its own.
func (b *bench) runServed(ctx context.Context, s *serverSite) (turnTimes, error) {
	b.model.reset()
	t, err := b.runServedTurn(ctx, s, "")
	return t, err
}
