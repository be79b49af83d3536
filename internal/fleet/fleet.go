// Package fleet manages sandboxes: their owners, states, lifetimes, quotas and workspaces. It
// decides who may do what and when; drivers do it.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/atoll-sandbox/atoll/internal/fleet/member"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
	"github.com/atoll-sandbox/atoll/internal/fleet/webhook"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
	"github.com/atoll-sandbox/atoll/internal/state/diskreserve"
)

// Options configure a Fleet.
type Options struct {
	// Home is the directory of the registry and the workspaces. Any number of processes may share
	// it.
	Home string

	// Shared is the directory of the workspaces, which all servers of a shared registry must see;
	// empty: Home. It is created if it is missing.
	Shared string

	// Registry is the address of a PostgreSQL database that several servers share, postgres://…;
	// empty: a file in Home. With a shared registry every driver must be a SharedDriver, whose
	// sandboxes all servers can open, and Shared must be one directory for all servers if they use
	// workspaces.
	Registry string

	Drivers []atoll.Driver
	Default string // driver of a Config that names none; empty: the first

	Quota     atoll.Quota // of owners without a quota of their own; zero fields: no limit
	Retention Retention

	// OwnerDisk is the quota of disk of owners besides Local, where neither they nor Quota have one;
	// 0: no limit.
	OwnerDisk int64

	// Rescue is called with the driver's sandbox before an expired sandbox is stopped or
	// destroyed, to save the work in it. If it fails, the sandbox is stopped instead of destroyed,
	// and Rescue is tried again later. Calls may be concurrent. Nil: there is nothing to save.
	Rescue func(ctx context.Context, info atoll.Info, sb atoll.Sandbox) error

	// Keys are the master keys with which the secrets in the registry are encrypted. All servers of a registry need
	// the same. Zero: they are stored as plain text.
	Keys keyring.Options

	// SecretProviders resolve secrets of a Config that are references.
	SecretProviders map[string]*secretref.Provider

	// Issuer issues identity tokens of sandboxes. It needs Keys. Zero: there are none.
	Issuer issuer.Options

	// Archive configures where archived sandboxes are.
	Archive ArchiveOptions

	// Webhooks configures how messages are sent to webhooks.
	Webhooks webhook.Options

	// UsageInterval is the time between two samples of the resource usage of each running sandbox, which Run
	// takes; 0: 10 seconds; negative: none.
	UsageInterval time.Duration

	Log *slog.Logger     // nil: no log
	Now func() time.Time // nil: the clock of this host, or of the registry

	hostClock     func() time.Time  // the clock of this host; nil: time.Now
	lease         time.Duration     // see member.LeaseOptions; 0: member.DefaultLease
	oneHost       bool              // all servers of a shared registry are on this host, so that every driver is shared
	onArchiveStep func(step string) // called after each step of archiving; nil: nothing
	tidyTimeout   time.Duration     // see tidyAbandoned; 0: tidyTimeout
}

// Retention configures when unused workspaces are removed, and how long records are kept. A zero
// time is the default, a negative one for ever. Limits of their number hold in any case.
type Retention struct {
	Keep time.Duration // of workspaces, since the last use; default 7 days
	Cron string        // when to prune workspaces: five cron fields, local time; empty: "0 3 * * *"

	Events     time.Duration // default 7 days
	Audit      time.Duration // default 90 days
	Deliveries time.Duration // of webhooks that were given up; default 30 days
	Tokens     time.Duration // of tokens that were revoked or have expired; default 30 days
	Usage      time.Duration // of the model usage of chats and turns, since the last request; default 90 days
}

// withDefaults returns the retention with the default times.
func (r Retention) withDefaults() Retention {
	r.Keep = cmp.Or(r.Keep, defaultKeep)
	r.Events = cmp.Or(r.Events, event.MaxAge)
	r.Audit = cmp.Or(r.Audit, auditRetention)
	r.Deliveries = cmp.Or(r.Deliveries, deadRetention)
	r.Tokens = cmp.Or(r.Tokens, tokenRetention)
	r.Usage = cmp.Or(r.Usage, usageRetention)
	return r
}

