package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

var (
	_ atoll.Sandbox           = (*Sandbox)(nil)
	_ atoll.DirFS             = (*Sandbox)(nil)
	_ atoll.Stopper           = (*Sandbox)(nil)
	_ atoll.Pauser            = (*Sandbox)(nil)
	_ atoll.Snapshotter       = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper    = (*Sandbox)(nil)
	_ atoll.Forker            = (*Sandbox)(nil)
	_ atoll.Dialer            = (*Sandbox)(nil)
	_ atoll.Listener          = (*Sandbox)(nil)
	_ atoll.Meter             = (*Sandbox)(nil)
	_ atoll.Historian         = (*Sandbox)(nil)
	_ atoll.Watcher           = (*Sandbox)(nil)
	_ atoll.NetworkController = (*Sandbox)(nil)
	_ atoll.Detacher          = (*Sandbox)(nil)
	_ atoll.Notifier          = (*Sandbox)(nil)
	_ atoll.PortLister        = (*Sandbox)(nil)
	_ atoll.Terminals         = (*Sandbox)(nil)
	_ atoll.TerminalAttacher  = (*Sandbox)(nil)
	_ atoll.FreshStarter      = (*Sandbox)(nil)
	_ atoll.DiskKeeper        = (*Sandbox)(nil)
	_ atoll.AbilityReporter   = (*Sandbox)(nil)
)

// callRules are the requirements of an operation.
type callRules struct {
	scope        atoll.Scope
	command      bool // a command: counts against the quota of processes
	needsRunning bool // the sandbox must be running
	passive      bool // does not count as use: the sandbox stays idle
}

// callRulesByOp holds the rules of all operations whose rules are not those of writing files:
// ScopeRun, and support by the driver.
var callRulesByOp = map[string]callRules{
	"exec":           {scope: atoll.ScopeRun, command: true, needsRunning: true},
	"dial":           {scope: atoll.ScopeRun, needsRunning: true},
	"listen":         {scope: atoll.ScopeRun, needsRunning: true},
	"changes":        {scope: atoll.ScopeRun, needsRunning: true},
	"project":        {scope: atoll.ScopeRun, needsRunning: true},
	"watch":          {scope: atoll.ScopeRead},
	"read":           {scope: atoll.ScopeRead},
	"stat":           {scope: atoll.ScopeRead},
	"list":           {scope: atoll.ScopeRead},
	"export":         {scope: atoll.ScopeRead},
	"stats":          {scope: atoll.ScopeRead, passive: true},
	"list snapshots": {scope: atoll.ScopeRead, passive: true},
	"list processes": {scope: atoll.ScopeRead, passive: true},
	"notices":        {scope: atoll.ScopeRead, needsRunning: true, passive: true},
	"ports":          {scope: atoll.ScopeRead, needsRunning: true, passive: true},
	"network log":    {scope: atoll.ScopeRead, passive: true},
	"network test":   {scope: atoll.ScopeRead, passive: true},

	"open terminal":    {scope: atoll.ScopeRun, needsRunning: true},
	"close terminal":   {scope: atoll.ScopeRun, needsRunning: true},
	"attach terminal":  {scope: atoll.ScopeRun, needsRunning: true},
	"send to terminal": {scope: atoll.ScopeRun, needsRunning: true},
	"watch terminal":   {scope: atoll.ScopeRead, needsRunning: true, passive: true},
	"read terminal":    {scope: atoll.ScopeRead, needsRunning: true, passive: true},
	"list terminals":   {scope: atoll.ScopeRead, needsRunning: true, passive: true},
}

// suggestsEnd reports whether the error of a call suggests that the sandbox does not run any more. A file
// that is missing does not.
func (d *callRules) suggestsEnd(err error) bool {
	return errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrState) && d.needsRunning || errors.Is(err, atoll.ErrNotFound) && d.command
}

func rulesFor(op string) callRules {
	if d, ok := callRulesByOp[op]; ok {
		return d
	}
	return callRules{scope: atoll.ScopeRun}
}

// wrapError adds the operation and the sandbox to an error; nil stays nil.
func (s *Sandbox) wrapError(op string, err error) error { return wrapOpError(op, s.b.id, err) }

func wrapOpError(op, id string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) && e.ID == id {
		return err
	}
	if e, ok := err.(*atoll.Error); ok { //nolint:errorlint // only the outermost is replaced
		err = e.Err
	}
	return &atoll.Error{Op: op, ID: id, Err: err}
}

// checkAccess refuses an operation that the caller has no scope for, or that the sandbox is closed
// to.
func (s *Sandbox) checkAccess(op string, scope atoll.Scope) error {
	if err := s.a.checkScope(op, scope); err != nil {
		return err
	}
	if s.madeForTurn || slices.Contains(metadataOps, op) {
		return nil
	}
	return s.a.checkClosed(op, s.b.cachedRow())
}

// metadataOps are the operations that neither show nor change anything inside a sandbox.
var metadataOps = []string{"info", "status", "stats", "stop", "destroy"}

