package guest

import (
	"context"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processes is what a Server needs to start commands.
type processes struct {
	adopts   bool // orphans come to this process
	launcher *launcher
	reaper   *reaper
	leaves   leaves
	marks    marks
	nofile   unix.Rlimit // of commands
	nproc    unix.Rlimit // likewise; zero: this process's own
	keeper   keeper
	tidy     *time.Timer // gives memory back; nil: nobody does
}

// How many processors a guest takes at once: each costs memory, and the one
// that starts a command does nothing else meanwhile.
const (
	leastThreads = 2
	mostThreads  = 4
)

// ownThreads is how many threads and processes of its own a guest may need.
const ownThreads = 32

// restAfter is how long after the last operation a guest gives memory back.
const restAfter = 2 * time.Second

// worked says that an operation has ended.
func (s *Server) worked() {
	if s.tidy != nil {
		s.tidy.Reset(restAfter)
	}
}

// begin makes a Server ready. It may be called often.
func (s *Server) begin() {
	s.once.Do(func() {
		s.ops = s.operations()
		s.launcher, s.reaper, s.leaves.dir = newLauncher(), newReaper(s.adopts), s.Config.Cgroup
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
			// Go has raised our own; what is above this, select can't do.
			s.nofile = unix.Rlimit{Cur: min(r.Max, 1024), Max: r.Max}
		}
		// Where a limit of processes is this one's too, it keeps some for its
		// threads: without one more when it needs it, the runtime gives up.
		if err := unix.Getrlimit(unix.RLIMIT_NPROC, &r); err == nil && r.Max != unix.RLIM_INFINITY && r.Max > 2*ownThreads {
			s.nproc = unix.Rlimit{Cur: r.Max - ownThreads, Max: r.Max - ownThreads}
		}
	})
}

// Close ends the Server's threads. Its commands and connections go on.
func (s *Server) Close() {
	s.begin()
	s.launcher.close()
}

// Run is what process 1 of a sandbox does once its walls stand: it serves hosts
// until the listener is closed, and takes in orphans.
func Run(l net.Listener, cfg Config) error {
	s, err := Prepare(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Serve(l)
}

// Rest gives back what memory this process has no use for now, as it does by itself
// when nothing was done for a while. There must be work under way, which ends later.
func (s *Server) Rest() {
	s.tidy.Stop()
	debug.FreeOSMemory()
}

// Prepare makes process 1 of a sandbox ready to serve: what it returns takes in
// orphans, and has the thread that starts commands.
func Prepare(cfg Config) (*Server, error) {
	if err := hide(); err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(max(leastThreads, min(runtime.GOMAXPROCS(0), mostThreads)))
	s := &Server{Config: cfg}
	s.adopts = os.Getpid() == 1 || unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	s.tidy = time.AfterFunc(restAfter, debug.FreeOSMemory)
	s.begin()
	s.launcher.prepare(&s.Config)
	if cfg.Gate {
		if err := s.listenOut(context.Background()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// hide takes this process out of the reach of what it will start: nobody of the
// same user can look into it or trace it, the kernel rather ends others when
// memory is short, and signals from inside don't arrive: process 1 gets none
// but those it has a handler for.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0) // where it may
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		switch sig {
		case unix.SIGURG, unix.SIGPROF, unix.SIGCHLD, unix.SIGPIPE: // the runtime needs them, and they do no harm
		case perThread: // without it a system call for all threads waits for ever; sent by others, it does nothing
		case unix.SIGKILL, unix.SIGSTOP:
		default:
			resetSignal(sig)
		}
	}
	return nil
}

// perThread is the signal by which the runtime has all threads make a system
// call (runtime/os_linux.go: sigPerThreadSyscall).
const perThread = syscall.Signal(33)

// resetSignal gives a signal its default action behind the back of the Go
// runtime, which handles it or not, but never leaves it alone.
func resetSignal(sig syscall.Signal) {
	var action [4]uintptr // struct sigaction of the kernel: SIG_DFL
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}
