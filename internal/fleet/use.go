package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// Sandbox is a sandbox of the fleet. It keeps the fleet's laws: states, quotas,
// owners, history.
type Sandbox struct {
	a *Account
	f *Fleet
	b *box

	own bool // it is the turn's that it was made for
}

var (
	_ atoll.Sandbox        = (*Sandbox)(nil)
	_ atoll.DirFS          = (*Sandbox)(nil)
	_ atoll.Stopper        = (*Sandbox)(nil)
	_ atoll.Pauser         = (*Sandbox)(nil)
	_ atoll.Snapshotter    = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper = (*Sandbox)(nil)
	_ atoll.Forker         = (*Sandbox)(nil)
	_ atoll.Dialer         = (*Sandbox)(nil)
	_ atoll.Listener       = (*Sandbox)(nil)
	_ atoll.Meter          = (*Sandbox)(nil)
	_ atoll.Historian      = (*Sandbox)(nil)
	_ atoll.Watcher        = (*Sandbox)(nil)
	_ atoll.Gated          = (*Sandbox)(nil)
	_ atoll.Detacher       = (*Sandbox)(nil)
	_ atoll.Notifier       = (*Sandbox)(nil)
	_ atoll.Porter         = (*Sandbox)(nil)
	_ atoll.Terminals      = (*Sandbox)(nil)
	_ atoll.TerminalUser   = (*Sandbox)(nil)
	_ atoll.Fresher        = (*Sandbox)(nil)
	_ atoll.DiskKeeper     = (*Sandbox)(nil)
	_ atoll.Chooser        = (*Sandbox)(nil)
)

// demand is what an operation asks of the caller and of the sandbox.
type demand struct {
	scope   atoll.Scope
	command bool // it is a command: the sandbox must run, and the quota of processes counts it
	runs    bool // the sandbox must run
	looks   bool // it only looks: the sandbox counts as idle
}

// demands has the operations whose demands are not those of files that are
// changed: ScopeRun, and that the driver agrees.
var demands = map[string]demand{
	"exec":           {scope: atoll.ScopeRun, command: true, runs: true},
	"dial":           {scope: atoll.ScopeRun, runs: true},
	"listen":         {scope: atoll.ScopeRun, runs: true},
	"watch":          {scope: atoll.ScopeRead},
	"read":           {scope: atoll.ScopeRead},
	"stat":           {scope: atoll.ScopeRead},
	"list":           {scope: atoll.ScopeRead},
	"export":         {scope: atoll.ScopeRead},
	"stats":          {scope: atoll.ScopeRead, looks: true},
	"list snapshots": {scope: atoll.ScopeRead, looks: true},
	"list processes": {scope: atoll.ScopeRead, looks: true},
	"notices":        {scope: atoll.ScopeRead, runs: true, looks: true},
	"ports":          {scope: atoll.ScopeRead, runs: true, looks: true},
	"network log":    {scope: atoll.ScopeRead, looks: true},
	"network test":   {scope: atoll.ScopeRead, looks: true},

	"open terminal":    {scope: atoll.ScopeRun, runs: true},
	"close terminal":   {scope: atoll.ScopeRun, runs: true},
	"attach terminal":  {scope: atoll.ScopeRun, runs: true},
	"send to terminal": {scope: atoll.ScopeRun, runs: true},
	"watch terminal":   {scope: atoll.ScopeRead, runs: true, looks: true},
	"read terminal":    {scope: atoll.ScopeRead, runs: true, looks: true},
	"list terminals":   {scope: atoll.ScopeRead, runs: true, looks: true},
}

func demandOf(op string) demand {
	if d, ok := demands[op]; ok {
		return d
	}
	return demand{scope: atoll.ScopeRun}
}

// fail wraps an error of an operation on the sandbox.
func (s *Sandbox) fail(op string, err error) error { return failed(op, s.b.id, err) }

func failed(op, id string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) && e.ID == id {
		return err
	}
	if e, ok := err.(*atoll.Error); ok { //nolint:errorlint // only the outermost is replaced
		err = e.Err
	}
	return &atoll.Error{Op: op, ID: id, Err: err}
}

// need refuses an operation that the caller has no scope for.
func (s *Sandbox) need(op string, scope atoll.Scope) error {
	if err := s.a.need(op, scope); err != nil {
		return err
	}
	if s.own || slices.Contains(outside, op) {
		return nil
	}
	return s.a.mayEnter(op, s.b.known())
}

// outside are the operations on a sandbox that show and change nothing in it.
var outside = []string{"info", "status", "stats", "stop", "destroy"}

