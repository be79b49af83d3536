// Package mcp offers sandboxes as tools to clients of the Model Context
// Protocol.
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

// Fleet is where the sandboxes are. What belongs to others is not there.
type Fleet interface {
	// Create makes a sandbox that answers.
	Create(ctx context.Context, cfg atoll.Config) (atoll.Sandbox, error)

	// Open finds one by id or name.
	Open(ctx context.Context, key string) (atoll.Sandbox, error)

	// List returns all, oldest first.
	List(ctx context.Context) ([]atoll.Info, error)
}

// Options say how the tools are offered.
type Options struct {
	Version string // of atoll

	// Sandbox is the name of the one that tools use when a call names none. It
	// is made, from Config, when it is first needed and not there. Empty:
	// "mcp".
	Sandbox string
	Config  atoll.Config

	// AnyHost lets calls make sandboxes that reach any host that the fleet lets
	// them reach. Without it those are the hosts of Config.Network.Allow: a
	// model does not widen what a person has allowed.
	AnyHost bool
}

const instructions = `Each sandbox is an isolated computer with its own files and processes; nothing done in it can harm the user's machine.
Leave out "sandbox" to work in your own default one, which is made at the first use. Use exec for shell commands and
read_file, write_file, edit_file, list_files for files. Take a snapshot before something risky and restore it if that goes
wrong; fork a sandbox to try two ways at once. Network access is off unless it was allowed when the sandbox was made.`

// tools is what the handlers work with.
type tools struct {
	fleet Fleet
	opts  Options

	mu sync.Mutex // held while the default sandbox is looked for and made
}

// New returns a server whose tools work on the sandboxes of a fleet. Any number
// of sessions may use it at once.
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

// open returns the sandbox that a call means; an empty key is the default one,
// which is made when it is not there.
func (t *tools) open(ctx context.Context, key string) (atoll.Sandbox, error) {
	if err := checkKey("sandbox", key); err != nil {
		return nil, err
	}
	if key != "" && key != t.opts.Sandbox {
		sb, err := t.fleet.Open(ctx, key)
		if errors.Is(err, atoll.ErrNotFound) {
			return nil, fmt.Errorf("%w; list_sandboxes shows what there is, and without \"sandbox\" your default one is used", err)
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
	if errors.Is(err, atoll.ErrExists) { // another session of the same owner was quicker
		return t.fleet.Open(ctx, t.opts.Sandbox)
	}
	return sb, err
}

// add registers a tool whose answer is text.
func add[In any](s *mcp.Server, tool *mcp.Tool, f func(ctx context.Context, req *mcp.CallToolRequest, in In) (string, error)) {
	mcp.AddTool(s, tool, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		text, err := f(ctx, req, in)
		if err != nil {
			if text != "" {
				text += "\n"
			}
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text + clipText(err.Error())}}}, nil, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}

// reads marks a tool that changes nothing.
func reads(title string) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, OpenWorldHint: new(bool)}
}

// changes marks a tool that changes only what is in sandboxes.
func changes(title string, destroys bool) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, DestructiveHint: &destroys, OpenWorldHint: new(bool)}
}

// clipText keeps a text that others made within bounds.
func clipText(s string) string {
	c := newClip(maxText)
	_, _ = c.Write([]byte(s)) // never fails
	return c.String()
}

// maxPath bounds a path, in bytes, as Linux does.
const maxPath = 4096

// absolute refuses a path that depends on where one is, or is none for its
// length.
func absolute(name string) error {
	if len(name) > maxPath {
		return fmt.Errorf("%w: the path has %d bytes: at most %d are taken", atoll.ErrInvalid, len(name), maxPath)
	}
	if !strings.HasPrefix(name, "/") {
		return fmt.Errorf("%w: path %q: must be absolute, like /workspace/main.go", atoll.ErrInvalid, name)
	}
	return nil
}
