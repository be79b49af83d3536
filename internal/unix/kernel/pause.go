package kernel

import "context"

// Pause stops every process, like a cgroup's freezer, and returns when all are stopped. Time and
// deadlines go on; a process that is killed ends. If ctx is done first, the processes continue.
func (k *Kernel) Pause(ctx context.Context) error {
	k.frozen.Store(true)
	for !k.allStopped() {
		select {
		case <-k.procStopped:
		case <-ctx.Done():
			k.Resume()
			return context.Cause(ctx)
		}
	}
	return nil
}

// Resume lets the processes continue.
func (k *Kernel) Resume() {
	k.frozen.Store(false)
	for _, p := range k.Procs() {
		p.wakeUp()
	}
}

// allStopped reports whether no process runs. A blocked process stops before it does anything else.
func (k *Kernel) allStopped() bool {
	for _, p := range k.Procs() {
		if p.callee.Load() == nil && p.blocked.Load() == blockNone && !p.exited.Load() {
			return false
		}
	}
	return true
}

// notifyPause makes a Pause check again.
func (k *Kernel) notifyPause() {
	if k.frozen.Load() {
		select {
		case k.procStopped <- struct{}{}:
		default:
		}
	}
}

// waitWhileFrozen blocks the process until the kernel is resumed, or the process is killed.
func (p *Proc) waitWhileFrozen() {
	for p.k.frozen.Load() && p.killedBy != SIGKILL && !p.t.dead.Load() && p.pending.Load()&SIGKILL.bit() == 0 {
		p.sleepUntilWoken(blockHost)
	}
	p.wakeUp() // the wake-up may have been for what the process waits for
}
