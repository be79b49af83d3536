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
	After     int64 // only those with a higher ID
	Limit     int   // 0: the server's
	Action    string
	Object    string
	AllOwners bool // needs ScopeOperate
}

// ExportAudit calls fn for each audited call that f selects, oldest first, page by page. Limit is the size of a page.
func (c *Client) ExportAudit(ctx context.Context, f AuditFilter, fn func(atoll.Audit) error) error {
	for {
		q := f.values()
		q.Set("order", "oldest")
		list, err := getList[atoll.Audit](ctx, c, call{op: "audit", path: "/v1/audit", query: q})
		if err != nil || len(list) == 0 {
			return err
		}
		for _, e := range list {
			if err := fn(e); err != nil {
				return err
			}
			f.After = e.ID
		}
	}
}

// Audit returns the audit log: the calls, their callers and their results.
func (c *Client) Audit(ctx context.Context, f AuditFilter) ([]atoll.Audit, error) {
	return getList[atoll.Audit](ctx, c, call{op: "audit", path: "/v1/audit", query: f.values()})
}

func (f AuditFilter) values() url.Values {
	q := make(url.Values)
	setNumber(q, "before", f.Before)
	setNumber(q, "after", f.After)
	setNumber(q, "limit", int64(f.Limit))
	setText(q, "action", f.Action)
	setText(q, "object", f.Object)
	setFlag(q, "all_owners", f.AllOwners)
	return q
}

func setNumber(q url.Values, name string, n int64) {
	if n != 0 {
		q.Set(name, strconv.FormatInt(n, 10))
	}
}
