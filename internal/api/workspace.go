package api

import (
	"context"
	"errors"
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

// Resolve checks the name and labels of a workspace.
func (in *createWorkspace) Resolve(huma.Context) []error {
	var errs []error
	if err := atoll.CheckName(in.Body.Name); err != nil {
		errs = append(errs, &huma.ErrorDetail{Message: err.Error(), Location: "body.name"})
	}
	cfg := atoll.Config{Spec: atoll.Spec{Labels: in.Body.Labels}}
	return append(errs, errorDetails(cfg.Check())...)
}

// registerWorkspaces registers workspaces.
func (s *Server) registerWorkspaces(api huma.API) {
	noun := []string{"workspaces"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-workspaces", Method: http.MethodGet, Path: "/v1/workspaces", Tags: noun, Summary: "List workspaces, sorted by name",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Workspace]], error) {
		return listReply(a.Workspaces(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "create-workspace", Method: http.MethodPost, Path: "/v1/workspaces", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Create a workspace", Description: "The name, labels and keep of the body are used.", Errors: []int{409, 507},
	}, func(ctx context.Context, a *fleet.Account, in *createWorkspace) (*createdReply[atoll.Workspace], error) {
		w, err := a.CreateWorkspace(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &createdReply[atoll.Workspace]{Location: "/v1/workspaces/" + w.Name, Body: w}, nil
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-workspace", Method: http.MethodGet, Path: "/v1/workspaces/{name}", Tags: noun, Summary: "Get a workspace", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *workspaceKey) (*reply[atoll.Workspace], error) {
		return oneReply(a.Workspace(ctx, in.Name))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "remove-workspace", Method: http.MethodDelete, Path: "/v1/workspaces/{name}", Tags: noun,
		Summary: "Remove a workspace and its files", Description: "A mounted workspace is not removed.", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *workspaceKey) (*noBody, error) {
		err := a.RemoveWorkspace(ctx, in.Name)
		if errors.Is(err, atoll.ErrState) && s.endIdleAgents(ctx, a) {
			err = a.RemoveWorkspace(ctx, in.Name)
		}
		return emptyReply(err)
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "prune-workspaces", Method: http.MethodPost, Path: "/v1/workspaces/prune", Tags: noun,
		Summary: "Remove the expired workspaces, or list them (dry run)",
	}, func(ctx context.Context, a *fleet.Account, in *pruneWorkspaces) (*reply[atoll.PruneResult], error) {
		var ask wire.Prune
		if in.Body != nil {
			ask = *in.Body
		}
		return oneReply(a.Prune(ctx, fleet.PruneOptions{DryRun: ask.DryRun, AllOwners: ask.All}))
	})
}
