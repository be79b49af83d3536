//go:build linux

package turns

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// endingAgent is a real agent for the table of endings.
type endingAgent struct {
	name  string
	api   string // of its connector
	base  string // behind the model server's URL
	shell func(command string) modeltest.Use
	aux   string // answer to requests without tools

	many map[string]any // arguments with which one process accepts many prompts

	warm  []string // like short, of the endings of a process that has had a turn
	short []string // names of the endings that are run unless $ATOLL_ENDINGS is "all"
}

// endingAgents are the agents of the table.
func endingAgents() []endingAgent {
	shell := func(tool, argument string) func(string) modeltest.Use {
		return func(command string) modeltest.Use {
			input := jsonObject{argument: command, "description": "run it"}
			if tool == "exec_command" {
				input = jsonObject{argument: command, "yield_time_ms": 30_000} // else Codex goes on without its result
			}
			return newToolUse(tool, input)
		}
	}
	return []endingAgent{
		{name: "claude", api: "anthropic", shell: shell("Bash", "command"), aux: "a title", short: []string{"deadline", "Ctrl-C", "server SIGKILL", "429"}, warm: []string{"server SIGKILL", "429"}},
		{name: "codex", api: "responses", base: "/v1", many: map[string]any{"server": true}, shell: shell("exec_command", "cmd"), aux: "a title", short: []string{"client gone", "CLI SIGKILL"}},
		{name: "gemini", api: "gemini", many: map[string]any{"acp": true}, shell: shell("run_shell_command", "command"), aux: `{"complexity_reasoning":"none","complexity_score":90}`, short: []string{"deadline"}},
		{name: "opencode", api: "openai", base: "/v1", many: map[string]any{"acp": true}, shell: shell("bash", "command"), aux: "a title", short: []string{"deadline"}},
	}
}

// endingFixture is a server process of one agent, and its model.
type endingFixture struct {
	*testing.T
	agent  endingAgent
	dir    string
	env    []string
	model  *modeltest.Server
	server *exec.Cmd
	log    *syncBuffer
	addr   string
	client *client.Client
	token  string
	warm   bool   // agents wait for the next turn of their chats
	first  string // the turn of prelude
}

// syncBuffer is a buffer for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *syncBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *syncBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newEndingFixture(t *testing.T, a endingAgent, warm bool) *endingFixture {
	t.Helper()
	programs := testenv.Program(t, a.name, "ATOLL_AGENTS")
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("ATOLL_TEST_DIR"), "/var/tmp"), "atoll-endings-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is left in it is not the test's subject
	f := &endingFixture{T: t, agent: a, dir: dir, model: modeltest.New(t, modeltest.Script{}), warm: warm}
	idle := "0s"
	if warm {
		idle = "1h"
	}
	home, app := filepath.Join(dir, "home"), filepath.Join(dir, "app")
	for _, d := range []string{home, filepath.Join(app, "connectors"), filepath.Join(app, "assistants", "coder")} {
		f.must(os.MkdirAll(d, 0o755))
	}
	f.placePrograms(programs, filepath.Join(home, "agents"))
	connector := fmt.Sprintf(`{"type":%q,"options":{"host":%q,"key":"real-key","model":"scripted-1","models":["*"]}}`, a.api, f.model.URL+a.base)
	f.must(os.WriteFile(filepath.Join(app, "connectors", "scripted.conn.yao"), []byte(connector), 0o600))
	arguments, err := json.Marshal(f.arguments())
	f.must(err)
	assistant := fmt.Sprintf(`{"name":"Coder","connector":"scripted","sandbox":{"command":%q,"driver":"namespace","arguments":%s}}`, a.name, arguments)
	f.must(os.WriteFile(filepath.Join(app, "assistants", "coder", "package.yao"), []byte(assistant), 0o600))
	f.env = append(os.Environ(), "ATOLL_HOME="+home, "ATOLL_APP="+app, "ATOLL_CONFIG="+filepath.Join(dir, "none.yaml"), "ATOLL_DRIVER=namespace", "ATOLL_AGENTS_IDLE="+idle)
	f.startServer()
	t.Cleanup(f.stopServer)
	return f
}

