package guest

import (
	"context"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processes is the state that a Server needs to start commands.
type processes struct {
	adopts   bool // orphans become children of this process
	launcher *launcher
	reaper   *reaper
	cgroups  cgroupPool
	marks    markPool
	nofile   unix.Rlimit // limit of open files for commands
	nproc    unix.Rlimit // limit of processes for commands; zero: the guest's own limit
	detached detachedRegistry
	tidy     *time.Timer // returns unused memory to the kernel; nil: never
}

// Limits on the number of processors that the guest uses at once. Each costs memory, and a
// thread that starts a command blocks until the child's exec.
const (
	minThreads = 2
	maxThreads = 4
)

// ownThreads is the number of threads and processes that the guest itself may need.
const ownThreads = 32

// tidyDelay is the time after the last operation when the guest returns memory to the kernel.
const tidyDelay = 2 * time.Second

// scheduleTidy schedules the return of memory after an operation has ended.
func (s *Server) scheduleTidy() {
	if s.tidy != nil {
		s.tidy.Reset(tidyDelay)
	}
}

// init initializes a Server. Further calls do nothing.
func (s *Server) init() {
	s.once.Do(func() {
		s.ops = s.operations()
		s.launcher, s.reaper, s.cgroups.dir = newLauncher(), newReaper(s.adopts), s.Config.Cgroup
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
			// Go has raised the soft limit of the guest. Programs that use select
			// need a limit of 1024.
			s.nofile = unix.Rlimit{Cur: min(r.Max, 1024), Max: r.Max}
		}
		// If the limit of processes includes the guest, it reserves some for its own
		// threads: the Go runtime aborts if it can't create one.
		if err := unix.Getrlimit(unix.RLIMIT_NPROC, &r); err == nil && r.Max != unix.RLIM_INFINITY && r.Max > 2*ownThreads {
			s.nproc = unix.Rlimit{Cur: r.Max - ownThreads, Max: r.Max - ownThreads}
		}
	})
}

// Close ends the Server's threads. Its commands and connections continue.
func (s *Server) Close() {
	s.init()
	s.launcher.close()
}

// Run serves hosts until the listener is closed, and adopts orphans. Process 1 of a sandbox calls
// it once the isolation is set up.
func Run(l net.Listener, cfg Config) error {
	s, err := Prepare(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Serve(l)
}

// ReleaseMemory returns unused memory to the kernel now, as the guest does by itself after a time without
// operations. It must be called during an operation, at whose end the timer is set again.
func (s *Server) ReleaseMemory() {
	s.tidy.Stop()
	debug.FreeOSMemory()
}

// Prepare makes process 1 of a sandbox ready to serve: it adopts orphans and starts the thread
// that starts commands.
func Prepare(cfg Config) (*Server, error) {
	if err := hideProcess(); err != nil {
		return nil, err
	}
	if err := chownDir(&cfg); err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(max(minThreads, min(runtime.GOMAXPROCS(0), maxThreads)))
	s := &Server{Config: cfg}
	s.adopts = os.Getpid() == 1 || unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	s.tidy = time.AfterFunc(tidyDelay, debug.FreeOSMemory)
	s.init()
	s.launcher.startThread(&s.Config, reserveThreads)
	if cfg.Egress {
		if err := s.listenEgress(context.Background()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// reservedThreads is the number of threads that the guest creates at its start.
const reservedThreads = 16

// reserveThreads makes the Go runtime create threads, which it keeps for later. If the programs of
// a sandbox have used up its processes the runtime could not create one and would abort, and the
// sandbox would end. So no program is started before they exist.
//
// Goroutines that are locked to their threads would take three times as long: the runtime starts each
// of these through one more thread. Here one thread after the other blocks in a system call, so that
// the other processors go on with their work.
func reserveThreads() {
	var running sync.WaitGroup
	var release atomic.Uint32
	var block func(left int)
	block = func(left int) {
		if left == 1 {
			release.Store(1)
			_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&release)), futexWake, reservedThreads, 0, 0, 0) // wakes all
			return
		}
		running.Go(func() { block(left - 1) }) // on another thread, since this one blocks
		for release.Load() == 0 {
			_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&release)), futexWait, 0, 0, 0, 0) // the loop checks again
		}
	}
	block(reservedThreads)
	running.Wait()
}

// Operations of the system call futex, for waiters of one process.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// hideProcess protects this process from the programs that it will start. Processes of the same
// user can't read its memory or trace it, the kernel kills others first when memory is short, and
// signals do nothing.
func hideProcess() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0) // best effort
	// The kernel protects process 1 from signals with the default action only while its first
	// thread does not block them, and the Go runtime blocks all for a moment now and then.
	var list []os.Signal
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		switch sig {
		case unix.SIGURG, unix.SIGPROF, unix.SIGCHLD, unix.SIGPIPE: // needed by the runtime, and harmless
		case sigPerThread: // without it a system call on all threads would hang; sent by others it does nothing
		case unix.SIGKILL, unix.SIGSTOP:
		case sigCancel, sigRTMin:
			setSignalAction(sig, &ignoreAction)
		default:
			list = append(list, sig)
		}
	}
	signal.Notify(make(chan os.Signal, 1), list...) // nobody reads them
	return nil
}

// Signals that the Go runtime treats specially on Linux (runtime/sigtab_linux_generic.go).
const (
	sigCancel    = syscall.Signal(32) // no handler can be set, since the C library uses it
	sigPerThread = syscall.Signal(33) // with which the runtime makes all threads execute a system call
	sigRTMin     = syscall.Signal(34) // as sigCancel
)

// signalAction is struct sigaction of the kernel.
type signalAction [4]uintptr

var (
	defaultAction signalAction
	ignoreAction  = signalAction{1} // SIG_IGN
)

// setSignalAction sets the action of a signal without the Go runtime, which has no such function for
// signals that it treats specially.
//
//go:nosplit
//go:norace
func setSignalAction(sig syscall.Signal, action *signalAction) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(action)), 0, 8, 0, 0)
}
