// Package cursor runs Cursor's CLI: once for each prompt, with its work reported in
// lines of JSON, and with Turn.Ask over the Agent Client Protocol.
//
// It follows the CLI's documentation and is tested with a fake that behaves as
// documented. The program itself was not run: it comes from cursor.com and is in
// no registry. It uses models only through Cursor's own service, so its key
// (CURSOR_API_KEY) must be inside the sandbox, which must be able to connect to
// that service: the model endpoint, budgets and other models can't be used. Every
// turn emits that as a warning.
package cursor

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

// Agent is Cursor's CLI.
type Agent struct{}

var _ agent.Agent = Agent{}

// Name returns "cursor".
func (Agent) Name() string { return "cursor" }

// Features returns what the CLI can do. It can be interrupted and accepts further
// prompts and images only in turns with Turn.Ask.
func (Agent) Features() agent.Features {
	return agent.Features{
		Approvals: true,
		Interrupt: true,
		Resume:    true,
		Deltas:    true,
		System:    true,
		Skills:    true,
		Tools:     true,
		Images:    true,
		Needs:     []string{"bash", "cursor-agent"},
		Arguments: map[string]string{},
	}
}

// Plan places the configuration of tools in the state directory, which the CLI
// uses as the home directory, and runs it with the prompt on its input.
func (a Agent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	errs := []error{t.CheckFeatures(a.Features())}
	if t.Schema != nil {
		errs = append(errs, fmt.Errorf("%w: a JSON schema for the answer", atoll.ErrUnsupported))
	}
	if strings.HasPrefix(t.Session, "-") {
		errs = append(errs, fmt.Errorf("%w: session %q", atoll.ErrInvalid, t.Session))
	}
	files, err := agent.SkillFiles(t.Skills, skillsDir(at))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("agent cursor: %w", err)
	}
	p := &agent.Plan{Files: files, Env: append([]string{"HOME=" + at.State, "NO_COLOR=1"}, t.Env...), Args: []string{"cursor-agent"}}
	if len(t.Command) > 0 {
		p.Args = slices.Clone(t.Command)
	}
	if t.Ask {
		p.Args = append(p.Args, "acp")
		return p, nil
	}
	if len(at.Tools) > 0 {
		p.Files = append(p.Files, agent.File{Path: path.Join(at.State, ".cursor", "mcp.json"), Data: mcpConfig(at)})
		p.Args = append(p.Args, "--approve-mcps")
	}
	p.Args = append(p.Args, "--print", "--output-format=stream-json", "--stream-partial-output", "--force", "--trust")
	if t.Model != "" {
		p.Args = append(p.Args, "--model="+t.Model)
	}
	if t.Session != "" {
		p.Args = append(p.Args, "--resume="+t.Session)
	}
	p.Stdin = []byte(agent.PlainText(promptWithIntro(t, at)))
	return p, nil
}

// promptWithIntro returns the prompt. At the start of a session the system prompt
// and the skills precede it, since the CLI has no other place for them.
func promptWithIntro(t *agent.Turn, at agent.Environment) []agent.Content {
	system := acp.SystemPrompt(t, skillsDir(at))
	if t.Session != "" || system == "" {
		return t.Prompt
	}
	return append(agent.Text(system), t.Prompt...)
}

func skillsDir(at agent.Environment) string { return path.Join(at.State, "skills") }

// mcpConfig returns mcp.json.
func mcpConfig(at agent.Environment) []byte {
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	b, _ := json.Marshal(map[string]map[string]server{"mcpServers": {"atoll": {at.Tools[0], at.Tools[1:]}}}) // can't fail for strings
	return append(b, '\n')
}

// NewConversation decodes the CLI's lines, or speaks the Agent Client Protocol.
func (Agent) NewConversation(t *agent.Turn, at agent.Environment) agent.Conversation {
	if t.Ask {
		return &acpConversation{acp.NewConversation(t, at, acp.Options{Name: "cursor", Model: t.Model, System: acp.SystemPrompt(t, skillsDir(at))})}
	}
	return &conversation{Conversation: oneshot.Conversation{StdinPrompt: "cursor"}}
}

// acpConversation is a conversation in the Agent Client Protocol.
type acpConversation struct{ *acp.Conversation }

// Begin emits the warning and begins the conversation.
func (t *acpConversation) Begin(x agent.Exchange) {
	emitWarning(x)
	t.Conversation.Begin(x)
}

// emitWarning warns about the key and the missing budget.
func emitWarning(x agent.Exchange) {
	x.Emit(agent.Event{Type: agent.Warning, Text: "Cursor's CLI uses its own service: its key is inside the sandbox, and no budget limits its requests"})
}
