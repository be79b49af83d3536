package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
			on conflict do update set config = excluded.config, size = excluded.size, error = ''`, p.Name, string(b), p.Size, stamp(f.now()))
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

// claim makes a ready sandbox of the pool that cfg names the owner's; false if
// there is none, or none that could do: then a new one has to be made. What a
// sandbox is given when it is created, and can't be given later, are workspaces,
// mounts, an id, and limits that the owner's quota asks for.
func (f *Fleet) claim(ctx context.Context, owner atoll.Owner, cfg atoll.Config) (row, bool, error) {
	if err := claimable(&cfg); err != nil {
		return row{}, false, err
	}
	if len(cfg.Workspaces) > 0 || len(cfg.Mounts) > 0 || cfg.ID != "" || cfg.Project != nil {
		return row{}, false, nil
	}
	all, err := f.fromPool(ctx, cfg)
	if err != nil {
		return row{}, false, err
	}
	if cfg.Driver != "" && cfg.Driver != all.Driver {
		return row{}, false, fmt.Errorf("%w: driver %q: pool %s says %q; leave it out", atoll.ErrInvalid, cfg.Driver, cfg.Pool, all.Driver)
	}
	bay := f.bay(all.Driver)
	if bay == nil {
		return row{}, false, nil // making a new one says what is wrong
	}
	ft, err := bay.probe(ctx)
	if err != nil {
		return row{}, false, err
	}
	c := claimant{f: f, owner: owner, cfg: all, env: slices.Concat(cfg.Env, secretsOf(&cfg)), ft: ft}
	if err := f.weigh(ctx, owner); err != nil {
		return row{}, false, err
	}
	if len(cfg.Prepare) > 0 {
		return c.slowly(ctx, cfg.Prepare)
	}
	var r row
	err = f.store.write(ctx, func(tx *sql.Tx) (err error) {
		if r, err = c.pick(ctx, tx); err != nil {
			return err
		}
		return c.take(ctx, tx, &r)
	})
	return c.taken(r, err)
}

// claimable reports what a claim asks for that the pool says.
func claimable(cfg *atoll.Config) error {
	rest := *cfg
	rest.Name, rest.ID, rest.Labels, rest.Env, rest.Mounts = "", "", nil, nil, nil
	rest.Pool, rest.Driver, rest.Lifecycle, rest.Workspaces, rest.Secrets, rest.Prepare, rest.Project = "", "", atoll.Lifecycle{}, nil, nil, nil, nil
	b, err := json.Marshal(&rest)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	if len(fields) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: must be left out: pool %s says it", atoll.ErrInvalid, strings.Join(slices.Sorted(maps.Keys(fields)), ", "), cfg.Pool)
}

// errNoneReady says that a new sandbox has to be made.
var errNoneReady = errors.New("no sandbox is ready")

// claimant is one who claims.
type claimant struct {
	f     *Fleet
	owner atoll.Owner
	cfg   atoll.Config   // the pool's, with what comes with the claim
	env   []string       // what the driver's sandbox does not know
	ft    atoll.Features // of the driver
}

// pick finds a ready sandbox of this process or of no process's memory.
func (c *claimant) pick(ctx context.Context, tx *sql.Tx) (row, error) {
	r, err := oneRow(ctx, tx, `pool = ? and state = 'running' and goal = '' and holder = '' and host in ('', ?)
		and config = (select config from pools where name = ?) order by created limit 1`, c.cfg.Pool, c.f.instance.id, c.cfg.Pool)
	if errors.Is(err, atoll.ErrNotFound) {
		return r, errNoneReady
	}
	if err != nil {
		return r, err
	}
	if err := c.f.freeOf(ctx, tx, c.owner, c.cfg.Name, ""); err != nil {
		return r, err
	}
	limits := c.cfg.Limits
	if err := c.f.admit(ctx, tx, c.owner, c.ft, &c.cfg); err != nil {
		return r, err
	}
	if limits != c.cfg.Limits {
		return r, errNoneReady // it was made without the limits that the quota asks for
	}
	return r, nil
}

// take makes a sandbox the owner's.
func (c *claimant) take(ctx context.Context, tx *sql.Tx, r *row) error {
	now := c.f.now()
	r.owner, r.name, r.pool, r.cfg, r.env = c.owner, c.cfg.Name, "", c.cfg, c.env
	r.created, r.started, r.active = now, now, now
	r.holder, r.goal = "", ""
	if r.cfg.Lifecycle.Policy == atoll.PolicyOneshot {
		r.host = c.f.instance.id
	}
	if _, err := tx.ExecContext(ctx, "update sandboxes set created = ? where id = ?", stamp(now), r.id); err != nil {
		return err
	}
	return c.f.entered(ctx, tx, r)
}

// taken tells this process of a claim that was written down.
func (c *claimant) taken(r row, err error) (row, bool, error) {
	if errors.Is(err, errNoneReady) {
		poke(c.f.refill)
		return row{}, false, nil
	}
	if err != nil {
		return row{}, false, err
	}
	c.f.enter(r)
	poke(c.f.refill)
	c.f.log.Info("sandbox claimed", "id", r.id, "pool", c.cfg.Pool, "owner", r.owner.String())
	return r, true, nil
}

// slowly claims a sandbox that has steps to do before it is the owner's: it is
// held for this process meanwhile. One whose steps fail is destroyed.
func (c *claimant) slowly(ctx context.Context, steps []atoll.Step) (row, bool, error) {
	var r row
	err := c.f.store.write(ctx, func(tx *sql.Tx) (err error) {
		if r, err = c.pick(ctx, tx); err != nil {
			return err
		}
		r.holder, r.goal = c.f.instance.id, goalCreate
		return c.f.save(ctx, tx, &r)
	})
	if err != nil {
		return c.taken(r, err)
	}
	b := c.f.enter(r)
	release, err := b.take(ctx)
	if err == nil {
		defer release()
		err = c.ready(ctx, b, &r, steps)
	}
	if err == nil {
		return c.taken(r, nil)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
	defer cancel()
	_, serr := c.f.settle(ctx, r.id, err)
	return row{}, false, errors.Join(late(reason(ctx, err)), serr)
}

// ready does the steps of a claim and gives the sandbox to the owner.
func (c *claimant) ready(ctx context.Context, b *box, r *row, steps []atoll.Step) error {
	ctx, end := b.begin(ctx)
	defer end()
	sb, err := b.inner(ctx)
	if err != nil {
		return err
	}
	as := *r
	as.owner, as.cfg, as.env = c.owner, c.cfg, c.env
	if err := c.f.doSteps(ctx, sb, &as, steps); err != nil {
		return err
	}
	return c.f.store.write(ctx, func(tx *sql.Tx) error {
		now, err := oneRow(ctx, tx, "id = ?", r.id)
		if err != nil {
			return err
		}
		if now.holder != c.f.instance.id || now.goal != goalCreate {
			return errDestroyed
		}
		if err := c.f.freeOf(ctx, tx, c.owner, c.cfg.Name, r.id); err != nil {
			return err
		}
		if err := c.f.admit(ctx, tx, c.owner, c.ft, &c.cfg); err != nil {
			return err
		}
		*r = now
		return c.take(ctx, tx, r)
	})
}

// lend adds what came with a claim to the environment of a command: the driver
// does not know it.
func (b *box) lend(cmd atoll.Cmd) atoll.Cmd {
	b.mu.Lock()
	env := b.row.env
	b.mu.Unlock()
	if len(env) > 0 {
		cmd.Env = slices.Concat(env, cmd.Env)
	}
	return cmd
}
