package assistant

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/internal/model"
)

// TestExamples: the assistants that are shown to people work as they are.
func TestExamples(t *testing.T) {
	root := filepath.Join("..", "..", "..", "examples")
	env := func(string) (string, bool) { return "set", true }
	connectors, err := model.Load(filepath.Join(root, "connectors"), env)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(filepath.Join(root, "assistants"), LoadOptions{
		Agents: map[string]agent.Agent{"claude": claude.Agent{}}, Connectors: connectors, Env: env,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := loaded.Assistants
	coder, qa := all["coder"], all["qa"]
	if coder == nil || qa == nil || len(all) != 2 {
		t.Fatalf("loaded %v", all)
	}
	if qa.Sandbox != nil || qa.Connector != "deepseek.v3" || qa.Hooks != nil || len(qa.Prompts) != 1 {
		t.Errorf("qa is %+v", qa)
	}
	box := coder.Sandbox
	if box == nil || box.Command != "claude" || box.Config.Limits.Memory != 4<<30 || box.Config.Limits.CPU != 2 || box.MaxTurns != 20 {
		t.Fatalf("the sandbox of coder is %+v", box)
	}
	if !coder.Hooks.HasFunction("Create") || !coder.Hooks.HasFunction("Next") || len(coder.Skills) != 2 || len(coder.Tools) != 1 {
		t.Errorf("coder is %+v", coder)
	}
	// What the file says really reaches the command line.
	plan, err := claude.Agent{}.Plan(&agent.Turn{Prompt: agent.Text("hi"), MaxTurns: box.MaxTurns, Arguments: box.Arguments}, agent.Environment{
		Dir: "/workspace", State: "/var/lib/agents/claude", Model: "http://127.0.0.1:1",
	})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(plan.Args, " ")
	for _, want := range []string{"--max-turns 20", "--permission-mode acceptEdits"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s lacks %s", line, want)
		}
	}
}