// Fleet manages the sandboxes of a host, or of all servers that share a registry. Its methods may
// be called concurrently.
type Fleet struct {
	opts          Options
	log           *slog.Logger
	registry      *registry.Store
	keyring       *keyring.Keyring     // encrypts the secrets in the registry
	references    *secretref.Resolver  // of secrets that are elsewhere
	keySetMu      sync.Mutex           // held while the public keys of the issuer are read
	keySet        *jose.JSONWebKeySet  // guarded by keySetMu; nil: not read yet
	keySetRead    time.Time            // guarded by keySetMu
	reserve       *diskreserve.Reserve // space for calls that free some
	member        member.Member
	drivers       []*driverState
	workspaces    *workspace.Store
	onceSteps     onceStepTable // prepare steps that are done once
	commandCounts commandCounter
	identities    identityTokens
	spending      *UsageStore
	usage         usageTable
	comparisons   *comparisonSlots
	archivings    chan struct{} // has one element for each sandbox that is being archived

	events      *event.Log
	recorder    *recorder     // writes audit and history in batches
	processes   *processTable // commands in sandboxes of this process
	tokenLookup tokenFinder   // finds the token of a secret

	revocations revocations    // callbacks for revoked tokens
	reserved    *reservedLabel // nil: none

	operations        callTracker   // calls that change something, and Run
	dueChanged        chan struct{} // notified when the next due time has changed
	poolsChanged      chan struct{} // notified when a pool has changed
	sandboxesChanged  chan struct{} // notified when a sandbox has changed
	webhooksChanged   chan struct{} // notified when a webhook has changed
	deliveriesChanged chan struct{} // notified when a delivery may be due
	callsChanged      chan struct{} // notified when a call has begun or ended
	registryBack      chan struct{} // notified when the registry answers again: changes of this process may be unrecorded
	keeperStop        chan struct{} // closed by Close, last: ends the keeper
	keeperDone        chan struct{} // closed by the keeper
	activeCalls       atomic.Int64  // calls in sandboxes
	nextReap          atomic.Int64  // when the reaper runs next, if this process leads
	clockOffset       atomic.Int64  // of the registry, ahead of this host
	refreshedAt       atomic.Int64  // when changes of other processes were last read

	closing  sync.Once
	closeErr error // set by closing

	refreshing sync.Mutex // held while changes of other processes are read

	mu          sync.Mutex
	live        map[string]*handle // sandboxes that this process has used; guarded by mu
	closeReason error              // why no call begins any more; guarded by mu
}

// Open opens the registry of a fleet, migrates it, and reconciles what processes that died have
// left half done.
func Open(ctx context.Context, opts Options) (*Fleet, error) {
	f, err := open(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return f, nil
}

func open(ctx context.Context, opts Options) (_ *Fleet, err error) {
	opts.UsageInterval = cmp.Or(opts.UsageInterval, usageInterval)
	f := &Fleet{
		opts: opts, log: opts.Log, references: &secretref.Resolver{Providers: opts.SecretProviders, Now: opts.Now}, live: make(map[string]*handle),
		dueChanged: make(chan struct{}, 1), poolsChanged: make(chan struct{}, 1), sandboxesChanged: make(chan struct{}, 1), webhooksChanged: make(chan struct{}, 1), comparisons: newComparisonSlots(), archivings: make(chan struct{}, maxArchivings), deliveriesChanged: make(chan struct{}, 1), callsChanged: make(chan struct{}, 1), registryBack: make(chan struct{}, 1), keeperStop: make(chan struct{}), keeperDone: make(chan struct{}),
	}
	f.spending = &UsageStore{f: f}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if err := f.checkOptions(); err != nil {
		return nil, err
	}
	if err := f.openParts(ctx); err != nil {
		return nil, errors.Join(err, f.closeParts(ctx))
	}
	if r := f.Rebuilt(); r != nil {
		f.log.Error("the registry was damaged and is rebuilt: sandboxes and workspaces are found, tokens, quotas and owners are not", "damage", r.Damage, "backup", r.Backup)
	}
	if f.registry.Created {
		err = f.Reconcile(ctx)
		f.logError("workspaces", f.tidyWorkspaces(ctx))
	} else {
		err = f.reconcileDead(ctx)
		f.tidyAbandoned(ctx)
	}
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), f.closeParts(context.WithoutCancel(ctx)))
	}
	f.logError("reconcile", err) // a broken sandbox must not keep the others from their owners
	go f.runKeeper()
	return f, nil
}

