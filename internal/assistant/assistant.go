// Package assistant is what people talk to: a directory that names a connector,
// prompts, skills, tools, hooks and, perhaps, a sandbox with an agent in it; and
// the one path that every request to it takes.
package assistant

import (
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/dialect"
	"github.com/atoll-sandbox/atoll/internal/hook"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/skill"
	"github.com/atoll-sandbox/atoll/internal/tool"
)

// Assistant is one that was loaded.
type Assistant struct {
	ID          string // its directory's name; with dots for directories above
	Name        string
	Description string
	Connector   string
	Options     dialect.Request // model, temperature…: what is asked when the request does not say
	Prompts     []dialect.Message
	Skills      []skill.Skill
	Tools       []ServerTools // what may be called, of its own servers and the app's
	Servers     *tool.Servers // its own: mcps/; nil: none
	Sandbox     *Sandbox      // nil: its model is asked directly
	Workspace   Workspace
	Budget      Budgets
	Hooks       *hook.Script // nil: none
	HookLimits  hook.Limits
	Source      string // its directory
}

// ServerTools is what an assistant may call of a server.
type ServerTools struct {
	Server string   // "server_id"
	Tools  []string // nil: all
}

// Sandbox is an agent and the sandbox that it works in.
type Sandbox struct {
	Command   string   // the agent: "claude"; empty: only hooks use the sandbox
	Program   []string // Turn.Command: in place of the agent's own
	Config    atoll.Config
	Timeout   time.Duration
	Idle      time.Duration
	Arguments map[string]any
	MaxTurns  int
	Ask       bool // approvals
	Trust     bool
	System    string
}

// Workspace says whose the files are.
type Workspace struct {
	Policy string        // "chat" (default), "user", "assistant", "none", or "name"
	Name   string        // of policy "name"
	Keep   time.Duration // 0: the fleet's
}

// Budgets bound what is spent.
type Budgets struct{ Turn, Chat, Owner, Assistant model.Budget }
