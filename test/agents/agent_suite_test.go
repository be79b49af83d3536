//go:build linux

package agents

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// agentSuite has the tests of an agent other than Claude Code, and how a model calls
// its tools.
type agentSuite struct {
	agent   agent.Agent
	api     dialect.Name
	dir     string   // on the host, with its program
	binDir  string   // below dir, on PATH
	command []string // in the sandbox, if it is not on PATH
	tools   string   // directory of the host with programs that it needs

	shellAnswer func(text, command string) modeltest.Turn // runs a command
	toolAnswer  func(text, name string, input map[string]any) modeltest.Turn
	skillAnswer func(text, name string) modeltest.Turn // reads a skill

	shellName, toolName string            // of the tools, as events have them
	hostileFiles        map[string]string // hostile files for a workspace; ATTACKER is replaced by a URL
	retriesForever      bool              // it retries without end if the model returns status 500
}

// newFixture returns a fixture with the agent and the namespace driver.
func (o *agentSuite) newFixture(t *testing.T) *fixture {
	t.Helper()
	d := &namespace.Driver{Dir: makeTempDir(t)}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	w := newFixture(t, testDriver{driver: d}, o.agent, o.api, o.dir, o.binDir)
	if o.tools != "" {
		w.mounts = append(w.mounts, atoll.Mount{Source: o.tools, Target: programsDir + "/tools", ReadOnly: true})
		w.path = append(w.path, programsDir+"/tools")
	}
	return w
}

func (o *agentSuite) newTurn(prompt string) agent.Turn {
	return agent.Turn{Prompt: agent.Text(prompt), Command: o.command}
}

// playScript sets the model's answers; the agent's side requests get other answers.
func (o *agentSuite) playScript(w *fixture, turns ...modeltest.Turn) {
	w.model.Play(modeltest.Script{Turns: turns, Aux: "A title"})
}

// scriptedRequests returns the bodies of requests that the script answered.
func (w *fixture) scriptedRequests(t *testing.T) []string {
	t.Helper()
	all := w.requestBodies(t)
	var bodies []string
	for i, q := range w.model.Requests() {
		if !q.Aux && q.Turn >= 0 {
			bodies = append(bodies, all[i])
		}
	}
	return bodies
}

// dumpEnvironment prints what a program in the sandbox can read of environments and
// command lines.
const dumpEnvironment = "bash hello.sh | tee out.txt; env; for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; tr '\\0' ' ' < $p/cmdline; done 2>/dev/null"

// testTask runs a task that writes files, runs them, calls a tool of the host and uses
// a skill, and resumes its session in another sandbox.
func (o *agentSuite) testTask(t *testing.T) {
	w := o.newFixture(t)
	called := make(chan tool.Call, 10)
	w.tools = []tool.Tool{{Server: "crm", Name: "find_user", Description: "Finds a user.", Call: func(_ context.Context, c tool.Call) (tool.Result, error) {
		called <- c
		return tool.Result{Text: "user 7 is Ann"}, nil
	}}}
	name := (&tool.Toolset{Tools: w.tools}).List()[0].Name
	o.playScript(w,
		o.shellAnswer("I write it.", "printf 'echo hello from $(id -u)\\n' > hello.sh"),
		o.shellAnswer("I run it.", dumpEnvironment),
		o.toolAnswer("I ask the host.", name, map[string]any{"id": 7}),
		o.skillAnswer("I look how to greet.", "greeting"),
		answerWithText("Done: the file says hello."),
	)
	turn := o.newTurn("write hello.sh and run it")
	turn.System = "You are the assistant of ACME."
	turn.Skills = []agent.Skill{{Name: "greeting", Files: fstest.MapFS{
		"SKILL.md": {Data: []byte("---\nname: greeting\ndescription: How to greet.\n---\nAlways greet in Latin: salve.\n")},
	}}}
	res, r := w.runTurn(t, turn)
	checkOutcome(t, r, res, agent.OK, "")
	if res.Text != "Done: the file says hello." || res.Session == "" {
		t.Errorf("the result: %+v", res)
	}
	if got := w.readFile(t, workspace+"/out.txt"); got != "hello from 1000\n" {
		t.Errorf("out.txt: %q", got)
	}
	if runs := r.finishedCalls(o.shellName); len(runs) < 2 || !strings.Contains(runs[1].Output, "hello from 1000") {
		t.Errorf("the commands: %+v", runs)
	}
	select {
	case c := <-called:
		if string(c.Input) != `{"id":7}` || c.Caller.Owner.User != "ann" {
			t.Errorf("the host's tool was called with %s by %+v", c.Input, c.Caller)
		}
	default:
		t.Error("the host's tool was not called")
	}
	if calls := r.finishedCalls(o.toolName + name); len(calls) != 1 || !strings.Contains(calls[0].Output, "user 7 is Ann") {
		t.Errorf("the host's tool: %+v", calls)
	}
	o.checkRequests(t, w)
	if t.Failed() {
		t.Log(r.formatEvents())
	}
	w.checkNoKey(t, r)
	o.testResume(t, w, res)
}

