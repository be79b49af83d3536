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
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// claimReady assigns a ready sandbox of the pool named in as to the owner. It returns false if
// none is ready or suitable: then a new one must be created. Workspaces that the driver mounts,
// mounts, an id, and limits that the owner's quota demands can only be given at creation.
func (f *Fleet) claimReady(ctx context.Context, as row) (row, bool, error) {
	owner, cfg := as.owner, as.cfg
	if err := checkClaim(&cfg); err != nil {
		return row{}, false, err
	}
	if len(cfg.Mounts) > 0 || cfg.ID != "" || cfg.Project != nil {
		return row{}, false, nil
	}
	all, err := f.poolConfig(ctx, cfg)
	if err != nil {
		return row{}, false, err
	}
	if cfg.Driver != "" && cfg.Driver != all.Driver {
		return row{}, false, fmt.Errorf("%w: driver %q: pool %s uses %q; leave it out", atoll.ErrInvalid, cfg.Driver, cfg.Pool, all.Driver)
	}
	drv := f.findDriver(all.Driver)
	if drv == nil {
		return row{}, false, nil // creating a new one returns the error
	}
	ft, err := drv.probe(ctx)
	if err != nil || len(cfg.Workspaces) > 0 && !copiesWorkspaces(&ft) {
		return row{}, false, err
	}
	c := claimant{
		f: f, owner: owner, cfg: all, steps: cfg.Prepare, imports: as.imports,
		env: slices.Concat(cfg.Env, secretEnv(&cfg)), closed: as.closed, ft: ft,
	}
	if !c.fitsPool() {
		return row{}, false, nil
	}
	if err := f.measureAhead(ctx, owner); err != nil {
		return row{}, false, err
	}
	return c.claimAny(ctx)
}

// checkClaim refuses settings in a claim that the pool determines.
func checkClaim(cfg *atoll.Config) error {
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
	return fmt.Errorf("%w: %s: must be left out: pool %s sets it", atoll.ErrInvalid, strings.Join(slices.Sorted(maps.Keys(fields)), ", "), cfg.Pool)
}

// errNoneReady means that a new sandbox must be created.
var errNoneReady = errors.New("no sandbox is ready")

// claimant is a claim in progress.
type claimant struct {
	f       *Fleet
	owner   atoll.Owner
	cfg     atoll.Config   // the pool's, merged with the claim
	steps   []atoll.Step   // prepare steps of the claim
	imports []atoll.Mount  // see row.imports
	env     []string       // environment that the driver does not know
	closed  bool           // see row.closed
	ft      atoll.Features // of the driver
}

// poolDirs are directories that pool sandboxes have, besides the working directory, for the state
// and the programs of agents that come with a claim.
var poolDirs = []string{"/srv/agents", "/opt/atoll/agents"}

// fitsPool reports whether a sandbox created without the claim has directories for all its mounts.
func (c *claimant) fitsPool() bool {
	places := append([]string{cmp.Or(c.cfg.Dir, atoll.DefaultDir)}, poolDirs...)
	has := func(target string) bool {
		return slices.ContainsFunc(places, func(p string) bool { return target == p || strings.HasPrefix(target, p+"/") })
	}
	for _, w := range c.cfg.Workspaces {
		if !has(w.At()) {
			return false
		}
	}
	return !slices.ContainsFunc(c.imports, func(m atoll.Mount) bool { return !has(m.Target) })
}

// claimAny tries the ready sandboxes one after another.
func (c *claimant) claimAny(ctx context.Context) (row, bool, error) {
	for {
		var r row
		var held bool
		err := c.f.registry.Write(ctx, func(tx *sql.Tx) (err error) {
			if r, err = c.pickReady(ctx, tx); err != nil {
				return err
			}
			if held = c.needsWork(&r); held {
				return c.reserveReady(ctx, tx, &r)
			}
			return c.assignTo(ctx, tx, &r)
		})
		if err != nil || !held {
			return c.announceClaim(r, err)
		}
		switch err := c.completeClaim(ctx, &r); {
		case err == nil:
			return c.announceClaim(r, nil)
		case errors.Is(err, errNotThisOne):
			c.f.log.Warn("a sandbox was not ready", "id", r.id, "pool", c.cfg.Pool, "err", err)
		case errors.Is(err, errNoneReady):
			return c.announceClaim(r, err)
		default:
			return row{}, false, err
		}
	}
}

