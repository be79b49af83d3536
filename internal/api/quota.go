package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

type setQuota struct {
	App  string `path:"app"`
	User string `path:"user"`
	Body atoll.Quota
}

// registerQuotas registers quotas.
func (s *Server) registerQuotas(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "get-quota", Method: http.MethodGet, Path: "/v1/quota", Tags: []string{"tokens"}, Summary: "Get your quota and its usage",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[atoll.Allowance], error) {
		return oneReply(a.Allowance(ctx))
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
