// Package cursor runs Cursor's CLI: once for each prompt, when it tells what it
// does in lines of JSON, and with Turn.Ask by the Agent Client Protocol.
//
// It is made from the CLI's documentation and tested with a double that says
// what is documented; the program itself, which comes from cursor.com and no
// registry, was not run. It asks models only at Cursor's own service, so its
// key (CURSOR_API_KEY) must be inside the sandbox, which must reach that
// service: no model endpoint, no budget and no other model can be put in its
// place. Every turn tells that as a warning.
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
	"github.com/atoll-sandbox/atoll/agent/once"
)

// Agent is Cursor's CLI.
type Agent struct{}

var _ agent.Agent = Agent{}

// Name returns "cursor".
func (Agent) Name() string { return "cursor" }

// Features says what the CLI can do. It can be interrupted and takes further
// prompts and pictures only in turns with Turn.Ask.
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

// Plan places what the CLI knows of tools in the state directory, which it
// takes for the user's home, and runs it with the prompt on its input.
func (a Agent) Plan(t *agent.Turn, at agent.Site) (*agent.Plan, error) {
	errs := []error{t.Check(a.Features())}
	if t.Schema != nil {
		errs = append(errs, fmt.Errorf("%w: a schema of the answer", atoll.ErrUnsupported))
	}
	if strings.HasPrefix(t.Session, "-") {
		errs = append(errs, fmt.Errorf("%w: session %q", atoll.ErrInvalid, t.Session))
	}
	files, err := agent.Place(t.Skills, skills(at))
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
		p.Files = append(p.Files, agent.File{Path: path.Join(at.State, ".cursor", "mcp.json"), Data: servers(at)})
		p.Args = append(p.Args, "--approve-mcps")
	}
	p.Args = append(p.Args, "--print", "--output-format=stream-json", "--stream-partial-output", "--force", "--trust")
	if t.Model != "" {
		p.Args = append(p.Args, "--model="+t.Model)
	}
	if t.Session != "" {
		p.Args = append(p.Args, "--resume="+t.Session)
	}
	p.Stdin = []byte(agent.Plain(introduced(t, at)))
	return p, nil
}

// introduced returns the prompt, before which that is said which the CLI has
// no other place for, when a session begins.
func introduced(t *agent.Turn, at agent.Site) []agent.Content {
	system := acp.System(t, skills(at))
	if t.Session != "" || system == "" {
		return t.Prompt
	}
	return append(agent.Text(system), t.Prompt...)
}

func skills(at agent.Site) string { return path.Join(at.State, "skills") }

// servers returns mcp.json.
func servers(at agent.Site) []byte {
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	b, _ := json.Marshal(map[string]map[string]server{"mcpServers": {"atoll": {at.Tools[0], at.Tools[1:]}}}) // it is made of words
	return append(b, '\n')
}

// Talk reads what the CLI tells, or speaks the Agent Client Protocol.
func (Agent) Talk(t *agent.Turn, at agent.Site) agent.Talk {
	if t.Ask {
		return &asking{acp.NewTalk(t, at, acp.Options{Name: "cursor", Model: t.Model, System: acp.System(t, skills(at))})}
	}
	return &talk{Talk: once.Talk{Deaf: "cursor"}}
}

// asking is a conversation by the Agent Client Protocol.
type asking struct{ *acp.Talk }

// Begin warns, and begins.
func (t *asking) Begin(x agent.Exchange) {
	warn(x)
	t.Talk.Begin(x)
}

// warn tells what can't be kept out.
func warn(x agent.Exchange) {
	x.Emit(agent.Event{Type: agent.Warning, Text: "Cursor's CLI asks its own service: its key is inside the sandbox, and no budget bounds what it asks for"})
}
