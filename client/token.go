package client

import (
	"context"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// CreateToken creates a token with the name, owner, scopes and expiry of t.
// Only the result of this call holds its secret.
func (c *Client) CreateToken(ctx context.Context, t atoll.Token) (atoll.Token, error) {
	var made atoll.Token
	err := c.postJSON(ctx, call{op: "create token", id: t.Name, path: "/v1/tokens"}, t, &made)
	return made, err
}

// Tokens returns the valid tokens, oldest first.
func (c *Client) Tokens(ctx context.Context) ([]atoll.Token, error) {
	return getList[atoll.Token](ctx, c, call{op: "list tokens", path: "/v1/tokens"})
}

// RevokeToken revokes a token, given by id or name.
func (c *Client) RevokeToken(ctx context.Context, key string) error {
	return c.getJSON(ctx, call{op: "revoke token", id: key, method: http.MethodDelete, path: "/v1/tokens/" + escapeSegment(key)}, nil)
}
