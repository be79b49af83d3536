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

// other is an agent besides Claude Code, and how a model talks with it.
type other struct {
	agent   agent.Agent
	api     dialect.Name
	dir     string   // of the host, with its program
	bin     string   // beneath it, on PATH
	command []string // inside, if it is not on PATH
	tools   string   // directory of the host with programs that it needs

	shell func(text, command string) modeltest.Turn // runs a command
	tool  func(text, name string, input map[string]any) modeltest.Turn
	skill func(text, name string) modeltest.Turn // reads a skill

	shellName, toolName string            // of the tools, as events have them
	hostile             map[string]string // files of a workspace that mean ill; ATTACKER is replaced
	patient             bool              // it asks again for ever where the model fails with 500
}

// world is one for the agent, in a namespace sandbox.
func (o *other) world(t *testing.T) *world {
	t.Helper()
	d := &namespace.Driver{Dir: scratch(t)}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	w := newWorld(t, place{driver: d}, o.agent, o.api, o.dir, o.bin)
	if o.tools != "" {
		w.fixed = append(w.fixed, atoll.Mount{Source: o.tools, Target: programsDir + "/tools", ReadOnly: true})
		w.path = append(w.path, programsDir+"/tools")
	}
	return w
}

func (o *other) turn(prompt string) agent.Turn {
	return agent.Turn{Prompt: agent.Text(prompt), Command: o.command}
}

// play is a script; side requests are answered besides.
func (o *other) play(w *world, turns ...modeltest.Turn) {
	w.model.Play(modeltest.Script{Turns: turns, Aux: "A title"})
}

// main returns the bodies of requests that the script answered.
func (w *world) main(t *testing.T) []string {
	t.Helper()
	all := w.asked(t)
	var bodies []string
	for i, q := range w.model.Requests() {
		if !q.Aux && q.Turn >= 0 {
			bodies = append(bodies, all[i])
		}
	}
	return bodies
}

// look dumps what a program inside can see of its environment.
const look = "bash hello.sh | tee out.txt; env; for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; tr '\\0' ' ' < $p/cmdline; done 2>/dev/null"

// works is a task that writes files, runs them, calls a tool of the host and
// uses a skill; another sandbox goes on with it.
func (o *other) works(t *testing.T) {
	w := o.world(t)
	called := make(chan tool.Call, 10)
	w.tools = []tool.Tool{{Server: "crm", Name: "find_user", Description: "Finds a user.", Call: func(_ context.Context, c tool.Call) (tool.Result, error) {
		called <- c
		return tool.Result{Text: "user 7 is Ann"}, nil
	}}}
	name := (&tool.Offer{Tools: w.tools}).List()[0].Name
	o.play(w,
		o.shell("I write it.", "printf 'echo hello from $(id -u)\\n' > hello.sh"),
		o.shell("I run it.", look),
		o.tool("I ask the host.", name, map[string]any{"id": 7}),
		o.skill("I look how to greet.", "greeting"),
		says("Done: the file says hello."),
	)
	turn := o.turn("write hello.sh and run it")
	turn.System = "You are the assistant of ACME."
	turn.Skills = []agent.Skill{{Name: "greeting", Files: fstest.MapFS{
		"SKILL.md": {Data: []byte("---\nname: greeting\ndescription: How to greet.\n---\nAlways greet in Latin: salve.\n")},
	}}}
	res, r := w.run(t, turn)
	want(t, r, res, agent.OK, "")
	if res.Text != "Done: the file says hello." || res.Session == "" {
		t.Errorf("the result: %+v", res)
	}
	if got := w.file(t, workspace+"/out.txt"); got != "hello from 1000\n" {
		t.Errorf("out.txt: %q", got)
	}
	if runs := r.ended(o.shellName); len(runs) < 2 || !strings.Contains(runs[1].Output, "hello from 1000") {
		t.Errorf("the commands: %+v", runs)
	}
	select {
	case c := <-called:
		if string(c.Input) != `{"id":7}` || c.Who.Owner.User != "ann" {
			t.Errorf("the host's tool was called with %s by %+v", c.Input, c.Who)
		}
	default:
		t.Error("the host's tool was not called")
	}
	if calls := r.ended(o.toolName + name); len(calls) != 1 || !strings.Contains(calls[0].Output, "user 7 is Ann") {
		t.Errorf("the host's tool: %+v", calls)
	}
	o.told(t, w)
	if t.Failed() {
		t.Log(r.text())
	}
	w.noSecret(t, r)
	o.resumes(t, w, res)
}

