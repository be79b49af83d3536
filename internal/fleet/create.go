package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Create makes a sandbox that is running when Create returns, or leaves nothing
// behind; the registry then remembers why, as of one that was destroyed.
func (a *Account) Create(ctx context.Context, cfg atoll.Config) (*Sandbox, error) {
	if err := a.mayCreate("create", &cfg); err != nil {
		return nil, err
	}
	return a.make(ctx, row{owner: a.caller.Owner, cfg: cfg})
}

// make makes a sandbox of a row that has an owner and a configuration.
func (a *Account) make(ctx context.Context, r row) (*Sandbox, error) {
	name := r.cfg.Name
	noted := a.audited("create", name, "")
	r, err := a.create(ctx, r)
	noted(err)
	if err != nil {
		return nil, failed("create", name, err)
	}
	return a.handle(r), nil
}

// mayCreate refuses what the caller has no scope for, before anything is looked
// up.
func (a *Account) mayCreate(op string, cfg *atoll.Config) error {
	if err := a.need(op, atoll.ScopeRun); err != nil {
		return err
	}
	if len(cfg.Mounts) > 0 || cfg.ID != "" || cfg.Project != nil {
		return a.need(op, atoll.ScopeHost)
	}
	if what := cfg.Network.Private(); what != "" && a.need(op, atoll.ScopeHost) != nil {
		return fmt.Errorf("%w: network %s reaches this host or its network: that needs the scope %q", atoll.ErrDenied, what, atoll.ScopeHost)
	}
	return nil
}

func (a *Account) create(ctx context.Context, r row) (row, error) {
	f, cfg := a.f, r.cfg
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return row{}, err
	}
	defer leave()
	if cfg.Pool != "" {
		if err := f.check(ctx, &cfg); err != nil {
			return row{}, err
		}
		if r, ok, err := f.claim(ctx, r); ok || err != nil {
			return r, err
		}
		if cfg, err = f.fromPool(ctx, cfg); err != nil {
			return row{}, err
		}
	}
	if err := f.check(ctx, &cfg); err != nil {
		return row{}, err
	}
	if cfg.Pool == "" { // the image of a pool's is its maker's choice
		if err := a.mayUse(ctx, &cfg); err != nil {
			return row{}, err
		}
	}
	r.cfg = cfg
	return f.build(ctx, r)
}

// fromPool returns what a pool's sandboxes are, with what comes with the claim.
func (f *Fleet) fromPool(ctx context.Context, claim atoll.Config) (atoll.Config, error) {
	p, err := onePool(ctx, f.store.db, claim.Pool)
	if err != nil {
		return atoll.Config{}, err
	}
	cfg := p.cfg
	cfg.ID, cfg.Name, cfg.Pool = claim.ID, claim.Name, claim.Pool
	cfg.Labels = merge(cfg.Labels, claim.Labels)
	cfg.Secrets, cfg.Workspaces, cfg.Lifecycle = claim.Secrets, claim.Workspaces, claim.Lifecycle
	cfg.Mounts = slices.Concat(cfg.Mounts, claim.Mounts)
	cfg.Env = slices.Concat(cfg.Env, claim.Env)
	cfg.Prepare = slices.Concat(cfg.Prepare, claim.Prepare)
	cfg.Project = claim.Project
	return cfg, nil
}

// merge returns the union of two maps; b wins.
func merge(a, b map[string]string) map[string]string {
	if len(a) == 0 {
		return b
	}
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// check reports every mistake in a configuration, those that only the fleet can
// see too, and fills in the driver.
func (f *Fleet) check(ctx context.Context, cfg *atoll.Config) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if err := cfg.Check(); err != nil {
		errs = append(errs, err)
	}
	if err := checkNetwork(cfg); err != nil && cfg.Pool == "" { // the secrets of a pool's come with the claim
		errs = append(errs, err)
	}
	if cfg.Driver == "" && cfg.Pool == "" {
		cfg.Driver = f.opts.Default
	}
	switch b := f.bay(cfg.Driver); {
	case cfg.Driver == "":
	case b == nil:
		bad("driver %q: must be one of %v", cfg.Driver, f.driverNames())
	default:
		ft, err := b.probe(ctx)
		if err != nil {
			return err
		}
		errs = append(append(errs, fits(cfg, ft)...), f.beyond(cfg, &ft)...)
	}
	if cfg.Pool != "" {
		var n int
		if err := f.store.db.QueryRowContext(ctx, "select count(*) from pools where name = ?", cfg.Pool).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			bad("pool %q: there is none of that name", cfg.Pool)
		}
	}
	if p := cfg.Project; p != nil && filepath.IsAbs(p.Path) {
		if _, err := os.Stat(filepath.Join(p.Path, ".git")); err != nil {
			bad("project.path %q: must be a git repository: it has no .git", p.Path)
		}
	}
	return invalid(errs)
}

