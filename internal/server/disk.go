package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// diskKey names the disk of a path.
type diskKey struct {
	Name string `path:"name" maxLength:"63" doc:"The disk's name."`
}

// disks adds kept disks of sandboxes that are gone.
func (s *Server) disks(api huma.API) {
	noun := []string{"disks"}
	register(s, api, huma.Operation{
		OperationID: "list-disks", Method: http.MethodGet, Path: "/v1/disks", Tags: noun, Summary: "List the kept disks, by name",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Disk]], error) {
		return list(a.Disks(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "remove-disk", Method: http.MethodDelete, Path: "/v1/disks/{name}", Tags: noun, Summary: "Forget a kept disk and all on it", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *diskKey) (*none, error) {
		return done(a.RemoveDisk(ctx, in.Name))
	})
}
