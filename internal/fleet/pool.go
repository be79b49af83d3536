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

// poolOwner is the owner of pool sandboxes until they are claimed.
var poolOwner = atoll.Owner{App: "atoll", User: "pool"}

// maxPoolSize is the limit of a pool's size.
const maxPoolSize = 1000

// poolRow is the registry's row of a pool.
type poolRow struct {
	name    string
	config  string // as in the registry, equal byte for byte to that of its ready sandboxes
	cfg     atoll.Config
	size    int
	created time.Time
	error   string
}

func (f *Fleet) queryPools(ctx context.Context, q registry.Querier, where string, args ...any) ([]poolRow, error) {
	rows, err := q.QueryContext(ctx, "select name, config, sealed, size, created, error from pools where "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []poolRow
	var sealed []string
	for rows.Next() {
		var p poolRow
		var text string
		var created int64
		if err := rows.Scan(&p.name, &p.config, &text, &p.size, &created, &p.error); err != nil {
			return nil, err
		}
		p.created = registry.Time(created)
		if err := json.Unmarshal([]byte(p.config), &p.cfg); err != nil {
			return nil, fmt.Errorf("registry: configuration of pool %s: %w", p.name, err)
		}
		list, sealed = append(list, p), append(sealed, text)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for i := range list {
		p := &list[i]
		if err := f.decodeSealed(ctx, keyring.Place{Column: poolSealed, Row: p.name}, sealed[i], &p.cfg, new([]string)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// queryPool returns a pool by name, or ErrNotFound.
func (f *Fleet) queryPool(ctx context.Context, q registry.Querier, name string) (poolRow, error) {
	list, err := f.queryPools(ctx, q, "name = ?", name)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("pool %s: %w", name, atoll.ErrNotFound)
	}
	if err != nil {
		return poolRow{}, err
	}
	return list[0], nil
}

// poolInfo returns a pool as callers see it.
func (f *Fleet) poolInfo(ctx context.Context, q registry.Querier, p *poolRow) (atoll.Pool, error) {
	out := atoll.Pool{Name: p.name, Config: redactConfig(p.cfg), Size: p.size, Created: p.created, Error: p.error}
	err := q.QueryRowContext(ctx, "select count(*) from sandboxes where pool = ? and config = ? and state = 'running' and goal = ''", p.name, p.config).Scan(&out.Ready)
	return out, err
}

// SetPool creates or changes a warm pool. The name, configuration and size of p are used. Ready
// sandboxes with another configuration are replaced. It needs ScopeOperate, and ScopeHost for what reaches this host: every
// caller can claim them.
func (a *Account) SetPool(ctx context.Context, p atoll.Pool) (atoll.Pool, error) {
	const op = "pool"
	if err := a.checkScope(op, atoll.ScopeOperate); err != nil {
		return atoll.Pool{}, err
	}
	if err := a.checkHostAccess(op, &p.Config); err != nil {
		return atoll.Pool{}, &atoll.Error{Op: op, ID: truncate(p.Name, 100), Err: err}
	}
	noted := a.startAudit("pool set", truncate(p.Name, 100), fmt.Sprintf("size %d", p.Size))
	out, err := a.f.setPool(ctx, p)
	noted(err)
	if err != nil {
		return atoll.Pool{}, &atoll.Error{Op: op, ID: truncate(p.Name, 100), Err: err}
	}
	return out, nil
}

func (f *Fleet) setPool(ctx context.Context, p atoll.Pool) (out atoll.Pool, err error) {
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return out, err
	}
	defer leave()
	if err := f.checkPool(ctx, &p); err != nil {
		return out, err
	}
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		s, err := f.encodeConfig(ctx, tx, keyring.Place{Column: poolSealed, Row: p.Name}, &p.Config, nil, true)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `insert into pools (name, config, sealed, size, created) values (?, ?, ?, ?, ?)
			on conflict (name) do update set config = excluded.config, sealed = excluded.sealed, size = excluded.size, error = ''`, p.Name, s.config, s.sealed, p.Size, registry.Timestamp(f.now()))
		if err != nil {
			return err
		}
		row, err := f.queryPool(ctx, tx, p.Name)
		if err != nil {
			return err
		}
		out, err = f.poolInfo(ctx, tx, &row)
		return err
	})
	notify(f.poolsChanged)
	return out, err
}

