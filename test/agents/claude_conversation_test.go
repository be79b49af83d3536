//go:build linux

package agents

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

// isBashStarted reports whether an event is the start of a command.
func isBashStarted(e agent.Event) bool { return e.Type == agent.ToolStarted && e.Tool.Name == "Bash" }

func TestClaudePermissions(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		write := func(name, text string) modeltest.Turn {
			return answerWithTool("I write.", "Write", map[string]any{"file_path": workspace + "/" + name, "content": text})
		}
		w.model.Play(newScript(
			write("allowed", "as asked"),
			write("denied", "as asked"),
			write("rewritten", "as asked"),
			answerWithTool("I run.", "Bash", bashInput("touch always")),
			answerWithTool("I run it again.", "Bash", bashInput("touch always")),
			answerWithText("done"),
		))
		j, r := w.newJob(t, w.createSandbox(t), agent.Turn{Prompt: agent.Text("go"), Ask: true})
		var asked []string
		j.Decide = func(_ context.Context, p agent.Permission) (agent.Decision, error) {
			asked = append(asked, p.Tool.Title)
			switch p.Tool.Title {
			case workspace + "/denied":
				return agent.Decision{Message: "not that file"}, nil
			case workspace + "/rewritten":
				return agent.Decision{Allow: true, Input: map[string]any{"file_path": workspace + "/elsewhere", "content": "as decided"}}, nil
			case "touch always":
				return agent.Decision{Allow: true, Always: true}, nil
			}
			return agent.Decision{Allow: true}, nil
		}
		res, err := agent.Run(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		checkOutcome(t, r, res, agent.OK, "")
		r.checkLaws()
		if got := fmt.Sprint(asked); got != "[/workspace/allowed /workspace/denied /workspace/rewritten touch always]" {
			t.Errorf("asked for %s", got)
		}
		if got := w.readFile(t, workspace+"/allowed") + ", " + w.readFile(t, workspace+"/elsewhere"); got != "as asked, as decided" {
			t.Errorf("what was written: %q", got)
		}
		if files := w.listNames(t, workspace); !slices.Equal(files, []string{"allowed", "always", "elsewhere"}) {
			t.Errorf("files: %q", files)
		}
		writes := r.finishedCalls("Write")
		if len(writes) != 3 || writes[1].Status != agent.Denied || !strings.Contains(writes[1].Output, "not that file") || writes[2].Status != agent.Completed {
			t.Errorf("the calls: %+v", writes)
		}
		if len(res.Denials) != 1 || res.Denials[0].Title != workspace+"/denied" {
			t.Errorf("denials: %+v", res.Denials)
		}
		if bodies := w.requestBodies(t); !strings.Contains(bodies[2], "not that file") {
			t.Error("the model does not learn why")
		}
		if n := len(r.eventsOfType(agent.PermissionResolved)); n != 4 {
			t.Errorf("%d answers", n)
		}

		// Without an answer the call is denied.
		w.model.Play(newScript(write("unanswered", "x"), answerWithText("done")))
		j, r = w.newJob(t, w.createSandbox(t), agent.Turn{Prompt: agent.Text("go"), Ask: true})
		res, err = agent.Run(t.Context(), j)
		if err != nil || len(res.Denials) != 1 || slices.Contains(w.listNames(t, workspace), "unanswered") {
			t.Errorf("without an answer: %+v, %v\n%s", res, err, r.formatEvents())
		}
	})
}

func TestClaudeFollowUpPrompts(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		w.model.Play(newScript(
			answerWithTool("I wait.", "Bash", bashInput("echo $$ > pid; sleep 987654")),
			answerWithText("second"), answerWithText("third"),
		))
		sb := w.createSandbox(t)
		j, r := w.newJob(t, sb, agent.Turn{Prompt: agent.Text("first")})
		s, err := agent.StartSession(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r.waitForEvent(isBashStarted)
		waitForProcesses(t, sb, "sleep_987654", 1)
		if err := s.Interrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
		res, err := s.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkOutcome(t, r, res, agent.Aborted, "aborted")
		session := res.Session
		for _, word := range []string{"second", "third"} {
			start := time.Now()
			if err := s.Prompt(t.Context(), agent.Text("go on")); err != nil {
				t.Fatal(err)
			}
			if res, err = s.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkOutcome(t, r, res, agent.OK, "")
			if res.Text != word || res.Session != session || res.Usage.Input != 100 || res.Turns != 1 {
				t.Errorf("%s: %+v", word, res)
			}
			t.Logf("a turn of a process that runs: %v", time.Since(start))
		}
		if n := len(r.eventsOfType(agent.Started)); n != 1 {
			t.Errorf("%d processes began", n)
		}
		if n := len(r.eventsOfType(agent.Finished)); n != 3 {
			t.Errorf("%d results", n)
		}
		if left := findProcesses(t, sb, "987654"); len(left) != 0 {
			t.Errorf("the interrupted command still runs: %q", left)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left := findProcesses(t, sb, "claude"); len(left) != 0 {
			t.Errorf("the agent still runs: %q", left)
		}
	})
}