// mayEnter refuses an operation on a closed sandbox.
func (a *Account) mayEnter(op string, r row) error {
	if !r.closed || a.caller.can(atoll.ScopeHost) {
		return nil
	}
	a.audited(op, r.id, "it is closed")(atoll.ErrDenied)
	return &atoll.Error{Op: op, ID: r.id, Err: errClosed}
}

// errClosed refuses a sandbox that has what its owner could not have asked for.
var errClosed = fmt.Errorf("%w: it was made for a turn, with mounts, networks or secrets of whoever runs this server: others than the turn need the scope %q", atoll.ErrDenied, atoll.ScopeHost)

// mayHave refuses to make another of a sandbox, or to bring back what it was, to
// those who could not have asked for what it has.
func (s *Sandbox) mayHave(op string) error {
	if s.own {
		return nil
	}
	cfg := inherit(s.b.known().cfg, atoll.Spec{})
	return s.a.mayCreate(op, &cfg)
}

// inner returns the driver's sandbox, of a call that use has begun.
func (s *Sandbox) inner() atoll.Sandbox {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.sb == nil {
		return absent{id: s.b.id}
	}
	return s.b.sb
}

// use begins a call: the caller may, the state allows it, and it counts as use
// of the sandbox until done is called with the call's error, at least once. The
// context ends when the sandbox is stopped or destroyed, or the fleet closed.
func (s *Sandbox) use(ctx context.Context, op string) (context.Context, func(error), error) {
	d := demandOf(op)
	if err := s.need(op, d.scope); err != nil {
		return nil, nil, err
	}
	ctx, done, err := s.begin(ctx, d)
	if err != nil {
		return nil, nil, s.fail(op, err)
	}
	return ctx, done, nil
}

func (s *Sandbox) begin(ctx context.Context, d demand) (context.Context, func(error), error) {
	f, b := s.f, s.b
	if err := context.Cause(ctx); err != nil {
		return nil, nil, late(err)
	}
	if err := f.catchUp(ctx); err != nil {
		return nil, nil, err
	}
	leave := func() {}
	if d.command {
		o := b.owner()
		if err := f.countCommand(ctx, o); err != nil {
			return nil, nil, err
		}
		b.commands.Add(1)
		leave = func() {
			b.commands.Add(-1)
			f.commands.sub(o)
		}
	}
	err := b.refuse(d)
	if err == nil {
		_, err = b.inner(ctx)
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	ctx, v, err := b.calls.enter(ctx)
	if err != nil {
		leave()
		return nil, nil, err
	}
	if f.active.Add(1) == 1 {
		poke(f.stir)
	}
	return ctx, func(err error) {
		if b.calls.leave(v) {
			leave()
			f.used(b, d)
			if d.command && (errors.Is(err, atoll.ErrNotFound) || errors.Is(err, atoll.ErrUnavailable)) {
				f.doubt(ctx, b)
			}
		}
	}, nil
}

// doubt asks the driver whether a sandbox is still there, if nobody knows why a
// command said that it is not.
func (f *Fleet) doubt(ctx context.Context, b *box) {
	r := b.known()
	if r.state != atoll.Running || r.goal != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
	defer cancel()
	f.report("settle", f.settleRow(ctx, r, nil))
}

// used notes that a call has ended.
func (f *Fleet) used(b *box, d demand) {
	f.active.Add(-1)
	if d.looks {
		return
	}
	now := f.now()
	b.mu.Lock()
	first := !b.unsaved
	b.unsaved = true
	if now.After(b.active) {
		b.active = now
	}
	b.mu.Unlock()
	if first {
		poke(f.stir)
	}
}

// refuse says why a call can't begin in the state of now.
func (b *box) refuse(d demand) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &b.row
	switch {
	case r.state == atoll.Destroyed || r.goal == goalDestroy:
		return errDestroyed
	case r.state == atoll.Failed:
		return fmt.Errorf("%w: it is in error (%s: %s); start or destroy it", atoll.ErrState, r.reason, r.message)
	case r.state == atoll.Stopped && d.runs:
		return fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
	case r.state == atoll.Paused && d.runs:
		return fmt.Errorf("%w: it is paused; resume it first", atoll.ErrState)
	case !slices.Contains([]atoll.State{atoll.Running, atoll.Paused, atoll.Stopped}, r.state):
		return fmt.Errorf("%w: it is %s; wait until that is over", atoll.ErrState, r.state)
	}
	return nil
}

// reason returns the error of a call that ended with err: if it was thrown out,
// why.
func reason(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	for _, ours := range []error{atoll.ErrState, atoll.ErrNotFound, atoll.ErrUnavailable} {
		if cause := context.Cause(ctx); errors.Is(cause, ours) && !errors.Is(err, ours) {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
	return err
}

// late makes a context's deadline an ErrTimeout.
func late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, atoll.ErrTimeout) {
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, err)
	}
	return err
}
