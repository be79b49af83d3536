package guest

import (
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper learns of the end of processes: as process 1 of every one, orphans
// too, else of those that were started.
type reaper struct {
	all   bool
	wake  chan struct{} // there may be a child again
	begin sync.Once

	mu    sync.Mutex // held while a process is started or reaped: pids don't change hands meanwhile
	known map[int]*process
}

func newReaper(all bool) *reaper {
	return &reaper{all: all, wake: make(chan struct{}, 1), known: make(map[int]*process)}
}

// add makes a process known. mu is held since before it was forked.
func (r *reaper) add(p *process) {
	r.known[p.pid] = p
	if !r.all {
		go func() {
			_, _ = waitFor(unix.P_PID, p.pid) // it is our child, and nobody else waits for it
			r.reap(p.pid)
		}()
		return
	}
	r.begin.Do(func() { go r.run() })
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run waits for every end, as long as this process lives. Who has no children
// has no orphans to come either: they are children of children.
func (r *reaper) run() {
	runtime.LockOSThread() // it would be its own thread's all the time anyway
	for {
		pid, err := waitFor(unix.P_ALL, 0)
		if err != nil {
			<-r.wake
			continue
		}
		r.reap(pid)
	}
}

// reap takes a process that has ended out of the world.
func (r *reaper) reap(pid int) {
	var ws syscall.WaitStatus
	r.mu.Lock()
	p := r.known[pid]
	delete(r.known, pid)
	_, _ = syscall.Wait4(pid, &ws, syscall.WNOHANG|unix.WALL, nil) // it has ended
	r.mu.Unlock()
	if p != nil {
		p.status = ws
		close(p.ended)
	}
}

// alone reports whether nothing is left of what was ever started, but for the
// processes that are known. Only process 1 can tell.
func (r *reaper) alone() bool {
	if !r.all {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) > 0 {
		return false
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_WAITID, unix.P_ALL, 0, 0, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG|unix.WALL, 0, 0)
	return errno == unix.ECHILD
}

// kill sends a signal to a process, or its group, if it has not been reaped.
func (r *reaper) kill(p *process, group bool, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[p.pid] != p {
		return
	}
	pid := p.pid
	if group {
		pid = -pid
	}
	_ = syscall.Kill(pid, sig) // it may have ended
}

// waitFor waits for the end of a process and leaves it as it is.
func waitFor(kind, id int) (pid int, err error) {
	var info [32]uint64 // siginfo_t
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT|unix.WALL, 0, 0)
		switch errno {
		case 0:
			// Its members are three ints, and then, aligned as a pointer, the pid.
			at := (3*4 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
			return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at))), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
