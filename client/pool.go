package client

import (
	"context"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// SetPool makes or changes a warm pool; of p, the name, configuration and size
// count.
func (c *Client) SetPool(ctx context.Context, p atoll.Pool) (atoll.Pool, error) {
	var set atoll.Pool
	err := c.post(ctx, call{op: "set pool", id: p.Name, method: http.MethodPut, path: "/v1/pools/" + seg(p.Name)}, p, &set)
	return set, err
}

// Pools returns the warm pools in the order of names.
func (c *Client) Pools(ctx context.Context) ([]atoll.Pool, error) {
	return list[atoll.Pool](ctx, c, call{op: "list pools", path: "/v1/pools"})
}

// RemovePool removes a pool and the sandboxes of it that nobody has claimed.
func (c *Client) RemovePool(ctx context.Context, name string) error {
	return c.get(ctx, call{op: "remove pool", id: name, method: http.MethodDelete, path: "/v1/pools/" + seg(name)}, nil)
}
