// Package assistant loads assistants and runs their turns. An assistant is a
// directory that names a connector, prompts, skills, tools, hooks and, optionally, a
// sandbox with an agent; the [Pipeline] is the path of every request to it.
package assistant

import (
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent/skill"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// Assistant is a loaded assistant.
type Assistant struct {
	ID          string // its directory's name; with dots for parent directories
	Name        string
	Description string
	Connector   string
	Options     dialect.Request // model, temperature…: defaults for requests to the model
	Prompts     []dialect.Message
	Skills      []skill.Skill
	Tools       []ServerTools // allowed tools, of its own servers and the app's
	Servers     *tool.Servers // its own, from mcps/; nil: none
	Sandbox     *Sandbox      // nil: its model is called directly
	Workspace   Workspace
	Budget      Budgets
	Hooks       *hook.Script // nil: none
	HookLimits  hook.Limits
	Source      string // its directory
	Problem     string // why it is not what its files describe, for display; empty: it is
}

// ServerTools selects the tools of a server that an assistant may call.
type ServerTools struct {
	Server string   // "server_id"
	Tools  []string // nil: all
}

// Sandbox is an agent and the sandbox that it works in.
type Sandbox struct {
	Command   string   // the agent: "claude"; empty: only hooks use the sandbox
	Program   []string // Turn.Command: replaces the agent's own
	Config    atoll.Config
	Timeout   time.Duration
	Idle      time.Duration
	Arguments map[string]any
	MaxTurns  int
	Ask       bool // approvals
	Trust     bool
	System    string
}

// Workspace selects the workspace of turns.
type Workspace struct {
	Policy string        // "chat" (default), "user", "assistant", "none", or "name"
	Name   string        // with policy "name"
	Keep   time.Duration // retention; 0: the fleet's
}

// Budgets limit the usage of models.
type Budgets struct{ Turn, Chat, Owner, Assistant model.Budget }
