package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
)

// createIdentityToken asks for an identity token.
type createIdentityToken struct {
	SandboxKey
	Body identityTokenRequest
}

// identityTokenRequest is the body of createIdentityToken.
type identityTokenRequest struct {
	Audience string `json:"audience" doc:"The service that the token is for."`
}

// registerIdentityTokens registers the identity tokens of sandboxes.
func (s *Server) registerIdentityTokens(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "create-identity-token", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/identity-token", Tags: []string{"sandboxes"}, DefaultStatus: http.StatusCreated,
		Summary: "Create a token that proves to a service who a running sandbox is", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *createIdentityToken) (*reply[atoll.IdentityToken], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(sb.IdentityToken(ctx, in.Body.Audience))
	})
}

// isIssuer reports whether a request is for the documents of the issuer of identity tokens, which need no token.
func isIssuer(r *http.Request) bool {
	return r.URL.Path == issuer.DiscoveryPath || r.URL.Path == issuer.KeysPath
}

// registerIssuer registers the documents by which services verify identity tokens.
func (s *Server) registerIssuer(mux *http.ServeMux) {
	serve := func(read func(ctx context.Context) (any, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if s.fleet.Issuer().URL == "" {
				s.writeProblem(w, r, &atoll.Error{Op: "issuer", Err: atoll.ErrNotFound})
				return
			}
			v, err := read(r.Context())
			if err == nil {
				w.Header().Set("Cache-Control", "public, max-age=300")
				err = writeJSON(w, http.StatusOK, v)
			}
			if err != nil {
				s.writeProblem(w, r, err)
			}
		}
	}
	mux.HandleFunc("GET "+issuer.DiscoveryPath, serve(func(context.Context) (any, error) { return s.fleet.Issuer().Discovery(), nil }))
	mux.HandleFunc("GET "+issuer.KeysPath, serve(func(ctx context.Context) (any, error) { return s.fleet.IdentityKeys(ctx) }))
}
