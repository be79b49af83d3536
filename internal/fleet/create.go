package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
)

// Create creates a sandbox, which is running when Create returns. If it fails, nothing is left but
// a row of a destroyed sandbox with the reason.
func (a *Account) Create(ctx context.Context, cfg atoll.Config) (*Sandbox, error) {
	if err := a.checkCreate("create", &cfg); err != nil {
		return nil, err
	}
	return a.createAudited(ctx, row{owner: a.caller.Owner, cfg: cfg})
}

// createAudited creates a sandbox for a row with an owner and a configuration, with an audit
// entry.
func (a *Account) createAudited(ctx context.Context, r row) (*Sandbox, error) {
	name := r.cfg.Name
	noted := a.startAudit("create", name, "")
	r, err := a.createSandbox(ctx, r)
	noted(err)
	if err != nil {
		return nil, wrapOpError("create", name, err)
	}
	return a.sandboxFor(r), nil
}

// checkCreate refuses a configuration that the caller has no scopes for. It looks nothing up.
func (a *Account) checkCreate(op string, cfg *atoll.Config) error {
	if err := a.checkScope(op, atoll.ScopeRun); err != nil {
		return err
	}
	return a.checkHostAccess(op, cfg)
}

// checkHostAccess refuses a configuration that reaches this host or its repositories to callers without ScopeHost.
func (a *Account) checkHostAccess(op string, cfg *atoll.Config) error {
	if err := a.checkReservedLabels(op, cfg.Labels, nil); err != nil {
		return err
	}
	if len(cfg.Mounts) > 0 || cfg.ID != "" || cfg.Project != nil {
		return a.checkScope(op, atoll.ScopeHost)
	}
	if what := cfg.Network.PrivateRule(); what != "" && a.checkScope(op, atoll.ScopeHost) != nil {
		return fmt.Errorf("%w: network %s reaches this host or its network: that needs the scope %q", atoll.ErrDenied, what, atoll.ScopeHost)
	}
	return a.checkReferences(cfg)
}

func (a *Account) createSandbox(ctx context.Context, r row) (row, error) {
	f, cfg := a.f, r.cfg
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return row{}, err
	}
	defer leave()
	if cfg.Pool != "" {
		if err := f.checkConfig(ctx, &cfg); err != nil {
			return row{}, err
		}
		if r, ok, err := f.claimReady(ctx, r); ok || err != nil {
			return r, err
		}
		if cfg, err = f.poolConfig(ctx, cfg); err != nil {
			return row{}, err
		}
	}
	if err := f.checkConfig(ctx, &cfg); err != nil {
		return row{}, err
	}
	if cfg.Pool == "" { // the administrator who made the pool chose its image
		if err := a.checkImage(ctx, &cfg); err != nil {
			return row{}, err
		}
	}
	r.cfg = cfg
	return f.buildSandbox(ctx, r)
}

// poolConfig returns the configuration of a pool merged with that of a claim.
func (f *Fleet) poolConfig(ctx context.Context, claim atoll.Config) (atoll.Config, error) {
	p, err := f.queryPool(ctx, f.registry.DB, claim.Pool)
	if err != nil {
		return atoll.Config{}, err
	}
	cfg := p.cfg
	cfg.ID, cfg.Name, cfg.Pool = claim.ID, claim.Name, claim.Pool
	cfg.Labels = mergeMaps(cfg.Labels, claim.Labels)
	cfg.Secrets, cfg.Workspaces, cfg.Lifecycle = claim.Secrets, claim.Workspaces, claim.Lifecycle
	cfg.Mounts = slices.Concat(cfg.Mounts, claim.Mounts)
	cfg.Env = slices.Concat(cfg.Env, claim.Env)
	cfg.Prepare = slices.Concat(cfg.Prepare, claim.Prepare)
	cfg.Project = claim.Project
	return cfg, nil
}

