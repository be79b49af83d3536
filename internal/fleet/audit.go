package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// How much audit is kept.
const (
	auditAge      = 90 * 24 * time.Hour
	auditRows     = 1_000_000
	auditPerOwner = 100_000
)

// fleetOwner is who does what the fleet does by itself.
var fleetOwner = atoll.Owner{App: "atoll", User: "atoll"}

// AuditFilter says which calls are wanted, newest first.
type AuditFilter struct {
	Before    int64 // with a lower ID; 0: from the newest
	Limit     int   // 0: 100
	Action    string
	Object    string
	AllOwners bool // needs ScopeAdmin
}

const maxAudit = 1000 // entries of one answer

// Audit returns who called what.
func (a *Account) Audit(ctx context.Context, filter AuditFilter) ([]atoll.Audit, error) {
	scope := atoll.ScopeRead
	if filter.AllOwners {
		scope = atoll.ScopeAdmin
	}
	if err := a.need("audit", scope); err != nil {
		return nil, err
	}
	if filter.Limit < 0 || filter.Limit > maxAudit || filter.Before < 0 {
		return nil, &atoll.Error{Op: "audit", Err: fmt.Errorf("%w: limit %d, before %d: they must not be negative, and the limit at most %d", atoll.ErrInvalid, filter.Limit, filter.Before, maxAudit)}
	}
	list, err := a.f.audit(ctx, a.caller.Owner, filter)
	if err != nil {
		return nil, &atoll.Error{Op: "audit", Err: err}
	}
	return list, nil
}

