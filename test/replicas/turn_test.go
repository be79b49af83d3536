package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/agent/command"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Environment variables of a server with agents: the directory of its turns and chats, the address of the
// model, and the program of Claude Code, which may be empty.
const (
	agentsVar  = "ATOLL_REPLICA_AGENTS"
	modelVar   = "ATOLL_REPLICA_MODEL"
	programVar = "ATOLL_REPLICA_CLAUDE"
)

// newAgents returns the agents of a server that continues the turns of others.
func newAgents(f *fleet.Fleet) (*api.Agents, error) {
	dir := os.Getenv(agentsVar)
	turns, err := turn.Open(turn.Options{Dir: filepath.Join(dir, "turns"), Keep: true})
	if err != nil {
		return nil, err
	}
	clock := tool.Tool{Name: "time", Call: func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Text: "noon"}, nil }}
	app := &assistant.App{
		Connectors: map[string]model.Connector{
			"test": {Name: "test", API: dialect.Anthropic, Base: os.Getenv(modelVar), Key: "sk-secret", Model: "claude-test", Models: []string{"*"}},
		},
		Assistants: map[string]*assistant.Assistant{
			"coder": {ID: "coder", Sandbox: &assistant.Sandbox{Command: "claude"}, Tools: []assistant.ServerTools{{Server: "clock"}}},
			"qa":    {ID: "qa", Connector: "test"},
		},
		Tools: tool.NewServers(map[string][]tool.Tool{"clock": {clock}}),
	}
	pipeline, err := assistant.New(assistant.Options{
		Agents: map[string]agent.Agent{"command": command.Agent{}, "claude": claude.Agent{}}, Dir: filepath.Join(dir, "chats"), Ledger: f.Usage(),
		App: func(context.Context) (*assistant.App, error) { return app, nil },
		FindProgram: func(agent.Agent) (assistant.Program, error) {
			const inside = "/opt/atoll/agents/claude"
			return assistant.Program{Mounts: []atoll.Mount{{Source: filepath.Dir(os.Getenv(programVar)), Target: inside, ReadOnly: true}}, Path: []string{inside}}, nil
		},
		ToolProgram: func() (string, error) { return helper.Finder{}.Find("atoll-tool") },
	})
	return &api.Agents{Pipeline: pipeline, Turns: turns}, err
}

// followTurn returns the events of a turn up to its end. It follows again when a server is gone. Each call of seen
// has an event for the first time.
func followTurn(ctx context.Context, t *testing.T, c *client.Client, id string, seen func(agent.Event)) []agent.Event {
	t.Helper()
	var all []agent.Event
	testenv.Poll(ctx, func() bool {
		last := int64(len(all))
		_ = c.TurnEvents(ctx, id, last, func(e agent.Event) error { // fails when the server is killed
			all = append(all, e)
			seen(e)
			return nil
		})
		n := len(all)
		return n > 0 && all[n-1].Type == agent.Finished
	})
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, e.Seq)
		}
	}
	if len(all) == 0 || all[len(all)-1].Result == nil {
		t.Fatalf("the turn has no end: %d events", len(all))
	}
	return all
}

// turnServers are two servers with the same turns.
type turnServers struct {
	dir      string // of their turns and chats
	replicas []*replica
	balancer *balancer
	client   *client.Client // behind the balancer
	model    *modeltest.Server
}

func startTurnServers(t *testing.T, driver, place string, script modeltest.Script, program string) turnServers {
	t.Helper()
	m := modeltest.New(t, script)
	s := turnServers{dir: t.TempDir(), model: m}
	s.replicas, _ = startReplicas(t, driver, place, agentsVar+"="+s.dir, modelVar+"="+m.URL, programVar+"="+program)
	s.balancer = &balancer{to: s.replicas[0]}
	var err error
	s.client, err = client.New(client.Options{Host: "http://balancer", DialContext: s.balancer.dial})
	must(t, err)
	t.Cleanup(func() { _ = s.client.Close() }) // only its idle connections
	return s
}

