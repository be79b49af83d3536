package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Quota returns the caller's quota and its usage.
func (c *Client) Quota(ctx context.Context) (atoll.Allowance, error) {
	var a atoll.Allowance
	err := c.getJSON(ctx, call{op: "quota", path: "/v1/quota"}, &a)
	return a, err
}

// Quotas returns the quotas and usage of all owners, by name. It needs ScopeOperate.
func (c *Client) Quotas(ctx context.Context) ([]atoll.Allowance, error) {
	all := []atoll.Allowance{}
	for after := ""; ; {
		q := url.Values{"limit": {strconv.Itoa(pageSize)}}
		setText(q, "after", after)
		var page wire.Page[atoll.Allowance]
		if err := c.getJSON(ctx, call{op: "list quotas", path: "/v1/quotas", query: q}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

// SetQuota sets the quota of one owner.
func (c *Client) SetQuota(ctx context.Context, o atoll.Owner, q atoll.Quota) error {
	return c.postJSON(ctx, call{op: "set quota", id: o.String(), method: http.MethodPut, path: "/v1/quotas/" + escapeSegment(o.App) + "/" + escapeSegment(o.User)}, q, nil)
}
