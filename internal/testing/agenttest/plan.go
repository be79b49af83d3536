package agenttest

import (
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/atoll-sandbox/atoll/agent"
)

// Plans compares an agent's plans, or errors, for turns with different options with the
// golden files plan-NAME.txt in a directory.
func Plans(t *testing.T, a agent.Agent, dir string) {
	t.Helper()
	skill := agent.Skill{Name: "greet", Files: fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n")}}}
	picture := agent.Content{Name: "a.png", Type: "image/png", Data: []byte("\x89PNG"), Path: "/workspace/.attachments/a.png"}
	turns := map[string]agent.Turn{
		"plain":    {Prompt: agent.Text("-do the task")},
		"resume":   {Prompt: agent.Text("go on"), Session: "01a1fc0f-3842-7541-a59e-edf9a60a34ef"},
		"ask":      {Prompt: agent.Text("do the task"), Ask: true},
		"trust":    {Prompt: agent.Text("do the task"), Trust: true},
		"full":     {Prompt: append(agent.Text("look at this"), picture), System: "Be \"brief\".\nAlways.", Model: "some/model-1", Skills: []agent.Skill{skill}, Env: []string{"LANG=C"}},
		"turns":    {Prompt: agent.Text("do the task"), MaxTurns: 3},
		"schema":   {Prompt: agent.Text("do the task"), Schema: []byte(`{"type":"object"}`)},
		"strange":  {Prompt: agent.Text("do the task"), Session: "--evil", Arguments: map[string]any{"no-such": 1}},
		"promptly": {},
		"command":  {Prompt: agent.Text("do the task"), Command: []string{"/opt/agent", "--flag"}},
	}
	for name, turn := range turns {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "plan-"+name+".txt")
			p, err := a.Plan(&turn, Site(a))
			if err != nil {
				compareGolden(t, file, []byte(err.Error()+"\n"))
				return
			}
			GoldenPlan(t, file, p)
		})
	}
}