func (f *Fleet) audit(ctx context.Context, owner atoll.Owner, filter AuditFilter) ([]atoll.Audit, error) {
	if err := f.ledger.flush(ctx); err != nil {
		return nil, err
	}
	text := `select id, time, app, user, token, action, object, detail, outcome, duration from audit where true`
	var args []any
	where := func(cond string, a ...any) { text, args = text+" and "+cond, append(args, a...) }
	if !filter.AllOwners {
		where("app = ? and user = ?", owner.App, owner.User)
	}
	if filter.Before > 0 {
		where("id < ?", filter.Before)
	}
	if filter.Action != "" {
		where("action = ?", filter.Action)
	}
	if filter.Object != "" {
		where("object = ?", filter.Object)
	}
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	rows, err := f.store.db.QueryContext(ctx, text+" order by id desc limit ?", append(args, filter.Limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []atoll.Audit{}
	for rows.Next() {
		var e atoll.Audit
		var at int64
		if err := rows.Scan(&e.ID, &at, &e.Owner.App, &e.Owner.User, &e.Token, &e.Action, &e.Object, &e.Detail, &e.Outcome, &e.Duration); err != nil {
			return nil, err
		}
		e.Time = when(at)
		list = append(list, e)
	}
	return list, rows.Err()
}

// note takes a call down in the audit, in a moment: with the next batch.
func (f *Fleet) note(e atoll.Audit) {
	if e.Time.IsZero() {
		e.Time = f.ledger.now()
	}
	for _, k := range []struct {
		text *string
		most int
	}{{&e.Action, auditName}, {&e.Object, auditName}, {&e.Detail, auditDetail}} {
		if len(*k.text) > k.most {
			*k.text = strings.Clone(clip(*k.text, k.most)) // a part would hold the whole
		}
	}
	f.ledger.add(&auditEntry{Audit: e})
}

// audited begins a call of the caller's; the function that it returns notes
// how the call ended, and is called once. Detail must hold no secrets: see
// [mask].
func (a *Account) audited(action, object, detail string) func(error) {
	start := a.f.ledger.now()
	a.f.ledger.begin()
	return func(err error) {
		defer a.f.ledger.end()
		if refused := (*scopeless)(nil); errors.As(err, &refused) {
			return // need has noted it
		}
		a.f.note(atoll.Audit{
			Time: start, Owner: a.caller.Owner, Token: a.caller.Token, Action: action, Object: object, Detail: detail,
			Outcome: outcomeOf(err), Duration: a.f.ledger.now().Sub(start),
		})
	}
}

// audited begins a call on the sandbox; see [Account.audited].
func (s *Sandbox) audited(action, detail string) func(error) {
	return s.a.audited(action, s.b.id, detail)
}

// scopeless is the error of a caller who has not a scope.
type scopeless struct{ scope atoll.Scope }

func (e *scopeless) Error() string {
	return fmt.Sprintf("%v: it needs the scope %q", atoll.ErrDenied, e.scope)
}
func (e *scopeless) Unwrap() error { return atoll.ErrDenied }

// outcomeOf names how a call ended.
func outcomeOf(err error) string {
	if err == nil {
		return "ok"
	}
	return wire.ReasonOf(err).Kind
}

// What is kept of a call, in bytes.
const (
	auditName   = 256 // of its action and of its object
	auditDetail = 4 << 10
)

type auditEntry struct{ atoll.Audit }

func (e *auditEntry) size() int { return 200 + len(e.Action) + len(e.Object) + len(e.Detail) }

func (e *auditEntry) add(b *batch) {
	b.noted[e.Owner]++
	b.audit.add(stamp(e.Time), e.Owner.App, e.Owner.User, e.Token, e.Action, e.Object, e.Detail, e.Outcome, int64(e.Duration))
}

// trim removes what of events, audit and history is older or more than is
// kept, and links and tokens that are of no use any more. The fleet's Run calls it now
// and then; writers do too, every thousand rows.
func (f *Fleet) trim(ctx context.Context) error {
	return f.store.write(ctx, func(tx *sql.Tx) error {
		now := f.ledger.now()
		for table, rows := range map[string]int{"events": eventPerOwner, "audit": auditPerOwner} {
			if err := trimOwners(ctx, tx, table, rows); err != nil {
				return err
			}
		}
		if err := trimRows(ctx, tx, "events", now.Add(-eventAge), eventRows); err != nil {
			return err
		}
		if err := trimRows(ctx, tx, "audit", now.Add(-auditAge), auditRows); err != nil {
			return err
		}
		if err := dropOutput(ctx, tx, historyOwner, "true"); err != nil {
			return err
		}
		if err := forgetRouteLinks(ctx, tx, now); err != nil {
			return err
		}
		return forgetTokens(ctx, tx, now.Add(-tokenAge))
	})
}

// trimRows keeps the newest rows of a table whose ids grow with time. They are
// counted: what was trimmed of one owner leaves room for the others.
func trimRows(ctx context.Context, tx *sql.Tx, table string, oldest time.Time, rows int64) error {
	var n int64
	if err := tx.QueryRowContext(ctx, "select count(*) from "+table).Scan(&n); err != nil {
		return err
	}
	text := fmt.Sprintf(`delete from %[1]s where id < coalesce((select id from %[1]s order by id limit 1 offset ?), 0)
		or id < coalesce((select id from %[1]s where time >= ? order by id limit 1), (select max(id) from %[1]s))`, table)
	_, err := tx.ExecContext(ctx, text, max(0, n-rows), stamp(oldest))
	return err
}

// trimOwner keeps the newest rows of an owner, so that nobody can push out
// others' records.
func trimOwner(ctx context.Context, tx *sql.Tx, table string, o atoll.Owner, rows int) error {
	text := fmt.Sprintf(`delete from %[1]s where app = ?1 and user = ?2
		and id <= (select id from %[1]s where app = ?1 and user = ?2 order by id desc limit 1 offset ?3)`, table)
	_, err := tx.ExecContext(ctx, text, o.App, o.User, rows)
	return err
}

// trimOwners keeps the newest rows of every owner.
func trimOwners(ctx context.Context, tx *sql.Tx, table string, rows int) error {
	list, err := owners(ctx, tx, fmt.Sprintf(`select app, user from %s group by app, user having count(*) > ?`, table), rows)
	if err != nil {
		return err
	}
	for _, o := range list {
		if err := trimOwner(ctx, tx, table, o, rows); err != nil {
			return err
		}
	}
	return nil
}

// owners returns those that a query finds.
func owners(ctx context.Context, q querier, text string, args ...any) (list []atoll.Owner, err error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o atoll.Owner
		if err := rows.Scan(&o.App, &o.User); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, rows.Err()
}

// trimAudit trims the audit of an owner when another thousand of its calls are
// noted, and all of it when another thousand rows are full.
func (l *ledger) trimAudit(ctx context.Context, tx *sql.Tx, b *batch) error {
	if len(l.noted) > 10_000 {
		clear(l.noted)
	}
	for o, n := range b.noted {
		if l.noted[o] += n; l.noted[o] < 1000 {
			continue
		}
		if err := trimOwner(ctx, tx, "audit", o, auditPerOwner); err != nil {
			return err
		}
		delete(l.noted, o)
	}
	added := b.audit.count()
	if added == 0 {
		return nil
	}
	var last int64
	if err := tx.QueryRowContext(ctx, `select max(id) from audit`).Scan(&last); err != nil || last/1000 == (last-int64(added))/1000 {
		return err
	}
	return trimRows(ctx, tx, "audit", l.now().Add(-auditAge), auditRows)
}