// waitForProcesses waits until n processes of a command run.
func waitForProcesses(t *testing.T, sb atoll.Sandbox, word string, n int) {
	t.Helper()
	for late := time.Now().Add(time.Minute); len(findProcesses(t, sb, word)) < n; {
		if time.Now().After(late) {
			t.Fatalf("not %d processes %s: %q", n, word, findProcesses(t, sb, ""))
		}
	}
}

// findProcesses returns the command lines in a sandbox that contain a word.
func findProcesses(t *testing.T, sb atoll.Sandbox, word string) []string {
	t.Helper()
	list := runLines(t, sb, `for p in /proc/[0-9]*; do tr '\0' '_' < $p/cmdline && echo; done 2>/dev/null`)
	return slices.DeleteFunc(list, func(s string) bool { return !strings.Contains(s, word) || strings.Contains(s, "cmdline") })
}

func TestClaudeIsKilled(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		w.model.Play(newScript(answerWithTool("I wait.", "Bash", bashInput("(setsid sleep 987001 &) ; (trap '' TERM HUP INT; exec sleep 987002) & sleep 987003")), answerWithText("never")))
		sb := w.createSandbox(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		j, r := w.newJob(t, sb, agent.Turn{Prompt: agent.Text("go")})
		done := make(chan agent.Result, 1)
		go func() {
			res, err := agent.Run(ctx, j)
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		r.waitForEvent(isBashStarted)
		waitForProcesses(t, sb, "sleep_98700", 3)
		cancel()
		res := <-done
		checkOutcome(t, r, res, agent.Aborted, "aborted")
		r.checkLaws()
		if left := append(findProcesses(t, sb, "sleep"), findProcesses(t, sb, "claude")...); len(left) != 0 {
			t.Errorf("still there: %q", left)
		}

		// The session continues in another sandbox.
		w.model.Play(newScript(answerWithText("I was interrupted.")))
		res, r = w.runTurn(t, agent.Turn{Prompt: agent.Text("what happened?"), Session: res.Session})
		checkOutcome(t, r, res, agent.OK, "")
	})
}

func TestClaudeBudget(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		w.model.Play(newScript(answerWithTool("Again.", "Bash", bashInput("echo again"))))
		w.access.Limits = []model.Limit{{Caller: model.Caller{Turn: "turn"}, Budget: model.Budget{Tokens: 300}}}
		res, r := w.runTurn(t, agent.Turn{Prompt: agent.Text("go on for ever")})
		checkOutcome(t, r, res, agent.BudgetExceeded, "budget")
		if n := len(w.model.Requests()); n != 3 {
			t.Errorf("%d requests of 125 tokens with a budget of 300", n)
		}
		res, r = w.runTurn(t, agent.Turn{Prompt: agent.Text("go on"), MaxTurns: 2})
		checkOutcome(t, r, res, agent.BudgetExceeded, "budget") // the budget is still used up
		w.access.Limits = nil
		res, r = w.runTurn(t, agent.Turn{Prompt: agent.Text("go on"), MaxTurns: 2})
		checkOutcome(t, r, res, agent.MaxTurns, "")
	})
}

