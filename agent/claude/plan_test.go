package claude_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

func TestPlan(t *testing.T) {
	skill := agent.Skill{Name: "review", Files: fstest.MapFS{
		"SKILL.md":         {Data: []byte("---\nname: review\ndescription: How to review.\n---\n")},
		"scripts/check.sh": {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
	}}
	for name, c := range map[string]struct {
		turn agent.Turn
		at   func(*agent.Environment)
	}{
		"plain": {},
		"all": {turn: agent.Turn{
			System: "You are the assistant of ACME.\n", Model: "sonnet", Session: "11111111-2222-4333-8444-555555555555", MaxTurns: 7,
			Schema: []byte(`{"type":"object"}`), Skills: []agent.Skill{skill}, Env: []string{"LANG=C.UTF-8", "API_TIMEOUT_MS=5"},
			Arguments: map[string]any{
				"permission_mode": "acceptEdits", "tools": "Bash,Edit", "allowed_tools": []any{"Edit", "Bash(git log, git diff)"}, "disallowed_tools": "WebFetch",
				"max_turns": 5.0, "max_budget_usd": 0.25, "effort": "high", "fallback_model": "haiku", "max_output_tokens": 1000.0,
				"max_thinking_tokens": 0.0, "system_prompt": "You are a critic.", "background": false, "commands": true,
			},
		}},
		"ask":    {turn: agent.Turn{Ask: true, Prompt: agent.Text("--dangerously-skip-permissions")}},
		"trust":  {turn: agent.Turn{Trust: true}},
		"root":   {at: func(s *agent.Environment) { s.Root = true }},
		"alone":  {at: func(s *agent.Environment) { s.Model, s.Tools = "", nil }},
		"other":  {turn: agent.Turn{Command: []string{"/usr/local/bin/claude", "--debug"}}},
		"system": {turn: agent.Turn{System: "Be brief."}},
	} {
		t.Run(name, func(t *testing.T) {
			at := agenttest.Site(claude.Agent{})
			if c.at != nil {
				c.at(&at)
			}
			if c.turn.Prompt == nil {
				c.turn.Prompt = agent.Text("the prompt is said, not given as an argument")
			}
			p, err := claude.Agent{}.Plan(&c.turn, at)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range p.Args {
				if strings.Contains(a, c.turn.Prompt[0].Text) {
					t.Errorf("the prompt is an argument: %q", a)
				}
			}
			agenttest.GoldenPlan(t, "testdata/plan-"+name+".golden", p)
		})
	}
}

func TestInvalidTurns(t *testing.T) {
	type args = map[string]any
	for name, c := range map[string]struct {
		turn  agent.Turn
		names string // what the error has
	}{
		"UnknownArgument":        {agent.Turn{Arguments: args{"dangerously": true}}, `"dangerously"`},
		"UnknownMode":            {agent.Turn{Arguments: args{"permission_mode": "yolo"}}, "permission_mode"},
		"ModeOfAnotherType":      {agent.Turn{Arguments: args{"permission_mode": 7}}, "permission_mode"},
		"NobodyIsAsked":          {agent.Turn{Ask: true, Arguments: args{"permission_mode": "bypassPermissions"}}, "permission_mode"},
		"UnknownEffort":          {agent.Turn{Arguments: args{"effort": "some"}}, "effort"},
		"NegativeTurns":          {agent.Turn{Arguments: args{"max_turns": -1}}, "max_turns"},
		"TurnsThatAreNone":       {agent.Turn{MaxTurns: -1}, "max_turns"},
		"HalfATurn":              {agent.Turn{Arguments: args{"max_turns": 1.5}}, "max_turns"},
		"NegativeMoney":          {agent.Turn{Arguments: args{"max_budget_usd": -0.5}}, "max_budget_usd"},
		"ToolsThatAreNot":        {agent.Turn{Arguments: args{"allowed_tools": args{}}}, "allowed_tools"},
		"ToolsInATool":           {agent.Turn{Arguments: args{"allowed_tools": []any{"Edit,Bash"}}}, "allowed_tools"},
		"AnEmptyTool":            {agent.Turn{Arguments: args{"tools": []any{""}}}, "tools"},
		"ManyTools":              {agent.Turn{Arguments: args{"tools": strings.Repeat("Bash,", 201)}}, "tools"},
		"ALongToolName":          {agent.Turn{Arguments: args{"disallowed_tools": strings.Repeat("x", 2000)}}, "disallowed_tools"},
		"AModelOfManyLines":      {agent.Turn{Model: "a\nb"}, "model"},
		"ASchemaThatIsNone":      {agent.Turn{Schema: []byte("{")}, "schema"},
		"AHugeSchema":            {agent.Turn{Schema: []byte(`"` + strings.Repeat("x", 1<<17) + `"`)}, "schema"},
		"EveryReasonIsNamed":     {agent.Turn{MaxTurns: -1, Arguments: args{"effort": "some"}}, "effort"},
		"EveryReasonIsNamedToo":  {agent.Turn{MaxTurns: -1, Arguments: args{"effort": "some"}}, "max_turns"},
		"ASkillWithAPathForName": {agent.Turn{Skills: []agent.Skill{{Name: "../x", Files: fstest.MapFS{}}}}, "../x"},
	} {
		t.Run(name, func(t *testing.T) {
			c.turn.Prompt = agent.Text("go")
			_, err := claude.Agent{}.Plan(&c.turn, agenttest.Site(claude.Agent{}))
			if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v; want ErrInvalid that names %s", err, c.names)
			}
		})
	}
}