// placePrograms makes the agents' programs those of the server. The copy of opencode has the rg of Codex, which opencode
// would download.
func (f *endingFixture) placePrograms(programs, place string) {
	f.Helper()
	if f.agent.name != "opencode" {
		f.must(os.Symlink(programs, place))
		return
	}
	from, err := filepath.EvalSymlinks(filepath.Join(programs, "opencode", "current"))
	f.must(err)
	dir := filepath.Join(place, "opencode", filepath.Base(from))
	f.must(os.MkdirAll(filepath.Dir(dir), 0o755))
	if out, err := exec.Command("cp", "-a", from, dir).CombinedOutput(); err != nil {
		f.Fatalf("copy opencode: %v %s", err, out)
	}
	f.must(os.Symlink(filepath.Base(dir), filepath.Join(place, "opencode", "current")))
	rg := filepath.Join(filepath.Dir(filepath.Dir(testenv.Program(f, "codex", "ATOLL_CODEX"))), "codex-path", "rg")
	if out, err := exec.Command("cp", rg, filepath.Join(dir, "bin", "rg")).CombinedOutput(); err != nil {
		f.Fatalf("copy rg: %v %s", err, out)
	}
}

func (f *endingFixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// listening is the line in which a server prints its address.
var listening = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// startServer starts 'atoll serve'.
func (f *endingFixture) startServer() {
	f.Helper()
	program := testenv.Atoll(f)
	f.log = &syncBuffer{}
	f.server = exec.Command(program, "serve", "--listen", cmp.Or(f.addr, "127.0.0.1:0"))
	f.server.Env, f.server.Stdout, f.server.Stderr = f.env, f.log, f.log
	f.must(f.server.Start())
	base := ""
	f.waitFor("the address of the server", func() bool {
		base = listening.FindString(f.log.String())
		return base != ""
	})
	f.addr = strings.TrimPrefix(base, "http://")
	if f.token == "" {
		token := exec.Command(program, "token", "create", "--quiet", "--name", "endings")
		token.Env = f.env
		out, err := token.Output()
		f.must(err)
		f.token = strings.TrimSpace(string(out))
		f.client, err = client.New(client.Options{Host: base, Token: f.token})
		f.must(err)
		f.Cleanup(func() { _ = f.client.Close() }) // only its idle connections
	}
}

func (f *endingFixture) stopServer() {
	_ = f.server.Process.Signal(syscall.SIGTERM) // it may have exited
	if err := f.server.Wait(); f.Failed() {
		f.Logf("the server: %v\n%.20000s", err, f.log.String())
	}
}

// waitFor waits for a condition, for at most a minute and a half.
func (f *endingFixture) waitFor(what string, ok func() bool) {
	f.Helper()
	deadline := time.Now().Add(90 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			f.Fatalf("%s: not in time\n%.5000s", what, f.log.String())
		}
		<-tick.C
	}
}

// secretWord is in the first prompt of each chat.
const secretWord = "xylophone-4711"

// request returns the first request of a chat.
func (f *endingFixture) request(chat string, timeout time.Duration) agent.Request {
	return agent.Request{Agent: f.agent.name, Connector: "scripted", Chat: chat, Timeout: timeout, Turn: agent.Turn{
		Prompt: agent.Text("The word is " + secretWord + ". Run the command."), Arguments: f.arguments(),
	}}
}

// arguments are the agent's arguments.
func (f *endingFixture) arguments() map[string]any {
	if f.warm && f.agent.many != nil {
		return f.agent.many
	}
	return map[string]any{}
}

// prelude runs a turn of a chat after which the agent's process waits for the next one. It returns its sandbox.
func (f *endingFixture) prelude(e ending, chat string) string {
	f.Helper()
	f.model.Play(modeltest.Script{Aux: f.agent.aux, Turns: []modeltest.Turn{{Text: "Hello."}}})
	q := f.request(chat, otherLimit)
	q.Prompt = agent.Text("Say hello.")
	if e.assistant {
		q.Agent, q.Connector, q.Arguments, q.Assistant = "", "", nil, "coder"
	}
	rec := f.waitForEnd(f.start(q).ID)
	if rec.Result.Outcome != agent.OK {
		f.Fatalf("the first turn: %+v", rec.Result)
	}
	f.first = rec.ID
	return rec.Sandbox
}

// start starts a turn.
func (f *endingFixture) start(r agent.Request) agent.Record {
	f.Helper()
	rec, err := f.client.StartTurn(f.Context(), r)
	f.must(err)
	return rec
}

