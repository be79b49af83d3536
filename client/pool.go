package client

import (
	"context"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// SetPool creates or changes a warm pool. It uses the name, configuration and size
// of p.
func (c *Client) SetPool(ctx context.Context, p atoll.Pool) (atoll.Pool, error) {
	var set atoll.Pool
	err := c.postJSON(ctx, call{op: "set pool", id: p.Name, method: http.MethodPut, path: "/v1/pools/" + escapeSegment(p.Name)}, p, &set)
	return set, err
}

// Pools returns the warm pools in the order of names.
func (c *Client) Pools(ctx context.Context) ([]atoll.Pool, error) {
	return getList[atoll.Pool](ctx, c, call{op: "list pools", path: "/v1/pools"})
}

// RemovePool removes a pool and its sandboxes that are not claimed yet.
func (c *Client) RemovePool(ctx context.Context, name string) error {
	return c.getJSON(ctx, call{op: "remove pool", id: name, method: http.MethodDelete, path: "/v1/pools/" + escapeSegment(name)}, nil)
}
