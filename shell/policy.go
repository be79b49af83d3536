package shell

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// Call is a simple command before it runs, with its words expanded, on which
// a [Policy] decides.
type Call = kernel.Call

// Redirection is a redirection of a [Call].
type Redirection = kernel.Redirection

// Policy decides on every simple command before it runs, and on every program
// that another program starts (xargs, find, env, sh -c). An error denies the
// command: it fails with status 126 and the error's text. The kernel enforces
// the policy, so it can't be bypassed. It may be called concurrently.
type Policy = kernel.Policy

// preparedTarget is a redirection's target, expanded for the policy.
type preparedTarget struct {
	name string
	ok   bool
}

// checkPolicy asks the policy about a simple command and its redirections,
// before any of them takes effect.
func (k *simple) checkPolicy(in *interp, args []string) bool {
	if !in.p.Kernel().HasPolicy() {
		return true
	}
	c := Call{Name: args[0], Args: args, Dir: in.p.Dir(), Redirs: in.prepareRedirs(k.redirs)}
	c.Kind, c.Path = in.kindOf(args[0])
	if s, ok := k.x.Body.(*syntax.Simple); ok {
		for _, a := range s.Assigns {
			v, _ := in.get(a.Name)
			c.Env = append(c.Env, a.Name+"="+v)
		}
	}
	return in.askPolicy(c)
}

// checkRedirPolicy asks the policy about redirections without a simple
// command.
func (in *interp) checkRedirPolicy(list []redir) bool {
	if !in.p.Kernel().HasPolicy() {
		return true
	}
	return in.askPolicy(Call{Dir: in.p.Dir(), Kind: kernel.KindRedirection, Redirs: in.prepareRedirs(list)})
}

// checkNamedCommand asks the policy about a command that a builtin runs.
func (in *interp) checkNamedCommand(args []string) bool {
	if !in.p.Kernel().HasPolicy() {
		return true
	}
	c := Call{Name: args[0], Args: args, Dir: in.p.Dir()}
	c.Kind, c.Path = in.kindOf(args[0])
	return in.askPolicy(c)
}

// askPolicy reports whether the policy allows a call; a denial is printed.
func (in *interp) askPolicy(c Call) bool {
	err := in.p.CheckPolicy(c)
	if err == nil {
		return true
	}
	if c.Name == "" {
		in.errorf("redirection: %v", err)
	} else {
		in.errorf("%s: %v", c.Name, err)
	}
	in.preparedTargets = nil
	in.status = 126
	return false
}

// prepareRedirs expands the targets of redirections for the policy, and saves
// them for applyRedirs, so that each is expanded once.
func (in *interp) prepareRedirs(list []redir) []Redirection {
	in.preparedTargets = nil
	var shown []Redirection
	for i := range list {
		r := &list[i]
		p := preparedTarget{ok: true}
		if r.text == nil {
			p.name, p.ok = r.target(in)
		}
		fd := r.fd
		if fd < 0 {
			fd = r.op.DefaultFd()
		}
		in.preparedTargets = append(in.preparedTargets, p)
		shown = append(shown, Redirection{Fd: fd, Op: r.op.String(), Target: p.name})
	}
	return shown
}

// kindOf returns the kind of command that a name refers to, and the path of a
// program.
func (in *interp) kindOf(name string) (kernel.Kind, string) {
	if _, ok := in.funcs.get(name); ok {
		return kernel.KindFunction, ""
	}
	if in.findBuiltin(name) != nil {
		return kernel.KindBuiltin, ""
	}
	file, err := in.findProgram(name)
	if err != nil {
		return kernel.KindProgram, ""
	}
	return kernel.KindProgram, in.p.Path(file)
}

// Analyze returns the commands that a script would run, in source order, as
// far as they are known without running it. It returns an error for a syntax
// error, together with the commands before it.
func Analyze(script string) ([]syntax.Call, error) {
	f, err := syntax.Parse(script, syntax.Options{})
	if f == nil {
		return nil, err
	}
	return syntax.Commands(f), err
}
