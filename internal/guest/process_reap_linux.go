package guest

import (
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper collects ended processes: all of them, orphans included, if the guest is process 1, else
// only those that it started.
type reaper struct {
	all       bool
	wake      chan struct{} // signals that there may be children again
	startOnce sync.Once

	mu    sync.Mutex // held while a process is started or reaped, so that no pid is reused meanwhile
	known map[int]*process
}

func newReaper(all bool) *reaper {
	return &reaper{all: all, wake: make(chan struct{}, 1), known: make(map[int]*process)}
}

// add registers a process. The caller must have held mu since before the fork.
func (r *reaper) add(p *process) {
	r.known[p.pid] = p
	if !r.all {
		go func() {
			_, _ = waitFor(unix.P_PID, p.pid) // our child, and this is its only waiter
			r.reapProcess(p.pid)
		}()
		return
	}
	r.startOnce.Do(func() { go r.reapChildren() })
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// reapChildren reaps every child until the guest ends. Without children there can't be orphans
// either, so it waits for the next start.
func (r *reaper) reapChildren() {
	runtime.LockOSThread() // it blocks a thread all the time anyway
	for {
		pid, err := waitFor(unix.P_ALL, 0)
		if err != nil {
			<-r.wake
			continue
		}
		r.reapProcess(pid)
	}
}

// reapProcess reaps an ended process and records its status.
func (r *reaper) reapProcess(pid int) {
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

// hasNoChildren reports whether no process exists besides the known ones. It returns false if
// the guest is not process 1, which can't know that.
func (r *reaper) hasNoChildren() bool {
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

// kill sends a signal to a process or its group, unless it has been reaped.
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
	_ = syscall.Kill(pid, sig) // the process may have ended
}

// waitFor waits for the end of a process without reaping it.
func waitFor(kind, id int) (pid int, err error) {
	var info [32]uint64 // siginfo_t
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT|unix.WALL, 0, 0)
		switch errno {
		case 0:
			// The struct has three ints and then, aligned like a pointer, the pid.
			at := (3*4 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
			return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at))), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