// testTurn runs a turn of a program with output all the time, while its server is killed and started again,
// ends in order, and is replaced by another. Each line is an event once, in order, and the sandbox is removed at the end.
func testTurn(t *testing.T, driver, place string) {
	s := startTurnServers(t, driver, place, modeltest.Script{}, "")
	replicas, b, c := s.replicas, s.balancer, s.client
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const lines = 60 // one each 100 ms
	script := fmt.Sprintf(`read -r prompt; i=0; while [ $i -lt %d ]; do echo line $i of $prompt; i=$((i+1)); sleep 0.1; done`, lines)
	rec, err := c.StartTurn(ctx, agent.Request{Agent: "command", Turn: agent.Turn{Prompt: agent.Text("work"), Command: []string{"sh", "-c", script}}})
	must(t, err)
	faults := []func(){
		func() {
			replicas[0].kill()
			must(t, replicas[0].start())
		},
		func() {
			must(t, replicas[0].stop())
			must(t, replicas[0].start())
		},
		func() {
			b.turnTo(replicas[1])
			replicas[0].kill()
			replicas[1].kill()
			must(t, replicas[1].start())
		},
	}
	var text strings.Builder
	events := followTurn(ctx, t, c, rec.ID, func(e agent.Event) {
		if e.Type != agent.TextDelta {
			return
		}
		text.WriteString(e.Text)
		if n := strings.Count(text.String(), "\n"); len(faults) > 0 && n > 10*(4-len(faults)) {
			f := faults[0]
			faults = faults[1:]
			f()
		}
	})
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "line %d of work\n", i)
	}
	if got := text.String(); strings.TrimSpace(got) != strings.TrimSpace(want.String()) {
		t.Errorf("the output is\n%s", got)
	}
	if r := events[len(events)-1].Result; r.Outcome != agent.OK || r.Exit == nil || *r.Exit != 0 {
		t.Errorf("the turn ended with %+v", r)
	}
	if len(faults) > 0 {
		t.Errorf("%d faults did not happen", len(faults))
	}
	all, err := c.Sandboxes(ctx, client.Filter{})
	must(t, err)
	if len(all) > 0 {
		t.Errorf("the sandbox of the turn is left: %+v", all)
	}
	s.waitForNoJournals(ctx, t)
}

// waitForNoJournals waits until the server has removed the journals of turns, which it does after it has written their last events.
func (s *turnServers) waitForNoJournals(ctx context.Context, t *testing.T) {
	t.Helper()
	var left []string
	if !testenv.Poll(ctx, func() bool {
		var err error
		left, err = filepath.Glob(filepath.Join(s.dir, "turns", "*", "*", "*.kept"))
		must(t, err)
		return len(left) == 0
	}) {
		t.Fatalf("the journal of a turn is left: %v", left)
	}
}

func TestTurnOutlivesServer(t *testing.T) {
	testTurn(t, "namespace", filepath.Join(t.TempDir(), "sandboxes"))
}

// TestTurnEndsThoughServerIsKilled kills the server of a turn at the beginning of the removal of its sandbox. The next server
// tells the result, has the answer in the chat once, and removes the sandbox.
func TestTurnEndsThoughServerIsKilled(t *testing.T) {
	for _, driver := range []string{"virtual", "namespace"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s := startTurnServers(t, driver, filepath.Join(t.TempDir(), "sandboxes"), modeltest.Script{}, "")
			r := s.replicas[0]
			must(t, r.stop())
			r.env = append(r.env, dieVar+"="+filepath.Join(t.TempDir(), "died"))
			must(t, r.start())
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			request := agent.Request{Agent: "command", Chat: "talk", Turn: agent.Turn{Prompt: agent.Text("work"), Command: []string{"echo", "the answer"}}}
			rec, err := s.client.StartTurn(ctx, request)
			must(t, err)
			<-r.exited // by its own hand
			must(t, r.start())
			events := followTurn(ctx, t, s.client, rec.ID, func(agent.Event) {})
			var text strings.Builder
			for _, e := range events {
				if e.Type == agent.TextDelta {
					text.WriteString(e.Text)
				}
			}
			res := events[len(events)-1].Result
			if res.Outcome != agent.OK || strings.TrimSpace(text.String()) != "the answer" || res.Exit == nil || *res.Exit != 0 {
				t.Errorf("the turn ended with %+v after the text %q", res, text.String())
			}
			chats, err := filepath.Glob(filepath.Join(s.dir, "chats", "*", "*", "talk", "chat.json"))
			must(t, err)
			if len(chats) != 1 {
				t.Fatalf("the chats are %q", chats)
			}
			b, err := os.ReadFile(chats[0])
			must(t, err)
			if n := strings.Count(string(b), "the answer"); n != 1 {
				t.Errorf("the answer is in the chat %d times: %s", n, b)
			}
			if !testenv.Poll(ctx, func() bool {
				all, err := s.client.Sandboxes(ctx, client.Filter{})
				return err == nil && len(all) == 0
			}) {
				t.Error("the sandbox of the turn is left")
			}
			s.waitForNoJournals(ctx, t)
		})
	}
}

func TestTurnOutlivesServerOnKubernetes(t *testing.T) {
	testTurn(t, "kubernetes", clustertest.Namespace(t, nil))
}

