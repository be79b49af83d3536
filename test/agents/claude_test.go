//go:build linux

package agents

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// forEachDriverWithClaude runs a test with Claude Code for every driver.
func forEachDriverWithClaude(t *testing.T, test func(t *testing.T, w *fixture)) {
	file := findProgram(t, "claude")
	forEachDriver(t, func(t *testing.T, p testDriver) {
		test(t, newFixture(t, p, claude.Agent{}, dialect.Anthropic, filepath.Dir(file), ""))
	})
}

// quickFailures are environment variables that limit retries.
var quickFailures = []string{"CLAUDE_CODE_MAX_RETRIES=1"}

// bashInput returns the input of the tool Bash for a command.
func bashInput(command string) map[string]any {
	return map[string]any{"command": command, "description": "run it"}
}

func TestClaudeTask(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		called := make(chan tool.Call, 10)
		w.tools = []tool.Tool{{Server: "crm", Name: "find_user", Description: "Finds a user.", Call: func(_ context.Context, c tool.Call) (tool.Result, error) {
			checkNoKeyInProcesses(t)
			called <- c
			return tool.Result{Text: "user 7 is Ann"}, nil
		}}}
		name := (&tool.Toolset{Tools: w.tools}).List()[0].Name
		w.model.Play(newScript(
			answerWithTool("I write it.", "Write", map[string]any{"file_path": workspace + "/hello.sh", "content": "echo hello from $(id -u)\n"}),
			answerWithTool("I run it.", "Bash", bashInput("bash hello.sh | tee out.txt; env | sort; for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; tr '\\0' ' ' < $p/cmdline; done 2>/dev/null")),
			answerWithTool("I ask the host.", "mcp__atoll__"+name, map[string]any{"id": 7}),
			answerWithTool("I look how to greet.", "Skill", map[string]any{"skill": "greeting"}),
			answerWithText("Done: the file says hello."),
		))
		skill := agent.Skill{Name: "greeting", Files: fstest.MapFS{
			"SKILL.md": {Data: []byte("---\nname: greeting\ndescription: How to greet.\n---\nAlways greet in Latin: salve.\n")},
		}}
		first := agent.Turn{Prompt: agent.Text("write hello.sh and run it"), System: "You are the assistant of ACME.", Skills: []agent.Skill{skill}}
		sb := w.createSandbox(t)
		j, r := w.newJob(t, sb, first)
		res, err := agent.Run(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		checkOutcome(t, r, res, agent.OK, "")
		r.checkLaws()

		if res.Text != "Done: the file says hello." || res.Session == "" || res.Turns != 5 || len(res.Denials) != 0 {
			t.Errorf("the result: %+v", res)
		}
		if got := w.readFile(t, workspace+"/hello.sh"); got != "echo hello from $(id -u)\n" {
			t.Errorf("hello.sh: %q", got)
		}
		if got := w.readFile(t, workspace+"/out.txt"); got != "hello from 1000\n" {
			t.Errorf("out.txt: %q", got)
		}
		if runs := r.finishedCalls("Bash"); len(runs) != 1 || runs[0].Exit == nil || *runs[0].Exit != 0 || !strings.Contains(runs[0].Output, "ANTHROPIC_API_KEY=none") {
			t.Errorf("the command: %+v", runs)
		}
		if c := <-called; string(c.Input) != `{"id":7}` || c.Caller.Owner.User != "ann" {
			t.Errorf("the host's tool was called with %s by %+v", c.Input, c.Caller)
		}
		if calls := r.finishedCalls("mcp__atoll__" + name); len(calls) != 1 || calls[0].Kind != agent.MCP || !strings.Contains(calls[0].Output, "user 7 is Ann") {
			t.Errorf("the host's tool: %+v", calls)
		}
		bodies := w.requestBodies(t)
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
			{0, "mcp__atoll__" + name, true},
			{0, "greet in Latin", false},
			{4, "greet in Latin", true},
		} {
			if strings.Contains(bodies[c.of], c.text) != c.in {
				t.Errorf("case %d: request %d and %q", i, c.of+1, c.text)
			}
		}
		if u := res.Usage; u.Input != 500 || u.Output != 125 || u.Requests != 5 {
			t.Errorf("usage: %+v", u)
		}
		w.checkNoKey(t, r)
		checkNoKeyInSandbox(t, sb)

		// Another sandbox resumes the session.
		w.model.Play(newScript(answerWithText("You asked for hello.sh.")))
		res2, r2 := w.runTurn(t, agent.Turn{Prompt: agent.Text("what did I ask for?"), Session: res.Session, System: "You are the assistant of EMCA."})
		checkOutcome(t, r2, res2, agent.OK, "")
		if res2.Session != res.Session {
			t.Errorf("the session is %s, was %s", res2.Session, res.Session)
		}
		last := w.requestBodies(t)[5]
		for _, text := range []string{"write hello.sh and run it", "Done: the file says hello.", "what did I ask for?", "You are the assistant of EMCA."} {
			if !strings.Contains(last, text) {
				t.Errorf("the request of the resumed session does not contain %q", text)
			}
		}
		if strings.Contains(last, "of ACME") {
			t.Error("the resumed session has the system prompt of the first")
		}
		if u := res2.Usage; u.Input != 100 || u.Output != 25 || u.Requests != 1 || u.Cost > res.Usage.Cost/2 {
			t.Errorf("usage of the second turn alone: %+v; of the first %+v", u, res.Usage)
		}

		_, r3 := w.runTurn(t, agent.Turn{Prompt: agent.Text("hello?"), Session: "11111111-2222-4333-8444-555555555555"})
		if got := r3.eventsOfType(agent.Finished)[0].Result; got.Outcome != agent.Failed || got.Code != "session_not_found" {
			t.Errorf("a session that does not exist: %+v", got)
		}
	})
}
