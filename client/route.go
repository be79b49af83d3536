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

// CreateLink makes a link to the ports of a sandbox; of l, Sandbox (its id or
// name), Port and Expires count. Only the answer holds its URL.
func (c *Client) CreateLink(ctx context.Context, l atoll.Link) (atoll.Link, error) {
	var made atoll.Link
	err := c.post(ctx, call{op: "create link", id: l.Sandbox, path: "/v1/links"}, l, &made)
	return made, err
}

// Links returns the links that are good, the newest last.
func (c *Client) Links(ctx context.Context) ([]atoll.Link, error) {
	return list[atoll.Link](ctx, c, call{op: "list links", path: "/v1/links"})
}

// RevokeLink makes a link useless at once, and ends what it let in.
func (c *Client) RevokeLink(ctx context.Context, id string) error {
	return c.get(ctx, call{op: "revoke link", id: id, method: http.MethodDelete, path: "/v1/links/" + seg(id)}, nil)
}