// checkRequests checks the requests to the model in testTask.
func (o *agentSuite) checkRequests(t *testing.T, w *fixture) {
	t.Helper()
	bodies := w.scriptedRequests(t)
	if len(bodies) != 5 {
		t.Fatalf("%d requests", len(bodies))
	}
	for i, c := range []struct {
		of   int
		text string
		in   bool
	}{
		{0, "You are the assistant of ACME.", true},
		{0, "write hello.sh and run it", true},
		{0, "How to greet.", true},
		{0, "greet in Latin", false},
		{3, "user 7 is Ann", true},
		{4, "greet in Latin", true},
	} {
		if strings.Contains(bodies[c.of], c.text) != c.in {
			t.Errorf("case %d: request %d and %q", i, c.of+1, c.text)
		}
	}
}

// testResume resumes a session in another sandbox, and tries one that does not exist.
func (o *agentSuite) testResume(t *testing.T, w *fixture, before agent.Result) {
	t.Helper()
	o.playScript(w, answerWithText("You asked for hello.sh."))
	turn := o.newTurn("what did I ask for?")
	turn.Session = before.Session
	res, r := w.runTurn(t, turn)
	checkOutcome(t, r, res, agent.OK, "")
	if res.Session != before.Session || res.Text != "You asked for hello.sh." {
		t.Errorf("the resumed session: %+v", res)
	}
	bodies := w.scriptedRequests(t)
	last := bodies[len(bodies)-1]
	for _, text := range []string{"write hello.sh and run it", "Done: the file says hello.", "what did I ask for?"} {
		if !strings.Contains(last, text) {
			t.Errorf("the request of the resumed session does not contain %q", text)
		}
	}
	turn.Session = "11111111-2222-4333-8444-555555555555"
	if o.agent.Name() == "opencode" {
		turn.Session = "ses_00000000ffffeS5lDLsrd2dDJd"
	}
	res, r = w.runTurn(t, turn)
	checkOutcome(t, r, res, agent.Failed, "session_not_found")
}

// testModelErrors checks turns whose model returns errors.
func (o *agentSuite) testModelErrors(t *testing.T) {
	w := o.newFixture(t)
	o.playScript(w, modeltest.Turn{Status: 401, Error: "no such key"})
	res, r := w.runTurn(t, o.newTurn("hi"))
	checkOutcome(t, r, res, agent.Failed, "authentication")

	o.playScript(w, modeltest.Turn{Status: 500, Error: "broken"})
	j, r := w.newJob(t, w.createSandbox(t), o.newTurn("hi"))
	if o.retriesForever {
		j.Idle = 6 * time.Second
	}
	res, err := agent.Run(t.Context(), j)
	switch {
	case err != nil:
		t.Fatal(err)
	case o.retriesForever && res.Outcome != agent.Timeout, !o.retriesForever && res.Outcome != agent.Failed:
		t.Errorf("with status 500 it ended as %q (%s): %s\n%s", res.Outcome, res.Code, res.Message, r.formatEvents())
	}
	r.checkLaws()
	w.checkNoKey(t, r)
}

// testBudget checks that a turn ends when its budget is used up.
func (o *agentSuite) testBudget(t *testing.T) {
	w := o.newFixture(t)
	w.access.Limits = []model.Limit{{Caller: w.access.Caller, Budget: agent.Budget{Requests: 3}}}
	o.playScript(w, o.shellAnswer("On it.", "echo x >> count.txt"))
	res, r := w.runTurn(t, o.newTurn("count for ever"))
	checkOutcome(t, r, res, agent.BudgetExceeded, res.Code)
	if n := len(w.model.Requests()); n > 3 {
		t.Errorf("the model was asked %d times with a budget of 3", n)
	}
	if got := w.readFile(t, workspace+"/count.txt"); len(got) > 6 {
		t.Errorf("count.txt: %q", got)
	}
}

