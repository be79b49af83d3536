package project

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/npm"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/attach"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// terminalAgents are the agents that can work on a terminal, and the arguments that make them work
// without asking, since the sandbox isolates them.
var terminalAgents = []terminalAgent{
	{
		name: "claude", args: []string{"claude", "--dangerously-skip-permissions"}, env: []string{"IS_SANDBOX=1", "DISABLE_AUTOUPDATER=1"},
		api: "api.anthropic.com", key: "ANTHROPIC_API_KEY", header: "x-api-key", logins: []string{"claude.ai", "platform.claude.com", "console.anthropic.com"},
		file: ".claude.json", seed: `{"hasCompletedOnboarding":true,"bypassPermissionsModeAccepted":true,"customApiKeyResponses":{"approved":["` + placeholder + `"]},"projects":{"` + project.Workspace + `":{"hasTrustDialogAccepted":true}}}`,
	},
	{
		name: "codex", args: []string{"codex", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "-c", `projects={"` + project.Workspace + `"={trust_level="trusted"}}`, "-c", "check_for_update_on_startup=false"},
		api: "api.openai.com", key: "OPENAI_API_KEY", header: "Authorization", prefix: "Bearer ", logins: []string{"auth.openai.com", "chatgpt.com"},
		file: ".codex/auth.json", seed: `{"OPENAI_API_KEY":"` + placeholder + `"}`, keyed: true,
	},
	{
		name: "gemini", args: []string{"gemini", "--yolo", "--skip-trust"}, api: "generativelanguage.googleapis.com", key: "GEMINI_API_KEY", header: "x-goog-api-key",
		logins: []string{"accounts.google.com", "oauth2.googleapis.com", "cloudcode-pa.googleapis.com", "www.googleapis.com"},
		file:   ".gemini/settings.json", seed: `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`, keyed: true,
	},
	{
		name: "opencode", args: []string{"opencode"}, env: []string{`OPENCODE_PERMISSION={"*":"allow"}`, "OPENCODE_DISABLE_AUTOUPDATE=1"},
		api: "api.anthropic.com", key: "ANTHROPIC_API_KEY", header: "x-api-key", logins: []string{"models.dev", "opencode.ai"},
	},
	{name: "cursor", args: []string{"cursor-agent", "--force"}, logins: []string{"*.cursor.sh", "cursor.com", "*.cursor.com"}},
}

// placeholder stands inside where an agent wants to see a key. The real one is
// put in its place on the way out, by the egress proxy.
const placeholder = "added-on-the-way-out" // 20 letters: what Claude Code remembers of one

// agentKey is the name of an agent's key among a sandbox's secrets.
const agentKey = "ATOLL_AGENT_KEY"

// terminalAgent is an agent as it works on a terminal.
type terminalAgent struct {
	name   string
	args   []string
	env    []string
	api    string // the host that it asks; empty: only those of logins
	key    string // variable of the host that may have a key for it
	header string // that the API takes the key in
	prefix string // of the key there
	logins []string
	file   string // in the home inside, made if it is missing; empty: none
	seed   string // what is in it
	keyed  bool   // it is only for work with a key
}

// findTerminalAgent returns the agent of a name.
func findTerminalAgent(name string) (*terminalAgent, error) {
	var names []string
	for i := range terminalAgents {
		if terminalAgents[i].name == name {
			return &terminalAgents[i], nil
		}
		names = append(names, terminalAgents[i].name)
	}
	return nil, fmt.Errorf("%w: agent %q%s: there are %s", atoll.ErrNotFound, name, suggest.Hint(name, names), strings.Join(names, ", "))
}

// configureAgent makes a sandbox that is going to be made one that an agent can work in:
// it reaches its maker's API, and has the program if this host has it.
func (a commands) configureAgent(ctx context.Context, r *terminalAgent, cfg *atoll.Config, ft atoll.Features) error {
	if cfg.Network.Mode == "" || cfg.Network.Mode == atoll.NetworkNone {
		cfg.Network.Allow = append(cfg.Network.Allow, r.logins...)
		if r.api != "" {
			cfg.Network.Allow = append(cfg.Network.Allow, r.api)
		}
	}
	if key := os.Getenv(r.key); r.key != "" && key != "" && ft.Egress {
		if cfg.Secrets == nil {
			cfg.Secrets = make(map[string]string)
		}
		cfg.Secrets[agentKey] = key
		cfg.Network.Headers = append(cfg.Network.Headers, atoll.Header{Name: r.header, Value: r.prefix + "${" + agentKey + "}", Host: r.api})
		cfg.Network.Inspect = true
		cfg.Env = append(cfg.Env, r.key+"="+placeholder)
		a.Progress("%s asks %s; your %s is added on the way, and never inside", r.name, r.api, r.key)
	} else {
		a.Progress("%s may reach %s; log in on its terminal", r.name, strings.Join(append(slices.Clone(r.logins), r.api), ", "))
	}
	away, err := a.IsRemote()
	if err != nil || away || !ft.Mounts {
		return err // the image has its program, or there is none
	}
	one, ok := app.ListAgents()[r.name]
	if !ok || one.Features().Package == nil {
		return nil
	}
	if err := a.getProgram(ctx, one); err != nil {
		return err
	}
	p, err := a.AgentPrograms().Program(one)
	cfg.Mounts = append(cfg.Mounts, p.Mounts...)
	return err
}

