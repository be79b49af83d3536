package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The parameters of snapshot operations.
type (
	takeSnapshot struct {
		SandboxKey

		Body *wire.Snapshot
	}
	snapshotKey struct {
		SandboxKey

		Snapshot string `path:"snapshot" doc:"The snapshot's id, or its name."`
	}
	compareSnapshots struct {
		SandboxKey

		Snapshot string `path:"snapshot" doc:"The id or name of the earlier snapshot."`
		To       string `query:"to" doc:"The id or name of a later snapshot; by default the files as they are now."`
	}
	restoreSnapshot struct {
		SandboxKey

		Body wire.Snapshot
	}
	forkSandbox struct {
		SandboxKey

		Body *wire.Fork
	}
)

// Resolve checks the name of a snapshot.
func (in *takeSnapshot) Resolve(huma.Context) []error {
	if in.Body == nil || in.Body.Name == "" {
		return nil
	}
	if err := atoll.CheckName(in.Body.Name); err != nil {
		return []error{&huma.ErrorDetail{Message: err.Error(), Location: "body.name"}}
	}
	return nil
}

// Resolve checks the spec of a fork.
func (in *forkSandbox) Resolve(huma.Context) []error {
	if in.Body == nil {
		return nil
	}
	return errorDetails(in.Body.Spec.Check())
}

// registerSnapshots registers snapshots.
func (s *Server) registerSnapshots(api huma.API) {
	noun := []string{"snapshots"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-all-snapshots", Method: http.MethodGet, Path: "/v1/snapshots", Tags: noun, Summary: "List the snapshots of all sandboxes, oldest first",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.SnapshotInfo]], error) {
		return listReply(a.Snapshots(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "list-snapshots", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/snapshots", Tags: noun,
		Summary: "List the snapshots of a sandbox, oldest first", Errors: []int{404, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.SnapshotInfo]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return listReply(atoll.Snapshots(ctx, sb))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "create-snapshot", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/snapshots", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Take a snapshot of a sandbox", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *takeSnapshot) (*reply[atoll.SnapshotInfo], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		name := ""
		if in.Body != nil {
			name = in.Body.Name
		}
		return oneReply(atoll.Snapshot(ctx, sb, name))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "remove-snapshot", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}/snapshots/{snapshot}", Tags: noun,
		Summary: "Remove a snapshot", Errors: []int{404, 501},
	}, func(ctx context.Context, a *fleet.Account, in *snapshotKey) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return emptyReply(atoll.RemoveSnapshot(ctx, sb, in.Snapshot))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "compare-snapshots", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/snapshots/{snapshot}/difference", Tags: noun,
		Summary: "List the files that differ between a snapshot and another one, or the files as they are now",
		Description: "By content, kind, mode and owner. All files are read, so the scope run is needed. The first 2000 are listed, by path. A file of the image that was changed for the " +
			"first time counts as added.",
		Errors: []int{404, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *compareSnapshots) (*reply[atoll.SnapshotDifference], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(sb.CompareSnapshots(ctx, in.Snapshot, in.To))
	})
	s.registerRestore(api)
}

// registerRestore registers restore and fork.
func (s *Server) registerRestore(api huma.API) {
	noun := []string{"snapshots"}
	registerJSON(s, api, huma.Operation{
		OperationID: "restore-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/restore", Tags: noun,
		Summary: "Restore a sandbox to a snapshot", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *restoreSnapshot) (*noBody, error) {
		if in.Body.Snapshot == "" {
			return nil, invalidField("snapshot", "must name a snapshot")
		}
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return emptyReply(atoll.Restore(ctx, sb, in.Body.Snapshot))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "fork-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/fork", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Fork a sandbox, as it is now or at a snapshot", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *forkSandbox) (*createdReply[atoll.Info], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		var ask wire.Fork
		if in.Body != nil {
			ask = *in.Body
		}
		forked, err := atoll.Fork(ctx, sb, ask.Snapshot, ask.Spec)
		if err != nil {
			return nil, err
		}
		second, err := a.Open(ctx, forked.ID())
		if err != nil {
			return nil, err
		}
		return createdSandbox(ctx, second)
	})
}
