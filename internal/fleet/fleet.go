// Package fleet keeps all sandboxes of a host: whose they are, in which state,
// for how long, within which quota, on which workspaces. It says who and when;
// drivers say how.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Options say what a fleet consists of.
type Options struct {
	// Home is the directory of the registry and of the workspaces. Any number
	// of processes may share it.
	Home string

	// Registry is the address of a database in PostgreSQL that several servers
	// share, postgres://…; empty: a file in Home. Then only drivers can be used
	// whose sandboxes all servers reach, which Shared names; and the directory
	// workspaces in Home must be one that all servers have.
	Registry string
	Shared   []string

	Drivers []atoll.Driver
	Default string // name of the driver of a Config that names none; empty: the first

	Quota     atoll.Quota // of an owner who has none of his own; zero fields: no limit
	Retention Retention

	// Rescue is called before a sandbox is ended since its time has come, with the
	// sandbox of its driver: whoever has work in it saves that. Where it fails the
	// sandbox is stopped instead of removed, and it is tried again later. Several
	// calls may run at once; nil: there is nothing to save.
	Rescue func(ctx context.Context, info atoll.Info, sb atoll.Sandbox) error

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: the clock of this host, or of the Registry

	host   func() time.Time // the clock of this host; nil: time.Now
	lease  time.Duration    // see member; 0: usualLease
	settle time.Duration    // see settleShelf; 0: settleTime
}

// Retention says which workspaces are removed, and when.
type Retention struct {
	Keep time.Duration // after the last use; 0: 7 days; negative: for ever
	Cron string        // when to look, five fields, local time; empty: "0 3 * * *"
}

// Fleet is all sandboxes of a host. Its methods may be called at once from many
// goroutines.
type Fleet struct {
	opts     Options
	log      *slog.Logger
	store    *store
	instance *presence
	bays     []*bay // one for each driver
	shelf    *shelf // workspaces
	rites    rites  // steps that are done once
	commands counter
	spending *Spending

	feed      *feed      // wakes who follows events
	ledger    *ledger    // audit and history on their way to the registry
	processes *processes // commands of this process's sandboxes
	bearers   bearers    // who bears which secret

	revocations revocations // who wants to know of them

	ops     turnstile     // calls that change something, and Run
	wake    chan struct{} // the next due time has changed
	refill  chan struct{} // a pool has changed
	stirred chan struct{} // a sandbox has changed
	stir    chan struct{} // a call has begun or ended
	mend    chan struct{} // the registry is back: what this process holds may be half done
	end     chan struct{} // closed by Close, last: ends the keeper
	ended   chan struct{} // closed by the keeper
	active  atomic.Int64  // calls under way in sandboxes
	alarm   atomic.Int64  // when the reaper looks next, if this process leads
	ahead   atomic.Int64  // how much further the registry's clock is than this host's
	seen    atomic.Int64  // when others' changes were last looked for

	closing sync.Once
	closed  error // set by closing

	look sync.Mutex // held while others' changes are looked for

	mu   sync.Mutex
	live map[string]*box // sandboxes that this process works with; guarded by mu
	over error           // why no call begins any more; guarded by mu
}

// Open opens the registry of a fleet, brings it up to date, and settles what
// processes that died have left half done.
func Open(ctx context.Context, opts Options) (*Fleet, error) {
	f, err := open(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return f, nil
}

func open(ctx context.Context, opts Options) (_ *Fleet, err error) {
	f := &Fleet{
		opts: opts, log: opts.Log, live: make(map[string]*box),
		wake: make(chan struct{}, 1), refill: make(chan struct{}, 1), stirred: make(chan struct{}, 1), stir: make(chan struct{}, 1), mend: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
	}
	f.spending = &Spending{f: f}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if err := f.fill(); err != nil {
		return nil, err
	}
	if err := f.furnish(ctx); err != nil {
		return nil, errors.Join(err, f.dismantle(ctx))
	}
	if f.store.fresh {
		err = f.Reconcile(ctx)
		f.report("workspaces", f.tidyShelf(ctx))
	} else {
		err = f.settleDead(ctx)
		f.settleShelf(ctx)
	}
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), f.dismantle(context.WithoutCancel(ctx)))
	}
	f.report("settle", err) // what one sandbox lacks must not keep all others from their owners
	go f.keep()
	return f, nil
}