// waitForTool waits until the turn's command runs. It returns its id.
func (f *endingFixture) waitForTool(chat string) string {
	f.Helper()
	id := ""
	f.waitFor("the turn", func() bool {
		all, err := f.client.Turns(f.Context(), client.TurnFilter{Chat: chat})
		if err == nil && len(all) > 0 && all[len(all)-1].ID != f.first {
			id = all[len(all)-1].ID
		}
		return id != ""
	})
	f.waitFor("the command", func() bool { // opencode reports a command when it has ended
		rec, err := f.client.Turn(f.Context(), id)
		if err != nil || rec.Workspace == "" {
			return false
		}
		file, err := f.client.Files(rec.Workspace).OpenFile(f.Context(), "/begun")
		if err != nil {
			return false
		}
		return file.Close() == nil
	})
	return id
}

// waitForUsage waits until the answer that has the command is counted: an agent may run it before that.
func (f *endingFixture) waitForUsage(chat string) {
	f.Helper()
	f.waitFor("the usage of the answer", func() bool {
		s, err := f.client.Session(f.Context(), chat)
		return err == nil && s.TurnUsage.Output > 1 // as the answer begins, the API reports one token
	})
}

// waitForEnd waits for the end of a turn.
func (f *endingFixture) waitForEnd(id string) agent.Record {
	f.Helper()
	var rec agent.Record
	f.waitFor("the end of the turn", func() bool {
		var err error
		rec, err = f.client.Turn(f.Context(), id)
		return err == nil && rec.Result != nil
	})
	return rec
}

// ending is a way in which a turn ends.
type ending struct {
	name   string
	script func(a endingAgent) []modeltest.Turn
	run    func(f *endingFixture, chat string) agent.Record
	// outcomes are the outcomes and codes that the turn may have.
	outcomes  []string
	assistant bool // the turn is one of the assistant
	other     bool // the turn has other settings than those of request
	// broken means that requests have no whole answer: at least what the model's server counted is counted.
	broken bool
}

// runs is a script whose first answer runs a command.
func runs(command string) func(a endingAgent) []modeltest.Turn {
	return func(a endingAgent) []modeltest.Turn {
		return []modeltest.Turn{{Text: "I run it.", Tools: []modeltest.Use{a.shell(command)}}, {Text: "It is done."}}
	}
}

// forEver is a command that does not end; Claude Code refuses to sleep for long.
const forEver = "touch begun; tail -f /dev/null"

// fails is a script whose answers all fail.
func fails(status, retry int) func(endingAgent) []modeltest.Turn {
	return func(endingAgent) []modeltest.Turn { return []modeltest.Turn{{Status: status, Retry: retry}} }
}

// Time limits of turns that end by them: enough for the slowest agent to start on a busy machine.
const (
	limit      = 15 * time.Second
	failLimit  = 40 * time.Second // for the retries of an agent
	otherLimit = 80 * time.Second
)

// runLimited runs a turn with a time limit.
func runLimited(d time.Duration) func(f *endingFixture, chat string) agent.Record {
	return func(f *endingFixture, chat string) agent.Record { return f.waitForEnd(f.start(f.request(chat, d)).ID) }
}

// endings are the ways in which turns end.
func endings() []ending {
	return []ending{
		{name: "deadline", outcomes: []string{"timeout, timeout"}, script: runs(forEver), run: runLimited(limit)},
		{name: "Ctrl-C", outcomes: []string{"aborted, aborted"}, script: runs(forEver), run: runInterrupted, broken: true, other: true},
		{name: "client gone", outcomes: []string{"aborted, aborted"}, script: runs(forEver), run: runAbandoned, assistant: true},
		{name: "server SIGKILL", outcomes: []string{"ok"}, script: runs("touch begun; for i in 1 2 3 4 5; do sleep 1; done; echo done"), run: runServerKilled},
		{name: "CLI SIGKILL", outcomes: []string{"crashed"}, script: runs(forEver), run: runAgentKilled},
		{name: "model hang", outcomes: []string{"timeout, timeout"}, script: func(endingAgent) []modeltest.Turn {
			return []modeltest.Turn{{Hang: modeltest.Duration(10 * time.Minute)}}
		}, run: runLimited(limit), broken: true},
		{name: "429", outcomes: []string{"error, rate_limit", "timeout, rate_limit"}, script: fails(429, 2), run: runLimited(failLimit)},
		{name: "500", outcomes: []string{"error, server_error", "timeout, server_error"}, script: fails(500, 0), run: runLimited(failLimit)},
		{name: "529", outcomes: []string{"error, overloaded", "timeout, overloaded"}, script: fails(529, 0), run: runLimited(failLimit)},
		{name: "cut stream", outcomes: []string{"ok"}, script: func(endingAgent) []modeltest.Turn {
			return []modeltest.Turn{{Text: "It is cut in the middle.", Cut: true}, {Text: "It is done."}}
		}, run: runLimited(failLimit), broken: true},
	}
}

