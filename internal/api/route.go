package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

type (
	listRoutes struct {
		Sandbox string `query:"sandbox" doc:"Only routes of this sandbox, by id or name."`
	}
	routeLinkKey struct {
		ID string `path:"id" doc:"The link's id."`
	}
	createRouteLink struct {
		Body atoll.RouteLink
	}
)

// Resolve checks the target and expiry of a link.
func (in *createRouteLink) Resolve(huma.Context) []error {
	var errs []error
	if in.Body.Sandbox == "" {
		errs = append(errs, &huma.ErrorDetail{Message: "must name a sandbox, by id or name", Location: "body.sandbox"})
	}
	if p := in.Body.Port; p < 0 || p > 65535 {
		errs = append(errs, &huma.ErrorDetail{Message: "must be 0 to 65535", Location: "body.port", Value: p})
	}
	if in.Body.Expires.IsZero() {
		errs = append(errs, &huma.ErrorDetail{Message: "must be set: a link must expire", Location: "body.expires"})
	}
	return errs
}

// errNoRoutes is the error of route operations without a preview proxy.
var errNoRoutes = &atoll.Error{Op: "names of ports", Err: fmt.Errorf("%w: no preview proxy is running; start 'atoll serve' or 'atoll proxy run'", atoll.ErrUnavailable)}

// registerRoutes registers the host names of ports, and the links to them.
func (s *Server) registerRoutes(api huma.API) {
	noun := []string{"routes"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-routes", Method: http.MethodGet, Path: "/v1/routes", Tags: noun, Errors: []int{404},
		Summary: "List the host names of ports",
	}, func(ctx context.Context, a *fleet.Account, in *listRoutes) (*reply[wire.List[atoll.Route]], error) {
		if s.opts.Routes == nil {
			return nil, errNoRoutes
		}
		return listReply(s.opts.Routes.Routes(ctx, a, in.Sandbox))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "list-route-links", Method: http.MethodGet, Path: "/v1/routes/links", Tags: noun, Summary: "List the valid links, oldest first",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.RouteLink]], error) {
		return listReply(a.RouteLinks(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "create-route-link", Method: http.MethodPost, Path: "/v1/routes/links", Tags: noun, DefaultStatus: http.StatusCreated, Errors: []int{404, 409},
		Summary:     "Create a link to the ports of a sandbox",
		Description: "The sandbox, port and expires of the body are used. The URL opens the port and gives the browser access to all ports of the sandbox; it is in this response only.",
	}, func(ctx context.Context, a *fleet.Account, in *createRouteLink) (*reply[atoll.RouteLink], error) {
		if s.opts.Routes == nil {
			return nil, errNoRoutes
		}
		return oneReply(s.opts.Routes.CreateLink(ctx, a, in.Body.Sandbox, in.Body.Port, in.Body.Expires))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "revoke-route-link", Method: http.MethodDelete, Path: "/v1/routes/links/{id}", Tags: noun, Summary: "Revoke a link at once, and close its connections", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *routeLinkKey) (*noBody, error) {
		return emptyReply(a.RevokeRouteLink(ctx, in.ID))
	})
}
