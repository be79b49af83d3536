package kernel

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// Kind says what runs a command.
type Kind string

// The kinds of command.
const (
	KindFunction    Kind = "function"
	KindBuiltin     Kind = "builtin"
	KindProgram     Kind = "program"
	KindRedirection Kind = "redirection" // redirections alone, or those of a compound command
)

// Call is a command that is about to run, its words expanded.
type Call struct {
	Name   string
	Args   []string // Args[0] is Name
	Path   string   // of a program; empty for what the shell runs itself
	Dir    string
	Env    []string // assignments of this command only, as NAME=value
	Redirs []Redirection
	Kind   Kind
}

// Redirection is one redirection of a [Call], its target expanded.
type Redirection struct {
	Fd     int
	Op     string
	Target string
}

// Policy decides about every command before it runs: those of a shell and
// those that programs start. An error denies it and says why. It may be
// called from several goroutines at once and must not change the call.
type Policy func(ctx context.Context, c Call) error

// Denied is the error of a command that the policy does not allow.
type Denied struct{ Err error }

// Error returns the policy's reason.
func (d *Denied) Error() string { return "denied: " + d.Err.Error() }

// Unwrap returns the policy's reason.
func (d *Denied) Unwrap() error { return d.Err }

// Is reports whether target is [atoll.ErrDenied].
func (d *Denied) Is(target error) bool { return target == atoll.ErrDenied }

// Guarded reports whether there is a policy, so that a caller can save the
// work of describing a command.
func (k *Kernel) Guarded() bool { return k.policy != nil }

// Allow asks the policy about a command; the error is a [*Denied].
func (p *Proc) Allow(c Call) error {
	if p.k.policy == nil {
		return nil
	}
	if err := p.k.policy(p.t.ctx, c); err != nil {
		return &Denied{Err: err}
	}
	return nil
}

// Load makes ready to run a file: one of our programs, or a script with its
// interpreter. A text without one is [vfs.ENOEXEC], which a shell runs
// itself. The policy is asked first.
func (p *Proc) Load(file string, args []string) (Spawn, error) {
	if p.k.policy != nil {
		c := Call{Name: args[0], Args: args, Path: p.Path(file), Dir: p.dir, Kind: KindProgram}
		if err := p.Allow(c); err != nil {
			return Spawn{}, err
		}
	}
	return p.load(file, args, 0)
}

// LoadVetted is Load for a caller that has asked the policy itself.
func (p *Proc) LoadVetted(file string, args []string) (Spawn, error) { return p.load(file, args, 0) }