// openParts opens the registry and the parts of the fleet in order. On error some are open.
func (f *Fleet) openParts(ctx context.Context) (err error) {
	if err := os.MkdirAll(f.opts.Home, 0o700); err != nil {
		return fmt.Errorf("home: %w", err)
	}
	if f.reserve, err = diskreserve.Open(f.opts.Home); err != nil {
		return err
	}
	if f.opts.Registry == "" {
		f.registry, err = registry.OpenSQLite(ctx, f.opts.Home, f.reserve)
	} else {
		f.registry, err = registry.OpenPostgres(ctx, f.opts.Registry)
	}
	if err != nil {
		return err
	}
	if f.keyring, err = keyring.Open(ctx, f.registry, f.opts.Keys); err != nil {
		return err
	}
	if err := f.checkIssuer(); err != nil {
		return err
	}
	err = f.reserve.Use(func() error {
		f.member, err = f.joinFleet(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.reencryptSecrets(ctx); err != nil {
		return err
	}
	f.events = event.NewLog(f.registry, f.now, f.opts.Retention.Events)
	f.registry.OnCommit = f.events.NotifyCommit
	f.recorder = newRecorder(f.registry, f.now, f.log, f.opts.Retention.Audit)
	f.processes = newProcesses(f.now)
	return f.reserve.Use(func() error {
		f.workspaces, err = workspace.OpenStore(cmp.Or(f.opts.Shared, f.opts.Home))
		return err
	})
}

// Rebuilt describes the damaged registry that Open has replaced; nil: it was sound.
func (f *Fleet) Rebuilt() *registry.Rebuilt { return f.registry.Rebuilt }

// CheckSpace reports whether the disk of the home is full, as an ErrQuota: what frees space still
// works, but nothing can be created.
func (f *Fleet) CheckSpace() error { return f.reserve.Check() }

// joinFleet makes this process known to the others.
func (f *Fleet) joinFleet(ctx context.Context) (member.Member, error) {
	if f.registry.Postgres == nil {
		m, err := member.JoinHome(f.opts.Home)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	return member.JoinRegistry(ctx, member.LeaseOptions{
		Registry: f.registry.Postgres, Lease: f.opts.lease, Log: f.log, Now: f.hostNow, OnClock: f.setClock,
		OnDue: func() { notify(f.dueChanged) }, OnRestored: func() { notify(f.registryBack) },
	})
}

// setClock sets the fleet's clock to the registry's, unless the change lies below the precision.
func (f *Fleet) setClock(ahead, precision time.Duration) {
	if d := ahead - time.Duration(f.clockOffset.Load()); d.Abs() > precision {
		f.clockOffset.Store(int64(ahead))
	}
}

// closeParts closes what openParts has opened.
func (f *Fleet) closeParts(ctx context.Context) error {
	var errs []error
	if f.recorder != nil {
		errs = append(errs, f.events.Close(ctx), f.processes.close(ctx), f.recorder.close(ctx))
	}
	if f.workspaces != nil {
		errs = append(errs, f.workspaces.Close())
	}
	if f.member != nil {
		errs = append(errs, f.member.Leave())
	}
	if f.registry != nil {
		errs = append(errs, f.registry.Close())
	}
	return errors.Join(errs...)
}

// checkOptions checks the options and sets defaults.
func (f *Fleet) checkOptions() error {
	if f.opts.Home == "" || !filepath.IsAbs(f.opts.Home) {
		return fmt.Errorf("%w: home %q: must be an absolute path", atoll.ErrInvalid, f.opts.Home)
	}
	if f.opts.Shared != "" && !filepath.IsAbs(f.opts.Shared) {
		return fmt.Errorf("%w: shared directory %q: must be an absolute path", atoll.ErrInvalid, f.opts.Shared)
	}
	if len(f.opts.Drivers) == 0 {
		return fmt.Errorf("%w: a fleet needs a driver", atoll.ErrInvalid)
	}
	for _, d := range f.opts.Drivers {
		if f.findDriver(d.Name()) != nil {
			return fmt.Errorf("%w: two drivers have the name %s", atoll.ErrInvalid, d.Name())
		}
		if f.opts.Registry != "" && !f.opts.oneHost && !atoll.IsShared(d) {
			return fmt.Errorf("%w: driver %s: its sandboxes are on one host, which the other servers of the registry can't reach: use another driver, or no shared registry", atoll.ErrUnsupported, d.Name())
		}
		f.drivers = append(f.drivers, &driverState{impl: d, probing: make(chan struct{}, 1)})
	}
	if f.opts.Default == "" {
		f.opts.Default = f.drivers[0].impl.Name()
	}
	if f.findDriver(f.opts.Default) == nil {
		return fmt.Errorf("%w: default driver %q: must be one of %v", atoll.ErrInvalid, f.opts.Default, f.driverNames())
	}
	if f.opts.Archive.Store == nil {
		o := f.opts.Archive.Storage
		o.Resolve = f.references.ResolveSetting
		s, err := objectstore.Open(o)
		if err != nil {
			return fmt.Errorf("archive storage: %w", err)
		}
		f.opts.Archive.Store = s
	}
	for _, b := range f.drivers {
		b.hasStorage = f.opts.Archive.Store != nil
	}
	f.opts.Retention = f.opts.Retention.withDefaults()
	_, err := f.opts.Retention.parseSchedule()
	return err
}

// Close ends this process's part in the fleet. Sandboxes go on if their drivers can; commands of
// this process end. A second Close returns the result of the first.
func (f *Fleet) Close(ctx context.Context) error {
	f.closing.Do(func() { f.closeErr = f.close(ctx) })
	return f.closeErr
}

func (f *Fleet) close(ctx context.Context) error {
	reason := fmt.Errorf("%w: the fleet is closing", atoll.ErrUnavailable)
	f.operations.close(reason)
	f.operations.cancelAll(reason)
	errs := []error{f.operations.wait(ctx)}
	f.mu.Lock()
	f.closeReason = reason
	f.mu.Unlock()
	for _, b := range f.handles() {
		b.calls.close(reason)
		b.calls.cancelAll(reason)
		errs = append(errs, b.calls.wait(ctx))
	}
	errs = append(errs, f.processes.close(ctx))
	close(f.keeperStop)
	<-f.keeperDone
	ctx = context.WithoutCancel(ctx) // the rest takes only as long as the disk
	return errors.Join(append(errs, f.reconcileClosing(ctx), f.closeParts(ctx))...)
}

// now returns the present time in UTC, by the registry's clock if it is shared.
func (f *Fleet) now() time.Time {
	if f.opts.Now != nil {
		return f.opts.Now().UTC()
	}
	return f.hostNow().Add(time.Duration(f.clockOffset.Load())).UTC()
}

// hostNow returns the time of this host's clock.
func (f *Fleet) hostNow() time.Time {
	if f.opts.hostClock != nil {
		return f.opts.hostClock()
	}
	return time.Now()
}

// beginOperation begins a call that changes something. Its context ends when the fleet is closed.
func (f *Fleet) beginOperation(ctx context.Context) (context.Context, func(), error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	ctx, v, err := f.operations.admit(ctx)
	if err != nil {
		return nil, nil, err
	}
	return ctx, func() { f.operations.release(v) }, nil
}

// driverState is a driver with its features, probed once.
type driverState struct {
	impl    atoll.Driver
	probing chan struct{} // holds a token while the features are probed

	hasStorage bool // the fleet has an archive storage

	mu        sync.Mutex
	probed    bool // guarded by mu, as all below
	features  atoll.Features
	failedAt  time.Time // when the last probe failed
	err       error     // the error of that probe
	checkedAt time.Time // when health checks listed the sandboxes last
	reported  bool      // a failed probe was logged
}

// probeAgain is how long the error of a failed probe is returned without probing again.
const probeAgain = 2 * time.Second

// probe returns the features of the driver. They are cached; after an error the driver is probed
// again.
func (b *driverState) probe(ctx context.Context) (atoll.Features, error) {
	if ft, ok := b.cachedFeatures(); ok {
		return ft, nil
	}
	select {
	case b.probing <- struct{}{}:
		defer func() { <-b.probing }()
	case <-ctx.Done():
		return atoll.Features{}, context.Cause(ctx)
	}
	if ft, ok := b.cachedFeatures(); ok {
		return ft, nil
	}
	b.mu.Lock()
	err := b.err
	if time.Since(b.failedAt) > probeAgain {
		err = nil
	}
	b.mu.Unlock()
	if err != nil {
		return atoll.Features{}, err
	}
	ft, err := b.impl.Probe(ctx)
	if err != nil {
		err = fmt.Errorf("driver %s: %w", b.impl.Name(), err)
		if ctx.Err() == nil {
			b.mu.Lock()
			b.failedAt, b.err = time.Now(), err
			b.mu.Unlock()
		}
		return ft, err
	}
	ft.History = true // the fleet records it for every driver
	ft.Archive = b.hasStorage && b.canArchive()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probed, b.features = true, ft
	return ft, nil
}

func (b *driverState) cachedFeatures() (atoll.Features, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.features, b.probed
}

// findDriver returns a driver by name, or nil.
func (f *Fleet) findDriver(name string) *driverState {
	for _, b := range f.drivers {
		if b.impl.Name() == name {
			return b
		}
	}
	return nil
}

func (f *Fleet) driverNames() []string {
	names := make([]string, len(f.drivers))
	for i, b := range f.drivers {
		names[i] = b.impl.Name()
	}
	return names
}

// Drivers returns all drivers with their features, or the errors of their probes.
func (f *Fleet) Drivers(ctx context.Context) []DriverInfo {
	list := make([]DriverInfo, len(f.drivers))
	var wg sync.WaitGroup
	for i, b := range f.drivers {
		list[i] = DriverInfo{Name: b.impl.Name(), Default: b.impl.Name() == f.opts.Default}
		wg.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, driverListTimeout, fmt.Errorf("%w: no answer after %v", atoll.ErrTimeout, driverListTimeout))
			defer cancel()
			if ft, err := b.probe(ctx); err != nil {
				list[i].Error = err.Error()
			} else {
				list[i].Features = &ft
			}
		})
	}
	wg.Wait()
	return list
}

// Caller is a user of the fleet with its rights.
type Caller struct {
	Owner    atoll.Owner
	Scopes   []atoll.Scope
	Token    string      // id of the token used; empty: none was needed
	Name     string      // of the token, or, of one that was given for a login, who logged in; empty: neither is known
	Provider string      // login provider or client certificate that the token was given for; empty: none
	Link     *atoll.Link // the only resource that the token gives access to; nil: everything that the scopes allow

	Sandbox string // the only sandbox that the caller's access key gives access to; empty: the caller has none
}

// LocalCaller returns the caller with all rights that uses this host without a token.
func LocalCaller() Caller {
	return Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost, atoll.ScopeAdmin}}
}

