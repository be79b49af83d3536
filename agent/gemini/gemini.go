// Package gemini runs Google's Gemini CLI: once for each prompt, with its work
// reported in lines of JSON, and with Turn.Ask over the Agent Client Protocol.
package gemini

import (
	"crypto/sha256"
	"encoding/hex"
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

// Agent is the Gemini CLI.
type Agent struct{}

var _ agent.Agent = Agent{}

// Name returns "gemini".
func (Agent) Name() string { return "gemini" }

// Features returns what the Gemini CLI can do. It can be interrupted and accepts
// further prompts and images only in turns with Turn.Ask, or with the argument acp.
func (Agent) Features() agent.Features {
	return agent.Features{
		Approvals: true,
		Interrupt: true,
		Resume:    true,
		TurnsBy:   "acp",
		Deltas:    true,
		Usage:     true,
		System:    true,
		Skills:    true,
		Tools:     true,
		Images:    true,
		MaxTurns:  true,
		API:       "gemini",
		Needs:     []string{"bash", "node"},
		Package:   &agent.Package{Name: "@google/gemini-cli", Version: "0.61.0", Program: "bundle/gemini.js", Node: true},
		Arguments: map[string]string{"acp": "whether to use the Agent Client Protocol in turns without permission requests"},
	}
}

// Plan places the settings in the state directory, which the CLI uses as the home
// directory, and runs it with the prompt on its input.
//
// The CLI offers no MCP tools where it does not trust the workspace, so it is set to
// trust it. Without Turn.Trust the workspace's own servers, extensions, environment
// and instructions are disabled, except GEMINI.md. The CLI still follows that file
// and the workspace's settings and hooks, inside the sandbox.
func (a Agent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	if err := checkTurn(t, a.Features()); err != nil {
		return nil, fmt.Errorf("agent gemini: %w", err)
	}
	home := path.Join(at.State, ".gemini")
	files, err := agent.SkillFiles(t.Skills, path.Join(home, "skills"))
	if err != nil {
		return nil, fmt.Errorf("agent gemini: %w", err)
	}
	memory := memoryName(t, at)
	files = append(files,
		agent.File{Path: path.Join(home, "settings.json"), Data: buildSettings(t, at, memory)},
		agent.File{Path: path.Join(home, memory), Data: []byte(t.System)},
	)
	env := []string{
		"GEMINI_CLI_HOME=" + at.State,
		"GEMINI_CLI_TRUST_WORKSPACE=true",
		"GEMINI_CLI_NO_RELAUNCH=true",
		"NO_BROWSER=true",
		"NO_COLOR=1",
	}
	if at.Model != "" {
		env = append(env, "GOOGLE_GEMINI_BASE_URL="+at.Model, "GEMINI_API_KEY=none")
	}
	p := &agent.Plan{Files: files, Env: append(env, t.Env...), Args: []string{"gemini"}}
	if len(t.Command) > 0 {
		p.Args = slices.Clone(t.Command)
	}
	if !t.Trust {
		p.Args = append(p.Args, "--extensions", "none", "--allowed-mcp-server-names", "atoll")
	}
	if model := modelOf(t, at); model != "" {
		p.Args = append(p.Args, "--model="+model)
	}
	if acp.IsRequested(t) {
		p.Args = append(p.Args, "--acp")
		return p, nil
	}
	p.Args = append(p.Args, "--output-format=stream-json", "--approval-mode=yolo", "--skip-trust")
	if t.Session != "" {
		p.Args = append(p.Args, "--resume="+t.Session)
	}
	p.Stdin = []byte(agent.PlainText(t.Prompt))
	return p, nil
}

// NewConversation decodes the CLI's lines, or speaks the Agent Client Protocol.
func (Agent) NewConversation(t *agent.Turn, at agent.Environment) agent.Conversation {
	if acp.IsRequested(t) {
		o := acp.Options{Name: "gemini"}
		if !t.Ask {
			o.Mode = "yolo"
		}
		return acp.NewConversation(t, at, o)
	}
	return &conversation{Conversation: oneshot.Conversation{StdinPrompt: "gemini"}, turn: t}
}

func checkTurn(t *agent.Turn, f agent.Features) error {
	var on bool
	errs := []error{t.CheckFeatures(f), t.DecodeArgument("acp", &on)}
	if strings.HasPrefix(t.Session, "-") {
		errs = append(errs, fmt.Errorf("%w: session %q", atoll.ErrInvalid, t.Session))
	}
	if t.Schema != nil {
		errs = append(errs, fmt.Errorf("%w: a JSON schema for the answer", atoll.ErrUnsupported))
	}
	return errors.Join(errs...)
}

// modelOf returns the name of the model. Without one, the CLI asks a model which
// one to use.
func modelOf(t *agent.Turn, at agent.Environment) string {
	if t.Model == "" && at.Model != "" {
		return "gemini-2.5-pro"
	}
	return t.Model
}

// memoryName returns a name for instruction files that no workspace has by intent.
func memoryName(t *agent.Turn, at agent.Environment) string {
	sum := sha256.Sum256([]byte(at.State + "\x00" + t.System))
	return "atoll-" + hex.EncodeToString(sum[:8]) + ".md"
}

type object = map[string]any

// buildSettings returns the user's settings.json.
func buildSettings(t *agent.Turn, at agent.Environment, memory string) []byte {
	names := []string{memory}
	if t.Trust {
		names = append(names, "GEMINI.md", "AGENTS.md")
	}
	s := object{
		"general":     object{"enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 3},
		"privacy":     object{"usageStatisticsEnabled": false},
		"telemetry":   object{"enabled": false},
		"hooksConfig": object{"enabled": t.Trust},
		"context":     object{"fileName": names},
		"ide":         object{"enabled": false},
		"security":    object{"folderTrust": object{"enabled": false}},
		"advanced":    object{"ignoreLocalEnv": !t.Trust},
	}
	if at.Model != "" {
		s["security"] = object{"folderTrust": object{"enabled": false}, "auth": object{"selectedType": "gemini-api-key"}}
	}
	if t.MaxTurns > 0 {
		s["model"] = object{"maxSessionTurns": t.MaxTurns}
	}
	if len(at.Tools) > 0 && !acp.IsRequested(t) { // else the protocol passes them
		s["mcpServers"] = object{"atoll": object{
			"command": at.Tools[0], "args": slices.Clone(at.Tools[1:]), "trust": true, "timeout": 3600_000,
		}}
	}
	b, _ := json.MarshalIndent(s, "", "  ") // can't fail for strings and numbers
	return append(b, '\n')
}

// toolKind returns the kind of a tool of the CLI.
func toolKind(name string) agent.Kind {
	switch name {
	case "read_file", "read_many_files":
		return agent.Read
	case "write_file", "replace":
		return agent.Edit
	case "list_directory", "glob", "search_file_content", "grep_search", "google_web_search":
		return agent.Search
	case "run_shell_command":
		return agent.Execute
	case "web_fetch":
		return agent.Fetch
	}
	if strings.HasPrefix(name, "mcp_") {
		return agent.MCP
	}
	return agent.Other
}
