package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// listAudit is what calls are asked for with.
type listAudit struct {
	Before    int64  `query:"before" minimum:"0" doc:"Only those with a lower id."`
	Limit     int    `query:"limit" minimum:"0" maximum:"1000" doc:"How many; 100 if it is not given."`
	Action    string `query:"action" doc:"Only these: create, exec, destroy…"`
	Object    string `query:"object" doc:"Only those on this object."`
	AllOwners bool   `query:"all_owners" doc:"Those of all owners; needs the scope admin."`
}

// audit adds who called what.
func (s *Server) audit(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Tags: []string{"events"}, Summary: "Who called what, the newest first",
	}, func(ctx context.Context, a *fleet.Account, in *listAudit) (*reply[wire.List[atoll.Audit]], error) {
		return list(a.Audit(ctx, fleet.AuditFilter{Before: in.Before, Limit: in.Limit, Action: in.Action, Object: in.Object, AllOwners: in.AllOwners}))
	})
}