// mergeMaps returns the union of two maps. Values of b win.
func mergeMaps(a, b map[string]string) map[string]string {
	if len(a) == 0 {
		return b
	}
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// checkConfig reports every mistake in a configuration, including those that only the fleet can
// see, and sets the driver if it is empty.
func (f *Fleet) checkConfig(ctx context.Context, cfg *atoll.Config) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if err := cfg.Check(); err != nil {
		errs = append(errs, err)
	}
	if err := checkNetwork(cfg); err != nil && cfg.Pool == "" { // the secrets of a pool's sandbox come with the claim
		errs = append(errs, err)
	}
	if err := f.checkIdentityReferences(cfg); err != nil {
		errs = append(errs, err)
	}
	if cfg.Driver == "" && cfg.Pool == "" {
		cfg.Driver = f.opts.Default
	}
	switch b := f.findDriver(cfg.Driver); {
	case cfg.Driver == "":
	case b == nil:
		bad("driver %q: must be one of %v", cfg.Driver, f.driverNames())
	default:
		ft, err := b.probe(ctx)
		if err != nil {
			return err
		}
		errs = append(append(errs, checkLimits(cfg, ft)...), f.checkFeatures(cfg, &ft)...)
		if err := f.checkArchiveTime(b, cfg.Lifecycle); err != nil {
			errs = append(errs, err)
		}
	}
	if cfg.Pool != "" {
		var n int
		if err := f.registry.DB.QueryRowContext(ctx, "select count(*) from pools where name = ?", cfg.Pool).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			bad("pool %q: no such pool", cfg.Pool)
		}
	}
	if p := cfg.Project; p != nil && filepath.IsAbs(p.Path) {
		if _, err := os.Stat(filepath.Join(p.Path, ".git")); err != nil {
			bad("project.path %q: must be a git repository: it has no .git", p.Path)
		}
	}
	return joinInvalid(errs)
}