// checkPool reports every mistake in a pool, and sets the driver if it is empty.
func (f *Fleet) checkPool(ctx context.Context, p *atoll.Pool) error {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{atoll.ErrInvalid}, a...)...))
	}
	if err := atoll.CheckName(p.Name); err != nil {
		errs = append(errs, fmt.Errorf("name: %w", err))
	}
	if p.Size < 0 || p.Size > maxPoolSize {
		bad("size %d: must be 0 to %d", p.Size, maxPoolSize)
	}
	c := &p.Config
	for what, set := range map[string]bool{
		"id": c.ID != "", "name": c.Name != "", "pool": c.Pool != "", "secrets": len(c.Secrets) > 0, "workspaces": len(c.Workspaces) > 0,
		"lifecycle": c.Lifecycle != atoll.Lifecycle{}, "project": c.Project != nil,
	} {
		if set {
			bad("config.%s: must be left out: it is set when a sandbox is claimed", what)
		}
	}
	if c.VM != nil && c.VM.Disk != "" {
		bad("config.machine.disk: must be left out: the sandboxes of a pool can't share one disk")
	}
	errs = append(errs, f.checkConfig(ctx, c))
	return errors.Join(errs...)
}

// Pools returns the warm pools, sorted by name.
func (a *Account) Pools(ctx context.Context) ([]atoll.Pool, error) {
	const op = "pools"
	if err := a.checkScope(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	rows, err := a.f.queryPools(ctx, a.f.registry.DB, "true order by name")
	if err != nil {
		return nil, &atoll.Error{Op: op, Err: err}
	}
	list := make([]atoll.Pool, 0, len(rows))
	for i := range rows {
		p, err := a.f.poolInfo(ctx, a.f.registry.DB, &rows[i])
		if err != nil {
			return nil, &atoll.Error{Op: op, Err: err}
		}
		list = append(list, p)
	}
	return list, nil
}

// RemovePool removes a pool and its unclaimed sandboxes. It needs ScopeOperate.
func (a *Account) RemovePool(ctx context.Context, name string) error {
	const op = "pool remove"
	if err := a.checkScope(op, atoll.ScopeOperate); err != nil {
		return err
	}
	noted := a.startAudit(op, truncate(name, 100), "")
	err := a.f.removePool(ctx, name)
	noted(err)
	if err != nil {
		return &atoll.Error{Op: op, ID: truncate(name, 100), Err: err}
	}
	return nil
}

func (f *Fleet) removePool(ctx context.Context, name string) error {
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var rows []row
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		if _, err := f.queryPool(ctx, tx, name); err != nil {
			return err
		}
		if rows, err = f.queryRows(ctx, tx, "pool = ? and state <> 'destroyed'", name); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "delete from pools where name = ?", name)
		return err
	})
	if err != nil {
		return err
	}
	notify(f.poolsChanged) // sandboxes being made for it are destroyed later
	var errs []error
	for i := range rows {
		errs = append(errs, f.discardReady(ctx, &rows[i]))
	}
	return errors.Join(errs...)
}

// discardReady destroys a sandbox of a pool, unless it was claimed or is being created. If it is
// being destroyed already, discardReady waits for the end.
func (f *Fleet) discardReady(ctx context.Context, r *row) error {
	busy := false
	_, err := f.changeRow(ctx, r.id, func(tx *sql.Tx, now *row) error {
		if busy = now.pool == "" || now.holder != "" && now.goal != goalDestroy; busy || now.holder != "" {
			return nil
		}
		now.goal = goalDestroy // no claim takes it from now on
		return f.saveRow(ctx, tx, now)
	})
	if err != nil || busy {
		return err
	}
	return f.destroySandbox(ctx, r.id, "")
}
