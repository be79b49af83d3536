// Package opencode runs opencode: once for each prompt, when it tells what it
// did in lines of JSON, and with Turn.Ask by the Agent Client Protocol.
package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/acp"
	"github.com/atoll-sandbox/atoll/agent/once"
)

// Agent is opencode.
type Agent struct{}

var _ agent.Agent = Agent{}

// Name returns "opencode".
func (Agent) Name() string { return "opencode" }

// Features says what opencode can do. It tells text as it comes, can be
// interrupted and takes further prompts and pictures only in turns with
// Turn.Ask, or with the argument acp.
//
// What its model's API refuses for the moment, with 429 or 5xx, it asks for
// again without an end and without a word: such a turn ends when nothing was
// told for too long.
func (Agent) Features() agent.Features {
	return agent.Features{
		Approvals: true,
		Interrupt: true,
		Resume:    true,
		Usage:     true,
		System:    true,
		Skills:    true,
		Tools:     true,
		Images:    true,
		API:       "openai",
		Needs:     []string{"bash", "rg"}, // it looks for rg where it lists files, and else wants to fetch it
		Package:   &agent.Package{Name: "opencode-linux-{arch}", Version: "1.18.33", Program: "bin/opencode"},
		Arguments: map[string]string{
			"acp":     "whether it is talked with by the Agent Client Protocol, which tells text as it comes, though it does not ask",
			"agent":   "which of opencode's own agents works: build, plan",
			"variant": "how much the model thinks, as its provider calls it: high, max, minimal",
		},
	}
}

// Plan places instructions and skills in the state directory, which is where
// opencode finds everything of its own, and runs it with the prompt on its
// input. Without Turn.Trust it reads no configuration, instructions and skills
// of the workspace; plugins in .opencode it runs nevertheless, within the walls,
// when the first tool is used.
func (a Agent) Plan(t *agent.Turn, at agent.Site) (*agent.Plan, error) {
	o, err := options(t, a.Features())
	if err != nil {
		return nil, fmt.Errorf("agent opencode: %w", err)
	}
	home := path.Join(at.State, "config", "opencode")
	files, err := agent.Place(t.Skills, path.Join(home, "skills"))
	if err != nil {
		return nil, fmt.Errorf("agent opencode: %w", err)
	}
	system := path.Join(home, "system.md")
	if t.System != "" {
		files = append(files, agent.File{Path: system, Data: []byte(t.System)})
	}
	p := &agent.Plan{Files: files, Env: append(environment(t, at, system), t.Env...), Args: []string{"opencode"}}
	if len(t.Command) > 0 {
		p.Args = slices.Clone(t.Command)
	}
	if acp.Wanted(t) {
		p.Args = append(p.Args, "acp")
		return p, nil
	}
	p.Args = append(p.Args, "run", "--format=json", "--thinking")
	for _, flag := range []struct{ name, value string }{{"session", t.Session}, {"agent", o.agent}, {"variant", o.variant}} {
		if flag.value != "" {
			p.Args = append(p.Args, "--"+flag.name+"="+flag.value)
		}
	}
	for _, c := range t.Prompt {
		if c.Path != "" && strings.HasPrefix(c.Type, "image/") {
			p.Args = append(p.Args, "--file="+c.Path)
		}
	}
	p.Stdin = []byte(agent.Plain(t.Prompt))
	return p, nil
}

// Talk reads what opencode tells, or speaks the Agent Client Protocol.
func (Agent) Talk(t *agent.Turn, at agent.Site) agent.Talk {
	if acp.Wanted(t) {
		return acp.NewTalk(t, at, acp.Options{Name: "opencode"})
	}
	return &talk{Talk: once.Talk{Deaf: "opencode"}, turn: t}
}

type choice struct{ agent, variant string }

func options(t *agent.Turn, f agent.Features) (choice, error) {
	var c choice
	var on bool
	errs := []error{t.Check(f), t.Argument("acp", &on), t.Argument("agent", &c.agent), t.Argument("variant", &c.variant)}
	if t.Schema != nil {
		errs = append(errs, fmt.Errorf("%w: a schema of the answer", atoll.ErrUnsupported))
	}
	if acp.Wanted(t) && (c.agent != "" || c.variant != "") {
		errs = append(errs, fmt.Errorf("%w: the arguments agent and variant, by the Agent Client Protocol", atoll.ErrUnsupported))
	}
	return c, errors.Join(errs...)
}

// environment returns where opencode keeps what, and its configuration, which
// goes before that of any file.
func environment(t *agent.Turn, at agent.Site, system string) []string {
	env := []string{
		"HOME=" + at.State,
		"XDG_CONFIG_HOME=" + path.Join(at.State, "config"),
		"XDG_DATA_HOME=" + path.Join(at.State, "data"),
		"XDG_STATE_HOME=" + path.Join(at.State, "state"),
		"XDG_CACHE_HOME=" + path.Join(at.State, "cache"),
		"OPENCODE_CONFIG_CONTENT=" + configuration(t, at, system),
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_SHARE=1",
		"OPENCODE_DISABLE_TERMINAL_TITLE=1",
	}
	if !t.Trust {
		env = append(env,
			"OPENCODE_DISABLE_PROJECT_CONFIG=1",
			"OPENCODE_DISABLE_EXTERNAL_SKILLS=1",
			"OPENCODE_DISABLE_CLAUDE_CODE=1",
			"OPENCODE_PURE=1",
		)
	}
	return env
}

type object = map[string]any

// configuration returns opencode's own, as JSON.
func configuration(t *agent.Turn, at agent.Site, system string) string {
	c := object{"autoupdate": false, "share": "disabled"}
	if t.Ask {
		c["permission"] = object{"*": "ask", "read": "allow", "glob": "allow", "grep": "allow", "list": "allow", "todowrite": "allow", "todoread": "allow", "skill": "allow"}
		c["experimental"] = object{"continue_loop_on_deny": true} // else what is denied ends the turn
	} else {
		c["permission"] = "allow" // the walls are around it
	}
	if t.System != "" {
		c["instructions"] = []string{system}
	}
	if at.Model != "" {
		name := t.Model
		if name == "" {
			name = "default"
		}
		c["model"], c["small_model"] = "atoll/"+name, "atoll/"+name
		c["enabled_providers"] = []string{"atoll"}
		c["provider"] = object{"atoll": object{
			"npm":     "@ai-sdk/openai-compatible",
			"name":    "atoll",
			"options": object{"baseURL": at.Model + "/v1", "apiKey": "none"},
			"models":  object{name: object{"name": name, "attachment": true, "tool_call": true, "modalities": object{"input": []string{"text", "image"}, "output": []string{"text"}}}},
		}}
	} else if t.Model != "" {
		c["model"] = t.Model
	}
	if len(at.Tools) > 0 && !acp.Wanted(t) { // else by the protocol
		c["mcp"] = object{"atoll": object{"type": "local", "command": at.Tools, "enabled": true, "timeout": 3600_000}}
	}
	b, _ := json.Marshal(c) // it is made of words
	return string(b)
}

// kindOf says what a tool of opencode does.
func kindOf(name string) agent.Kind {
	switch name {
	case "read":
		return agent.Read
	case "write", "edit", "multiedit", "patch", "apply_patch":
		return agent.Edit
	case "list", "glob", "grep", "websearch", "codesearch":
		return agent.Search
	case "bash":
		return agent.Execute
	case "webfetch":
		return agent.Fetch
	case "todowrite", "todoread":
		return agent.Think
	}
	if strings.HasPrefix(name, "atoll_") {
		return agent.MCP
	}
	return agent.Other
}
