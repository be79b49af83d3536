package client

import (
	"context"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// Quota returns the caller's quota and what of it is used.
func (c *Client) Quota(ctx context.Context) (atoll.Allowance, error) {
	var a atoll.Allowance
	err := c.get(ctx, call{op: "quota", path: "/v1/quota"}, &a)
	return a, err
}

// SetQuota gives an owner a quota of his own.
func (c *Client) SetQuota(ctx context.Context, o atoll.Owner, q atoll.Quota) error {
	return c.post(ctx, call{op: "set quota", id: o.String(), method: http.MethodPut, path: "/v1/quotas/" + seg(o.App) + "/" + seg(o.User)}, q, nil)
}
