package server

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
		Sandbox string `query:"sandbox" doc:"Only those of this sandbox, by id or name."`
	}
	routeLinkKey struct {
		ID string `path:"id" doc:"The link's id."`
	}
	createRouteLink struct {
		Body atoll.RouteLink
	}
)

// Resolve checks what a link is to lead to.
func (in *createRouteLink) Resolve(huma.Context) []error {
	var errs []error
	if in.Body.Sandbox == "" {
		errs = append(errs, &huma.ErrorDetail{Message: "must name a sandbox, by id or name", Location: "body.sandbox"})
	}
	if p := in.Body.Port; p < 0 || p > 65535 {
		errs = append(errs, &huma.ErrorDetail{Message: "must be 0 to 65535", Location: "body.port", Value: p})
	}
	if in.Body.Expires.IsZero() {
		errs = append(errs, &huma.ErrorDetail{Message: "must say when the link is good no more", Location: "body.expires"})
	}
	return errs
}

// errNoRoutes answers for names of ports where there is no proxy.
var errNoRoutes = &atoll.Error{Op: "names of ports", Err: fmt.Errorf("%w: no proxy runs with this server, or none is up: 'atoll serve' has one, 'atoll proxy run' is one", atoll.ErrUnavailable)}

// routes adds the names of ports, and the links that open them.
func (s *Server) routes(api huma.API) {
	noun := []string{"routes"}
	register(s, api, huma.Operation{
		OperationID: "list-routes", Method: http.MethodGet, Path: "/v1/routes", Tags: noun, Errors: []int{404},
		Summary: "The host names by which ports of sandboxes are reached, by now",
	}, func(ctx context.Context, a *fleet.Account, in *listRoutes) (*reply[wire.List[atoll.Route]], error) {
		if s.opts.Routes == nil {
			return nil, errNoRoutes
		}
		return list(s.opts.Routes.Routes(ctx, a, in.Sandbox))
	})
	register(s, api, huma.Operation{
		OperationID: "list-route-links", Method: http.MethodGet, Path: "/v1/routes/links", Tags: noun, Summary: "List the links that are good, the newest last",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.RouteLink]], error) {
		return list(a.RouteLinks(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "create-route-link", Method: http.MethodPost, Path: "/v1/routes/links", Tags: noun, DefaultStatus: http.StatusCreated, Errors: []int{404, 409},
		Summary:     "Make a link to the ports of a sandbox",
		Description: "Of the body, sandbox, port and expires count. The URL opens port, and lets its browser into all ports of the sandbox; it is in this answer only.",
	}, func(ctx context.Context, a *fleet.Account, in *createRouteLink) (*reply[atoll.RouteLink], error) {
		if s.opts.Routes == nil {
			return nil, errNoRoutes
		}
		return one(s.opts.Routes.Link(ctx, a, in.Body.Sandbox, in.Body.Port, in.Body.Expires))
	})
	register(s, api, huma.Operation{
		OperationID: "revoke-route-link", Method: http.MethodDelete, Path: "/v1/routes/links/{id}", Tags: noun, Summary: "Make a link useless at once, and end what it let in", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *routeLinkKey) (*none, error) {
		return done(a.RevokeRouteLink(ctx, in.ID))
	})
}
