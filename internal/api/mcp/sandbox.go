package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

type createIn struct {
	Name      string            `json:"name,omitempty" jsonschema:"its name: a-z, 0-9, '-', '_', '.'; generated if left out"`
	Driver    string            `json:"driver,omitempty" jsonschema:"driver (kind of isolation), if not the default one"`
	Image     string            `json:"image,omitempty" jsonschema:"image of the root file system, for drivers that have images"`
	Allow     []string          `json:"allow,omitempty" jsonschema:"allowed hosts: NAME, *.NAME, NAME:PORT, NAME=ADDRESS or a URL prefix; none by default"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"environment variables of every command"`
	Workspace string            `json:"workspace,omitempty" jsonschema:"name of a workspace whose files outlive the sandbox; mounted at /workspace"`
	MemoryMB  int64             `json:"memory_mb,omitempty" jsonschema:"limit of memory in MiB"`
}

// Limits of arguments, checked before they reach the fleet, which records them in the audit.
const (
	maxMemoryMB = 1 << 24 // 16 TiB
	maxKey      = 255     // bytes of the name or id of a sandbox or snapshot
	maxImage    = 1024    // bytes
	maxAllow    = 1000    // hosts
	maxHost     = 2048    // bytes of one of them
	maxEnv      = 1000    // variables
	maxEnvBytes = 1 << 20 // of all variables together
)

// check reports every mistake in the arguments.
func (in *createIn) check() error {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{atoll.ErrInvalid}, a...)...))
	}
	errs = append(errs, checkNew("name", in.Name), checkNew("driver", in.Driver), checkNew("workspace", in.Workspace))
	if in.MemoryMB < 0 || in.MemoryMB > maxMemoryMB {
		bad("memory_mb %d: must be between 0 and %d", in.MemoryMB, maxMemoryMB)
	}
	if len(in.Image) > maxImage {
		bad("image has %d bytes: the limit is %d", len(in.Image), maxImage)
	}
	if len(in.Allow) > maxAllow {
		bad("allow has %d hosts: the limit is %d", len(in.Allow), maxAllow)
	}
	for i, host := range in.Allow[:min(len(in.Allow), maxAllow)] {
		if len(host) > maxHost {
			bad("allow[%d] has %d bytes: the limit is %d", i, len(host), maxHost)
		}
	}
	size := 0
	for k, v := range in.Env {
		size += len(k) + len(v) + 1
	}
	if len(in.Env) > maxEnv || size > maxEnvBytes {
		bad("env has %d variables of %d bytes in all: the limit is %d variables of %d bytes", len(in.Env), size, maxEnv, maxEnvBytes)
	}
	return errors.Join(errs...)
}

// checkNew refuses an invalid new name; empty is fine.
func checkNew(what, name string) error {
	if name == "" {
		return nil
	}
	if err := checkKey(what, name); err != nil {
		return err
	}
	if err := atoll.CheckName(name); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// checkKey refuses a name or id that is too long.
func checkKey(what, key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("%w: %s has %d bytes: the limit is %d", atoll.ErrInvalid, what, len(key), maxKey)
	}
	return nil
}

type nothing struct{}

type oneIn struct {
	Sandbox string `json:"sandbox" jsonschema:"name or id of the sandbox"`
}

func (t *tools) addSandboxes(s *mcp.Server) {
	add(s, &mcp.Tool{
		Name:        "create_sandbox",
		Description: "Create a new isolated computer. Not needed for ordinary work: tools without \"sandbox\" use your default one. Create one when you need a second computer, other limits, or network access to some hosts.",
		Annotations: changingTool("Create sandbox", false),
	}, t.create)
	add(s, &mcp.Tool{
		Name:        "list_sandboxes",
		Description: "List the sandboxes, with their states, workspaces and allowed hosts.",
		Annotations: readOnlyTool("List sandboxes"),
	}, t.list)
	add(s, &mcp.Tool{
		Name:        "destroy_sandbox",
		Description: "Remove a sandbox with all its files and processes, for good. Its workspaces stay.",
		Annotations: changingTool("Destroy sandbox", true),
	}, t.destroySandbox)
}

func (t *tools) create(ctx context.Context, _ *mcp.CallToolRequest, in createIn) (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	for _, host := range in.Allow {
		if allowed := t.opts.Config.Network.Allow; !t.opts.AnyHost && !slices.Contains(allowed, host) {
			return "", fmt.Errorf("%w: allow %q: your user has allowed %s; to allow more, they start atoll mcp with --allow", atoll.ErrDenied, host, describeHosts(allowed))
		}
	}
	cfg := atoll.Config{Driver: in.Driver}
	cfg.Name, cfg.Image, cfg.Network.Allow, cfg.Limits.Memory = in.Name, in.Image, in.Allow, in.MemoryMB<<20
	for k, v := range in.Env {
		cfg.Env = append(cfg.Env, k+"="+v)
	}
	if in.Workspace != "" {
		cfg.Workspaces = []atoll.WorkspaceMount{{Workspace: in.Workspace}}
	}
	sb, err := t.fleet.Create(ctx, cfg)
	if err != nil {
		return "", err
	}
	st, err := sb.Status(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Sandbox %s is running (driver %s). Pass \"sandbox\": %q to the other tools.", displayName(st), st.Driver, displayName(st)), nil
}

// describeHosts returns a list of hosts for a sentence.
func describeHosts(list []string) string {
	if len(list) == 0 {
		return "no host"
	}
	return "only " + strings.Join(list, ", ")
}

func displayName(st atoll.Status) string {
	if st.Name != "" {
		return st.Name
	}
	return st.ID
}

func (t *tools) list(ctx context.Context, _ *mcp.CallToolRequest, _ nothing) (string, error) {
	all, err := t.fleet.List(ctx)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "There are no sandboxes. Your default one is created at the first use of a tool.", nil
	}
	var b strings.Builder
	for _, i := range all {
		fmt.Fprintf(&b, "%s: %s, driver %s, made %s", displayName(i.Status), i.State, i.Driver, i.Created.UTC().Format(time.RFC3339))
		for _, w := range i.Config.Workspaces {
			fmt.Fprintf(&b, ", workspace %s at %s", w.Workspace, w.At())
		}
		if a := i.Config.Network.Allow; len(a) > 0 {
			fmt.Fprintf(&b, ", allowed hosts %s", strings.Join(a, " "))
		}
		if displayName(i.Status) == t.opts.Sandbox {
			b.WriteString(" (your default)")
		}
		b.WriteByte('\n')
	}
	return truncateText(b.String()), nil
}

func (t *tools) destroySandbox(ctx context.Context, _ *mcp.CallToolRequest, in oneIn) (string, error) {
	if err := checkKey("sandbox", in.Sandbox); err != nil {
		return "", err
	}
	sb, err := t.fleet.Open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	if err := sb.Destroy(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("Sandbox %s was destroyed.", in.Sandbox), nil
}
