package fleet

import (
	"context"
	"database/sql"
	"io"

	"github.com/atoll-sandbox/atoll"
)

// CreateWorkspace makes a workspace; of w, the name, labels and keep count.
func (a *Account) CreateWorkspace(ctx context.Context, w atoll.Workspace) (atoll.Workspace, error) {
	return atoll.Workspace{}, atoll.ErrUnsupported
}

// Workspace returns all about a workspace.
func (a *Account) Workspace(ctx context.Context, name string) (atoll.Workspace, error) {
	return atoll.Workspace{}, atoll.ErrUnsupported
}

// Workspaces returns the owner's workspaces in the order of names.
func (a *Account) Workspaces(ctx context.Context) ([]atoll.Workspace, error) {
	return nil, atoll.ErrUnsupported
}

// RemoveWorkspace removes a workspace and its files. One that a sandbox mounts
// is ErrState.
func (a *Account) RemoveWorkspace(ctx context.Context, name string) error {
	return atoll.ErrUnsupported
}

// Prune removes the workspaces whose time is over; with dry it only says which.
// Those of all owners need ScopeAdmin.
func (a *Account) Prune(ctx context.Context, p PruneOptions) (atoll.Pruned, error) {
	return atoll.Pruned{}, atoll.ErrUnsupported
}

// PruneOptions say what to prune.
type PruneOptions struct {
	DryRun    bool
	AllOwners bool // needs ScopeAdmin
}

// Files are the files of a workspace: an atoll.DirFS, and tar in and out, with
// no sandbox running. Names are absolute, "/" is the workspace.
type Files struct {
	atoll.DirFS
}

// Files opens the files of a workspace. The caller closes them.
func (a *Account) Files(ctx context.Context, workspace string) (*Files, error) {
	return nil, atoll.ErrUnsupported
}

// Import unpacks a tar stream into dir, which is made if it is missing.
func (f *Files) Import(ctx context.Context, dir string, tar io.Reader) error {
	return atoll.ErrUnsupported
}

// Export packs a file or directory as a tar stream.
func (f *Files) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	return nil, atoll.ErrUnsupported
}

// Close ends the use of the files.
func (f *Files) Close() error { return nil }

// mountsFor makes the workspaces of a configuration that are missing, notes in
// the registry that the sandbox mounts them, whose row must be there, and
// returns where they are on the host.
func (f *Fleet) mountsFor(ctx context.Context, tx *sql.Tx, owner atoll.Owner, sandbox string, cfg atoll.Config) ([]atoll.Mount, error) {
	return nil, atoll.ErrUnsupported
}

// unmount notes that a sandbox mounts nothing any more.
func (f *Fleet) unmount(ctx context.Context, tx *sql.Tx, sandbox string) error {
	return atoll.ErrUnsupported
}

// workspaceUsage returns how many workspaces an owner has, and the bytes in them.
func (f *Fleet) workspaceUsage(ctx context.Context, tx *sql.Tx, owner atoll.Owner) (n int, bytes int64, err error) {
	return 0, 0, atoll.ErrUnsupported
}
