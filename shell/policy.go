package shell

import (
	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// Call is a simple command that is about to run, its words expanded; a
// [Policy] decides about it.
type Call = kernel.Call

// Redirection is one redirection of a [Call].
type Redirection = kernel.Redirection

// Policy sees every simple command before it runs, and every program that
// another one starts (xargs, find, env, sh -c). An error denies the command:
// it fails with status 126 and the error's text. It is given to the kernel,
// so that nothing passes it by, and may be called from several goroutines.
type Policy = kernel.Policy

// prepared is a redirection's target, expanded before the policy was asked.
type prepared struct {
	name string
	ok   bool
}

// guard asks the policy about a simple command, its redirections included,
// before any of it takes effect.
func (k *simple) guard(in *interp, args []string) bool {
	if !in.p.Kernel().Guarded() {
		return true
	}
	c := Call{Name: args[0], Args: args, Dir: in.p.Dir(), Redirs: in.prepare(k.redirs)}
	c.Kind, c.Path = in.kindOf(args[0])
	if s, ok := k.x.Body.(*syntax.Simple); ok {
		for _, a := range s.Assigns {
			v, _ := in.get(a.Name)
			c.Env = append(c.Env, a.Name+"="+v)
		}
	}
	return in.permit(c)
}

// guardRedirs asks the policy about redirections that belong to no simple
// command.
func (in *interp) guardRedirs(list []redir) bool {
	if !in.p.Kernel().Guarded() {
		return true
	}
	return in.permit(Call{Dir: in.p.Dir(), Kind: kernel.KindRedirection, Redirs: in.prepare(list)})
}

// vetted asks the policy about a command that another one names.
func (in *interp) vetted(args []string) bool {
	if !in.p.Kernel().Guarded() {
		return true
	}
	c := Call{Name: args[0], Args: args, Dir: in.p.Dir()}
	c.Kind, c.Path = in.kindOf(args[0])
	return in.permit(c)
}

func (in *interp) permit(c Call) bool {
	err := in.p.Allow(c)
	if err == nil {
		return true
	}
	if c.Name == "" {
		in.errorf("redirection: %v", err)
	} else {
		in.errorf("%s: %v", c.Name, err)
	}
	in.stash = nil
	in.status = 126
	return false
}

// prepare expands the targets of redirections, once: apply takes them from
// the stash.
func (in *interp) prepare(list []redir) []Redirection {
	in.stash = nil
	var shown []Redirection
	for i := range list {
		r := &list[i]
		p := prepared{ok: true}
		if r.text == nil {
			p.name, p.ok = r.target(in)
		}
		fd := r.fd
		if fd < 0 {
			fd = r.op.DefaultFd()
		}
		in.stash = append(in.stash, p)
		shown = append(shown, Redirection{Fd: fd, Op: r.op.String(), Target: p.name})
	}
	return shown
}

func (in *interp) kindOf(name string) (kernel.Kind, string) {
	if _, ok := in.funcs.get(name); ok {
		return kernel.KindFunction, ""
	}
	if in.builtin(name) != nil {
		return kernel.KindBuiltin, ""
	}
	file, err := in.findProgram(name)
	if err != nil {
		return kernel.KindProgram, ""
	}
	return kernel.KindProgram, in.p.Path(file)
}

// Analyze returns the commands that a script would run as far as they can be
// known without running it, in source order. Its error is that of the syntax.
func Analyze(script string) ([]syntax.Call, error) {
	f, err := syntax.Parse(script, syntax.Options{})
	if f == nil {
		return nil, err
	}
	return syntax.Commands(f), err
}