// mountPrograms mounts the programs of all agents that this host has, so that any of them can work on a branch. A VM
// has only that of its own agent: each mount is a device of it.
func (a commands) mountPrograms(cfg *atoll.Config, ft atoll.Features) error {
	away, err := a.IsRemote()
	if err != nil || away || !ft.Mounts || ft.IsVM() {
		return err
	}
	for i := range terminalAgents {
		one, ok := app.ListAgents()[terminalAgents[i].name]
		if !ok || one.Features().Package == nil {
			continue
		}
		p, err := a.AgentPrograms().Program(one)
		if err != nil {
			return err
		}
		for _, m := range p.Mounts {
			if !slices.ContainsFunc(cfg.Mounts, func(have atoll.Mount) bool { return have.Target == m.Target }) {
				cfg.Mounts = append(cfg.Mounts, m)
			}
		}
	}
	return nil
}

// getProgram gets the program of an agent, unless this host has it. That it can't
// be had is no error: an image may have it.
func (a commands) getProgram(ctx context.Context, one agent.Agent) error {
	p := a.AgentPrograms()
	if _, err := p.Find(one); err == nil {
		return nil
	}
	var err error
	if p.Registry, err = npm.ConfiguredRegistry(os.LookupEnv); err != nil {
		return err
	}
	bar := a.NewProgressBar()
	_, err = p.Install(ctx, one, "", func(done, total int64) {
		bar.Update(atoll.Progress{ID: one.Name(), Message: "download", Done: done, Total: total})
	})
	bar.Finish()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		a.Progress("the program of %s can't be had (%v): the sandbox must have it", one.Name(), err)
	}
	return nil
}

// terminalAgentSpec returns what starts an agent on a terminal of a sandbox; when it ends,
// a shell is there.
func (a commands) terminalAgentSpec(ctx context.Context, w *pairing.Pair, r *terminalAgent, shell string) (atoll.TerminalSpec, error) {
	program, err := a.findAgentProgram(ctx, w, r)
	if err != nil {
		return atoll.TerminalSpec{}, err
	}
	script := `shell=$1; shift; `
	if r.file != "" && (!r.keyed || hasKey(w, r)) {
		script += `[ -e "$HOME/` + r.file + `" ] || { mkdir -p "$(dirname "$HOME/` + r.file + `")" && printf '%s' "$0" >"$HOME/` + r.file + `"; }; `
	}
	script += `"$@"; exec "${shell:-$(command -v bash || echo sh)}"`
	args := append([]string{"sh", "-c", script, r.seed, shell, program}, r.args[1:]...)
	return atoll.TerminalSpec{Args: args, Env: r.env}, nil
}

// findAgentProgram returns the program of an agent in a sandbox: of this host's, if it is mounted, or of the
// sandbox's own.
func (a commands) findAgentProgram(ctx context.Context, w *pairing.Pair, r *terminalAgent) (string, error) {
	program := r.args[0]
	if one, ok := app.ListAgents()[r.name]; ok {
		if p, err := a.AgentPrograms().Program(one); err == nil && len(p.Mounts) > 0 && slices.ContainsFunc(w.Info.Config.Mounts, func(m atoll.Mount) bool { return m.Target == p.Mounts[0].Target }) {
			program = p.Path[0] + "/" + r.name
		}
	}
	exit, err := w.Sandbox.Exec(ctx, atoll.Cmd{Internal: true, Args: []string{"sh", "-c", `command -v -- "$0" >/dev/null`, program}, Timeout: attach.CommandTimeout})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("sandbox %s: %w: it has no program %s: use an image that has it, or let 'atoll up --fresh %s' make the sandbox anew with that of this host ('atoll agent install %[4]s')", w.Name(), atoll.ErrNotFound, program, r.name)
	}
	return program, err
}

// hasKey reports whether the egress proxy adds a key for an agent.
func hasKey(w *pairing.Pair, r *terminalAgent) bool {
	return slices.ContainsFunc(w.Info.Config.Network.Headers, func(h atoll.Header) bool { return h.Host == r.api })
}
