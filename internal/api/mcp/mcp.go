// Package mcp offers sandboxes as tools of the Model Context Protocol.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

// Fleet manages the sandboxes of one owner. Sandboxes of others are not found.
type Fleet interface {
	// Create creates a running sandbox.
	Create(ctx context.Context, cfg atoll.Config) (atoll.Sandbox, error)

	// Open returns a sandbox by id or name.
	Open(ctx context.Context, key string) (atoll.Sandbox, error)

	// List returns all sandboxes, oldest first.
	List(ctx context.Context) ([]atoll.Info, error)
}

// Options configure the tools.
type Options struct {
	Version string // of atoll

	// Sandbox is the name of the default sandbox, which calls without a name use. It is created
	// from Config when it is first needed. Empty: "mcp".
	Sandbox string
	Config  atoll.Config

	// AnyHost lets calls create sandboxes that reach any host that the fleet allows. Without it,
	// they can reach the hosts of Config.Network.Allow only: a model can't widen what its user has
	// allowed.
	AnyHost bool
}

const instructions = `Each sandbox is an isolated computer with its own files and processes; nothing done in it can harm the user's machine.
Leave out "sandbox" to work in your own default one, which is made at the first use. Use exec for shell commands and
read_file, write_file, edit_file, list_files for files. Take a snapshot before something risky and restore it if that goes
wrong; fork a sandbox to try two ways at once. Network access is off unless it was allowed when the sandbox was made.`

// tools holds the state of the tool handlers.
type tools struct {
	fleet Fleet
	opts  Options

	mu sync.Mutex // held while the default sandbox is looked up and created
}

// New returns an MCP server whose tools work on the sandboxes of a fleet. Any number of sessions
// may use it concurrently.
func New(fleet Fleet, opts Options) *mcp.Server {
	if opts.Sandbox == "" {
		opts.Sandbox = "mcp"
	}
	s := mcp.NewServer(
		&mcp.Implementation{Name: "atoll", Title: "atoll sandboxes", Version: opts.Version},
		&mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}},
	)
	t := &tools{fleet: fleet, opts: opts}
	t.addSandboxes(s)
	t.addExec(s)
	t.addFiles(s)
	t.addSnapshots(s)
	return s
}

// open returns a sandbox by key; for an empty key the default one, which is created if it is
// missing.
func (t *tools) open(ctx context.Context, key string) (atoll.Sandbox, error) {
	if err := checkKey("sandbox", key); err != nil {
		return nil, err
	}
	if key != "" && key != t.opts.Sandbox {
		sb, err := t.fleet.Open(ctx, key)
		if errors.Is(err, atoll.ErrNotFound) {
			return nil, fmt.Errorf("%w; list_sandboxes lists all, and without \"sandbox\" your default one is used", err)
		}
		return sb, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sb, err := t.fleet.Open(ctx, t.opts.Sandbox)
	if !errors.Is(err, atoll.ErrNotFound) {
		return sb, err
	}
	cfg := t.opts.Config
	cfg.Name = t.opts.Sandbox
	sb, err = t.fleet.Create(ctx, cfg)
	if errors.Is(err, atoll.ErrExists) { // another session of the owner created it
		return t.fleet.Open(ctx, t.opts.Sandbox)
	}
	return sb, err
}

// add registers a tool that answers with text.
func add[In any](s *mcp.Server, tool *mcp.Tool, f func(ctx context.Context, req *mcp.CallToolRequest, in In) (string, error)) {
	mcp.AddTool(s, tool, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		text, err := f(ctx, req, in)
		if err != nil {
			if text != "" {
				text += "\n"
			}
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text + truncateText(err.Error())}}}, nil, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}

// readOnlyTool returns the annotations of a tool that changes nothing.
func readOnlyTool(title string) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, OpenWorldHint: new(bool)}
}

// changingTool returns the annotations of a tool that changes sandboxes only.
func changingTool(title string, destroys bool) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, DestructiveHint: &destroys, OpenWorldHint: new(bool)}
}

// truncateText limits the length of a text from outside.
func truncateText(s string) string {
	c := newTruncatedBuffer(maxText)
	_, _ = c.Write([]byte(s)) // never fails
	return c.String()
}

// maxPath bounds a path in bytes, as Linux does.
const maxPath = 4096

// checkPath refuses a path that is relative or too long.
func checkPath(name string) error {
	if len(name) > maxPath {
		return fmt.Errorf("%w: the path has %d bytes: the limit is %d", atoll.ErrInvalid, len(name), maxPath)
	}
	if !strings.HasPrefix(name, "/") {
		return fmt.Errorf("%w: path %q: must be absolute, like /workspace/main.go", atoll.ErrInvalid, name)
	}
	return nil
}
