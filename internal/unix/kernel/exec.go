package kernel

import "context"

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

// Context returns the context of the command that the process belongs to, for functions that need
// one. It is done when the command must end.
func (p *Proc) Context() context.Context { return p.t.ctx }
