package kernel

import "context"

// Pause makes every process stand still, as a cgroup's freezer does, and
// returns when all do. Time goes on, and with it deadlines; what is killed
// ends. Where ctx is done before, the processes go on.
func (k *Kernel) Pause(ctx context.Context) error {
	k.frozen.Store(true)
	for !k.still() {
		select {
		case <-k.stood:
		case <-ctx.Done():
			k.Resume()
			return context.Cause(ctx)
		}
	}
	return nil
}

// Resume lets the processes go on.
func (k *Kernel) Resume() {
	k.frozen.Store(false)
	for _, p := range k.Procs() {
		p.kick()
	}
}

// still reports whether no process runs. One that is blocked comes to stand
// before it does anything else.
func (k *Kernel) still() bool {
	for _, p := range k.Procs() {
		if p.callee.Load() == nil && p.blocked.Load() == blockNone && !p.exited.Load() {
			return false
		}
	}
	return true
}

// stirPause lets a Pause look again.
func (k *Kernel) stirPause() {
	if k.frozen.Load() {
		select {
		case k.stood <- struct{}{}:
		default:
		}
	}
}

// stand keeps the process where it is until the kernel goes on, or it is
// killed.
func (p *Proc) stand() {
	for p.k.frozen.Load() && p.killedBy != SIGKILL && !p.t.dead.Load() && p.pending.Load()&SIGKILL.bit() == 0 {
		p.rest(blockHost)
	}
	p.kick() // what woke it may have been meant for what it waits for
}
