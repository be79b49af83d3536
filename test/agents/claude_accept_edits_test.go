//go:build linux

package agents

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
)

// TestClaudeAcceptsEdits checks that in the mode acceptEdits Claude Code edits files
// and uses skills and the host's tools without asking, but does not run every command.
func TestClaudeAcceptsEdits(t *testing.T) {
	forEachDriverWithClaude(t, func(t *testing.T, w *fixture) {
		called := 0
		w.tools = []tool.Tool{{Server: "crm", Name: "find_user", Description: "Finds a user.", Call: func(context.Context, tool.Call) (tool.Result, error) {
			called++
			return tool.Result{Text: "user 7 is Ann"}, nil
		}}}
		w.model.Play(newScript(
			answerWithTool("I write it.", "Write", map[string]any{"file_path": workspace + "/hello", "content": "hello\n"}),
			answerWithTool("I ask the host.", "mcp__atoll__find_user", map[string]any{"id": 7}),
			answerWithTool("I look how to greet.", "Skill", map[string]any{"skill": "greeting"}),
			answerWithTool("I run it.", "Bash", bashInput("python3 -c 1 > denied")),
			answerWithText("done"),
		))
		skill := agent.Skill{Name: "greeting", Files: fstest.MapFS{
			"SKILL.md": {Data: []byte("---\nname: greeting\ndescription: How to greet.\nallowed-tools: Read\n---\nAlways greet in Latin: salve.\n")},
		}}
		res, r := w.runTurn(t, agent.Turn{Prompt: agent.Text("go"), Skills: []agent.Skill{skill}, Arguments: map[string]any{"permission_mode": "acceptEdits"}})
		checkOutcome(t, r, res, agent.OK, "")
		if files := w.listNames(t, workspace); called != 1 || !slices.Equal(files, []string{"hello"}) {
			t.Errorf("the host's tool was called %d times; files %q\n%s", called, files, r.formatEvents())
		}
		if bodies := w.requestBodies(t); !strings.Contains(bodies[len(bodies)-1], "greet in Latin") {
			t.Error("the skill was not read")
		}
		if len(res.Denials) != 1 || res.Denials[0].Name != "Bash" {
			t.Errorf("denials: %+v", res.Denials)
		}
	})
}
