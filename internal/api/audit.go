package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// listAudit are the parameters of the audit list.
type listAudit struct {
	Before    int64  `query:"before" minimum:"0" doc:"Only entries with a lower id."`
	After     int64  `query:"after" minimum:"0" doc:"Only entries with a higher id."`
	Order     string `query:"order" enum:"newest,oldest" doc:"Which come first: newest (the default), or oldest: to export them page by page."`
	Limit     int    `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number; 100 by default."`
	Action    string `query:"action" doc:"Only this action: create, exec, destroy…"`
	Object    string `query:"object" doc:"Only actions on this object."`
	AllOwners bool   `query:"all_owners" doc:"Include all owners; needs the scope operate."`
}

// registerAudit registers the audit.
func (s *Server) registerAudit(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Tags: []string{"events"}, Summary: "List the audited calls",
	}, func(ctx context.Context, a *fleet.Account, in *listAudit) (*reply[wire.List[atoll.Audit]], error) {
		return listReply(a.Audit(ctx, fleet.AuditFilter{Before: in.Before, After: in.After, OldestFirst: in.Order == "oldest", Limit: in.Limit, Action: in.Action, Object: in.Object, AllOwners: in.AllOwners}))
	})
}