// runInterrupted runs 'atoll agent run' and sends it SIGINT while the command runs.
func runInterrupted(f *endingFixture, chat string) agent.Record {
	cmd := exec.Command(testenv.Atoll(f), "agent", "run", f.agent.name, "-c", "scripted", "--chat", chat, "The word is "+secretWord+". Run the command.")
	cmd.Env = append(f.env, "ATOLL_HOST=http://"+f.addr, "ATOLL_TOKEN="+f.token)
	var out syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	f.must(cmd.Start())
	id := f.waitForTool(chat)
	f.must(cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // its exit status is about the interrupt
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		f.Errorf("atoll agent run exits with %d\n%s", code, out.String())
	}
	return f.waitForEnd(id)
}

// runAbandoned sends a request to the chat API and leaves while the command runs.
func runAbandoned(f *endingFixture, chat string) agent.Record {
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	body, err := json.Marshal(jsonObject{"model": "coder", "stream": true, "messages": []jsonObject{userMessage("The word is " + secretWord + ". Run the command.")}})
	f.must(err)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.addr+"/v1/chat/completions", bytes.NewReader(body))
	f.must(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+f.token)
	r.Header.Set("X-Atoll-Chat", chat)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // until the context ends
			_ = resp.Body.Close()
		}
	}()
	id := f.waitForTool(chat)
	cancel()
	<-over
	return f.waitForEnd(id)
}

// runServerKilled kills the server while the command runs, and starts the next one.
func runServerKilled(f *endingFixture, chat string) agent.Record {
	f.start(f.request(chat, otherLimit))
	id := f.waitForTool(chat)
	f.waitForUsage(chat)
	f.must(f.server.Process.Kill())
	_ = f.server.Wait() // it was killed
	f.startServer()
	return f.waitForEnd(id)
}

// runAgentKilled kills the agent's processes inside while the command runs.
func runAgentKilled(f *endingFixture, chat string) agent.Record {
	f.start(f.request(chat, otherLimit))
	id := f.waitForTool(chat)
	rec, err := f.client.Turn(f.Context(), id)
	f.must(err)
	sb, err := f.client.Open(f.Context(), rec.Sandbox)
	f.must(err)
	const kill = `for p in /proc/[0-9]*; do if { readlink $p/exe; tr '\0' ' ' <$p/cmdline; } 2>/dev/null | grep -q "atoll/agent[s]"; then kill -9 ${p#/proc/} && echo killed; fi; done; true`
	var out bytes.Buffer
	if _, err = sb.Exec(f.Context(), atoll.Cmd{Shell: kill, Stdout: &out}); !errors.Is(err, atoll.ErrNotFound) { // the sandbox may be removed first
		f.must(err)
	}
	if out.Len() == 0 {
		f.Error("no process of the agent was found")
	}
	return f.waitForEnd(id)
}

// check checks a turn that has ended, and returns its cell of the table.
func (f *endingFixture) check(e ending, chat string, rec agent.Record, counted modeltest.Usage) string {
	f.Helper()
	r := rec.Result
	cell := string(r.Outcome)
	if r.Code != "" {
		cell += ", " + r.Code
	}
	if !slices.Contains(e.outcomes, cell) {
		f.Errorf("it ended with %s, not %v: %+v", cell, e.outcomes, r)
	}
	if e.name == "429" && r.RetryAfter != 2 {
		f.Errorf("Retry-After is %d", r.RetryAfter)
	}
	u := r.Usage
	exact := u.Input == counted.Input && u.Output == counted.Output
	if more := u.Input >= counted.Input && u.Output >= counted.Output; !exact && !(e.broken && more) {
		f.Errorf("usage %d+%d, the model counted %d+%d", u.Input, u.Output, counted.Input, counted.Output)
	}
	s, err := f.client.Session(f.Context(), chat)
	f.must(err)
	if s.State != agent.SessionIdle || s.Turn != rec.ID || s.TurnUsage.Input != u.Input || s.TurnUsage.Output != u.Output || s.Session != r.Session {
		f.Errorf("session %+v\nresult %+v", s, r)
	}
	boxes, err := f.client.Sandboxes(f.Context(), client.Filter{})
	f.must(err)
	if len(boxes) > 0 && !f.warm {
		f.Errorf("sandboxes are left: %+v", boxes)
	}
	f.checkMemory(chat, rec)
	if f.warm { // an idle agent gives its workspace back
		f.must(f.client.RemoveWorkspace(f.Context(), rec.Workspace))
		boxes, err := f.client.Sandboxes(f.Context(), client.Filter{})
		f.must(err)
		if len(boxes) > 0 {
			f.Errorf("sandboxes are left: %+v", boxes)
		}
	}
	return fmt.Sprintf("%s; %d+%d tokens", cell, u.Input, u.Output)
}