// checkClosed refuses an operation on a closed sandbox to callers without ScopeHost.
func (a *Account) checkClosed(op string, r row) error {
	if !r.closed || a.caller.hasScope(atoll.ScopeHost) {
		return nil
	}
	a.startAudit(op, r.id, "it is closed")(atoll.ErrDenied)
	return &atoll.Error{Op: op, ID: r.id, Err: errClosed}
}

// errClosed refuses access to a sandbox with resources that its owner could not have asked for.
var errClosed = fmt.Errorf("%w: it was made for a turn, with mounts, networks or secrets of the operator: callers other than the turn need the scope %q", atoll.ErrDenied, atoll.ScopeHost)

// checkRecreate refuses to copy or restore a sandbox to callers that could not have created it.
func (s *Sandbox) checkRecreate(op string) error {
	if s.madeForTurn {
		return nil
	}
	cfg := forkConfig(s.b.cachedRow().cfg, atoll.Spec{})
	return s.a.checkCreate(op, &cfg)
}

// innerSandbox returns the driver's sandbox within a call that beginCall has begun.
func (s *Sandbox) innerSandbox() atoll.Sandbox {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.sb == nil {
		return missingSandbox{id: s.b.id}
	}
	return s.b.sb
}

// beginCall begins a call: it checks the caller's scopes and the state of the sandbox. The call
// counts as use until done is called with the call's error, at least once. The returned context
// ends when the sandbox is stopped or destroyed, or the fleet is closed.
func (s *Sandbox) beginCall(ctx context.Context, op string) (context.Context, func(error), error) {
	d := rulesFor(op)
	if err := s.checkAccess(op, d.scope); err != nil {
		return nil, nil, err
	}
	ctx, done, err := s.beginWithRules(ctx, d)
	if err != nil {
		return nil, nil, s.wrapError(op, err)
	}
	return ctx, done, nil
}

func (s *Sandbox) beginWithRules(ctx context.Context, d callRules) (context.Context, func(error), error) {
	f, b := s.f, s.b
	if err := context.Cause(ctx); err != nil {
		return nil, nil, timeoutError(err)
	}
	if err := f.refreshIfStale(ctx); err != nil {
		return nil, nil, err
	}
	leave := func() {}
	if d.command {
		o := b.getOwner()
		if err := f.countCommand(ctx, o); err != nil {
			return nil, nil, err
		}
		b.commands.Add(1)
		leave = func() {
			b.commands.Add(-1)
			f.commandCounts.release(o)
		}
	}
	err := s.unarchiveForCall(ctx, d)
	if err == nil {
		err = b.checkState(d)
	}
	if err == nil {
		_, err = b.openInner(ctx)
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	ctx, v, err := b.calls.admit(ctx)
	if err != nil {
		leave()
		return nil, nil, err
	}
	if !d.passive {
		b.uses.Add(1)
	}
	if f.activeCalls.Add(1) == 1 {
		notify(f.callsChanged)
	}
	return ctx, func(err error) {
		if b.calls.release(v) {
			leave()
			f.endCall(b, d)
			if d.suggestsEnd(err) {
				f.recheckSandbox(context.WithoutCancel(ctx), b.id)
			}
		}
	}, nil
}

// endCall records the end of a call.
func (f *Fleet) endCall(b *handle, d callRules) {
	f.activeCalls.Add(-1)
	if d.passive {
		return
	}
	defer b.uses.Add(-1) // once its end is noted
	now := f.now()
	b.mu.Lock()
	first := !b.unsaved
	b.unsaved = true
	if now.After(b.active) {
		b.active = now
	}
	b.called = now
	b.mu.Unlock()
	if first {
		notify(f.callsChanged)
	}
}

// checkState reports why a call can't begin in the present state; nil if it can.
func (b *handle) checkState(d callRules) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &b.row
	switch {
	case r.state == atoll.Destroyed || r.goal == goalDestroy:
		return errDestroyed
	case r.state == atoll.Failed:
		return fmt.Errorf("%w: it is in error (%s: %s); start or destroy it", atoll.ErrState, r.reason, r.message)
	case r.state == atoll.Archived:
		return errIsArchived
	case r.goal == goalArchive:
		return errArchiving
	case r.state == atoll.Stopped && d.needsRunning:
		return fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
	case r.state == atoll.Paused && d.needsRunning:
		return fmt.Errorf("%w: it is paused; resume it first", atoll.ErrState)
	case !slices.Contains([]atoll.State{atoll.Running, atoll.Paused, atoll.Stopped}, r.state):
		return fmt.Errorf("%w: it is %s; wait for the end of that", atoll.ErrState, r.state)
	}
	return nil
}

// causeOf returns the error of a call that ended with err. If the call was canceled by the fleet,
// the error includes the cause.
func causeOf(ctx context.Context, err error) error {
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

// timeoutError turns the error of a deadline into an ErrTimeout.
func timeoutError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, atoll.ErrTimeout) {
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, err)
	}
	return err
}