// Allows reports whether the caller has a scope, or one that includes it.
func (c *Caller) Allows(s atoll.Scope) bool {
	return slices.ContainsFunc(c.Scopes, func(has atoll.Scope) bool { return has.Includes(s) })
}

// hasScope reports whether the caller has a scope.
func (c *Caller) hasScope(s atoll.Scope) bool { return slices.Contains(c.Scopes, s) }

// Account is the fleet as one caller sees it: sandboxes of others are ErrNotFound, operations
// without the scope are ErrDenied.
type Account struct {
	f      *Fleet
	caller Caller
}

// Account returns the fleet as c sees it.
func (f *Fleet) Account(c Caller) *Account { return &Account{f: f, caller: c} }

// checkScope refuses, with an audit entry, an operation that the caller has no scope for, or that
// its link does not allow.
func (a *Account) checkScope(op string, s atoll.Scope) error {
	if err := errors.Join(a.checkLinkOp(op), a.checkAccessKeyOp(op)); err != nil {
		return err
	}
	if a.caller.Allows(s) {
		return nil
	}
	a.startAudit(op, "", "needs the scope "+string(s))(atoll.ErrDenied)
	return &atoll.Error{Op: op, Err: &scopeError{s}}
}

// findSandbox returns a sandbox of the caller by id or name, and with ScopeAdmin those of others
// by id. A sandbox of another owner gives the same error as one that does not exist.
func (a *Account) findSandbox(ctx context.Context, key string) (row, error) {
	r, err := a.findAnySandbox(ctx, key)
	if err == nil && !a.caller.canReach(r.id) {
		return row{}, atoll.ErrNotFound
	}
	return r, err
}

