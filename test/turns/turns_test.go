// Package turns tests turns from the client to a real sandbox and back: agents,
// assistants, hooks, tools, and that nothing is left behind.
package turns

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/command"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "namespace", helpertest.Main)) }

// testServer is a server with agents over a fleet of namespace sandboxes.
type testServer struct {
	*testing.T
	home     string
	fleet    *fleet.Fleet
	registry *turn.Registry
	pipeline *assistant.Pipeline
	app      *assistant.App
	url      string
	token    string
	client   *client.Client
	server   *api.Server
	model    *modeltest.Server
}

// serverOptions are the options of a testServer.
type serverOptions struct {
	agents   map[string]agent.Agent
	program  assistant.Program // of all agents
	script   modeltest.Script
	registry turn.Options
	timeout  time.Duration
	idle     time.Duration // of agents between turns
	idleMost int           // agents between turns; 0: the default
	home     string        // of another server, whose fleet and directories are shared; empty: its own
	fleet    *fleet.Fleet  // of that server
	quota    atoll.Quota
	scopes   []atoll.Scope
	driver   atoll.Driver // nil: namespaces
}

func newTestServer(t *testing.T, o serverOptions) *testServer {
	t.Helper()
	if o.driver == nil && o.fleet == nil {
		d := &namespace.Driver{Dir: filepath.Join(t.TempDir(), "namespace")}
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "namespace", "no namespace sandboxes here: %v", err)
		}
		t.Cleanup(func() { // runs after the fleet is closed
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		o.driver = d
	}
	s := &testServer{T: t, home: o.home, fleet: o.fleet}
	if o.home == "" {
		s.home = t.TempDir()
	}
	s.model = modeltest.New(t, o.script)
	var err error
	log := slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if !testing.Verbose() {
		log = slog.New(slog.DiscardHandler)
	}
	if s.fleet == nil {
		s.fleet, err = fleet.Open(t.Context(), fleet.Options{Home: s.home, Drivers: []atoll.Driver{o.driver}, Log: log, Quota: o.quota})
		s.must(err)
		t.Cleanup(func() {
			if err := s.fleet.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	if o.agents == nil {
		o.agents = map[string]agent.Agent{"command": command.Agent{}}
	}
	s.app = &assistant.App{Assistants: map[string]*assistant.Assistant{}, Connectors: map[string]model.Connector{
		"test": {Name: "test", API: dialect.OpenAI, Base: s.model.URL + "/v1", Key: "sk-secret", Model: "tiny", Models: []string{"*"}},
	}}
	p, err := assistant.New(assistant.Options{
		Agents: o.agents, App: func(context.Context) (*assistant.App, error) { return s.app, nil }, Dir: filepath.Join(s.home, "chats"), Log: log, Timeout: o.timeout, AgentIdle: o.idle, IdleAgents: o.idleMost, PermissionTimeout: o.registry.PermissionTimeout, Ledger: s.fleet.Usage(),
		FindProgram: func(agent.Agent) (assistant.Program, error) { return o.program, nil },
		ToolProgram: func() (string, error) { return helper.Finder{}.Find("atoll-tool") },
	})
	s.must(err)
	s.pipeline = p
	o.registry.Dir, o.registry.Log = filepath.Join(s.home, "turns"), log
	o.registry.Settle = p.SettleTurn
	s.registry, err = turn.Open(o.registry)
	s.must(err)
	srv := api.New(api.Options{Fleet: s.fleet, Log: log, Agents: func() (*api.Agents, error) { return &api.Agents{Pipeline: p, Turns: s.registry}, nil }})
	web := httptest.NewServer(srv.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.registry.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	s.url, s.server = web.URL, srv
	if o.scopes == nil {
		o.scopes = []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}
	}
	s.token = s.createToken("alice", o.scopes...)
	s.client = s.newClient(s.token)
	return s
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

func (s *testServer) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *testServer) adminAccount() *fleet.Account { return s.fleet.Account(fleet.LocalCaller()) }

func (s *testServer) createToken(user string, scopes ...atoll.Scope) string {
	s.Helper()
	tok, err := s.adminAccount().CreateToken(s.Context(), atoll.Token{Owner: atoll.Owner{App: "app", User: user}, Scopes: scopes})
	s.must(err)
	return tok.Secret
}

func (s *testServer) newClient(token string) *client.Client {
	s.Helper()
	c, err := client.New(client.Options{Host: s.url, Token: token})
	s.must(err)
	s.Cleanup(func() { _ = c.Close() }) // only its idle connections
	return c
}

// runTurn starts a turn and returns its record and events when it has ended.
func (s *testServer) runTurn(r agent.Request) (agent.Record, []agent.Event) {
	s.Helper()
	rec, err := s.client.StartTurn(s.Context(), r)
	s.must(err)
	return s.waitForEnd(rec.ID)
}

// waitForEnd waits for the end of a turn and returns its record and events.
func (s *testServer) waitForEnd(id string) (agent.Record, []agent.Event) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 60*time.Second)
	defer cancel()
	var events []agent.Event
	s.must(s.client.TurnEvents(ctx, id, 0, func(e agent.Event) error {
		events = append(events, e)
		return nil
	}))
	s.checkEvents(id, events)
	rec, err := s.client.Turn(ctx, id)
	s.must(err)
	return rec, events
}

// checkEvents checks what must be true of the events of every turn.
func (s *testServer) checkEvents(id string, events []agent.Event) {
	s.Helper()
	for i, e := range events {
		if e.Seq != int64(i+1) || e.Turn != id || e.Time.IsZero() || (e.Type == agent.Finished) != (i == len(events)-1) {
			s.Errorf("event %d of %d: %+v", i+1, len(events), e)
		}
	}
	if len(events) == 0 {
		s.Fatal("no events")
	}
}

// checkNoSandboxes fails the test if a sandbox is left.
func (s *testServer) checkNoSandboxes() {
	s.Helper()
	list, err := s.adminAccount().List(s.Context(), fleet.Filter{AllOwners: true})
	s.must(err)
	for _, i := range list {
		s.Errorf("sandbox %s is left: %s %v", i.ID, i.State, i.Labels)
	}
}

// shellRequest returns a request that runs shell text as an agent.
func shellRequest(text string) agent.Request {
	return agent.Request{Agent: "command", Turn: agent.Turn{Prompt: agent.Text("hello"), Command: []string{"sh", "-c", text}}}
}

// TestCommand checks a turn from the client to a sandbox and back, and that only its
// files are left.
func TestCommand(t *testing.T) {
	s := newTestServer(t, serverOptions{})
	rec, events := s.runTurn(shellRequest("cat; echo; pwd; id -u; echo made >file; ls -d /srv/agents"))
	if rec.State != "finished" || rec.Result == nil || rec.Result.Outcome != agent.OK || rec.Chat == "" || rec.Workspace == "" || rec.Sandbox == "" {
		t.Fatalf("%+v %+v", rec, rec.Result)
	}
	if want := "hello\n/workspace\n"; !strings.HasPrefix(rec.Result.Text, want) || !strings.HasSuffix(strings.TrimSpace(rec.Result.Text), "/srv/agents") {
		t.Errorf("text %q", rec.Result.Text)
	}
	if last := events[len(events)-1]; last.Result == nil || last.Result.Outcome != agent.OK {
		t.Errorf("last event %+v", last)
	}
	s.checkNoSandboxes()
	f, err := s.client.Files(rec.Workspace).OpenFile(t.Context(), "/file")
	s.must(err)
	b, err := io.ReadAll(f)
	if err != nil || string(b) != "made\n" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	_ = f.Close()
	r := shellRequest("cat file")
	r.Chat = rec.Chat
	again, _ := s.runTurn(r)
	if again.Workspace != rec.Workspace || !strings.Contains(again.Result.Text, "made") {
		t.Errorf("the next turn of the chat: %+v %+v", again, again.Result)
	}
	list, err := s.client.Turns(t.Context(), client.TurnFilter{Chat: rec.Chat})
	if err != nil || len(list) != 2 || list[0].ID != rec.ID {
		t.Errorf("turns %+v, %v", list, err)
	}
}

// postJSON sends a request to the OpenAI or Anthropic API and returns the response.
func (s *testServer) postJSON(path string, body any, headers ...string) (*http.Response, string) {
	s.Helper()
	b, err := json.Marshal(body)
	s.must(err)
	r, err := http.NewRequestWithContext(s.Context(), "POST", s.url+path, strings.NewReader(string(b)))
	s.must(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if v == "" {
			r.Header.Del(k)
			continue
		}
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	s.must(err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	s.must(err)
	return resp, string(out)
}
