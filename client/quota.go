package client

import (
	"context"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// Quota returns the caller's quota and its usage.
func (c *Client) Quota(ctx context.Context) (atoll.Allowance, error) {
	var a atoll.Allowance
	err := c.getJSON(ctx, call{op: "quota", path: "/v1/quota"}, &a)
	return a, err
}

// SetQuota sets the quota of one owner.
func (c *Client) SetQuota(ctx context.Context, o atoll.Owner, q atoll.Quota) error {
	return c.postJSON(ctx, call{op: "set quota", id: o.String(), method: http.MethodPut, path: "/v1/quotas/" + escapeSegment(o.App) + "/" + escapeSegment(o.User)}, q, nil)
}
