package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// row is what the registry says of a sandbox.
type row struct {
	id     string
	owner  atoll.Owner
	name   string
	driver string
	state  atoll.State
	pool   string       // of one that is ready and not claimed yet
	cfg    atoll.Config // with the values of secrets
	env    []string     // of every command, besides what the driver knows: what came with a claim
	closed bool         // it has more than its owner may ask for: others than its turn need ScopeHost

	bring []atoll.Mount // directories of the host whose content it is given once; not written down
	disk  string        // the driver's name of the kept disk that it is made with; not written down

	created, started time.Time
	active           time.Time // last use
	changed          time.Time // when it came into its state
	due              time.Time // when the fleet has to look at it; zero: never
	turn             int64     // grows with every change but of active and due

	holder  string // the instance that is moving it
	goal    string // what for; without a holder: still to be done
	host    string // the instance whose end is its end
	reason  string // of the last failure, one word
	message string // of the last failure, one line
}

// rowColumns are the columns of a row, in the order of scan.
const rowColumns = `id, app, user, name, driver, state, pool, config, env, created, started, active, changed, due, turn, holder, goal, host, reason, message, closed`

// scanner is an *sql.Row or *sql.Rows.
type scanner interface{ Scan(into ...any) error }

func (r *row) scan(from scanner) error {
	var cfg, env []byte
	var created, started, active, changed, due int64
	err := from.Scan(&r.id, &r.owner.App, &r.owner.User, &r.name, &r.driver, &r.state, &r.pool, &cfg, &env,
		&created, &started, &active, &changed, &due, &r.turn, &r.holder, &r.goal, &r.host, &r.reason, &r.message, &r.closed)
	if err != nil {
		return err
	}
	r.created, r.started, r.active, r.changed, r.due = when(created), when(started), when(active), when(changed), when(due)
	r.cfg = atoll.Config{}
	if err := json.Unmarshal(cfg, &r.cfg); err != nil {
		return fmt.Errorf("registry: configuration of %s: %w", r.id, err)
	}
	r.env = nil
	if err := json.Unmarshal(env, &r.env); err != nil {
		return fmt.Errorf("registry: environment of %s: %w", r.id, err)
	}
	return nil
}

// querier is an *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// oneRow returns the row that a condition names, or ErrNotFound.
func oneRow(ctx context.Context, q querier, where string, args ...any) (row, error) {
	var r row
	err := r.scan(q.QueryRowContext(ctx, "select "+rowColumns+" from sandboxes where "+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return r, atoll.ErrNotFound
	}
	return r, err
}

// allRows returns the rows that a condition names; it may go on with "order by".
func allRows(ctx context.Context, q querier, where string, args ...any) ([]row, error) {
	rows, err := q.QueryContext(ctx, "select "+rowColumns+" from sandboxes where "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []row
	for rows.Next() {
		var r row
		if err := r.scan(rows); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// loadRow returns a row by id, or ErrNotFound.
func (f *Fleet) loadRow(ctx context.Context, id string) (row, error) {
	return oneRow(ctx, f.store.db, "id = ?", id)
}

// insert adds a row.
func (f *Fleet) insert(ctx context.Context, tx *sql.Tx, r *row) error {
	_, err := tx.ExecContext(ctx, `insert into sandboxes (id, app, user, name, driver, state, config, created, active, changed)
		values (?, ?, ?, ?, ?, ?, '{}', ?, ?, ?)`,
		r.id, r.owner.App, r.owner.User, "", r.driver, r.state, stamp(r.created), stamp(r.active), stamp(r.changed))
	if err != nil {
		return err
	}
	return f.save(ctx, tx, r)
}

// save writes all of a row that can change. Its due time follows from the rest,
// unless a retry is set for later.
func (f *Fleet) save(ctx context.Context, tx *sql.Tx, r *row) error {
	cfg, err := json.Marshal(&r.cfg)
	if err != nil {
		return err
	}
	env, err := json.Marshal(r.env)
	if err != nil {
		return err
	}
	r.turn++
	r.due = r.nextLook()
	_, err = tx.ExecContext(ctx, `update sandboxes set app = ?, user = ?, name = ?, state = ?, pool = ?, config = ?, env = ?, started = ?,
		active = case when active < ? then ? else active end, changed = ?, due = ?, turn = ?, holder = ?, goal = ?, host = ?, reason = ?, message = ?, closed = ? where id = ?`,
		r.owner.App, r.owner.User, r.name, r.state, r.pool, string(cfg), string(env), stamp(r.started),
		stamp(r.active), stamp(r.active), stamp(r.changed), stamp(r.due), r.turn, r.holder, r.goal, r.host, r.reason, r.message, r.closed, r.id)
	return err
}

// change reads a row, lets fn change it and writes what fn has saved, in one
// transaction. What comes of it is known to this process at once.
func (f *Fleet) change(ctx context.Context, id string, fn func(tx *sql.Tx, r *row) error) (row, error) {
	var r row
	err := f.store.write(ctx, func(tx *sql.Tx) (err error) {
		if r, err = oneRow(ctx, tx, "id = ?", id); err != nil {
			return err
		}
		return fn(tx, &r)
	})
	if err != nil {
		return r, err
	}
	f.learn(r)
	return r, nil
}