// joinInvalid joins errors into one that matches ErrInvalid, unless all of them are
// ErrUnsupported. It returns nil for none.
func joinInvalid(errs []error) error {
	beyond := 0
	for _, err := range errs {
		if errors.Is(err, atoll.ErrUnsupported) {
			beyond++
		}
	}
	err := errors.Join(errs...)
	if beyond == len(errs) || errors.Is(err, atoll.ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
}

// checkLimits reports limits that are too low for the isolation of a driver.
func checkLimits(cfg *atoll.Config, ft atoll.Features) []error {
	var errs []error
	bad := func(field, format string, a ...any) {
		errs = append(errs, &atoll.FieldError{Field: field, Err: fmt.Errorf(format, a...)})
	}
	if ft.IsVM() {
		if m := cfg.Limits.Memory; m > 0 && m < atoll.MinVMMemory {
			bad("limits.memory", "limits.memory %d: a VM needs at least %d (1024 MiB)", m, int64(atoll.MinVMMemory))
		}
		if c := cfg.Limits.CPU; c > 0 && c < atoll.MinVMCPU {
			bad("limits.cpu", "limits.cpu %v: a VM needs at least %d", c, atoll.MinVMCPU)
		}
	}
	return errs
}

// checkFeatures reports settings that the driver does not support, and the drivers that do.
// Nothing has been created yet that would have to be undone.
func (f *Fleet) checkFeatures(cfg *atoll.Config, ft *atoll.Features) []error {
	var errs []error
	for _, d := range []struct {
		what  string
		asked bool
		does  func(ft *atoll.Features) bool
	}{
		{"image " + cfg.Image, cfg.Image != "", func(ft *atoll.Features) bool { return ft.Images }},
		{"runtime " + cfg.Runtime, cfg.Runtime != "", func(ft *atoll.Features) bool { return slices.Contains(ft.Runtimes, cfg.Runtime) }},
		{"mounts", len(cfg.Mounts) > 0, func(ft *atoll.Features) bool { return ft.Mounts }},
		{"workspaces", len(cfg.Workspaces) > 0, func(ft *atoll.Features) bool { return ft.Mounts || copiesWorkspaces(ft) }},
		{"limits.cpu", cfg.Limits.CPU > 0, func(ft *atoll.Features) bool { return ft.CPULimit || isWhole(cfg.Limits.CPU) && ft.IsVM() }}, // a VM has that many processors
		{"machine", cfg.VM != nil, (*atoll.Features).IsVM},
		{"network mode " + string(cfg.Network.Mode), cfg.Network.Mode != "", func(ft *atoll.Features) bool { return slices.Contains(ft.Networks, cfg.Network.Mode) }},
	} {
		if !d.asked || d.does(ft) {
			continue
		}
		var others []string
		for _, b := range f.drivers {
			if o, known := b.cachedFeatures(); known && d.does(&o) {
				others = append(others, b.impl.Name())
			}
		}
		err := fmt.Errorf("%s: %w by driver %s", d.what, atoll.ErrUnsupported, cfg.Driver)
		if len(others) > 0 {
			err = fmt.Errorf("%w; use %s", err, strings.Join(others, " or "))
		}
		errs = append(errs, err)
	}
	return errs
}

// buildSandbox creates the sandbox of a row with an owner, a checked configuration and, for a warm
// one, a pool. It is running when buildSandbox returns; on error nothing is left.
func (f *Fleet) buildSandbox(ctx context.Context, r row) (row, error) {
	return f.startNew(ctx, r, func(ctx context.Context, b *handle, spec atoll.Spec) (atoll.Sandbox, error) {
		return b.driver.impl.Create(ctx, spec)
	})
}

// startNew registers a new row and starts its sandbox with a function that creates it in the
// driver.
func (f *Fleet) startNew(ctx context.Context, r row, with func(context.Context, *handle, atoll.Spec) (atoll.Sandbox, error)) (row, error) {
	return f.startNewWithin(ctx, r, r.cfg.Timeouts, with)
}

// startNewWithin is startNew with the create timeout of t.
func (f *Fleet) startNewWithin(ctx context.Context, r row, t atoll.Timeouts, with func(context.Context, *handle, atoll.Spec) (atoll.Sandbox, error)) (row, error) {
	if err := f.CheckSpace(); err != nil {
		return r, err
	}
	ft, err := f.findDriver(r.cfg.Driver).probe(ctx)
	if err != nil {
		return r, err
	}
	if err := f.measureAhead(ctx, r.owner); err != nil {
		return r, err
	}
	if r.id = r.cfg.ID; r.id == "" {
		r.id = atoll.NewID()
	}
	r.driver = r.cfg.Driver
	b, err := f.reserveHandle(r)
	if err != nil {
		return r, err
	}
	defer func() { <-b.turn }()
	ctx, end := b.beginCancelable(ctx)
	defer end()
	mounts, err := f.insertStarting(ctx, &r, ft)
	if err != nil {
		f.releaseHandle(b)
		return r, timeoutError(causeOf(ctx, err))
	}
	f.updateHandle(r)
	sb, err := withCreateTimeout(ctx, t, func(ctx context.Context) (atoll.Sandbox, error) {
		spec, err := f.driverSpec(ctx, &r, mounts)
		if err != nil {
			return nil, err
		}
		spec.Progress = f.progressReporter(ctx, &r)
		return with(ctx, b, spec)
	})
	if err == nil {
		b.setInner(sb)
		err = f.copyIntoNew(ctx, sb, &r, &ft)
		if err == nil && (len(r.cfg.Prepare) > 0 || r.cfg.Project != nil) {
			err = f.prepareSandbox(ctx, sb, r)
		}
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		r, err = f.recordRunning(ctx, r)
	}
	if err != nil {
		_, serr := f.reconcileHeld(ctx, b.id, err) // r may not have been read
		return r, errors.Join(timeoutError(causeOf(ctx, err)), serr)
	}
	f.log.Info("sandbox running", "id", r.id, "driver", r.driver, "owner", r.owner.String())
	return r, nil
}

// reserveHandle creates the handle of a new sandbox and acquires its turn before any other call
// can find it.
func (f *Fleet) reserveHandle(r row) (*handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live[r.id] != nil {
		return nil, fmt.Errorf("id %s: %w", r.id, atoll.ErrExists)
	}
	b := f.newHandle(r)
	b.turn <- struct{}{}
	f.live[r.id] = b
	return b, nil
}

// releaseHandle removes the handle of a sandbox that was never registered.
func (f *Fleet) releaseHandle(b *handle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, b.id)
}

// withCreateTimeout calls with under the create timeout of a configuration. Without one, drivers have their own, and
// this is the largest.
func withCreateTimeout(ctx context.Context, t atoll.Timeouts, with func(context.Context) (atoll.Sandbox, error)) (atoll.Sandbox, error) {
	d := t.Create
	if d == 0 {
		d = atoll.DefaultEmulatedTimeout
	}
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %v", atoll.ErrTimeout, d))
		defer cancel()
	}
	return with(ctx)
}

