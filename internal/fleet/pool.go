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

// poolOwner is whose sandboxes are until somebody claims them.
var poolOwner = atoll.Owner{App: "atoll", User: "pool"}

// mostReady is how many sandboxes a pool may keep ready.
const mostReady = 1000

// poolRow is what the registry says of a pool.
type poolRow struct {
	name    string
	config  string // atoll.Config as JSON: as it is, it is the configuration of those that are ready
	cfg     atoll.Config
	size    int
	created time.Time
	error   string
}

func poolRows(ctx context.Context, q querier, where string, args ...any) ([]poolRow, error) {
	rows, err := q.QueryContext(ctx, "select name, config, size, created, error from pools where "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []poolRow
	for rows.Next() {
		var p poolRow
		var created int64
		if err := rows.Scan(&p.name, &p.config, &p.size, &created, &p.error); err != nil {
			return nil, err
		}
		p.created = when(created)
		if err := json.Unmarshal([]byte(p.config), &p.cfg); err != nil {
			return nil, fmt.Errorf("registry: configuration of pool %s: %w", p.name, err)
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// onePool returns a pool, or ErrNotFound.
func onePool(ctx context.Context, q querier, name string) (poolRow, error) {
	list, err := poolRows(ctx, q, "name = ?", name)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("pool %s: %w", name, atoll.ErrNotFound)
	}
	if err != nil {
		return poolRow{}, err
	}
	return list[0], nil
}

// info is a pool as callers see it.
func (f *Fleet) poolInfo(ctx context.Context, q querier, p *poolRow) (atoll.Pool, error) {
	out := atoll.Pool{Name: p.name, Config: redacted(p.cfg), Size: p.size, Created: p.created, Error: p.error}
	err := q.QueryRowContext(ctx, "select count(*) from sandboxes where pool = ? and config = ? and state = 'running' and goal = ''", p.name, p.config).Scan(&out.Ready)
	return out, err
}

// SetPool makes or changes a warm pool; of p, the name, configuration and size
// count. Sandboxes that are ready with another configuration are replaced. It
// needs ScopeAdmin.
func (a *Account) SetPool(ctx context.Context, p atoll.Pool) (atoll.Pool, error) {
	const op = "pool"
	if err := a.need(op, atoll.ScopeAdmin); err != nil {
		return atoll.Pool{}, err
	}
	noted := a.audited("pool set", clip(p.Name, 100), fmt.Sprintf("size %d", p.Size))
	out, err := a.f.setPool(ctx, p)
	noted(err)
	if err != nil {
		return atoll.Pool{}, &atoll.Error{Op: op, ID: clip(p.Name, 100), Err: err}
	}
	return out, nil
}

func (f *Fleet) setPool(ctx context.Context, p atoll.Pool) (out atoll.Pool, err error) {
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return out, err
	}
	defer leave()
	if err := f.checkPool(ctx, &p); err != nil {
		return out, err
	}
	b, err := json.Marshal(&p.Config)
	if err != nil {
		return out, err
	}
	err = f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into pools (name, config, size, created) values (?, ?, ?, ?)
			on conflict (name) do update set config = excluded.config, size = excluded.size, error = ''`, p.Name, string(b), p.Size, stamp(f.now()))
		if err != nil {
			return err
		}
		row, err := onePool(ctx, tx, p.Name)
		if err != nil {
			return err
		}
		out, err = f.poolInfo(ctx, tx, &row)
		return err
	})
	poke(f.refill)
	return out, err
}

// checkPool reports every mistake in a pool, and fills in the driver.
func (f *Fleet) checkPool(ctx context.Context, p *atoll.Pool) error {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{atoll.ErrInvalid}, a...)...))
	}
	if err := atoll.CheckName(p.Name); err != nil {
		errs = append(errs, fmt.Errorf("name: %w", err))
	}
	if p.Size < 0 || p.Size > mostReady {
		bad("size %d: must be 0 to %d", p.Size, mostReady)
	}
	c := &p.Config
	for what, set := range map[string]bool{
		"id": c.ID != "", "name": c.Name != "", "pool": c.Pool != "", "secrets": len(c.Secrets) > 0, "workspaces": len(c.Workspaces) > 0,
		"lifecycle": c.Lifecycle != atoll.Lifecycle{}, "project": c.Project != nil,
	} {
		if set {
			bad("config.%s: must be left out: it comes with the claim", what)
		}
	}
	if c.Machine != nil && c.Machine.Disk != "" {
		bad("config.machine.disk: must be left out: the sandboxes of a pool are many, and a disk is one")
	}
	errs = append(errs, f.check(ctx, c))
	return errors.Join(errs...)
}

// Pools returns the warm pools in the order of names.
func (a *Account) Pools(ctx context.Context) ([]atoll.Pool, error) {
	const op = "pools"
	if err := a.need(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	rows, err := poolRows(ctx, a.f.store.db, "true order by name")
	if err != nil {
		return nil, &atoll.Error{Op: op, Err: err}
	}
	list := make([]atoll.Pool, 0, len(rows))
	for i := range rows {
		p, err := a.f.poolInfo(ctx, a.f.store.db, &rows[i])
		if err != nil {
			return nil, &atoll.Error{Op: op, Err: err}
		}
		list = append(list, p)
	}
	return list, nil
}

// RemovePool removes a pool and the sandboxes of it that nobody has claimed. It
// needs ScopeAdmin.
func (a *Account) RemovePool(ctx context.Context, name string) error {
	const op = "pool remove"
	if err := a.need(op, atoll.ScopeAdmin); err != nil {
		return err
	}
	noted := a.audited(op, clip(name, 100), "")
	err := a.f.removePool(ctx, name)
	noted(err)
	if err != nil {
		return &atoll.Error{Op: op, ID: clip(name, 100), Err: err}
	}
	return nil
}

func (f *Fleet) removePool(ctx context.Context, name string) error {
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var rows []row
	err = f.store.write(ctx, func(tx *sql.Tx) error {
		if _, err := onePool(ctx, tx, name); err != nil {
			return err
		}
		if rows, err = allRows(ctx, tx, "pool = ? and state <> 'destroyed'", name); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "delete from pools where name = ?", name)
		return err
	})
	if err != nil {
		return err
	}
	poke(f.refill) // what is being made for it now is destroyed later
	var errs []error
	for i := range rows {
		errs = append(errs, f.discardReady(ctx, &rows[i]))
	}
	return errors.Join(errs...)
}

// discardReady destroys a sandbox of a pool, unless somebody has claimed it or is
// making it. One that is being destroyed already it waits for.
func (f *Fleet) discardReady(ctx context.Context, r *row) error {
	busy := false
	_, err := f.change(ctx, r.id, func(tx *sql.Tx, now *row) error {
		if busy = now.pool == "" || now.holder != "" && now.goal != goalDestroy; busy || now.holder != "" {
			return nil
		}
		now.goal = goalDestroy // from now on no claim takes it
		return f.save(ctx, tx, now)
	})
	if err != nil || busy {
		return err
	}
	return f.destroy(ctx, r.id, "")
}