// furnish opens what the fleet consists of, as far as it can.
func (f *Fleet) furnish(ctx context.Context) (err error) {
	if f.opts.Registry == "" {
		f.store, err = openStore(ctx, f.opts.Home)
	} else {
		f.store, err = openShared(ctx, f.opts.Registry)
	}
	if err != nil {
		return err
	}
	if f.instance, err = f.join(ctx); err != nil {
		return err
	}
	f.feed = newFeed(f.store, f.now)
	f.store.committed = f.feed.committed
	f.ledger = newLedger(f.store, f.now, f.log)
	f.processes = newProcesses(f.now)
	f.shelf, err = openShelf(f.opts.Home)
	return err
}

// join makes this process known to the others.
func (f *Fleet) join(ctx context.Context) (*presence, error) {
	if f.store.shared != nil {
		m, err := newMember(ctx, f)
		if err != nil {
			return nil, err
		}
		return &presence{m.id, m}, nil
	}
	in, err := newInstance(f.opts.Home)
	if err != nil {
		return nil, err
	}
	return &presence{in.id, in}, nil
}

// dismantle closes what furnish has opened.
func (f *Fleet) dismantle(ctx context.Context) error {
	var errs []error
	if f.ledger != nil {
		errs = append(errs, f.feed.close(ctx), f.processes.close(ctx), f.ledger.close(ctx))
	}
	if f.shelf != nil {
		errs = append(errs, f.shelf.close())
	}
	if f.instance != nil {
		errs = append(errs, f.instance.end())
	}
	if f.store != nil {
		errs = append(errs, f.store.close())
	}
	return errors.Join(errs...)
}

// fill checks the options and completes them.
func (f *Fleet) fill() error {
	if f.opts.Home == "" || !filepath.IsAbs(f.opts.Home) {
		return fmt.Errorf("%w: home %q: must be an absolute path", atoll.ErrInvalid, f.opts.Home)
	}
	if len(f.opts.Drivers) == 0 {
		return fmt.Errorf("%w: a fleet needs a driver", atoll.ErrInvalid)
	}
	for _, d := range f.opts.Drivers {
		if f.bay(d.Name()) != nil {
			return fmt.Errorf("%w: two drivers are called %s", atoll.ErrInvalid, d.Name())
		}
		if f.opts.Registry != "" && !slices.Contains(f.opts.Shared, d.Name()) {
			return fmt.Errorf("%w: driver %s: its sandboxes are on one host, which other servers of the registry don't reach: use another driver, or no shared registry", atoll.ErrUnsupported, d.Name())
		}
		f.bays = append(f.bays, &bay{driver: d, turn: make(chan struct{}, 1)})
	}
	if f.opts.Default == "" {
		f.opts.Default = f.bays[0].driver.Name()
	}
	if f.bay(f.opts.Default) == nil {
		return fmt.Errorf("%w: default driver %q: must be one of %v", atoll.ErrInvalid, f.opts.Default, f.driverNames())
	}
	_, err := f.opts.Retention.timetable()
	return err
}

// Close ends this process's part in the fleet. Sandboxes go on as far as their
// drivers can; commands of this process end. A second time changes nothing.
func (f *Fleet) Close(ctx context.Context) error {
	f.closing.Do(func() { f.closed = f.close(ctx) })
	return f.closed
}

func (f *Fleet) close(ctx context.Context) error {
	reason := fmt.Errorf("%w: the fleet is closing", atoll.ErrUnavailable)
	f.ops.close(reason)
	f.ops.expel(reason)
	errs := []error{f.ops.wait(ctx)}
	f.mu.Lock()
	f.over = reason
	f.mu.Unlock()
	for _, b := range f.boxes() {
		b.calls.close(reason)
		b.calls.expel(reason)
		errs = append(errs, b.calls.wait(ctx))
	}
	errs = append(errs, f.processes.close(ctx))
	close(f.end)
	<-f.ended
	ctx = context.WithoutCancel(ctx) // what is left takes no longer than the disk
	return errors.Join(append(errs, f.retire(ctx), f.dismantle(ctx))...)
}

// now is the time.
func (f *Fleet) now() time.Time {
	if f.opts.Now != nil {
		return f.opts.Now().UTC()
	}
	return f.hostNow().Add(time.Duration(f.ahead.Load())).UTC()
}

// hostNow is the time of this host.
func (f *Fleet) hostNow() time.Time {
	if f.opts.host != nil {
		return f.opts.host()
	}
	return time.Now()
}

// operate begins a call that changes something: it ends with the fleet.
func (f *Fleet) operate(ctx context.Context) (context.Context, func(), error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	ctx, v, err := f.ops.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	return ctx, func() { f.ops.leave(v) }, nil
}

// bay is where the sandboxes of one driver are.
type bay struct {
	driver atoll.Driver
	turn   chan struct{} // holds a token while features are asked for

	mu       sync.Mutex
	known    bool // guarded by mu, as all below
	features atoll.Features
	tried    time.Time // when it was asked last, in vain
	err      error     // what it said
	looked   time.Time // when its list was compared last, by patrol
}

