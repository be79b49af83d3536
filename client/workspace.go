package client

import (
	"context"
	"net/http"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// CreateWorkspace creates a workspace with the name, labels and retention of w.
func (c *Client) CreateWorkspace(ctx context.Context, w atoll.Workspace) (atoll.Workspace, error) {
	var made atoll.Workspace
	err := c.postJSON(ctx, call{op: "create workspace", id: w.Name, path: "/v1/workspaces"}, w, &made)
	return made, err
}

// Workspaces returns the caller's workspaces in the order of names.
func (c *Client) Workspaces(ctx context.Context) ([]atoll.Workspace, error) {
	return getList[atoll.Workspace](ctx, c, call{op: "list workspaces", path: "/v1/workspaces"})
}

// Workspace returns the description of a workspace.
func (c *Client) Workspace(ctx context.Context, name string) (atoll.Workspace, error) {
	var w atoll.Workspace
	err := c.getJSON(ctx, call{op: "workspace", id: name, path: "/v1/workspaces/" + escapeSegment(name)}, &w)
	return w, err
}

// RemoveWorkspace removes a workspace and its files. A workspace that a sandbox mounts
// is ErrState.
func (c *Client) RemoveWorkspace(ctx context.Context, name string) error {
	return c.getJSON(ctx, call{op: "remove workspace", id: name, method: http.MethodDelete, path: "/v1/workspaces/" + escapeSegment(name)}, nil)
}

// PruneOptions configure Prune.
type PruneOptions struct {
	DryRun    bool
	AllOwners bool // needs ScopeOperate
}

// Prune removes the expired workspaces. With DryRun it only lists them.
func (c *Client) Prune(ctx context.Context, p PruneOptions) (atoll.PruneResult, error) {
	var pruned atoll.PruneResult
	err := c.postJSON(ctx, call{op: "prune", path: "/v1/workspaces/prune"}, wire.Prune{DryRun: p.DryRun, All: p.AllOwners}, &pruned)
	return pruned, err
}

// Files accesses the files of a workspace without a running sandbox: an atoll.DirFS
// with Import and Export. Names are absolute; "/" is the workspace.
type Files struct{ files }

var _ atoll.DirFS = (*Files)(nil)

// Files returns the files of a workspace. It does not check that the workspace
// exists.
func (c *Client) Files(workspace string) *Files {
	return &Files{files{c: c, id: workspace, path: "/v1/workspaces/" + escapeSegment(workspace)}}
}
