package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/assistant"
	"github.com/atoll-sandbox/atoll/internal/dialect"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/server"
	"github.com/atoll-sandbox/atoll/internal/turn"
)

// site is all that turns go through: a client, the server, the pipeline with
// its model endpoint, the fleet.
type site struct {
	client *client.Client
	last   []func() error // from the last to the first
}

func (s *site) close() error {
	var errs []error
	for i := len(s.last) - 1; i >= 0; i-- {
		errs = append(errs, s.last[i]())
	}
	return errors.Join(errs...)
}

// site starts a server with the agent.
func (b *bench) site(ctx context.Context) (s *site, err error) {
	s = &site{}
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
	desk, err := turn.Open(turn.Options{Dir: filepath.Join(home, "turns"), Log: log})
	if err != nil {
		return s, err
	}
	s.last = append(s.last, func() error { return desk.Close(context.WithoutCancel(ctx)) })
	app := &assistant.App{Assistants: map[string]*assistant.Assistant{}, Connectors: map[string]model.Connector{
		"bench": {Name: "bench", API: dialect.Anthropic, Base: asked, Key: "sk-bench", Model: "bench-1", Models: []string{"*"}},
	}}
	p, err := assistant.New(assistant.Options{
		Agents: map[string]agent.Agent{b.agent.Name(): b.agent}, Dir: filepath.Join(home, "chats"), Log: log, Ledger: f.Spending(),
		App: func(context.Context) (*assistant.App, error) { return app, nil },
		Program: func(agent.Agent) (assistant.Program, error) {
			return assistant.Program{Mounts: []atoll.Mount{{Source: filepath.Dir(b.program), Target: programs, ReadOnly: true}}, Path: []string{programs}}, nil
		},
	})
	if err != nil {
		return s, err
	}
	agents := func() (*server.Agents, error) { return &server.Agents{Pipeline: p, Desk: desk}, nil }
	srv := server.New(server.Options{Fleet: f, Log: log, Agents: agents}) //nolint:contextcheck // it lives until Shutdown
	url, err := s.serve(ctx, srv.Handler())
	if err != nil {
		return s, err
	}
	s.last = append(s.last, func() error { return srv.Shutdown(context.WithoutCancel(ctx)) })
	token, err := f.For(fleet.LocalCaller()).CreateToken(ctx, atoll.Token{Owner: atoll.Owner{App: "bench", User: "ann"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	if err != nil {
		return s, err
	}
	s.client, err = client.New(client.Options{Host: url, Token: token.Secret})
	if err == nil {
		s.last = append(s.last, s.client.Close)
	}
	return s, err
}

// serve serves h on the loopback interface, and returns its URL.
func (s *site) serve(ctx context.Context, h http.Handler) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go srv.Serve(l) //nolint:errcheck // it ends with Close
	s.last = append(s.last, srv.Close)
	return "http://" + l.Addr().String(), nil
}

// served is a turn of a client, in a new chat with a workspace and a sandbox of
// its own, as it sees it.
func (b *bench) served(ctx context.Context, s *site) (took, error) {
	var w watcher
	b.model.reset()
	start := time.Now()
	rec, err := s.client.StartTurn(ctx, agent.Request{Agent: b.agent.Name(), Turn: b.turn})
	if err != nil {
		return took{}, err
	}
	var end *agent.Result
	err = s.client.TurnEvents(ctx, rec.ID, 0, func(e agent.Event) error {
		w.see(e)
		end = e.Result
		return nil
	})
	t := took{time.Since(start), w.first.Sub(b.model.first())}
	if err == nil && (end == nil || end.Outcome != agent.OK) {
		text, _ := json.Marshal(end)
		err = fmt.Errorf("the turn failed: %s", text)
	}
	return t, err
}
