package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// diskKey is the disk in a path.
type diskKey struct {
	Name string `path:"name" maxLength:"63" doc:"The disk's name."`
}

// registerDisks registers persistent disks.
func (s *Server) registerDisks(api huma.API) {
	noun := []string{"disks"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-disks", Method: http.MethodGet, Path: "/v1/disks", Tags: noun, Summary: "List the persistent disks, sorted by name",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Disk]], error) {
		return listReply(a.Disks(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "remove-disk", Method: http.MethodDelete, Path: "/v1/disks/{name}", Tags: noun, Summary: "Remove a persistent disk with its content", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *diskKey) (*noBody, error) {
		return emptyReply(a.RemoveDisk(ctx, in.Name))
	})
}
