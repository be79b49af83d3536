package client

import (
	"context"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The repository on the server's host that a sandbox works on.
type (
	ProjectState  = wire.ProjectState
	BranchState   = wire.BranchState
	ProjectAct    = wire.ProjectAct
	ProjectResult = wire.ProjectResult
)

// The acts on a project: what ProjectAct.Act may be.
const (
	ProjectSync   = wire.ProjectSync
	ProjectMerge  = wire.ProjectMerge
	ProjectApply  = wire.ProjectApply
	ProjectUpdate = wire.ProjectUpdate
	ProjectPR     = wire.ProjectPR
)

// Project compares the branches of the sandbox with those of its repository on the server's host. It needs the
// scope host. The error of a sandbox without such a repository is atoll.ErrNotFound.
func (s *Sandbox) Project(ctx context.Context) (ProjectState, error) {
	var p ProjectState
	err := s.c.getJSON(ctx, s.newCall("project", "", "/project"), &p)
	return p, err
}

// ActOnProject brings the work of the sandbox into its repository on the server's host, or commits of that into
// the sandbox. It needs the scope host. After an error the repository is unchanged.
func (s *Sandbox) ActOnProject(ctx context.Context, act ProjectAct) (ProjectResult, error) {
	var r ProjectResult
	err := s.c.postJSON(ctx, s.newCall("act on project", "", "/project"), act, &r)
	return r, err
}
