package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// row is the registry's row of a sandbox.
type row struct {
	id     string
	owner  atoll.Owner
	name   string
	driver string
	state  atoll.State
	pool   string       // of a ready, unclaimed sandbox
	cfg    atoll.Config // with the values of secrets
	env    []string     // of every command, unknown to the driver: from a claim
	closed bool         // it has more than its owner may ask for: except for its turn, callers need ScopeHost

	imports []atoll.Mount // host directories that are copied in at creation; not stored
	disk    string        // the driver's name of its persistent disk; not stored

	created, started time.Time
	active           time.Time // last use
	changed          time.Time // when the state was entered
	due              time.Time // when the fleet must look at it; zero: never
	revision         int64     // grows with every change but of active and due; column turn

	holder  string // process that is changing it
	goal    string // of that change; without a holder: still to be done
	process string // process that it ends with; column host
	reason  string // of the last failure, one word
	message string // of the last failure, one line
}

// rowColumns are the columns of a row in the order of scan.
const rowColumns = `id, app, user, name, driver, state, pool, config, env, created, started, active, changed, due, turn, holder, goal, host, reason, message, closed, sealed`

// scan reads the columns of a row. It returns the encrypted parts of the configuration, which f.openRow adds.
func (r *row) scan(from registry.Scanner) (sealed string, err error) {
	var cfg, env []byte
	var created, started, active, changed, due int64
	err = from.Scan(&r.id, &r.owner.App, &r.owner.User, &r.name, &r.driver, &r.state, &r.pool, &cfg, &env,
		&created, &started, &active, &changed, &due, &r.revision, &r.holder, &r.goal, &r.process, &r.reason, &r.message, &r.closed, &sealed)
	if err != nil {
		return "", err
	}
	r.created, r.started, r.active, r.changed, r.due = registry.Time(created), registry.Time(started), registry.Time(active), registry.Time(changed), registry.Time(due)
	r.cfg = atoll.Config{}
	if err := json.Unmarshal(cfg, &r.cfg); err != nil {
		return "", fmt.Errorf("registry: configuration of %s: %w", r.id, err)
	}
	r.env = nil
	if err := json.Unmarshal(env, &r.env); err != nil {
		return "", fmt.Errorf("registry: environment of %s: %w", r.id, err)
	}
	return sealed, nil
}

// openRow adds the encrypted parts of the configuration to a row.
func (f *Fleet) openRow(ctx context.Context, r *row, sealed string) error {
	return f.decodeSealed(ctx, keyring.Place{Column: sandboxSealed, Row: r.id}, sealed, &r.cfg, &r.env)
}

// queryRow returns the row that matches a condition, or ErrNotFound.
func (f *Fleet) queryRow(ctx context.Context, q registry.Querier, where string, args ...any) (row, error) {
	var r row
	sealed, err := r.scan(q.QueryRowContext(ctx, "select "+rowColumns+" from sandboxes where "+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return r, atoll.ErrNotFound
	}
	if err == nil {
		err = f.openRow(ctx, &r, sealed)
	}
	return r, err
}

// queryRows returns the rows that match a condition. The condition may end with "order by".
func (f *Fleet) queryRows(ctx context.Context, q registry.Querier, where string, args ...any) ([]row, error) {
	rows, err := q.QueryContext(ctx, "select "+rowColumns+" from sandboxes where "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []row
	var sealed []string
	for rows.Next() {
		var r row
		text, err := r.scan(rows)
		if err != nil {
			return nil, err
		}
		list, sealed = append(list, r), append(sealed, text)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for i := range list { // after the query: a new data key is looked up with another
		if err := f.openRow(ctx, &list[i], sealed[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// loadRow returns a row by id, or ErrNotFound.
func (f *Fleet) loadRow(ctx context.Context, id string) (row, error) {
	return f.queryRow(ctx, f.registry.DB, "id = ?", id)
}

// insertRow inserts a new row.
func (f *Fleet) insertRow(ctx context.Context, tx *sql.Tx, r *row) error {
	_, err := tx.ExecContext(ctx, `insert into sandboxes (id, app, user, name, driver, state, config, created, active, changed)
		values (?, ?, ?, ?, ?, ?, '{}', ?, ?, ?)`,
		r.id, r.owner.App, r.owner.User, "", r.driver, r.state, registry.Timestamp(r.created), registry.Timestamp(r.active), registry.Timestamp(r.changed))
	if err != nil {
		return err
	}
	return f.saveRow(ctx, tx, r)
}

// saveRow updates all columns of a row that can change, and its due time from them.
func (f *Fleet) saveRow(ctx context.Context, tx *sql.Tx, r *row) error {
	s, err := f.encodeConfig(ctx, tx, keyring.Place{Column: sandboxSealed, Row: r.id}, &r.cfg, r.env, r.pool != "")
	if err != nil {
		return err
	}
	r.revision++
	r.due = r.nextDue()
	_, err = tx.ExecContext(ctx, `update sandboxes set app = ?, user = ?, name = ?, state = ?, pool = ?, config = ?, env = ?, sealed = ?, started = ?,
		active = case when active < ? then ? else active end, changed = ?, due = ?, turn = ?, holder = ?, goal = ?, host = ?, reason = ?, message = ?, closed = ? where id = ?`,
		r.owner.App, r.owner.User, r.name, r.state, r.pool, s.config, s.env, s.sealed, registry.Timestamp(r.started),
		registry.Timestamp(r.active), registry.Timestamp(r.active), registry.Timestamp(r.changed), registry.Timestamp(r.due), r.revision, r.holder, r.goal, r.process, r.reason, r.message, r.closed, r.id)
	return err
}

// changeRow reads a row, calls fn, which may change and save it, in one transaction, and updates
// the handle with the result.
func (f *Fleet) changeRow(ctx context.Context, id string, fn func(tx *sql.Tx, r *row) error) (row, error) {
	var r row
	err := f.registry.Write(ctx, func(tx *sql.Tx) (err error) {
		if r, err = f.queryRow(ctx, tx, "id = ?", id); err != nil {
			return err
		}
		return fn(tx, &r)
	})
	if err != nil {
		return r, err
	}
	f.updateHandle(r)
	return r, nil
}
