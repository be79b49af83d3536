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

// stateDir is the directory of agents' state inside, outside of the workspace.
const stateDir = "/srv/agents"

// sharedStateDir has the agents' state of each chat in a sandbox in which several work at once.
const sharedStateDir = "/var/tmp/atoll/chats"

// TurnLabel is the label of a sandbox with the turn that it was created for.
const TurnLabel = "atoll.turn"

// ChatLabel is the label of such a sandbox with the chat of its turns.
const ChatLabel = "atoll.chat"

// RegistryLabel is the label of such a sandbox with the id of the registry of its turn: servers that have different
// directories know nothing of each other's turns.
const RegistryLabel = "atoll.turns"

// stateSuffix is the suffix of the names of workspaces with agents' state.
const stateSuffix = ".agents"

// placement is the sandbox and the workspace of a turn.
type placement struct {
	workspace string   // empty: none
	dir       string   // of the workspace inside; empty: the sandbox's own
	state     string   // of the agents inside; empty: the default of agent.Run
	path      []string // directories inside with the agent's program
	config    atoll.Config
	asked     atoll.Config // the part that the caller chose
}

// planPlacement returns the sandbox and workspace that a request needs.
func (t *Turn) planPlacement() (placement, error) {
	var at placement
	if t.assistant.Sandbox == nil {
		return at, nil
	}
	if t.request.Sandbox != "" {
		if at.dir = t.request.Dir; at.dir != "" { // several agents may work in it, each in a directory
			at.state = sharedStateDir + "/" + t.chat.ID
		}
		return at, nil
	}
	at.config = t.assistant.Sandbox.Config
	if c := t.request.Config; c != nil {
		at.config, at.asked = *c, *c
	}
	cfg := &at.config
	if cfg.Image == "" && cfg.Pool == "" {
		cfg.Image = t.pipeline.opts.Images[t.assistant.Sandbox.Command]
	}
	cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicyOneshot}
	cfg.Labels = maps.Clone(cfg.Labels)
	if cfg.Labels == nil {
		cfg.Labels = make(map[string]string)
	}
	cfg.Labels[ChatLabel] = t.chat.ID
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
		if at.workspace != "" && !mounted { // else the caller's directory is the workspace, and only the state is stored
			cfg.Workspaces = append([]atoll.WorkspaceMount{{Workspace: at.workspace, Target: at.dir}}, cfg.Workspaces...)
		}
	}
	if at.workspace != "" {
		at.state = stateDir
		cfg.Workspaces = append(cfg.Workspaces, atoll.WorkspaceMount{Workspace: stateWorkspace(at.workspace), Target: stateDir})
	}
	if err := cfg.Check(); err != nil {
		return at, err
	}
	return at, nil
}

// workspaceName returns the workspace that the request or the policy selects; "" for
// none.
func (t *Turn) workspaceName() string {
	if t.request.Workspace != "" {
		t.chat.Workspace = t.request.Workspace // for later turns
	}
	if t.chat.Workspace != "" {
		return t.chat.Workspace
	}
	switch w := t.assistant.Workspace; w.Policy {
	case "none":
		return ""
	case "name":
		return w.Name
	case "user":
		return "user"
	case "assistant":
		return safeName("assistant-", t.assistant.ID)
	}
	return safeName("chat-", t.chat.ID)
}

// safeName makes a valid name of any text, short enough for stateSuffix.
func safeName(prefix, text string) string {
	name := prefix + strings.ToLower(text)
	if len(name) <= 63-len(stateSuffix) && atoll.CheckName(name) == nil {
		return name
	}
	sum := sha256.Sum256([]byte(text))
	return prefix + hex.EncodeToString(sum[:10])
}

// stateWorkspace returns the name of the workspace with the agents' state for another.
func stateWorkspace(workspace string) string {
	if len(workspace)+len(stateSuffix) <= 63 {
		return workspace + stateSuffix
	}
	sum := sha256.Sum256([]byte(workspace))
	return workspace[:36] + "-" + hex.EncodeToString(sum[:5]) + stateSuffix
}

// ensureWorkspaces creates the workspaces of a turn, if they do not exist.
func (t *Turn) ensureWorkspaces(ctx context.Context) error {
	name := t.placement.workspace
	if name == "" {
		return nil
	}
	keep := t.assistant.Workspace.Keep
	for _, w := range []atoll.Workspace{
		{Name: name, Keep: keep, Labels: map[string]string{"atoll.chat": t.chat.ID}},
		{Name: stateWorkspace(name), Keep: keep, Labels: map[string]string{"atoll.agents": name}},
	} {
		if _, err := t.request.Account.Workspace(ctx, w.Name); err == nil {
			continue
		}
		if _, err := t.request.Account.CreateWorkspace(ctx, w); err != nil && !errors.Is(err, atoll.ErrExists) {
			return err
		}
	}
	return nil
}

// openSandbox creates the sandbox of a turn, or opens the requested one. gone removes a
// created one; it is never nil.
func (t *Turn) openSandbox(ctx context.Context, id, registry string) (sb *fleet.Sandbox, gone func(context.Context) error, err error) {
	gone = func(context.Context) error { return nil }
	a := t.request.Account
	if t.request.Sandbox != "" {
		if sb, err = a.Open(ctx, t.request.Sandbox); err == nil {
			t.placement.path, err = t.findMountedProgram(ctx, sb)
		}
		return sb, gone, err
	}
	if err := t.ensureWorkspaces(ctx); err != nil {
		return nil, gone, err
	}
	cfg := t.placement.config
	cfg.Labels[TurnLabel], cfg.Labels[RegistryLabel] = id, registry
	real := t.agent != nil && (t.agent.Features().Package != nil || cfg.Driver == "")
	if cfg.Pool == "" && real && t.pipeline.opts.ChooseDriver != nil {
		if cfg.Driver, err = t.pipeline.opts.ChooseDriver(ctx, cfg.Driver); err != nil {
			return nil, gone, fmt.Errorf("agent %s: %w", t.agent.Name(), err)
		}
	}
	var prog Program
	if t.agent != nil {
		prog, err = t.findProgram()
		if err != nil {
			return nil, gone, fmt.Errorf("agent %s: %w", t.agent.Name(), err)
		}
		t.placement.path = prog.Path
	}
	wanted := fleet.TurnSandbox{Config: cfg, OwnerConfig: t.placement.asked, ProgramMounts: prog.Mounts}
	sb, err = a.CreateForTurn(ctx, wanted)
	if errors.Is(err, atoll.ErrQuota) { // idle agents have a part of it
		if n, _ := t.pipeline.EndIdle(ctx, a.Caller().Owner); n > 0 {
			sb, err = a.CreateForTurn(ctx, wanted)
		}
	}
	if err != nil {
		return nil, gone, err
	}
	return sb, sb.Destroy, nil
}

// findMountedProgram returns the directories inside with the agent's program, if the existing sandbox was created with it.
func (t *Turn) findMountedProgram(ctx context.Context, sb *fleet.Sandbox) ([]string, error) {
	if t.agent == nil {
		return nil, nil
	}
	prog, err := t.findProgram()
	if err != nil || len(prog.Mounts) == 0 {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(info.Config.Mounts, func(m atoll.Mount) bool { return m.Target == prog.Mounts[0].Target }) {
		return prog.Path, nil
	}
	return nil, nil
}

// findProgram returns the program of the turn's agent, if it is installed.
func (t *Turn) findProgram() (Program, error) {
	if t.pipeline.opts.FindProgram == nil || t.agent.Features().Package == nil {
		return Program{}, nil
	}
	return t.pipeline.opts.FindProgram(t.agent)
}
