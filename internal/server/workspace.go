package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

type (
	workspaceKey struct {
		Name string `path:"name" doc:"The workspace's name."`
	}
	createWorkspace struct {
		Body atoll.Workspace
	}
	pruneWorkspaces struct {
		Body *wire.Prune
	}
)

// Resolve checks what a workspace is to be called.
func (in *createWorkspace) Resolve(huma.Context) []error {
	var errs []error
	if err := atoll.CheckName(in.Body.Name); err != nil {
		errs = append(errs, &huma.ErrorDetail{Message: err.Error(), Location: "body.name"})
	}
	cfg := atoll.Config{Spec: atoll.Spec{Labels: in.Body.Labels}}
	return append(errs, details(cfg.Check())...)
}

// workspaces adds files that outlive sandboxes.
func (s *Server) workspaces(api huma.API) {
	noun := []string{"workspaces"}
	register(s, api, huma.Operation{
		OperationID: "list-workspaces", Method: http.MethodGet, Path: "/v1/workspaces", Tags: noun, Summary: "List workspaces in the order of names",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Workspace]], error) {
		return list(a.Workspaces(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "create-workspace", Method: http.MethodPost, Path: "/v1/workspaces", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Make a workspace", Description: "Of the body, name, labels and keep count.", Errors: []int{409, 507},
	}, func(ctx context.Context, a *fleet.Account, in *createWorkspace) (*created[atoll.Workspace], error) {
		w, err := a.CreateWorkspace(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &created[atoll.Workspace]{Location: "/v1/workspaces/" + w.Name, Body: w}, nil
	})
	register(s, api, huma.Operation{
		OperationID: "get-workspace", Method: http.MethodGet, Path: "/v1/workspaces/{name}", Tags: noun, Summary: "All about a workspace", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *workspaceKey) (*reply[atoll.Workspace], error) {
		return one(a.Workspace(ctx, in.Name))
	})
	register(s, api, huma.Operation{
		OperationID: "remove-workspace", Method: http.MethodDelete, Path: "/v1/workspaces/{name}", Tags: noun,
		Summary: "Remove a workspace and its files", Description: "One that a sandbox mounts is left alone.", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *workspaceKey) (*none, error) {
		return done(a.RemoveWorkspace(ctx, in.Name))
	})
	register(s, api, huma.Operation{
		OperationID: "prune-workspaces", Method: http.MethodPost, Path: "/v1/workspaces/prune", Tags: noun,
		Summary: "Remove the workspaces whose time is over, or say which they are",
	}, func(ctx context.Context, a *fleet.Account, in *pruneWorkspaces) (*reply[atoll.Pruned], error) {
		var ask wire.Prune
		if in.Body != nil {
			ask = *in.Body
		}
		return one(a.Prune(ctx, fleet.PruneOptions{DryRun: ask.DryRun, AllOwners: ask.All}))
	})
}