func (a *Account) findAnySandbox(ctx context.Context, key string) (row, error) {
	o := a.caller.Owner
	r, err := a.f.loadKnownRow(ctx, key)
	switch {
	case err == nil && (r.owner == o && r.pool == "" || a.caller.hasScope(atoll.ScopeAdmin)):
		return r, nil
	case err == nil || errors.Is(err, atoll.ErrNotFound):
		return a.f.queryRow(ctx, a.f.registry.DB, "app = ? and user = ? and name = ? and name <> '' and pool = '' and state <> 'destroyed'", o.App, o.User, key)
	}
	return r, err
}

// loadKnownRow returns the row of a sandbox that is not destroyed. It reads only the revision of a row that
// this process knows.
func (f *Fleet) loadKnownRow(ctx context.Context, id string) (row, error) {
	if b := f.findHandle(id); b != nil {
		revision, err := f.registry.RowRevision(ctx, id)
		if err != nil {
			return row{}, err
		}
		if r := b.cachedRow(); r.revision == revision && r.state != atoll.Destroyed {
			return r, nil
		}
	}
	return f.queryRow(ctx, f.registry.DB, "id = ? and state <> 'destroyed'", id)
}

// CheckRegistry reports whether a text can be the address of a registry that
// servers share; see [Options].
func CheckRegistry(address string) error { return registry.CheckAddress(address) }
