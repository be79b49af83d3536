package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/atoll-sandbox/atoll"
)

// AuditFilter selects audited calls, newest first.
type AuditFilter struct {
	Before    int64 // only those with a lower ID; 0: from the newest
	Limit     int   // 0: the server's
	Action    string
	Object    string
	AllOwners bool // needs ScopeAdmin
}

// Audit returns the audit log: the calls, their callers and their results.
func (c *Client) Audit(ctx context.Context, f AuditFilter) ([]atoll.Audit, error) {
	q := make(url.Values)
	setNumber(q, "before", f.Before)
	setNumber(q, "limit", int64(f.Limit))
	setText(q, "action", f.Action)
	setText(q, "object", f.Object)
	setFlag(q, "all_owners", f.AllOwners)
	return getList[atoll.Audit](ctx, c, call{op: "audit", path: "/v1/audit", query: q})
}

func setNumber(q url.Values, name string, n int64) {
	if n != 0 {
		q.Set(name, strconv.FormatInt(n, 10))
	}
}
