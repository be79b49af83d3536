package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/atoll-sandbox/atoll"
)

// Routes returns the host names of the ports that are open in the caller's
// sandboxes, or, if key is not empty, in one of them, by id or name. A server
// without a proxy is ErrUnavailable.
func (c *Client) Routes(ctx context.Context, key string) ([]atoll.Route, error) {
	q := make(url.Values)
	text(q, "sandbox", key)
	return list[atoll.Route](ctx, c, call{op: "list routes", id: key, path: "/v1/routes", query: q})
}

// CreateRouteLink makes a link to the ports of a sandbox; of l, Sandbox (its id or
// name), Port and Expires count. Only the answer holds its URL.
func (c *Client) CreateRouteLink(ctx context.Context, l atoll.RouteLink) (atoll.RouteLink, error) {
	var made atoll.RouteLink
	err := c.post(ctx, call{op: "create link", id: l.Sandbox, path: "/v1/routes/links"}, l, &made)
	return made, err
}

// RouteLinks returns the links that are good, the newest last.
func (c *Client) RouteLinks(ctx context.Context) ([]atoll.RouteLink, error) {
	return list[atoll.RouteLink](ctx, c, call{op: "list links", path: "/v1/routes/links"})
}

// RevokeRouteLink makes a link useless at once, and ends what it let in.
func (c *Client) RevokeRouteLink(ctx context.Context, id string) error {
	return c.get(ctx, call{op: "revoke link", id: id, method: http.MethodDelete, path: "/v1/routes/links/" + seg(id)}, nil)
}