// testCancel cancels a turn while a tool runs, and checks that no process is left.
func (o *agentSuite) testCancel(t *testing.T) {
	w := o.newFixture(t)
	o.playScript(w, o.shellAnswer("I wait.", "sleep 4711 & setsid sleep 4712 & touch begun; sleep 4713"), answerWithText("over"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sb := w.createSandbox(t)
	j, r := w.newJob(t, sb, o.newTurn("wait"))
	type ended struct {
		res agent.Result
		err error
	}
	over := make(chan ended, 1)
	go func() {
		res, err := agent.Run(ctx, j)
		over <- ended{res, err}
	}()
	begun := filepath.Join(w.dirs[workspace], "begun")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case e := <-over:
			t.Fatalf("the turn ended before it was cancelled: %+v, %v\n%s", e.res, e.err, r.formatEvents())
		case <-tick.C:
			_, err := os.Stat(begun)
			waiting = err != nil
		}
	}
	cancel()
	e := <-over
	if e.err != nil || e.res.Outcome != agent.Aborted {
		t.Errorf("result %+v, %v", e.res, e.err)
	}
	if left := runLines(t, sb, `for p in /proc/[0-9]*; do tr '\0' _ < $p/cmdline; echo; done 2>/dev/null | grep -E '^sleep_47|codex|gemini|opencode' | grep -v grep`); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
	r.checkLaws()
}

// testHostileWorkspace checks that hostile files in the workspace neither redirect the
// agent nor make it run commands.
func (o *agentSuite) testHostileWorkspace(t *testing.T) {
	w := o.newFixture(t)
	sb := w.createSandbox(t)
	caught := make(chan string, 100)
	l, err := atoll.Listen(t.Context(), sb, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	attacker := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		head, _ := json.Marshal(r.Header)
		select {
		case caught <- r.Method + " " + r.URL.Path + " " + string(head):
		default:
		}
	}))
	attacker.Listener.Close()
	attacker.Listener = l
	attacker.Start()
	defer attacker.Close()
	for name, text := range o.hostileFiles {
		w.writeFile(t, workspace+"/"+name, strings.ReplaceAll(text, "ATTACKER", "http://"+l.Addr().String()))
	}
	o.playScript(w, o.shellAnswer("I look.", "ls"), answerWithText("All is well."))
	j, r := w.newJob(t, sb, o.newTurn("look around"))
	res, err := agent.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	checkOutcome(t, r, res, agent.OK, "")
	select {
	case q := <-caught:
		t.Errorf("the attacker got a request: %s", q)
	default:
	}
	left, err := filepath.Glob(filepath.Join(w.dirs[workspace], "pwned*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the workspace ran %q, %v", left, err)
	}
	for _, body := range w.scriptedRequests(t) {
		if strings.Contains(body, "EVIL") {
			t.Error("the workspace's instructions reached the model")
		}
	}
}

// testPermissions checks that an agent asks before it uses tools and does not do what
// is denied.
func (o *agentSuite) testPermissions(t *testing.T) {
	w := o.newFixture(t)
	o.playScript(w, o.shellAnswer("First.", "touch denied"), o.shellAnswer("Second.", "touch allowed"), answerWithText("One of them."))
	turn := o.newTurn("do both")
	turn.Ask = true
	j, r := w.newJob(t, w.createSandbox(t), turn)
	asked := 0
	j.Decide = func(context.Context, agent.Permission) (agent.Decision, error) {
		asked++
		return agent.Decision{Allow: asked > 1, Message: "not this one"}, nil
	}
	res, err := agent.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	r.checkLaws()
	if _, err := os.Stat(filepath.Join(w.dirs[workspace], "denied")); err == nil {
		t.Error("the denied command ran")
	}
	if asked == 0 || len(res.Denials) == 0 {
		t.Errorf("it asked %d times; denials: %+v\n%s", asked, res.Denials, r.formatEvents())
	}
	checkOutcome(t, r, res, agent.OK, "")
	if _, err := os.Stat(filepath.Join(w.dirs[workspace], "allowed")); err != nil || res.Text != "One of them." {
		t.Errorf("the allowed command did not run: %v; %q\n%s", err, res.Text, r.formatEvents())
	}
}
