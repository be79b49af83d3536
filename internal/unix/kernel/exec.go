package kernel

import (
	"context"
	"math/bits"
)

// execCost is the memory of the stack of a program that Exec replaces, which stays until the new one ends.
const execCost = 16 << 10

// Exec runs another program in place of the calling one, which must return the status at once.
// Descriptors marked [Proc.CloseOnExec] are closed, and handled signals are reset to the default.
func (p *Proc) Exec(s Spawn) int {
	for i := range p.fds {
		if f := p.fds[i].f; f != nil && p.fds[i].cloexec {
			p.fds[i] = slot{}
			f.Release()
		}
	}
	p.handled.Store(0)
	p.caught.Store(0)
	p.Tick(1 + len(s.Args))
	p.Alloc(execCost)
	p.Args, p.path = s.Args, s.Path
	p.publishArgs()
	p.chargeArgs()
	if s.Env != nil {
		p.Env = s.Env
	}
	code := s.Main(p)
	if p.out != nil {
		_ = p.out.Flush() // a broken pipe has ended the process already
	}
	return code & 0xff
}

// IsText reports whether a file looks like text. A shell checks this before it runs a file that
// names no interpreter.
func (p *Proc) IsText(name string) bool { return p.isText(p.Path(name)) }

// PeekSignal returns the caught signal that TakeSignal would return next, without removing it.
func (p *Proc) PeekSignal() (Signal, bool) {
	m := p.caught.Load()
	if m == 0 {
		return 0, false
	}
	return Signal(bits.TrailingZeros64(m) + 1), true
}

// Context returns the context of the command that the process belongs to, for functions that need
// one. It is done when the command must end.
func (p *Proc) Context() context.Context { return p.t.ctx }

// DyingSignal returns the signal that is ending the process; 0 if none is. Deferred functions can still
// use the process then, but not after SIGKILL.
func (p *Proc) DyingSignal() Signal { return p.killedBy }
