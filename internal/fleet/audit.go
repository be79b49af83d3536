package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Limits of the audit.
const (
	auditRetention   = 90 * 24 * time.Hour
	maxAuditRows     = 1_000_000
	maxAuditPerOwner = 100_000
)

// fleetOwner is the owner of audit entries for actions of the fleet itself.
var fleetOwner = atoll.Owner{App: "atoll", User: "atoll"}

// AuditFilter selects audit entries, newest first unless OldestFirst is set.
type AuditFilter struct {
	Before int64 // with a lower ID; 0: from the newest
	After  int64 // with a higher ID
	Limit  int   // 0: 100
	Action string
	Object string

	OldestFirst bool // instead of newest first

	AllOwners bool // all owners; needs ScopeOperate
}

const maxAuditPage = 1000 // entries of one page

// Audit returns the audited calls that a filter selects, newest first.
func (a *Account) Audit(ctx context.Context, filter AuditFilter) ([]atoll.Audit, error) {
	scope := atoll.ScopeRead
	if filter.AllOwners {
		scope = atoll.ScopeOperate
	}
	if err := a.checkScope("audit", scope); err != nil {
		return nil, err
	}
	if filter.Limit < 0 || filter.Limit > maxAuditPage || filter.Before < 0 || filter.After < 0 {
		return nil, &atoll.Error{Op: "audit", Err: fmt.Errorf("%w: limit %d, before %d, after %d: they must not be negative, and the limit at most %d", atoll.ErrInvalid, filter.Limit, filter.Before, filter.After, maxAuditPage)}
	}
	list, err := a.f.queryAudit(ctx, a.caller.Owner, filter)
	if err != nil {
		return nil, &atoll.Error{Op: "audit", Err: err}
	}
	return list, nil
}

func (f *Fleet) queryAudit(ctx context.Context, owner atoll.Owner, filter AuditFilter) ([]atoll.Audit, error) {
	if err := f.recorder.flush(ctx); err != nil {
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
	if filter.After > 0 {
		where("id > ?", filter.After)
	}
	if filter.Action != "" {
		where("action = ?", filter.Action)
	}
	if filter.Object != "" {
		where("object = ? and object <> ''", filter.Object) // as the index has it
	}
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	order := " order by id desc limit ?"
	if filter.OldestFirst {
		order = " order by id limit ?"
	}
	rows, err := f.registry.DB.QueryContext(ctx, text+order, append(args, filter.Limit)...)
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
		e.Time = registry.Time(at)
		list = append(list, e)
	}
	return list, rows.Err()
}

// recordAudit queues an audit entry; the recorder writes it with its next batch.
func (f *Fleet) recordAudit(e atoll.Audit) {
	if e.Time.IsZero() {
		e.Time = f.recorder.now()
	}
	for _, k := range []struct {
		text *string
		most int
	}{{&e.Action, maxAuditName}, {&e.Object, maxAuditName}, {&e.Detail, maxAuditDetail}} {
		if len(*k.text) > k.most {
			*k.text = strings.Clone(truncate(*k.text, k.most)) // a substring would keep the whole text in memory
		}
	}
	f.recorder.add(&auditRecord{Audit: e})
}

// startAudit begins an audited call. The returned function records how the call ended and is
// called exactly once. Detail must hold no secrets: see [mask].
func (a *Account) startAudit(action, object, detail string) func(error) {
	start := a.f.recorder.now()
	a.f.recorder.beginCall()
	return func(err error) {
		defer a.f.recorder.endCall()
		if refused := (*scopeError)(nil); errors.As(err, &refused) {
			return // checkScope has recorded it
		}
		a.f.recordAudit(atoll.Audit{
			Time: start, Owner: a.caller.Owner, Token: a.caller.Token, Action: action, Object: object, Detail: detail,
			Outcome: outcomeName(err), Duration: a.f.recorder.now().Sub(start),
		})
	}
}

// startAudit begins an audited call on the sandbox; see [Account.startAudit].
func (s *Sandbox) startAudit(action, detail string) func(error) {
	return s.a.startAudit(action, s.b.id, detail)
}

// scopeError is the error of a caller without a scope.
type scopeError struct{ scope atoll.Scope }

func (e *scopeError) Error() string {
	return fmt.Sprintf("%v: it needs the scope %q", atoll.ErrDenied, e.scope)
}
func (e *scopeError) Unwrap() error { return atoll.ErrDenied }

// outcomeName returns the outcome of a call as the audit records it: ok, or the kind of the error.
func outcomeName(err error) string {
	if err == nil {
		return "ok"
	}
	return wire.ReasonOf(err).Kind
}

// Bytes recorded of a call.
const (
	maxAuditName   = 256 // of its action, and of its object
	maxAuditDetail = 4 << 10
)

type auditRecord struct{ atoll.Audit }

func (e *auditRecord) size() int { return 200 + len(e.Action) + len(e.Object) + len(e.Detail) }

func (e *auditRecord) add(b *batch) {
	b.auditGrowth[e.Owner]++
	b.audit.add(registry.Timestamp(e.Time), e.Owner.App, e.Owner.User, e.Token, e.Action, e.Object, e.Detail, e.Outcome, int64(e.Duration))
}
