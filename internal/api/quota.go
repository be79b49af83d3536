package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

type setQuota struct {
	App  string `path:"app"`
	User string `path:"user"`
	Body atoll.Quota
}

// listQuotas asks for a page of quotas.
type listQuotas struct {
	After string `query:"after" doc:"Cursor of the page before: the name of its last owner."`
	Limit int    `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number; 100 by default."`
}

// registerQuotas registers quotas.
func (s *Server) registerQuotas(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "get-quota", Method: http.MethodGet, Path: "/v1/quota", Tags: []string{"tokens"}, Summary: "Get your quota and its usage",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[atoll.Allowance], error) {
		return oneReply(a.Allowance(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "list-quotas", Method: http.MethodGet, Path: "/v1/quotas", Tags: []string{"tokens"}, Summary: "List the quotas and usage of all owners",
		Description: "The owners are those that have a sandbox, a workspace, a token or a quota of their own, by name. Running commands are those of the server that answers. It needs the scope operate.",
	}, func(ctx context.Context, a *fleet.Account, in *listQuotas) (*reply[wire.Page[atoll.Allowance]], error) {
		list, next, err := a.Allowances(ctx, in.After, cmp.Or(in.Limit, 100))
		if err != nil {
			return nil, err
		}
		return &reply[wire.Page[atoll.Allowance]]{wire.Page[atoll.Allowance]{Items: list, Next: next}}, nil
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "set-quota", Method: http.MethodPut, Path: "/v1/quotas/{app}/{user}", Tags: []string{"tokens"},
		Summary: "Set the quota of an owner", Description: "Zero means the server's default, negative unlimited. It needs the scope operate.",
	}, func(ctx context.Context, a *fleet.Account, in *setQuota) (*noBody, error) {
		o := atoll.Owner{App: in.App, User: in.User}
		if err := o.Check(); err != nil {
			return nil, err
		}
		return emptyReply(a.SetQuota(ctx, o, in.Body))
	})
}
