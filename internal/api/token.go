package api

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

// Resolve checks the scopes and owner of a token.
func (in *createToken) Resolve(huma.Context) []error {
	scopes := atoll.CheckScopes(in.Body.Scopes)
	if in.Body.Role != "" && len(in.Body.Scopes) == 0 {
		_, scopes = in.Body.Role.Scopes()
	}
	var errs []error
	for _, err := range []error{scopes, in.owner()} {
		errs = append(errs, errorDetails(err)...)
	}
	return errs
}

func (in *createToken) owner() error {
	if in.Body.Owner == (atoll.Owner{}) {
		return nil // the caller's own
	}
	return in.Body.Owner.Check()
}

// registerTokens registers tokens.
func (s *Server) registerTokens(api huma.API) {
	noun := []string{"tokens"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Tags: noun, Summary: "List the valid tokens, oldest first",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Token]], error) {
		return listReply(a.Tokens(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Create a token", Description: "The name, owner, scopes (or a role) and expires of the body are used. The secret is in this response only.", Errors: []int{409},
	}, func(ctx context.Context, a *fleet.Account, in *createToken) (*reply[atoll.Token], error) {
		if in.Body.Owner == (atoll.Owner{}) {
			in.Body.Owner = callOf(ctx).caller.Owner
		}
		return oneReply(a.CreateToken(ctx, in.Body))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: "/v1/tokens/{id}", Tags: noun, Summary: "Revoke a token at once", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *tokenKey) (*noBody, error) {
		return emptyReply(a.RevokeToken(ctx, in.ID))
	})
}
