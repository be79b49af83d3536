package client

import (
	"context"
	"net/http"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// CreateWorkspace makes a workspace; of w, the name, labels and keep count.
func (c *Client) CreateWorkspace(ctx context.Context, w atoll.Workspace) (atoll.Workspace, error) {
	var made atoll.Workspace
	err := c.post(ctx, call{op: "create workspace", id: w.Name, path: "/v1/workspaces"}, w, &made)
	return made, err
}

// Workspaces returns the caller's workspaces in the order of names.
func (c *Client) Workspaces(ctx context.Context) ([]atoll.Workspace, error) {
	return list[atoll.Workspace](ctx, c, call{op: "list workspaces", path: "/v1/workspaces"})
}

// Workspace returns all about a workspace.
func (c *Client) Workspace(ctx context.Context, name string) (atoll.Workspace, error) {
	var w atoll.Workspace
	err := c.get(ctx, call{op: "workspace", id: name, path: "/v1/workspaces/" + seg(name)}, &w)
	return w, err
}

// RemoveWorkspace removes a workspace and its files. One that a sandbox mounts
// is ErrState.
func (c *Client) RemoveWorkspace(ctx context.Context, name string) error {
	return c.get(ctx, call{op: "remove workspace", id: name, method: http.MethodDelete, path: "/v1/workspaces/" + seg(name)}, nil)
}

// PruneOptions say what to prune.
type PruneOptions struct {
	DryRun    bool
	AllOwners bool // needs ScopeAdmin
}

// Prune removes the workspaces whose time is over, or says which they are.
func (c *Client) Prune(ctx context.Context, p PruneOptions) (atoll.Pruned, error) {
	var pruned atoll.Pruned
	err := c.post(ctx, call{op: "prune", path: "/v1/workspaces/prune"}, wire.Prune{DryRun: p.DryRun, All: p.AllOwners}, &pruned)
	return pruned, err
}

// Files are the files of a workspace: an atoll.DirFS, and tar in and out, with
// no sandbox running. Names are absolute, "/" is the workspace.
type Files struct{ files }

var _ atoll.DirFS = (*Files)(nil)

// Files returns the files of a workspace. Nobody is asked yet whether it is
// there.
func (c *Client) Files(workspace string) *Files {
	return &Files{files{c: c, id: workspace, path: "/v1/workspaces/" + seg(workspace)}}
}