// TestClaudeOutlivesServer kills the server of a turn of Claude Code while it works: while a command of it runs, and while its
// model answers. It goes on, with the tools of the host, and its usage is counted whole.
func TestClaudeOutlivesServer(t *testing.T) {
	program := testenv.Program(t, "claude", "ATOLL_CLAUDE")
	use := func(name string, input map[string]any) modeltest.Use {
		b, err := json.Marshal(input)
		must(t, err)
		return modeltest.Use{Name: name, Input: b}
	}
	s := startTurnServers(t, "namespace", filepath.Join(t.TempDir(), "sandboxes"), modeltest.Script{Aux: "a title", Turns: []modeltest.Turn{
		{Text: "First I work.", Tools: []modeltest.Use{use("Bash", map[string]any{"command": "for i in 1 2 3 4 5 6 7 8; do echo $i >>/workspace/work; sleep 0.25; done; wc -l </workspace/work"})}},
		{Text: "Now the tool.", Tools: []modeltest.Use{use("mcp__atoll__time", map[string]any{})}},
		{Text: "It is done."},
	}}, program)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	replicas, c := s.replicas, s.client
	rec, err := c.StartTurn(ctx, agent.Request{Assistant: "coder", Turn: agent.Turn{Prompt: agent.Text("Do the work.")}})
	must(t, err)
	killed := false
	events := followTurn(ctx, t, c, rec.ID, func(e agent.Event) {
		if e.Type == agent.ToolStarted && e.Tool.Name == "Bash" && !killed {
			killed = true
			replicas[0].kill()
			must(t, replicas[0].start())
		}
	})
	var told []string
	for _, e := range events {
		if e.Type == agent.TextDone {
			told = append(told, e.Text)
		}
		if e.Type == agent.ToolFinished {
			told = append(told, strings.TrimSpace(e.Tool.Name+" "+e.Tool.Output))
		}
	}
	want := []string{"First I work.", "Bash 8", "Now the tool.", "mcp__atoll__time noon", "It is done."}
	if strings.Join(told, "|") != strings.Join(want, "|") || !killed {
		t.Errorf("the events tell %q, not %q", told, want)
	}
	r := events[len(events)-1].Result
	if r.Outcome != agent.OK || r.Text != "It is done." || r.Usage.Requests < 3 {
		t.Errorf("the turn ended with %+v", r)
	}
}

// TestToolResultReachesAnotherServer: the client of a chat API calls a tool of its own and comes back with the result to another
// server, which has the rest of the answer. Then it comes back without the result: the turn that waits for it is given up.
func TestToolResultReachesAnotherServer(t *testing.T) {
	tool := modeltest.Turn{Text: "Let me ask.", Tools: []modeltest.Use{{Name: "weather", Input: json.RawMessage(`{"city":"Rome"}`)}}}
	s := startTurnServers(t, "virtual", filepath.Join(t.TempDir(), "sandboxes"), modeltest.Script{Turns: []modeltest.Turn{tool, {Text: "It is sunny."}, tool, {Text: "Never mind."}}}, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	complete := func(messages string) (text, finish, call string) {
		t.Helper()
		web := &http.Client{Transport: &http.Transport{DialContext: s.balancer.dial, DisableKeepAlives: true}}
		body := `{"model":"qa","metadata":{"chat_id":"c"},"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}],"messages":[` + messages + `]}`
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://balancer/v1/chat/completions", strings.NewReader(body))
		must(t, err)
		q.Header.Set("Content-Type", "application/json")
		resp, err := web.Do(q)
		must(t, err)
		defer resp.Body.Close()
		var c struct {
			Choices []struct {
				Finish  string `json:"finish_reason"`
				Message struct {
					Content string
					Calls   []struct{ ID string } `json:"tool_calls"`
				}
			}
		}
		b, err := io.ReadAll(resp.Body)
		must(t, errors.Join(err, json.Unmarshal(b, &c)))
		if resp.StatusCode != http.StatusOK || len(c.Choices) != 1 {
			t.Fatalf("%s: %s", resp.Status, b)
		}
		if m := c.Choices[0].Message; len(m.Calls) == 1 {
			call = m.Calls[0].ID
		}
		return c.Choices[0].Message.Content, c.Choices[0].Finish, call
	}
	const question = `{"role":"user","content":"How is the weather?"}`
	_, finish, call := complete(question)
	if finish != "tool_calls" || call == "" {
		t.Fatalf("the answer ends with %s and call %q", finish, call)
	}
	s.balancer.turnTo(s.replicas[1])
	text, finish, _ := complete(question + `,{"role":"assistant","content":"Let me ask.","tool_calls":[{"id":"` + call + `","type":"function","function":{"name":"weather","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"` + call + `","content":"sunny"}`)
	if text != "It is sunny." || finish != "stop" {
		t.Errorf("the other server answers %q and ends with %s", text, finish)
	}
	if _, finish, _ = complete(`{"role":"user","content":"And tomorrow?"}`); finish != "tool_calls" {
		t.Fatalf("the answer ends with %s", finish)
	}
	s.balancer.turnTo(s.replicas[0])
	if text, finish, _ = complete(`{"role":"user","content":"Never mind."}`); text != "Never mind." || finish != "stop" {
		t.Errorf("without the result: %q, %s", text, finish)
	}
}
