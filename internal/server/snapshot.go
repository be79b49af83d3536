package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// takeSnapshot, restoreSnapshot and forkSandbox are what is asked of a sandbox's
// snapshots.
type (
	takeSnapshot struct {
		SandboxKey

		Body *wire.Snapshot
	}
	snapshotKey struct {
		SandboxKey

		Snapshot string `path:"snapshot" doc:"The snapshot's id, or its name."`
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

// Resolve checks what a snapshot is to be called.
func (in *takeSnapshot) Resolve(huma.Context) []error {
	if in.Body == nil || in.Body.Name == "" {
		return nil
	}
	if err := atoll.CheckName(in.Body.Name); err != nil {
		return []error{&huma.ErrorDetail{Message: err.Error(), Location: "body.name"}}
	}
	return nil
}

// Resolve checks what a fork is to be.
func (in *forkSandbox) Resolve(huma.Context) []error {
	if in.Body == nil {
		return nil
	}
	return details(in.Body.Spec.Check())
}

// snapshots adds points to go back to, or to fork from.
func (s *Server) snapshots(api huma.API) {
	noun := []string{"snapshots"}
	register(s, api, huma.Operation{
		OperationID: "list-all-snapshots", Method: http.MethodGet, Path: "/v1/snapshots", Tags: noun, Summary: "The snapshots of all sandboxes, oldest first",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.SnapshotInfo]], error) {
		return list(a.Snapshots(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "list-snapshots", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/snapshots", Tags: noun,
		Summary: "The snapshots of a sandbox, oldest first", Errors: []int{404, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.SnapshotInfo]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return list(atoll.Snapshots(ctx, sb))
	})
	register(s, api, huma.Operation{
		OperationID: "create-snapshot", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/snapshots", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Keep the state of this moment", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *takeSnapshot) (*reply[atoll.SnapshotInfo], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		name := ""
		if in.Body != nil {
			name = in.Body.Name
		}
		return one(atoll.Snapshot(ctx, sb, name))
	})
	register(s, api, huma.Operation{
		OperationID: "remove-snapshot", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}/snapshots/{snapshot}", Tags: noun,
		Summary: "Forget a snapshot", Errors: []int{404, 501},
	}, func(ctx context.Context, a *fleet.Account, in *snapshotKey) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return done(atoll.RemoveSnapshot(ctx, sb, in.Snapshot))
	})
	s.returns(api)
}

// returns adds what snapshots are for.
func (s *Server) returns(api huma.API) {
	noun := []string{"snapshots"}
	register(s, api, huma.Operation{
		OperationID: "restore-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/restore", Tags: noun,
		Summary: "Make a sandbox exactly what it was at a snapshot", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *restoreSnapshot) (*none, error) {
		if in.Body.Snapshot == "" {
			return nil, invalid("snapshot", "must name the snapshot to go back to")
		}
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return done(atoll.Restore(ctx, sb, in.Body.Snapshot))
	})
	register(s, api, huma.Operation{
		OperationID: "fork-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/fork", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Make a second sandbox that starts as this one is, or was at a snapshot", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *forkSandbox) (*created[atoll.Info], error) {
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
		return madeSandbox(ctx, second)
	})
}