// needsWork reports whether a claim takes more than a change of the row, for instance a call of
// the driver.
func (c *claimant) needsWork(r *row) bool {
	if len(c.steps) > 0 || len(c.cfg.Workspaces) > 0 || len(c.imports) > 0 {
		return true
	}
	b := c.f.findHandle(r.id)
	if b == nil {
		return true // only the driver can tell
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

// pickReady returns a ready sandbox that this process can reach.
func (c *claimant) pickReady(ctx context.Context, tx *sql.Tx) (row, error) {
	r, err := c.f.queryRow(ctx, tx, `pool = ? and state = 'running' and goal = '' and holder = '' and host in ('', ?)
		and config = (select config from pools where name = ?) order by created limit 1`, c.cfg.Pool, c.f.member.ID(), c.cfg.Pool)
	if errors.Is(err, atoll.ErrNotFound) {
		return r, errNoneReady
	}
	if err != nil {
		return r, err
	}
	if err := c.f.checkNameFree(ctx, tx, c.owner, c.cfg.Name, ""); err != nil {
		return r, err
	}
	limits := c.cfg.Limits
	if err := c.f.admitSandbox(ctx, tx, c.owner, c.ft, &c.cfg); err != nil {
		return r, err
	}
	if limits != c.cfg.Limits {
		return r, errNoneReady // it was created without the limits that the quota demands
	}
	return r, nil
}

// assignTo makes a sandbox the owner's.
func (c *claimant) assignTo(ctx context.Context, tx *sql.Tx, r *row) error {
	now := c.f.now()
	r.owner, r.name, r.pool, r.cfg, r.env, r.closed = c.owner, c.cfg.Name, "", c.cfg, c.env, c.closed
	r.created, r.started, r.active = now, now, now
	r.holder, r.goal = "", ""
	if r.cfg.Lifecycle.Policy == atoll.PolicyOneshot {
		r.process = c.f.member.ID()
	}
	if err := c.f.recordCopiedIn(ctx, tx, r); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "update sandboxes set created = ? where id = ?", registry.Timestamp(now), r.id); err != nil {
		return err
	}
	return c.f.saveState(ctx, tx, r)
}

// announceClaim updates this process after a claim was written.
func (c *claimant) announceClaim(r row, err error) (row, bool, error) {
	if errors.Is(err, errNoneReady) {
		notify(c.f.poolsChanged)
		return row{}, false, nil
	}
	if err != nil {
		return row{}, false, err
	}
	c.f.ensureHandle(r)
	notify(c.f.poolsChanged)
	c.f.log.Info("sandbox claimed", "id", r.id, "pool", c.cfg.Pool, "owner", r.owner.String())
	return r, true, nil
}

// reserveReady holds a sandbox for this process until it is the owner's.
func (c *claimant) reserveReady(ctx context.Context, tx *sql.Tx, r *row) error {
	r.holder, r.goal = c.f.member.ID(), goalCreate
	if len(c.cfg.Workspaces) > 0 {
		if _, err := c.f.prepareMounts(ctx, tx, c.owner, r.id, c.cfg, true); err != nil {
			return err
		}
	}
	return c.f.saveRow(ctx, tx, r)
}

// errNotThisOne means that another ready sandbox may be suitable.
var errNotThisOne = errors.New("it can't be claimed")

// completeClaim makes a held sandbox the owner's, or destroys it. A sandbox that the driver can't
// give to this owner returns to the pool.
func (c *claimant) completeClaim(ctx context.Context, r *row) error {
	f := c.f
	b := f.ensureHandle(*r)
	release, err := b.acquireTurn(ctx)
	if err == nil {
		defer release()
		err = c.giveToOwner(ctx, b, r)
	}
	if err == nil {
		return nil
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundTimeout)
	defer cancel()
	switch {
	case errors.Is(err, errNoneReady):
		return errors.Join(err, c.returnToPool(ending, r))
	case errors.Is(err, atoll.ErrExists) && errors.Is(err, errNotThisOne):
		return errors.Join(err, f.forgetSandbox(ending, b)) // it is claimed through another registry
	}
	_, serr := f.reconcileHeld(ending, r.id, err)
	if serr == nil && errors.Is(err, errNotThisOne) {
		return err
	}
	return errors.Join(timeoutError(causeOf(ctx, err)), serr)
}

// returnToPool releases a held sandbox unchanged.
func (c *claimant) returnToPool(ctx context.Context, r *row) error {
	_, err := c.f.changeRow(ctx, r.id, func(tx *sql.Tx, now *row) error {
		if now.holder != c.f.member.ID() || now.goal != goalCreate {
			return nil // it is being destroyed
		}
		now.holder, now.goal = "", ""
		if err := c.f.unmountAll(ctx, tx, now.id); err != nil {
			return err
		}
		return c.f.saveRow(ctx, tx, now)
	})
	return err
}

// forgetSandbox deletes the row of a sandbox and leaves the sandbox itself.
func (f *Fleet) forgetSandbox(ctx context.Context, b *handle) error {
	defer f.releaseHandle(b)
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "delete from sandboxes where id = ?", b.id)
		return err
	})
}

