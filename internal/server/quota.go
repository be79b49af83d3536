package server

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

// quotas adds what owners may have at once.
func (s *Server) quotas(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "get-quota", Method: http.MethodGet, Path: "/v1/quota", Tags: []string{"tokens"}, Summary: "Your quota, and what of it is used",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[atoll.Allowance], error) {
		return one(a.Allowance(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "set-quota", Method: http.MethodPut, Path: "/v1/quotas/{app}/{user}", Tags: []string{"tokens"},
		Summary: "Give an owner a quota", Description: "Zero means the fleet's default, negative no limit. It needs the scope admin.",
	}, func(ctx context.Context, a *fleet.Account, in *setQuota) (*none, error) {
		o := atoll.Owner{App: in.App, User: in.User}
		if err := o.Check(); err != nil {
			return nil, err
		}
		return done(a.SetQuota(ctx, o, in.Body))
	})
}