// checkMemory checks that the next turn of the chat knows the first prompt.
func (f *endingFixture) checkMemory(chat string, rec agent.Record) {
	f.Helper()
	f.model.Play(modeltest.Script{Aux: f.agent.aux, Turns: []modeltest.Turn{{Text: "I know it."}}})
	q := f.request(chat, otherLimit)
	if rec.Assistant != "" {
		q.Agent, q.Connector, q.Arguments, q.Assistant = "", "", nil, rec.Assistant
	}
	q.Prompt = agent.Text("Which word was it?")
	next := f.waitForEnd(f.start(q).ID)
	if next.Result.Outcome != agent.OK {
		f.Errorf("the next turn: %+v", next.Result)
	}
	for _, q := range f.model.Requests() {
		if b := string(q.Body); strings.Contains(b, "Which word was it?") && strings.Contains(b, secretWord) {
			f.Logf("session %q, then %q", rec.Result.Session, next.Result.Session)
			return
		}
	}
	f.Errorf("the next turn does not know the first prompt: session %q, then %q", rec.Result.Session, next.Result.Session)
}

// TestEndings ends turns of the real agents in every way with ATOLL_ENDINGS=all, otherwise in some, and checks for each that the outcome tells the cause, that
// the usage is what the model's server has counted, that nothing is left running, and that the next turn of the
// chat remembers. It logs a table of what it finds.
func TestEndings(t *testing.T) {
	testEndings(t, false, func(a endingAgent) []string { return a.short })
}

// TestWarmEndings is TestEndings for the second turn of chats whose agents wait for it.
func TestWarmEndings(t *testing.T) {
	testEndings(t, true, func(a endingAgent) []string { return a.warm })
}

func testEndings(t *testing.T, warm bool, short func(endingAgent) []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("real agents: left out by -short")
	}
	table := map[string]map[string]string{}
	for _, a := range endingAgents() {
		if os.Getenv("ATOLL_ENDINGS") != "all" && len(short(a)) == 0 {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			f := newEndingFixture(t, a, warm)
			for i, e := range endings() {
				if os.Getenv("ATOLL_ENDINGS") != "all" && !slices.Contains(short(a), e.name) {
					continue
				}
				t.Run(strings.ReplaceAll(e.name, " ", ""), func(t *testing.T) {
					was := f.T
					f.T = t
					defer func() { f.T = was }()
					chat := fmt.Sprintf("%s-%d", a.name, i)
					cell, rec := f.runEnding(e, chat)
					t.Logf("%s: %s (%v) %s", e.name, cell, rec.Result.Duration.Round(time.Millisecond), rec.Result.Message)
					if table[e.name] == nil {
						table[e.name] = map[string]string{}
					}
					table[e.name][a.name] = cell
				})
			}
		})
	}
	t.Log("\n" + formatEndings(table))
}

// runEnding ends a turn of a chat and returns its cell of the table.
func (f *endingFixture) runEnding(e ending, chat string) (string, agent.Record) {
	f.Helper()
	sandbox := ""
	if f.warm {
		sandbox = f.prelude(e, chat)
	}
	f.model.Play(modeltest.Script{Aux: f.agent.aux, Turns: e.script(f.agent)})
	before := f.model.Usage()
	rec := e.run(f, chat)
	after := f.model.Usage()
	after.Input, after.Output = after.Input-before.Input, after.Output-before.Output
	cell := f.check(e, chat, rec, after)
	if f.warm && !e.other && rec.Sandbox != sandbox {
		f.Errorf("the turn does not go on in the sandbox of the first one")
	}
	return cell, rec
}

// formatEndings returns the table in Markdown.
func formatEndings(table map[string]map[string]string) string {
	var b strings.Builder
	b.WriteString("| ending |")
	for _, a := range endingAgents() {
		fmt.Fprintf(&b, " %s |", a.name)
	}
	b.WriteString("\n|---|---|---|---|---|\n")
	for _, e := range endings() {
		fmt.Fprintf(&b, "| %s |", e.name)
		for _, a := range endingAgents() {
			fmt.Fprintf(&b, " %s |", table[e.name][a.name])
		}
		b.WriteString("\n")
	}
	return b.String()
}
