package kernel

// tickEvery is how many units of work pass between two looks at the clock
// and the signals.
const tickEvery = 1024

// Tick counts n units of work: a turn of a loop, a comparison, 64 bytes
// copied. It ends the process when the deadline has passed, a signal says
// so, or the command has used up its steps.
func (p *Proc) Tick(n int) {
	p.left -= n
	if p.left < 0 {
		p.tock()
	}
}

func (p *Proc) tock() {
	used := int64(tickEvery - p.left)
	p.left = tickEvery
	if p.t.steps.Add(used) > p.k.limits.Steps {
		p.t.kill(reasonSteps)
	}
	p.check()
}

// Alloc charges n bytes of live memory to the process. Past the limit of
// the sandbox the process is killed. What is not given back by Free is
// given back when the process ends.
func (p *Proc) Alloc(n int64) {
	p.mem += n
	if p.k.mem.Add(n) > p.k.limits.Memory && n > 0 {
		p.oom = true
		p.die(SIGKILL)
	}
}

// Free gives back n bytes charged by Alloc.
func (p *Proc) Free(n int64) {
	p.mem -= n
	p.k.mem.Add(-n)
}

// Room returns how many bytes can be charged before the limit.
func (p *Proc) Room() int64 { return max(0, p.k.limits.Memory-p.k.mem.Load()) }

// Charged returns the bytes that the process is charged for.
func (p *Proc) Charged() int64 { return p.mem }
