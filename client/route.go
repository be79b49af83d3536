package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/atoll-sandbox/atoll"
)

// Routes returns the host names of the open ports of the caller's
// sandboxes or, if key is not empty, of the sandbox with that id or name. A server
// without a proxy is ErrUnavailable.
func (c *Client) Routes(ctx context.Context, key string) ([]atoll.Route, error) {
	q := make(url.Values)
	setText(q, "sandbox", key)
	return getList[atoll.Route](ctx, c, call{op: "list routes", id: key, path: "/v1/routes", query: q})
}

// CreateRouteLink creates an access link to the ports of a sandbox. It uses Sandbox (id or
// name), Port and Expires of l. Only the result of this call holds the URL.
func (c *Client) CreateRouteLink(ctx context.Context, l atoll.RouteLink) (atoll.RouteLink, error) {
	var made atoll.RouteLink
	err := c.postJSON(ctx, call{op: "create link", id: l.Sandbox, path: "/v1/routes/links"}, l, &made)
	return made, err
}

// RouteLinks returns the valid access links, oldest first.
func (c *Client) RouteLinks(ctx context.Context) ([]atoll.RouteLink, error) {
	return getList[atoll.RouteLink](ctx, c, call{op: "list links", path: "/v1/routes/links"})
}

// RevokeRouteLink revokes an access link and ends the connections that use it.
func (c *Client) RevokeRouteLink(ctx context.Context, id string) error {
	return c.getJSON(ctx, call{op: "revoke link", id: id, method: http.MethodDelete, path: "/v1/routes/links/" + escapeSegment(id)}, nil)
}