// invalid joins problems to one error that matches ErrInvalid, unless all that
// is wrong is that something is not supported. Nil for none.
func invalid(errs []error) error {
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

// machines are the isolations of drivers whose sandboxes are machines.
var machines = []string{"machine", "emulated"}

// fits reports what is too little for a driver's kind of wall.
func fits(cfg *atoll.Config, ft atoll.Features) []error {
	var errs []error
	bad := func(field, format string, a ...any) {
		errs = append(errs, &atoll.FieldError{Field: field, Err: fmt.Errorf(format, a...)})
	}
	if slices.Contains(machines, ft.Isolation) {
		if m := cfg.Limits.Memory; m > 0 && m < atoll.MinMachineMemory {
			bad("limits.memory", "limits.memory %d: a machine needs at least %d (1024 MiB)", m, int64(atoll.MinMachineMemory))
		}
		if c := cfg.Limits.CPU; c > 0 && c < atoll.MinMachineCPU {
			bad("limits.cpu", "limits.cpu %v: a machine needs at least %d", c, atoll.MinMachineCPU)
		}
	}
	return errs
}

// beyond reports what is asked for that the driver says it does not do, and who
// does: nothing has been begun then that would have to be undone.
func (f *Fleet) beyond(cfg *atoll.Config, ft *atoll.Features) []error {
	var errs []error
	for _, d := range []struct {
		what  string
		asked bool
		does  func(ft *atoll.Features) bool
	}{
		{"image " + cfg.Image, cfg.Image != "", func(ft *atoll.Features) bool { return ft.Images }},
		{"runtime " + cfg.Runtime, cfg.Runtime != "", func(ft *atoll.Features) bool { return slices.Contains(ft.Runtimes, cfg.Runtime) }},
		{"mounts", len(cfg.Mounts) > 0, func(ft *atoll.Features) bool { return ft.Mounts }},
		{"workspaces", len(cfg.Workspaces) > 0, func(ft *atoll.Features) bool { return ft.Mounts || carries(ft) }},
		{"limits.cpu", cfg.Limits.CPU > 0, func(ft *atoll.Features) bool { return ft.CPULimit }},
		{"machine", cfg.Machine != nil, func(ft *atoll.Features) bool { return slices.Contains(machines, ft.Isolation) }},
		{"network mode " + string(cfg.Network.Mode), cfg.Network.Mode != "", func(ft *atoll.Features) bool { return slices.Contains(ft.Networks, cfg.Network.Mode) }},
	} {
		if !d.asked || d.does(ft) {
			continue
		}
		var others []string
		for _, b := range f.bays {
			if o, known := b.asked(); known && d.does(&o) {
				others = append(others, b.driver.Name())
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

// build makes a sandbox of a row that has an owner, a checked configuration and
// perhaps a pool. It is running when build returns; else nothing is left.
func (f *Fleet) build(ctx context.Context, r row) (row, error) {
	return f.raise(ctx, r, func(ctx context.Context, b *box, spec atoll.Spec) (atoll.Sandbox, error) {
		return b.bay.driver.Create(ctx, spec)
	})
}

// raise brings a new row to life with what makes the driver's sandbox.
func (f *Fleet) raise(ctx context.Context, r row, with func(context.Context, *box, atoll.Spec) (atoll.Sandbox, error)) (row, error) {
	ft, err := f.bay(r.cfg.Driver).probe(ctx)
	if err != nil {
		return r, err
	}
	if err := f.weigh(ctx, r.owner); err != nil {
		return r, err
	}
	if r.id = r.cfg.ID; r.id == "" {
		r.id = atoll.NewID()
	}
	r.driver = r.cfg.Driver
	b, err := f.reserve(r)
	if err != nil {
		return r, err
	}
	defer func() { <-b.turn }()
	ctx, end := b.begin(ctx)
	defer end()
	mounts, err := f.register(ctx, &r, ft)
	if err != nil {
		f.release(b)
		return r, late(reason(ctx, err))
	}
	f.learn(r)
	sb, err := inTime(ctx, r.cfg.Timeouts, func(ctx context.Context) (atoll.Sandbox, error) {
		spec := specOf(&r, mounts)
		spec.Progress = f.progressOf(ctx, &r)
		return with(ctx, b, spec)
	})
	if err == nil {
		b.hold(sb)
		err = f.furnishBox(ctx, sb, &r, &ft)
		if err == nil && (len(r.cfg.Prepare) > 0 || r.cfg.Project != nil) {
			err = f.prepare(ctx, sb, r)
		}
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		r, err = f.acknowledge(ctx, r)
	}
	if err != nil {
		_, serr := f.settle(ctx, b.id, err) // the row may not have been read
		return r, errors.Join(late(reason(ctx, err)), serr)
	}
	f.log.Info("sandbox running", "id", r.id, "driver", r.driver, "owner", r.owner.String())
	return r, nil
}

// reserve makes the box of a new sandbox and has its turn, before anybody else
// can know of it.
func (f *Fleet) reserve(r row) (*box, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live[r.id] != nil {
		return nil, fmt.Errorf("id %s: %w", r.id, atoll.ErrExists)
	}
	b := f.newBox(r)
	b.turn <- struct{}{}
	f.live[r.id] = b
	return b, nil
}

// release gives up the box of a sandbox that never was.
func (f *Fleet) release(b *box) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, b.id)
}

// inTime makes a driver's sandbox within the time for that.
func inTime(ctx context.Context, t atoll.Timeouts, with func(context.Context) (atoll.Sandbox, error)) (atoll.Sandbox, error) {
	d := t.Create
	if d == 0 {
		d = atoll.DefaultCreateTimeout
	}
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %v", atoll.ErrTimeout, d))
		defer cancel()
	}
	return with(ctx)
}

// register writes a new row down as starting, within the owner's quota, and
// returns where its workspaces are.
func (f *Fleet) register(ctx context.Context, r *row, ft atoll.Features) (mounts []atoll.Mount, err error) {
	now := f.now()
	r.name, r.state = r.cfg.Name, atoll.Created
	r.created, r.active, r.changed = now, now, now
	r.holder, r.goal = f.instance.id, goalCreate
	if !ft.Persist || r.cfg.Lifecycle.Policy == atoll.PolicyOneshot {
		r.host = f.instance.id
	}
	err = f.store.write(ctx, func(tx *sql.Tx) error {
		if _, err := oneRow(ctx, tx, "id = ?", r.id); !errors.Is(err, atoll.ErrNotFound) {
			return errors.Join(err, fmt.Errorf("id %s: %w", r.id, atoll.ErrExists))
		}
		if r.pool == "" {
			if err := f.freeOf(ctx, tx, r.owner, r.name, ""); err != nil {
				return err
			}
			if err := f.admit(ctx, tx, r.owner, ft, &r.cfg); err != nil {
				return err
			}
		}
		if err := f.insert(ctx, tx, r); err != nil {
			return err
		}
		if len(r.cfg.Workspaces) > 0 {
			if mounts, err = f.mountsFor(ctx, tx, r.owner, r.id, r.cfg, carries(&ft)); err != nil {
				return err
			}
		}
		if err := f.takeDisk(ctx, tx, r); err != nil {
			return err
		}
		return f.transition(ctx, tx, r, atoll.Starting)
	})
	return mounts, err
}

// acknowledge makes a new sandbox one that is there.
func (f *Fleet) acknowledge(ctx context.Context, r row) (row, error) {
	return f.change(ctx, r.id, func(tx *sql.Tx, r *row) error {
		r.holder, r.goal = "", ""
		r.started, r.active = f.now(), f.now()
		if err := f.loaded(ctx, tx, r); err != nil {
			return err
		}
		return f.transition(ctx, tx, r, atoll.Running)
	})
}

// specOf is what the driver is asked for: secrets are part of the environment.
func specOf(r *row, mounts []atoll.Mount) atoll.Spec {
	spec := r.cfg.Spec
	spec.ID, spec.Name = r.id, r.name
	spec.Labels = maps.Clone(spec.Labels)
	spec.Env = slices.Concat(spec.Env, secretsOf(&r.cfg))
	spec.Network = networkOf(&r.cfg)
	spec.Mounts = slices.Concat(spec.Mounts, mounts)
	if r.disk != "" {
		m := *spec.Machine
		m.Disk, spec.Machine = r.disk, &m
	}
	for _, w := range r.cfg.Workspaces {
		spec.Dirs = append(spec.Dirs, w.At())
	}
	for _, m := range r.bring {
		spec.Dirs = append(spec.Dirs, m.Target)
	}
	if r.pool == "" {
		spec.Owner = r.owner
	} else {
		spec.Labels = merge(spec.Labels, map[string]string{atoll.PoolLabel: r.pool})
		spec.Dirs = append(spec.Dirs, poolDirs...)
	}
	return spec
}

// secretsOf returns the secrets as environment variables, but for those that
// only the gate gets.
func secretsOf(cfg *atoll.Config) []string {
	env := make([]string, 0, len(cfg.Secrets))
	outside := gated(cfg)
	for _, k := range slices.Sorted(maps.Keys(cfg.Secrets)) {
		if !outside[k] {
			env = append(env, k+"="+cfg.Secrets[k])
		}
	}
	return env
}

// Fork makes a sandbox of the same owner that starts as this one is now, or was
// at a snapshot. Of spec, the name, labels, environment and limits count where
// they are set.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	if err := s.a.mayCreate("fork", &atoll.Config{Spec: spec}); err != nil {
		return nil, err
	}
	if err := s.mayHave("fork"); err != nil {
		return nil, s.fail("fork", err)
	}
	noted := s.audited("fork", snapshot)
	r, err := s.fork(ctx, snapshot, spec)
	noted(err)
	if err != nil {
		return nil, s.fail("fork", err)
	}
	made := s.a.handle(r)
	made.own = s.own
	return made, nil
}