func TestClaudeModelErrors(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		for _, c := range []struct {
			name    string
			turn    modeltest.Turn
			env     []string
			outcome agent.Outcome
			code    string
		}{
			{"401", modeltest.Turn{Status: 401, Error: "invalid x-api-key"}, []string{"CLAUDE_CODE_MAX_RETRIES=10"}, agent.Failed, "authentication"},
			{"400", modeltest.Turn{Status: 400, Error: "no"}, nil, agent.Failed, "invalid_request"},
			{"404", modeltest.Turn{Status: 404, Error: "no"}, nil, agent.Failed, "not_found"},
			{"429", modeltest.Turn{Status: 429, Error: "slow down"}, quickFailures, agent.Failed, "rate_limit"},
			{"500", modeltest.Turn{Status: 500, Error: "oops"}, quickFailures, agent.Failed, "server_error"},
			{"529", modeltest.Turn{Status: 529, Error: "overloaded"}, quickFailures, agent.Failed, "overloaded"},
			{"hang", modeltest.Turn{Hang: modeltest.Duration(time.Hour)}, append([]string{"API_TIMEOUT_MS=500"}, quickFailures...), agent.Failed, "server_error"},
			{"refused", modeltest.Turn{Text: "I will not", Stop: "refused"}, nil, agent.Refused, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				w.model.Play(newScript(c.turn))
				res, r := w.runTurn(t, agent.Turn{Prompt: agent.Text("go"), Env: c.env})
				checkOutcome(t, r, res, c.outcome, c.code)
				if res.Message == "" {
					t.Error("the result has no message")
				}
				if c.env != nil && len(r.eventsOfType(agent.Retrying)) == 0 {
					t.Error("no event reports a retry")
				}
				w.checkNoKey(t, r)
			})
		}
		t.Run("cut", func(t *testing.T) {
			w.model.Play(newScript(modeltest.Turn{Text: "this is not all of it", Cut: true}, answerWithText("this is all")))
			res, r := w.runTurn(t, agent.Turn{Prompt: agent.Text("go"), Env: quickFailures})
			checkOutcome(t, r, res, agent.OK, "")
			if res.Text != "this is all" {
				t.Errorf("the text: %q", res.Text)
			}
		})
	})
}

func TestClaudeLongLines(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		long := strings.Repeat("0123456789", 30_000)
		w.model.Play(newScript(
			answerWithTool("I write much.", "Write", map[string]any{"file_path": workspace + "/long", "content": long}),
			answerWithTool("I read it.", "Bash", bashInput("cat .attachments/data.csv; cat long")),
			answerWithTool("I look.", "Bash", bashInput("ls .attachments")),
			answerWithText("done"),
		))
		var shot bytes.Buffer
		if err := png.Encode(&shot, image.NewRGBA(image.Rect(0, 0, 8, 8))); err != nil {
			t.Fatal(err)
		}
		prompt := []agent.Content{
			{Text: "/start with this: " + strings.Repeat("word ", 100_000)},
			{Name: "shot.png", Type: "image/png", Data: shot.Bytes()},
			{Name: "data.csv", Type: "text/csv", Data: []byte("a,b\n1,2\n")},
		}
		res, r := w.runTurn(t, agent.Turn{Prompt: prompt})
		checkOutcome(t, r, res, agent.OK, "")
		if got := w.readFile(t, workspace+"/long"); got != long {
			t.Errorf("%d bytes were written", len(got))
		}
		if calls := r.finishedCalls("Write"); len(calls) != 1 || len(calls[0].Diffs) != 1 || calls[0].Diffs[0].New != long || calls[0].Diffs[0].Old != nil {
			t.Errorf("the change: %d calls", len(calls))
		}
		first := w.requestBodies(t)[0]
		for _, text := range []string{
			"/start with this: " + strings.Repeat("word ", 100_000), base64.StdEncoding.EncodeToString(shot.Bytes()), ".attachments/data.csv", ".attachments/shot.png",
		} {
			if !strings.Contains(first, text) {
				t.Errorf("the model was not sent %.60q", text)
			}
		}
		if calls := r.finishedCalls("Bash"); len(calls) != 2 || !strings.Contains(calls[1].Output, "data.csv\nshot.png") {
			t.Errorf("the files: %.3000v", calls)
		}
	})
}