// probeAgain is how long a driver that can't work here is not asked again.
const probeAgain = 2 * time.Second

// probe returns what the driver does here; one that can't work is asked again
// the next time.
func (b *bay) probe(ctx context.Context) (atoll.Features, error) {
	if ft, ok := b.asked(); ok {
		return ft, nil
	}
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return atoll.Features{}, context.Cause(ctx)
	}
	if ft, ok := b.asked(); ok {
		return ft, nil
	}
	b.mu.Lock()
	err := b.err
	if time.Since(b.tried) > probeAgain {
		err = nil
	}
	b.mu.Unlock()
	if err != nil {
		return atoll.Features{}, err
	}
	ft, err := b.driver.Probe(ctx)
	if err != nil {
		err = fmt.Errorf("driver %s: %w", b.driver.Name(), err)
		if ctx.Err() == nil {
			b.mu.Lock()
			b.tried, b.err = time.Now(), err
			b.mu.Unlock()
		}
		return ft, err
	}
	ft.History = true // the fleet keeps it for all
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known, b.features = true, ft
	return ft, nil
}

func (b *bay) asked() (atoll.Features, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.features, b.known
}

// bay returns the driver of a name, or nil.
func (f *Fleet) bay(name string) *bay {
	for _, b := range f.bays {
		if b.driver.Name() == name {
			return b
		}
	}
	return nil
}

func (f *Fleet) driverNames() []string {
	names := make([]string, len(f.bays))
	for i, b := range f.bays {
		names[i] = b.driver.Name()
	}
	return names
}

// Drivers returns all drivers and what they do here.
func (f *Fleet) Drivers(ctx context.Context) []DriverInfo {
	list := make([]DriverInfo, len(f.bays))
	var wg sync.WaitGroup
	for i, b := range f.bays {
		list[i] = DriverInfo{Name: b.driver.Name(), Default: b.driver.Name() == f.opts.Default}
		wg.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, surveyTime, fmt.Errorf("%w: it has not answered for %v", atoll.ErrTimeout, surveyTime))
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

// Caller is somebody who uses a fleet.
type Caller struct {
	Owner  atoll.Owner
	Scopes []atoll.Scope
	Token  string      // the id of the token shown; empty: none was needed
	Link   *atoll.Link // what that token is good for, and nothing else; nil: all that the scopes allow
}

// LocalCaller is who works on this machine, without a token.
func LocalCaller() Caller {
	return Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost, atoll.ScopeAdmin}}
}

// can reports whether the caller has a scope.
func (c *Caller) can(s atoll.Scope) bool { return slices.Contains(c.Scopes, s) }

// Account is the fleet as one caller sees it: what belongs to others is
// ErrNotFound, what the caller's scopes don't allow is ErrDenied.
type Account struct {
	f      *Fleet
	caller Caller
}

// For returns the fleet as c sees it.
func (f *Fleet) For(c Caller) *Account { return &Account{f: f, caller: c} }

// need refuses an operation that the caller has no scope for, or that his link
// is not good for. That is noted in
// the audit.
func (a *Account) need(op string, s atoll.Scope) error {
	if err := a.mayLink(op); err != nil {
		return err
	}
	if a.caller.can(s) || s == atoll.ScopeRead && a.caller.can(atoll.ScopeRun) {
		return nil
	}
	a.audited(op, "", "needs the scope "+string(s))(atoll.ErrDenied)
	return &atoll.Error{Op: op, Err: &scopeless{s}}
}

// find returns a sandbox of the caller by id or name; with ScopeAdmin by id
// those of others too. What there is not, and what is not the caller's, is the
// same error.
func (a *Account) find(ctx context.Context, key string) (row, error) {
	r, err := a.findAny(ctx, key)
	if err == nil && !a.caller.reaches(r.id) {
		return row{}, atoll.ErrNotFound
	}
	return r, err
}

func (a *Account) findAny(ctx context.Context, key string) (row, error) {
	o := a.caller.Owner
	r, err := oneRow(ctx, a.f.store.db, "id = ? and state <> 'destroyed'", key)
	switch {
	case err == nil && (r.owner == o && r.pool == "" || a.caller.can(atoll.ScopeAdmin)):
		return r, nil
	case err == nil || errors.Is(err, atoll.ErrNotFound):
		return oneRow(ctx, a.f.store.db, "app = ? and user = ? and name = ? and name <> '' and pool = '' and state <> 'destroyed'", o.App, o.User, key)
	}
	return r, err
}
