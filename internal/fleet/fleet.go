// Package fleet keeps all sandboxes of a host: whose they are, in which state,
// for how long, within which quota, on which workspaces. It says who and when;
// drivers say how.
package fleet

import (
	"context"
	"log/slog"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Options say what a fleet consists of.
type Options struct {
	// Home is the directory of the registry and of the workspaces. Any number
	// of processes may share it.
	Home string

	Drivers []atoll.Driver
	Default string // name of the driver of a Config that names none; empty: the first

	Quota     atoll.Quota // of an owner who has none of his own; zero fields: no limit
	Retention Retention

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// Retention says which workspaces are removed, and when.
type Retention struct {
	Keep time.Duration // after the last use; 0: 7 days; negative: for ever
	Cron string        // when to look, five fields, local time; empty: "0 3 * * *"
}

// Fleet is all sandboxes of a host. Its methods may be called at once from many
// goroutines.
type Fleet struct {
	opts Options
}

// Open opens the registry of a fleet, brings it up to date, and settles what
// processes that died have left half done.
func Open(ctx context.Context, opts Options) (*Fleet, error) {
	return &Fleet{opts: opts}, nil
}

// Run does what nobody calls for, until ctx is done: it ends sandboxes whose
// time has come, removes workspaces that nobody uses, fills warm pools. One
// process of those that share a home does it; Run of the others waits.
func (f *Fleet) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close ends this process's part in the fleet. Sandboxes go on as far as their
// drivers can; commands of this process end.
func (f *Fleet) Close(ctx context.Context) error { return nil }

// Caller is somebody who uses a fleet.
type Caller struct {
	Owner  atoll.Owner
	Scopes []atoll.Scope
	Token  string // the id of the token shown; empty: none was needed
}

// LocalCaller is who works on this machine, without a token.
func LocalCaller() Caller {
	return Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost, atoll.ScopeAdmin}}
}

// Account is the fleet as one caller sees it: what belongs to others is
// ErrNotFound, what the caller's scopes don't allow is ErrDenied.
type Account struct {
	f      *Fleet
	caller Caller
}

// For returns the fleet as c sees it.
func (f *Fleet) For(c Caller) *Account { return &Account{f: f, caller: c} }
