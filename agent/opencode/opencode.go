// Package opencode runs opencode: once for each prompt, with its work reported in
// lines of JSON, and with Turn.Ask over the Agent Client Protocol.
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
	"github.com/atoll-sandbox/atoll/agent/oneshot"
)

// Agent is opencode.
type Agent struct{}

var _ agent.Agent = Agent{}

// Name returns "opencode".
func (Agent) Name() string { return "opencode" }

// Features returns what opencode can do. It streams text, can be interrupted and
// accepts further prompts and images only in turns with Turn.Ask, or with the
// argument acp.
//
// It repeats requests that the model's API refuses with 429 or 5xx without a limit
// and without a message: such a turn ends with the idle limit.
func (Agent) Features() agent.Features {
	return agent.Features{
		Approvals: true,
		Interrupt: true,
		Resume:    true,
		TurnsBy:   "acp",
		Usage:     true,
		System:    true,
		Skills:    true,
		Tools:     true,
		Images:    true,
		API:       "openai",
		Needs:     []string{"bash", "rg"}, // it lists files with rg, and would download it
		Package:   &agent.Package{Name: "opencode-linux-{arch}", Version: "1.18.33", Program: "bin/opencode"},
		Arguments: map[string]string{
			"acp":     "whether to use the Agent Client Protocol, which streams text, in turns without permission requests",
			"agent":   "which of opencode's own agents works: build, plan",
			"variant": "how much the model thinks, as its provider calls it: high, max, minimal",
		},
	}
}

// Plan places instructions and skills in the state directory, which holds all of
// opencode's own files, and runs it with the prompt on its input. Without Turn.Trust
// it reads no configuration, instructions and skills of the workspace; it still runs
// plugins in .opencode, inside the sandbox, when the first tool is used.
func (a Agent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	o, err := readArguments(t, a.Features())
	if err != nil {
		return nil, fmt.Errorf("agent opencode: %w", err)
	}
	home := path.Join(at.State, "config", "opencode")
	files, err := agent.SkillFiles(t.Skills, path.Join(home, "skills"))
	if err != nil {
		return nil, fmt.Errorf("agent opencode: %w", err)
	}
	system := path.Join(home, "system.md")
	if t.System != "" {
		files = append(files, agent.File{Path: system, Data: []byte(t.System)})
	}
	p := &agent.Plan{Files: files, Env: append(buildEnv(t, at, system), t.Env...), Args: []string{"opencode"}}
	if len(t.Command) > 0 {
		p.Args = slices.Clone(t.Command)
	}
	if acp.IsRequested(t) {
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
	p.Stdin = []byte(agent.PlainText(t.Prompt))
	return p, nil
}

// NewConversation decodes opencode's lines, or speaks the Agent Client Protocol.
func (Agent) NewConversation(t *agent.Turn, at agent.Environment) agent.Conversation {
	if acp.IsRequested(t) {
		return acp.NewConversation(t, at, acp.Options{Name: "opencode"})
	}
	return &conversation{Conversation: oneshot.Conversation{StdinPrompt: "opencode"}, turn: t}
}

type arguments struct{ agent, variant string }

func readArguments(t *agent.Turn, f agent.Features) (arguments, error) {
	var c arguments
	var on bool
	errs := []error{t.CheckFeatures(f), t.DecodeArgument("acp", &on), t.DecodeArgument("agent", &c.agent), t.DecodeArgument("variant", &c.variant)}
	if t.Schema != nil {
		errs = append(errs, fmt.Errorf("%w: a JSON schema for the answer", atoll.ErrUnsupported))
	}
	if acp.IsRequested(t) && (c.agent != "" || c.variant != "") {
		errs = append(errs, fmt.Errorf("%w: the arguments agent and variant with the Agent Client Protocol", atoll.ErrUnsupported))
	}
	return c, errors.Join(errs...)
}

// buildEnv returns opencode's directories and its configuration, which overrides
// that of every file.
func buildEnv(t *agent.Turn, at agent.Environment, system string) []string {
	env := []string{
		"HOME=" + at.State,
		"XDG_CONFIG_HOME=" + path.Join(at.State, "config"),
		"XDG_DATA_HOME=" + path.Join(at.State, "data"),
		"XDG_STATE_HOME=" + path.Join(at.State, "state"),
		"XDG_CACHE_HOME=" + path.Join(at.State, "cache"),
		"OPENCODE_CONFIG_CONTENT=" + buildConfig(t, at, system),
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

// buildConfig returns opencode's configuration as JSON.
func buildConfig(t *agent.Turn, at agent.Environment, system string) string {
	c := object{"autoupdate": false, "share": "disabled"}
	if t.Ask {
		c["permission"] = object{"*": "ask", "read": "allow", "glob": "allow", "grep": "allow", "list": "allow", "todowrite": "allow", "todoread": "allow", "skill": "allow"}
		c["experimental"] = object{"continue_loop_on_deny": true} // else a denial ends the turn
	} else {
		c["permission"] = "allow" // the sandbox is the limit
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
	if len(at.Tools) > 0 && !acp.IsRequested(t) { // else the protocol passes them
		c["mcp"] = object{"atoll": object{"type": "local", "command": at.Tools, "enabled": true, "timeout": 3600_000}}
	}
	b, _ := json.Marshal(c) // can't fail for strings
	return string(b)
}

// toolKind returns the kind of a tool of opencode.
func toolKind(name string) agent.Kind {
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