func TestClaudeTasksAndSubagents(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		background := bashInput("sleep 1; echo it is done > done.txt")
		background["run_in_background"] = true
		w.model.Play(newScript(
			answerWithTool("I start it.", "Bash", background),
			answerWithText("It is started."),
			answerWithText("It has ended."),
		))
		res, r := w.runTurn(t, agent.Turn{Prompt: agent.Text("go")})
		checkOutcome(t, r, res, agent.OK, "")
		if res.Text != "It has ended." || res.Usage.Requests != 3 || res.Usage.Input != 300 {
			t.Errorf("the last result counts, and all that was used: %+v", res)
		}
		if got := w.readFile(t, workspace+"/done.txt"); got != "it is done\n" {
			t.Errorf("done.txt: %q", got)
		}

		delegate := map[string]any{"description": "look", "prompt": "look around", "subagent_type": "general-purpose", "run_in_background": false}
		w.model.Play(newScript(
			answerWithTool("I delegate.", "Task", delegate),
			answerWithTool("I look.", "Bash", bashInput("echo found it")),
			answerWithText("Here it is."),
			answerWithText("It was found."),
		))
		res, r = w.runTurn(t, agent.Turn{Prompt: agent.Text("go")})
		checkOutcome(t, r, res, agent.OK, "")
		task := r.filterEvents(func(e agent.Event) bool { return e.Type == agent.ToolStarted && e.Tool.Name == "Task" })
		looked := r.filterEvents(isBashStarted)
		if res.Text != "It was found." || len(task) != 1 || len(looked) != 1 || looked[0].Parent != task[0].Tool.ID {
			t.Errorf("the subagent: %s\n%s", res.Text, r.formatEvents())
		}
		if said := r.filterEvents(func(e agent.Event) bool { return e.Type == agent.TextDone && e.Parent != "" }); len(said) != 2 {
			t.Errorf("texts of the subagent: %+v", said)
		}
		if res.Usage.Input != 400 || res.Usage.Requests != 4 {
			t.Errorf("usage: %+v", res.Usage)
		}
	})
}

// TestClaudeArguments checks that Claude Code takes every argument that the plan can
// contain.
func TestClaudeArguments(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		w.model.Play(newScript(answerWithTool("", "StructuredOutput", map[string]any{"name": "Ann"}), answerWithText("There she is.")))
		res, r := w.runTurn(t, agent.Turn{
			Prompt: agent.Text("/clear who is it?"), Model: "sonnet", MaxTurns: 9,
			Schema: []byte(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
			Arguments: map[string]any{
				"permission_mode": "acceptEdits", "tools": "Bash,Edit,Write", "allowed_tools": "Bash(echo *)", "disallowed_tools": []any{"WebFetch"},
				"max_turns": 5, "max_budget_usd": 1.5, "effort": "low", "fallback_model": "haiku", "max_output_tokens": 1234,
				"max_thinking_tokens": 0, "system_prompt": "You are a CRITIC.", "background": false,
			},
		})
		checkOutcome(t, r, res, agent.OK, "")
		if string(res.Structured) != `{"name":"Ann"}` {
			t.Errorf("what follows the schema: %s", res.Structured)
		}
		first := w.requestBodies(t)[0]
		var q struct {
			MaxTokens int `json:"max_tokens"`
			Tools     []struct {
				Name string `json:"name"`
			} `json:"tools"`
		}
		if err := json.Unmarshal([]byte(first), &q); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range q.Tools {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		if got := fmt.Sprint(names); got != "[Bash Edit StructuredOutput Write]" || q.MaxTokens != 1234 {
			t.Errorf("tools %s, %d tokens", got, q.MaxTokens)
		}
		if strings.Contains(first, "run_in_background") {
			t.Error("commands can still be started that go on")
		}
		for _, text := range []string{"You are a CRITIC.", "/clear who is it?"} {
			if !strings.Contains(first, text) {
				t.Errorf("the model was not sent %q", text)
			}
		}

		// A denied call without a question is in the result.
		w.model.Play(newScript(answerWithTool("I try.", "Bash", bashInput("touch not-permitted")), answerWithText("I could not.")))
		res, r = w.runTurn(t, agent.Turn{Prompt: agent.Text("go"), Arguments: map[string]any{"permission_mode": "dontAsk"}})
		checkOutcome(t, r, res, agent.OK, "")
		if len(res.Denials) != 1 || len(r.eventsOfType(agent.PermissionDenied)) != 1 || slices.Contains(w.listNames(t, workspace), "not-permitted") {
			t.Errorf("denials: %+v\n%s", res.Denials, r.formatEvents())
		}
	})
}

// TestClaudeAsRoot checks that Claude Code works as user 0, which it refuses unless it
// knows that it is in a sandbox.
func TestClaudeAsRoot(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		if w.image == "" {
			return // mounted directories belong to user 1000, and user 0 of a namespace sandbox can't write to them
		}
		w.user = "0"
		w.model.Play(newScript(answerWithTool("I look.", "Bash", bashInput("id -u")), answerWithText("done")))
		res, r := w.runTurn(t, agent.Turn{Prompt: agent.Text("who are you?")})
		checkOutcome(t, r, res, agent.OK, "")
		if calls := r.finishedCalls("Bash"); len(calls) != 1 || calls[0].Output != "0" {
			t.Errorf("the command: %+v", calls)
		}
	})
}