// giveToOwner does the work of a claim and makes the sandbox the owner's.
func (c *claimant) giveToOwner(ctx context.Context, b *handle, r *row) error {
	ctx, end := b.beginCancelable(ctx)
	defer end()
	as := *r
	as.owner, as.name, as.pool, as.cfg, as.env, as.imports = c.owner, c.cfg.Name, "", c.cfg, c.env, c.imports
	sb, err := withCreateTimeout(ctx, c.cfg.Timeouts, func(ctx context.Context) (atoll.Sandbox, error) { return c.claimInner(ctx, b, &as) })
	if err != nil {
		return err
	}
	if err := c.f.copyIntoNew(ctx, sb, &as, &c.ft); err != nil {
		return err
	}
	if err := c.f.runSteps(ctx, sb, &as, c.steps); err != nil {
		return err
	}
	return c.f.registry.Write(ctx, func(tx *sql.Tx) error {
		now, err := c.f.queryRow(ctx, tx, "id = ?", r.id)
		if err != nil {
			return err
		}
		if now.holder != c.f.member.ID() || now.goal != goalCreate {
			return errDestroyed
		}
		if err := c.f.checkNameFree(ctx, tx, c.owner, c.cfg.Name, r.id); err != nil {
			return err
		}
		if err := c.f.admitSandbox(ctx, tx, c.owner, c.ft, &c.cfg); err != nil {
			return err
		}
		*r = now
		return c.assignTo(ctx, tx, r)
	})
}

// claimInner has the driver give a sandbox to the owner, if it implements that.
func (c *claimant) claimInner(ctx context.Context, b *handle, as *row) (atoll.Sandbox, error) {
	sb, err := b.openInner(ctx)
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
	spec, err := c.f.driverSpec(ctx, as, nil)
	if err != nil {
		return nil, err
	}
	err = t.Claim(ctx, spec)
	switch {
	case errors.Is(err, atoll.ErrUnsupported):
		return nil, fmt.Errorf("%w: %w", errNoneReady, err)
	case errors.Is(err, atoll.ErrExists), errors.Is(err, atoll.ErrState), errors.Is(err, atoll.ErrNotFound):
		return nil, fmt.Errorf("%w: %w", errNotThisOne, err)
	}
	return sb, err
}
