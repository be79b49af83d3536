package client

import (
	"context"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// CreateToken makes a token; of t, the name, owner, scopes and expiry count.
// Only the answer holds its secret.
func (c *Client) CreateToken(ctx context.Context, t atoll.Token) (atoll.Token, error) {
	var made atoll.Token
	err := c.post(ctx, call{op: "create token", id: t.Name, path: "/v1/tokens"}, t, &made)
	return made, err
}

// Tokens returns the tokens that can be used, the newest last.
func (c *Client) Tokens(ctx context.Context) ([]atoll.Token, error) {
	return list[atoll.Token](ctx, c, call{op: "list tokens", path: "/v1/tokens"})
}

// RevokeToken makes a token useless at once, by id or name.
func (c *Client) RevokeToken(ctx context.Context, key string) error {
	return c.get(ctx, call{op: "revoke token", id: key, method: http.MethodDelete, path: "/v1/tokens/" + seg(key)}, nil)
}
