package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

type (
	tokenKey struct {
		ID string `path:"id" doc:"The token's id, or its name."`
	}
	createToken struct {
		Body atoll.Token
	}
)

// Resolve checks what a token is to allow, and to whom.
func (in *createToken) Resolve(huma.Context) []error {
	var errs []error
	for _, err := range []error{atoll.CheckScopes(in.Body.Scopes), in.owner()} {
		errs = append(errs, details(err)...)
	}
	return errs
}

func (in *createToken) owner() error {
	if in.Body.Owner == (atoll.Owner{}) {
		return nil // the caller's own
	}
	return in.Body.Owner.Check()
}

// tokens adds who may call.
func (s *Server) tokens(api huma.API) {
	noun := []string{"tokens"}
	register(s, api, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Tags: noun, Summary: "List the tokens that can be used, the newest last",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Token]], error) {
		return list(a.Tokens(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Make a token", Description: "Of the body, name, owner, scopes and expires count. The secret is in this answer only.", Errors: []int{409},
	}, func(ctx context.Context, a *fleet.Account, in *createToken) (*reply[atoll.Token], error) {
		if in.Body.Owner == (atoll.Owner{}) {
			in.Body.Owner = callOf(ctx).caller.Owner
		}
		return one(a.CreateToken(ctx, in.Body))
	})
	register(s, api, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: "/v1/tokens/{id}", Tags: noun, Summary: "Make a token useless at once", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *tokenKey) (*none, error) {
		return done(a.RevokeToken(ctx, in.ID))
	})
}
