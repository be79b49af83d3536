package kernel

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// Kind is the kind of a command's executable.
type Kind string

// The kinds of commands.
const (
	KindFunction    Kind = "function"
	KindBuiltin     Kind = "builtin"
	KindProgram     Kind = "program"
	KindRedirection Kind = "redirection" // redirections alone, or those of a compound command
)

// Call is a command that is about to run, with its words expanded.
type Call struct {
	Name   string
	Args   []string // Args[0] is Name
	Path   string   // of a program; empty for builtins and functions
	Dir    string
	Env    []string // assignments of this command only, as NAME=value
	Redirs []Redirection
	Kind   Kind
}

// Redirection is a redirection of a [Call], with its target expanded.
type Redirection struct {
	Fd     int
	Op     string
	Target string
}

// Policy decides about every command before it runs, in shells and in programs that start others.
// An error denies the command, with the reason. It may be called concurrently, and must not change
// the call.
type Policy func(ctx context.Context, c Call) error

// DeniedError is the error of a command that the policy denied.
type DeniedError struct{ Err error }

// Error returns the policy's reason.
func (d *DeniedError) Error() string { return "denied: " + d.Err.Error() }

// Unwrap returns the policy's reason.
func (d *DeniedError) Unwrap() error { return d.Err }

// Is reports whether target is [atoll.ErrDenied].
func (d *DeniedError) Is(target error) bool { return target == atoll.ErrDenied }

// HasPolicy reports whether there is a policy. Without one, callers need not describe their commands.
func (k *Kernel) HasPolicy() bool { return k.policy != nil }

// CheckPolicy asks the policy about a command; the error is a [*Denied].
func (p *Proc) CheckPolicy(c Call) error {
	if p.k.policy == nil {
		return nil
	}
	if err := p.k.policy(p.t.ctx, c); err != nil {
		return &DeniedError{Err: err}
	}
	return nil
}
