package fleet

import (
	"context"
	"database/sql"

	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// trimRecords removes the events, audit entries, command output, links, dead deliveries and tokens that are too old
// or too many. Run calls it regularly; writers of events and audit trim every thousand rows.
func (f *Fleet) trimRecords(ctx context.Context) error {
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		now, keep := f.recorder.now(), f.opts.Retention
		if err := f.events.Trim(ctx, tx); err != nil {
			return err
		}
		if err := registry.TrimOwners(ctx, tx, "audit", maxAuditPerOwner); err != nil {
			return err
		}
		if err := registry.TrimRows(ctx, tx, "audit", registry.Oldest(now, keep.Audit), maxAuditRows); err != nil {
			return err
		}
		if err := trimOutput(ctx, tx, maxHistoryPerOwner, "true"); err != nil {
			return err
		}
		if err := forgetRouteLinks(ctx, tx, now); err != nil {
			return err
		}
		if err := trimDeliveries(ctx, tx, registry.Oldest(now, keep.Deliveries)); err != nil {
			return err
		}
		if err := forgetLogins(ctx, tx, now); err != nil {
			return err
		}
		return forgetTokens(ctx, tx, registry.Oldest(now, keep.Tokens), now)
	})
}

// trimAudit trims the entries of an owner after every thousand of them, and the whole table after
// every thousand rows.
func (l *recorder) trimAudit(ctx context.Context, tx *sql.Tx, b *batch) error {
	if len(l.auditGrowth) > 10_000 {
		clear(l.auditGrowth)
	}
	for o, n := range b.auditGrowth {
		if l.auditGrowth[o] += n; l.auditGrowth[o] < 1000 {
			continue
		}
		if err := registry.TrimOwner(ctx, tx, "audit", o, maxAuditPerOwner); err != nil {
			return err
		}
		delete(l.auditGrowth, o)
	}
	added := b.audit.rowCount()
	if added == 0 {
		return nil
	}
	var last int64
	if err := tx.QueryRowContext(ctx, `select max(id) from audit`).Scan(&last); err != nil || last/1000 == (last-int64(added))/1000 {
		return err
	}
	return registry.TrimRows(ctx, tx, "audit", registry.Oldest(l.now(), l.retention), maxAuditRows)
}