func (s *Sandbox) fork(ctx context.Context, snapshot string, spec atoll.Spec) (row, error) {
	if err := errors.Join(spec.Check(), ownOfFork(&spec)); err != nil {
		return row{}, err
	}
	ctx, leave, err := s.f.operate(ctx)
	if err != nil {
		return row{}, err
	}
	defer leave()
	ctx, done, err := s.use(ctx, "fork")
	if err != nil {
		return row{}, err
	}
	defer func() { done(err) }()
	from, err := able[atoll.Forker](s)
	if err != nil {
		return row{}, err
	}
	parent := s.b.known()
	cfg := inherit(parent.cfg, spec)
	if err = cfg.Check(); err != nil { // both together may be too much
		return row{}, err
	}
	r, err := s.f.raise(ctx, row{owner: parent.owner, cfg: cfg, env: parent.env, closed: parent.closed}, func(ctx context.Context, _ *box, all atoll.Spec) (atoll.Sandbox, error) {
		// what is not set, the driver takes from the first
		own := atoll.Spec{ID: all.ID, Name: all.Name, Labels: all.Labels, Env: spec.Env, Limits: all.Limits, Progress: all.Progress}
		return from.Fork(ctx, snapshot, own)
	})
	return r, reason(ctx, err)
}

// ownOfFork refuses what a fork can't have of its own: the driver would obey it,
// and the registry not know.
func ownOfFork(spec *atoll.Spec) error {
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
		{"machine", spec.Machine != nil},
		{"pod", spec.Pod != nil},
	} {
		if f.set {
			err := fmt.Errorf("%w: %s: a fork has that of the sandbox that it is made of", atoll.ErrInvalid, f.field)
			errs = append(errs, &atoll.FieldError{Field: f.field, Err: err})
		}
	}
	return errors.Join(errs...)
}

// inherit is the configuration of a fork. Its name and labels are its own.
func inherit(cfg atoll.Config, spec atoll.Spec) atoll.Config {
	cfg.ID, cfg.Name, cfg.Labels, cfg.Pool = spec.ID, spec.Name, spec.Labels, ""
	cfg.Env = slices.Concat(cfg.Env, spec.Env)
	cfg.Prepare, cfg.Project = nil, nil // they were done in the first
	if cfg.Machine != nil && cfg.Machine.Disk != "" {
		m := *cfg.Machine
		m.Disk, cfg.Machine = "", &m // its copy is no disk that somebody keeps
	}
	l := &cfg.Limits
	take(&l.CPU, spec.Limits.CPU)
	take(&l.Memory, spec.Limits.Memory)
	take(&l.PIDs, spec.Limits.PIDs)
	take(&l.Disk, spec.Limits.Disk)
	take(&l.FileSize, spec.Limits.FileSize)
	take(&l.Files, spec.Limits.Files)
	return cfg
}

// take sets what is given.
func take[T int | int64 | float64](v *T, given T) {
	if given != 0 {
		*v = given
	}
}
