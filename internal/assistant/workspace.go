package assistant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// stateDir is where agents keep what they know, beside the workspace.
const stateDir = "/srv/agents"

// TurnLabel is the label by which sandboxes name the turn that they were made
// for.
const TurnLabel = "atoll.turn"

// besides is what the workspace of agents' states is called, after its sibling.
const besides = ".agents"

// placing is where a turn takes place.
type placing struct {
	workspace string   // empty: none
	dir       string   // of the workspace inside; empty: the sandbox's own
	state     string   // of the agents inside; empty: agent.Run's own
	path      []string // directories inside where the agent's program is
	config    atoll.Config
	asked     atoll.Config // what of it the caller chose
}

// place says what sandbox and what workspace a request means.
func (t *Turn) place() (placing, error) {
	var at placing
	if t.made.Sandbox == nil || t.ask.Sandbox != "" {
		return at, nil
	}
	at.config = t.made.Sandbox.Config
	if c := t.ask.Config; c != nil {
		at.config, at.asked = *c, *c
	}
	cfg := &at.config
	cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicyOneshot}
	cfg.Labels = maps.Clone(cfg.Labels)
	if cfg.Labels == nil {
		cfg.Labels = make(map[string]string)
	}
	cfg.Labels["atoll.chat"] = t.chat.ID
	at.dir = atoll.DefaultDir
	if cfg.Dir != "" {
		at.dir = cfg.Dir
	}
	for _, w := range cfg.Workspaces {
		if w.At() == at.dir {
			at.workspace = w.Workspace
		}
	}
	if at.workspace == "" {
		at.workspace = t.workspaceName()
		mounted := slices.ContainsFunc(cfg.Mounts, func(m atoll.Mount) bool { return m.Target == at.dir })
		if at.workspace != "" && !mounted { // else a directory of the caller's is worked in, and only the state is kept
			cfg.Workspaces = append([]atoll.WorkspaceMount{{Workspace: at.workspace, Target: at.dir}}, cfg.Workspaces...)
		}
	}
	if at.workspace != "" {
		at.state = stateDir
		cfg.Workspaces = append(cfg.Workspaces, atoll.WorkspaceMount{Workspace: sibling(at.workspace), Target: stateDir})
	}
	if err := cfg.Check(); err != nil {
		return at, err
	}
	return at, nil
}

// workspaceName is that of the workspace that request and policy mean; empty:
// none.
func (t *Turn) workspaceName() string {
	if t.ask.Workspace != "" {
		t.chat.Workspace = t.ask.Workspace // for the turns after this one
	}
	if t.chat.Workspace != "" {
		return t.chat.Workspace
	}
	switch w := t.made.Workspace; w.Policy {
	case "none":
		return ""
	case "name":
		return w.Name
	case "user":
		return "user"
	case "assistant":
		return named("assistant-", t.made.ID)
	}
	return named("chat-", t.chat.ID)
}

// named makes a name of any text, short enough to have a sibling.
func named(prefix, text string) string {
	name := prefix + strings.ToLower(text)
	if len(name) <= 63-len(besides) && atoll.CheckName(name) == nil {
		return name
	}
	sum := sha256.Sum256([]byte(text))
	return prefix + hex.EncodeToString(sum[:10])
}

// sibling is the name of the workspace of agents' states beside another.
func sibling(workspace string) string {
	if len(workspace)+len(besides) <= 63 {
		return workspace + besides
	}
	sum := sha256.Sum256([]byte(workspace))
	return workspace[:36] + "-" + hex.EncodeToString(sum[:5]) + besides
}

// furnish makes the workspaces of a turn, if they are not there.
func (t *Turn) furnish(ctx context.Context) error {
	name := t.plan.workspace
	if name == "" {
		return nil
	}
	keep := t.made.Workspace.Keep
	for _, w := range []atoll.Workspace{
		{Name: name, Keep: keep, Labels: map[string]string{"atoll.chat": t.chat.ID}},
		{Name: sibling(name), Keep: keep, Labels: map[string]string{"atoll.agents": name}},
	} {
		if _, err := t.ask.Account.Workspace(ctx, w.Name); err == nil {
			continue
		}
		if _, err := t.ask.Account.CreateWorkspace(ctx, w); err != nil && !errors.Is(err, atoll.ErrExists) {
			return err
		}
	}
	return nil
}

// box makes the sandbox of a turn, or opens the one that was asked for. gone
// ends what was made; it is never nil.
func (t *Turn) box(ctx context.Context, id string) (sb *fleet.Sandbox, gone func(context.Context) error, err error) {
	gone = func(context.Context) error { return nil }
	a := t.ask.Account
	if t.ask.Sandbox != "" {
		sb, err := a.Open(ctx, t.ask.Sandbox)
		return sb, gone, err
	}
	if err := t.furnish(ctx); err != nil {
		return nil, gone, err
	}
	cfg := t.plan.config
	cfg.Labels[TurnLabel] = id
	real := t.with != nil && (t.with.Features().Package != nil || cfg.Driver == "")
	if cfg.Pool == "" && real && t.p.opts.Driver != nil {
		if cfg.Driver, err = t.p.opts.Driver(ctx, cfg.Driver); err != nil {
			return nil, gone, fmt.Errorf("agent %s: %w", t.with.Name(), err)
		}
	}
	var prog Program
	if t.with != nil {
		prog, err = t.program()
		if err != nil {
			return nil, gone, fmt.Errorf("agent %s: %w", t.with.Name(), err)
		}
		t.plan.path = prog.Path
	}
	sb, err = a.CreateFor(ctx, fleet.Order{Config: cfg, Asked: t.plan.asked, Program: prog.Mounts})
	if err != nil {
		return nil, gone, err
	}
	return sb, sb.Destroy, nil
}

// program returns the program of the turn's agent, if this host has it.
func (t *Turn) program() (Program, error) {
	if t.p.opts.Program == nil || t.with.Features().Package == nil {
		return Program{}, nil
	}
	return t.p.opts.Program(t.with)
}
