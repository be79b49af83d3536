package fleet

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// claim makes a ready sandbox of the pool that as names its owner's; false if
// there is none, or none that could do: then a new one has to be made. What a
// sandbox is given when it is created, and can't be given later, are workspaces
// that are mounted, mounts, an id, and limits that the owner's quota asks for.
func (f *Fleet) claim(ctx context.Context, as row) (row, bool, error) {
	owner, cfg := as.owner, as.cfg
	if err := claimable(&cfg); err != nil {
		return row{}, false, err
	}
	if len(cfg.Mounts) > 0 || cfg.ID != "" || cfg.Project != nil {
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
	if err != nil || len(cfg.Workspaces) > 0 && !carries(&ft) {
		return row{}, false, err
	}
	c := claimant{
		f: f, owner: owner, cfg: all, steps: cfg.Prepare, bring: as.bring,
		env: slices.Concat(cfg.Env, secretsOf(&cfg)), closed: as.closed, ft: ft,
	}
	if !c.prepared() {
		return row{}, false, nil
	}
	if err := f.weigh(ctx, owner); err != nil {
		return row{}, false, err
	}
	return c.claim(ctx)
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
	f      *Fleet
	owner  atoll.Owner
	cfg    atoll.Config   // the pool's, with what comes with the claim
	steps  []atoll.Step   // that come with the claim
	bring  []atoll.Mount  // see row
	env    []string       // what the driver's sandbox does not know
	closed bool           // see row
	ft     atoll.Features // of the driver
}

// poolDirs are directories that a pool's sandboxes have for what comes with a
// claim, besides the working directory: what agents remember, and their programs.
var poolDirs = []string{"/srv/agents", "/opt/atoll/agents"}

// prepared reports whether all that comes with the claim has a place in a
// sandbox that was made without it.
func (c *claimant) prepared() bool {
	places := append([]string{cmp.Or(c.cfg.Dir, atoll.DefaultDir)}, poolDirs...)
	has := func(target string) bool {
		return slices.ContainsFunc(places, func(p string) bool { return target == p || strings.HasPrefix(target, p+"/") })
	}
	for _, w := range c.cfg.Workspaces {
		if !has(w.At()) {
			return false
		}
	}
	return !slices.ContainsFunc(c.bring, func(m atoll.Mount) bool { return !has(m.Target) })
}

// claim tries one ready sandbox after another.
func (c *claimant) claim(ctx context.Context) (row, bool, error) {
	for {
		var r row
		var held bool
		err := c.f.store.write(ctx, func(tx *sql.Tx) (err error) {
			if r, err = c.pick(ctx, tx); err != nil {
				return err
			}
			if held = c.takesTime(&r); held {
				return c.hold(ctx, tx, &r)
			}
			return c.take(ctx, tx, &r)
		})
		if err != nil || !held {
			return c.taken(r, err)
		}
		switch err := c.finish(ctx, &r); {
		case err == nil:
			return c.taken(r, nil)
		case errors.Is(err, errNotThisOne):
			c.f.log.Warn("a sandbox was not ready", "id", r.id, "pool", c.cfg.Pool, "err", err)
		case errors.Is(err, errNoneReady):
			return c.taken(r, err)
		default:
			return row{}, false, err
		}
	}
}

// takesTime reports whether more is to be done for a claim than to write it down:
// by the driver, for one, if it has a say.
func (c *claimant) takesTime(r *row) bool {
	if len(c.steps) > 0 || len(c.cfg.Workspaces) > 0 || len(c.bring) > 0 {
		return true
	}
	b := c.f.lookup(r.id)
	if b == nil {
		return true // who knows
	}
	b.mu.Lock()
	sb := b.sb
	b.mu.Unlock()
	if sb == nil {
		return true
	}
	_, ok := atoll.As[atoll.Claimer](sb)
	return ok
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
	r.owner, r.name, r.pool, r.cfg, r.env, r.closed = c.owner, c.cfg.Name, "", c.cfg, c.env, c.closed
	r.created, r.started, r.active = now, now, now
	r.holder, r.goal = "", ""
	if r.cfg.Lifecycle.Policy == atoll.PolicyOneshot {
		r.host = c.f.instance.id
	}
	if err := c.f.loaded(ctx, tx, r); err != nil {
		return err
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

// hold keeps a sandbox for this process, while it becomes the owner's.
func (c *claimant) hold(ctx context.Context, tx *sql.Tx, r *row) error {
	r.holder, r.goal = c.f.instance.id, goalCreate
	if len(c.cfg.Workspaces) > 0 {
		if _, err := c.f.mountsFor(ctx, tx, c.owner, r.id, c.cfg, true); err != nil {
			return err
		}
	}
	return c.f.save(ctx, tx, r)
}

// errNotThisOne says that another ready sandbox may do.
var errNotThisOne = errors.New("it can't be claimed")

// finish makes a sandbox that is held the owner's, or destroys it; one that its
// driver refuses to give to this owner stays in the pool.
func (c *claimant) finish(ctx context.Context, r *row) error {
	f := c.f
	b := f.enter(*r)
	release, err := b.take(ctx)
	if err == nil {
		defer release()
		err = c.ready(ctx, b, r)
	}
	if err == nil {
		return nil
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
	defer cancel()
	switch {
	case errors.Is(err, errNoneReady):
		return errors.Join(err, c.putBack(ending, r))
	case errors.Is(err, atoll.ErrExists) && errors.Is(err, errNotThisOne):
		return errors.Join(err, f.disown(ending, b)) // it is somebody's who has another registry
	}
	_, serr := f.settle(ending, r.id, err)
	if serr == nil && errors.Is(err, errNotThisOne) {
		return err
	}
	return errors.Join(late(reason(ctx, err)), serr)
}

// putBack leaves a sandbox that was held as it was.
func (c *claimant) putBack(ctx context.Context, r *row) error {
	_, err := c.f.change(ctx, r.id, func(tx *sql.Tx, now *row) error {
		if now.holder != c.f.instance.id || now.goal != goalCreate {
			return nil // it is being destroyed
		}
		now.holder, now.goal = "", ""
		if err := c.f.unmount(ctx, tx, now.id); err != nil {
			return err
		}
		return c.f.save(ctx, tx, now)
	})
	return err
}

// disown forgets a sandbox without touching it.
func (f *Fleet) disown(ctx context.Context, b *box) error {
	defer f.release(b)
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "delete from sandboxes where id = ?", b.id)
		return err
	})
}

// ready does what belongs to a claim and gives the sandbox to the owner.
func (c *claimant) ready(ctx context.Context, b *box, r *row) error {
	ctx, end := b.begin(ctx)
	defer end()
	as := *r
	as.owner, as.name, as.pool, as.cfg, as.env, as.bring = c.owner, c.cfg.Name, "", c.cfg, c.env, c.bring
	sb, err := inTime(ctx, c.cfg.Timeouts, func(ctx context.Context) (atoll.Sandbox, error) { return c.given(ctx, b, &as) })
	if err != nil {
		return err
	}
	if err := c.f.furnishBox(ctx, sb, &as, &c.ft); err != nil {
		return err
	}
	if err := c.f.doSteps(ctx, sb, &as, c.steps); err != nil {
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

// given lets the driver give a sandbox to the owner, if it has a say.
func (c *claimant) given(ctx context.Context, b *box, as *row) (atoll.Sandbox, error) {
	sb, err := b.inner(ctx)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", errNotThisOne, err)
	}
	if err != nil {
		return nil, err
	}
	t, ok := atoll.As[atoll.Claimer](sb)
	if !ok {
		return sb, nil
	}
	err = t.Claim(ctx, specOf(as, nil))
	switch {
	case errors.Is(err, atoll.ErrUnsupported):
		return nil, fmt.Errorf("%w: %w", errNoneReady, err)
	case errors.Is(err, atoll.ErrExists), errors.Is(err, atoll.ErrState), errors.Is(err, atoll.ErrNotFound):
		return nil, fmt.Errorf("%w: %w", errNotThisOne, err)
	}
	return sb, err
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
