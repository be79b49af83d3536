package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/atoll-sandbox/atoll"
)

// AuditFilter says which calls are wanted, newest first.
type AuditFilter struct {
	Before    int64 // with a lower ID; 0: from the newest
	Limit     int   // 0: the server's
	Action    string
	Object    string
	AllOwners bool // needs ScopeAdmin
}

// Audit returns who called what.
func (c *Client) Audit(ctx context.Context, f AuditFilter) ([]atoll.Audit, error) {
	q := make(url.Values)
	number(q, "before", f.Before)
	number(q, "limit", int64(f.Limit))
	text(q, "action", f.Action)
	text(q, "object", f.Object)
	flag(q, "all_owners", f.AllOwners)
	return list[atoll.Audit](ctx, c, call{op: "audit", path: "/v1/audit", query: q})
}

func number(q url.Values, name string, n int64) {
	if n != 0 {
		q.Set(name, strconv.FormatInt(n, 10))
	}
}
