package kernel

// tickEvery is the number of work units between two checks of the clock and of signals.
const tickEvery = 1024

// Tick counts n units of work: an iteration of a loop, a comparison, 64 copied bytes. It ends the
// process if the deadline has passed, a signal ends it, or the command has used up its steps.
func (p *Proc) Tick(n int) {
	p.left -= n
	if p.left < 0 {
		p.checkLimits()
	}
}

func (p *Proc) checkLimits() {
	used := int64(tickEvery - p.left)
	p.left = tickEvery
	if p.t.steps.Add(used) > p.k.limits.Steps {
		p.t.kill(reasonSteps)
	}
	p.check()
}

// Alloc charges n bytes of live memory to the process. Beyond the sandbox's limit the process is
// killed. Memory that is not freed with Free is freed when the process ends.
func (p *Proc) Alloc(n int64) {
	p.mem += n
	if p.k.mem.Add(n) > p.k.limits.Memory && n > 0 {
		p.oom.Store(true)
		p.exitBySignal(SIGKILL)
	}
}

// Free frees n bytes that were charged by Alloc.
func (p *Proc) Free(n int64) {
	p.mem -= n
	p.k.mem.Add(-n)
}

// MoveCharge moves n bytes that are charged to the process to a child that does not run yet.
func (p *Proc) MoveCharge(n int64, child *Proc) {
	p.mem -= n
	child.mem += n
}

// DetachCharge moves n bytes that are charged to the process to the sandbox: they stay charged when the process ends, until
// free is called, once and from any goroutine.
func (p *Proc) DetachCharge(n int64) (free func()) {
	p.mem -= n
	return func() { p.k.mem.Add(-n) }
}

// FreeMemory returns how many bytes can be charged before the limit.
func (p *Proc) FreeMemory() int64 { return max(0, p.k.limits.Memory-p.k.mem.Load()) }

// Charged returns the bytes that the process is charged for.
func (p *Proc) Charged() int64 { return p.mem }