// insertStarting inserts a new row as starting, within the owner's quota, and returns the mounts
// of its workspaces.
func (f *Fleet) insertStarting(ctx context.Context, r *row, ft atoll.Features) (mounts []atoll.Mount, err error) {
	now := f.now()
	r.name, r.state = r.cfg.Name, atoll.Created
	f.setArchiveTime(r, &ft)
	r.created, r.active, r.changed = now, now, now
	r.holder, r.goal = f.member.ID(), goalCreate
	if !ft.Persist || r.cfg.Lifecycle.Policy == atoll.PolicyOneshot {
		r.process = f.member.ID()
	}
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		if _, err := f.queryRow(ctx, tx, "id = ?", r.id); !errors.Is(err, atoll.ErrNotFound) {
			return errors.Join(err, fmt.Errorf("id %s: %w", r.id, atoll.ErrExists))
		}
		if r.pool == "" {
			if err := f.checkNameFree(ctx, tx, r.owner, r.name, ""); err != nil {
				return err
			}
			if err := f.admitSandbox(ctx, tx, r.owner, ft, &r.cfg); err != nil {
				return err
			}
		}
		if err := f.insertRow(ctx, tx, r); err != nil {
			return err
		}
		if len(r.cfg.Workspaces) > 0 {
			if mounts, err = f.prepareMounts(ctx, tx, r.owner, r.id, r.cfg, copiesWorkspaces(&ft)); err != nil {
				return err
			}
		}
		if err := f.attachDisk(ctx, tx, r); err != nil {
			return err
		}
		return f.transitionTo(ctx, tx, r, atoll.Starting)
	})
	return mounts, err
}

// recordRunning records that a new sandbox is running.
func (f *Fleet) recordRunning(ctx context.Context, r row) (row, error) {
	return f.changeRow(ctx, r.id, func(tx *sql.Tx, r *row) error {
		r.holder, r.goal = "", ""
		r.started, r.active = f.now(), f.now()
		if err := f.recordCopiedIn(ctx, tx, r); err != nil {
			return err
		}
		return f.transitionTo(ctx, tx, r, atoll.Running)
	})
}

// driverSpec returns the spec that the driver gets. Secrets are part of its environment.
func (f *Fleet) driverSpec(ctx context.Context, r *row, mounts []atoll.Mount) (spec atoll.Spec, err error) {
	spec = r.cfg.Spec
	spec.ID, spec.Name = r.id, r.name
	spec.Labels = maps.Clone(spec.Labels)
	spec.Env = slices.Concat(spec.Env, secretEnv(&r.cfg))
	if spec.Network, err = f.driverNetwork(ctx, &r.cfg); err != nil {
		return spec, err
	}
	spec.Mounts = slices.Concat(spec.Mounts, mounts)
	if r.disk != "" {
		m := *spec.VM
		m.Disk, spec.VM = r.disk, &m
	}
	for _, w := range r.cfg.Workspaces {
		spec.Dirs = append(spec.Dirs, w.At())
	}
	for _, m := range r.imports {
		spec.Dirs = append(spec.Dirs, m.Target)
	}
	if r.pool == "" {
		spec.Owner = r.owner
	} else {
		spec.Labels = mergeMaps(spec.Labels, map[string]string{atoll.PoolLabel: r.pool})
		spec.Dirs = append(spec.Dirs, poolDirs...)
	}
	return spec, nil
}

// secretEnv returns the secrets as environment variables, without references and those that only the egress proxy
// gets.
func secretEnv(cfg *atoll.Config) []string {
	env := make([]string, 0, len(cfg.Secrets))
	outside := proxyOnlySecrets(cfg)
	for _, k := range slices.Sorted(maps.Keys(cfg.Secrets)) {
		if !outside[k] && !secretref.IsReference(cfg.Secrets[k]) && !issuer.IsReference(cfg.Secrets[k]) {
			env = append(env, k+"="+cfg.Secrets[k])
		}
	}
	return env
}