// told checks what the model was told.
func (o *other) told(t *testing.T, w *world) {
	t.Helper()
	bodies := w.main(t)
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

// resumes goes on with a session in another sandbox, and with one that is not
// there.
func (o *other) resumes(t *testing.T, w *world, before agent.Result) {
	t.Helper()
	o.play(w, says("You asked for hello.sh."))
	turn := o.turn("what did I ask for?")
	turn.Session = before.Session
	res, r := w.run(t, turn)
	want(t, r, res, agent.OK, "")
	if res.Session != before.Session || res.Text != "You asked for hello.sh." {
		t.Errorf("the resumed session: %+v", res)
	}
	bodies := w.main(t)
	last := bodies[len(bodies)-1]
	for _, text := range []string{"write hello.sh and run it", "Done: the file says hello.", "what did I ask for?"} {
		if !strings.Contains(last, text) {
			t.Errorf("the request of the resumed session has not %q", text)
		}
	}
	turn.Session = "11111111-2222-4333-8444-555555555555"
	if o.agent.Name() == "opencode" {
		turn.Session = "ses_00000000ffffeS5lDLsrd2dDJd"
	}
	res, r = w.run(t, turn)
	want(t, r, res, agent.Failed, "session_not_found")
}

// fails is a model that can't be had.
func (o *other) fails(t *testing.T) {
	w := o.world(t)
	o.play(w, modeltest.Turn{Status: 401, Error: "no such key"})
	res, r := w.run(t, o.turn("hi"))
	want(t, r, res, agent.Failed, "authentication")

	o.play(w, modeltest.Turn{Status: 500, Error: "broken"})
	j, r := w.job(t, w.sandbox(t), o.turn("hi"))
	if o.patient {
		j.Idle = 6 * time.Second
	}
	res, err := agent.Run(t.Context(), j)
	switch {
	case err != nil:
		t.Fatal(err)
	case o.patient && res.Outcome != agent.Timeout, !o.patient && res.Outcome != agent.Failed:
		t.Errorf("with status 500 it ended as %q (%s): %s\n%s", res.Outcome, res.Code, res.Message, r.text())
	}
	r.laws()
	w.noSecret(t, r)
}

// spends is a budget that is used up in the middle.
func (o *other) spends(t *testing.T) {
	w := o.world(t)
	w.access.Limits = []model.Limit{{Who: w.access.Who, Budget: agent.Budget{Requests: 3}}}
	o.play(w, o.shell("On it.", "echo x >> count.txt"))
	res, r := w.run(t, o.turn("count for ever"))
	want(t, r, res, agent.BudgetExceeded, res.Code)
	if n := len(w.model.Requests()); n > 3 {
		t.Errorf("the model was asked %d times with a budget of 3", n)
	}
	if got := w.file(t, workspace+"/count.txt"); len(got) > 6 {
		t.Errorf("count.txt: %q", got)
	}
}

// dies is a turn that is given up while a tool is used: nothing of it stays.
func (o *other) dies(t *testing.T) {
	w := o.world(t)
	o.play(w, o.shell("I wait.", "sleep 4711 & setsid sleep 4712 & touch begun; sleep 4713"), says("over"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sb := w.sandbox(t)
	j, r := w.job(t, sb, o.turn("wait"))
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
			t.Fatalf("it ended before it was given up: %+v, %v\n%s", e.res, e.err, r.text())
		case <-tick.C:
			_, err := os.Stat(begun)
			waiting = err != nil
		}
	}
	cancel()
	e := <-over
	if e.err != nil || e.res.Outcome != agent.Aborted {
		t.Errorf("it ended as %+v, %v", e.res, e.err)
	}
	if left := lines(t, sb, `for p in /proc/[0-9]*; do tr '\0' _ < $p/cmdline; echo; done 2>/dev/null | grep -E '^sleep_47|codex|gemini|opencode' | grep -v grep`); len(left) > 0 {
		t.Errorf("these are left: %q", left)
	}
	r.laws()
}

// resists is a workspace whose files mean ill: none of them leads the agent
// elsewhere, or makes it run a thing.
func (o *other) resists(t *testing.T) {
	w := o.world(t)
	sb := w.sandbox(t)
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
	for name, text := range o.hostile {
		w.write(t, workspace+"/"+name, strings.ReplaceAll(text, "ATTACKER", "http://"+l.Addr().String()))
	}
	o.play(w, o.shell("I look.", "ls"), says("All is well."))
	j, r := w.job(t, sb, o.turn("look around"))
	res, err := agent.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, res, agent.OK, "")
	select {
	case q := <-caught:
		t.Errorf("the attacker was asked: %s", q)
	default:
	}
	left, err := filepath.Glob(filepath.Join(w.dirs[workspace], "pwned*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the workspace ran %q, %v", left, err)
	}
	for _, body := range w.main(t) {
		if strings.Contains(body, "EVIL") {
			t.Error("the model was told what the workspace's instructions say")
		}
	}
}

// asks is an agent that asks before it uses tools: what is denied is not done.
func (o *other) asks(t *testing.T) {
	w := o.world(t)
	o.play(w, o.shell("First.", "touch denied"), o.shell("Second.", "touch allowed"), says("One of them."))
	turn := o.turn("do both")
	turn.Ask = true
	j, r := w.job(t, w.sandbox(t), turn)
	asked := 0
	j.Decide = func(context.Context, agent.Permission) (agent.Decision, error) {
		asked++
		return agent.Decision{Allow: asked > 1, Message: "not this one"}, nil
	}
	res, err := agent.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	r.laws()
	if _, err := os.Stat(filepath.Join(w.dirs[workspace], "denied")); err == nil {
		t.Error("what was denied was done")
	}
	if asked == 0 || len(res.Denials) == 0 {
		t.Errorf("it asked %d times; denials: %+v\n%s", asked, res.Denials, r.text())
	}
	want(t, r, res, agent.OK, "")
	if _, err := os.Stat(filepath.Join(w.dirs[workspace], "allowed")); err != nil || res.Text != "One of them." {
		t.Errorf("what was allowed was not done: %v; %q\n%s", err, res.Text, r.text())
	}
}