// Fork creates a sandbox of the same owner that starts as a copy of this one, as it is now or at a
// snapshot. Of spec, the name, labels, environment and limits are used where they are set.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	if err := s.a.checkCreate("fork", &atoll.Config{Spec: spec}); err != nil {
		return nil, err
	}
	if err := s.checkRecreate("fork"); err != nil {
		return nil, s.wrapError("fork", err)
	}
	noted := s.startAudit("fork", snapshot)
	r, err := s.forkSandbox(ctx, snapshot, spec)
	noted(err)
	if err != nil {
		return nil, s.wrapError("fork", err)
	}
	made := s.a.sandboxFor(r)
	made.madeForTurn = s.madeForTurn
	return made, nil
}

func (s *Sandbox) forkSandbox(ctx context.Context, snapshot string, spec atoll.Spec) (row, error) {
	if err := errors.Join(spec.Check(), checkForkSpec(&spec)); err != nil {
		return row{}, err
	}
	ctx, leave, err := s.f.beginOperation(ctx)
	if err != nil {
		return row{}, err
	}
	defer leave()
	ctx, done, err := s.beginCall(ctx, "fork")
	if err != nil {
		return row{}, err
	}
	defer func() { done(err) }()
	from, err := innerAs[atoll.Forker](s)
	if err != nil {
		return row{}, err
	}
	parent := s.b.cachedRow()
	cfg := forkConfig(parent.cfg, spec)
	if err = cfg.Check(); err != nil { // merged, they may exceed the limits
		return row{}, err
	}
	r, err := s.f.startNew(ctx, row{owner: parent.owner, cfg: cfg, env: parent.env, closed: parent.closed}, func(ctx context.Context, _ *handle, all atoll.Spec) (atoll.Sandbox, error) {
		// The driver copies from the original what the spec does not set.
		own := atoll.Spec{ID: all.ID, Name: all.Name, Labels: all.Labels, Env: spec.Env, Limits: all.Limits, Progress: all.Progress}
		return from.Fork(ctx, snapshot, own)
	})
	return r, causeOf(ctx, err)
}

// checkForkSpec refuses settings that a fork inherits: the driver would apply them, but the
// registry would not record them.
func checkForkSpec(spec *atoll.Spec) error {
	var errs []error
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"image", spec.Image != ""},
		{"runtime", spec.Runtime != ""},
		{"dir", spec.Dir != ""},
		{"user", spec.User != ""},
		{"requests", spec.Requests != atoll.Resources{}},
		{"network", !reflect.ValueOf(spec.Network).IsZero()},
		{"timeouts", spec.Timeouts != atoll.Timeouts{}},
		{"mounts", len(spec.Mounts) > 0},
		{"machine", spec.VM != nil},
		{"pod", spec.Pod != nil},
	} {
		if f.set {
			err := fmt.Errorf("%w: %s: a fork inherits it from the original sandbox", atoll.ErrInvalid, f.field)
			errs = append(errs, &atoll.FieldError{Field: f.field, Err: err})
		}
	}
	return errors.Join(errs...)
}

// forkConfig returns the configuration of a fork. Its name and labels are its own.
func forkConfig(cfg atoll.Config, spec atoll.Spec) atoll.Config {
	cfg.ID, cfg.Name, cfg.Labels, cfg.Pool = spec.ID, spec.Name, spec.Labels, ""
	cfg.Env = slices.Concat(cfg.Env, spec.Env)
	cfg.Prepare, cfg.Project = nil, nil // done in the original
	if cfg.VM != nil && cfg.VM.Disk != "" {
		m := *cfg.VM
		m.Disk, cfg.VM = "", &m // the fork's disk is a copy, not the persistent disk
	}
	l := &cfg.Limits
	override(&l.CPU, spec.Limits.CPU)
	override(&l.Memory, spec.Limits.Memory)
	override(&l.PIDs, spec.Limits.PIDs)
	override(&l.Disk, spec.Limits.Disk)
	override(&l.FileSize, spec.Limits.FileSize)
	override(&l.Files, spec.Limits.Files)
	return cfg
}

// override replaces a value unless given is zero.
func override[T int | int64 | float64](v *T, given T) {
	if given != 0 {
		*v = given
	}
}

// isWhole reports whether a number of processors is a whole one.
func isWhole(cpus float64) bool { return cpus == math.Trunc(cpus) }
