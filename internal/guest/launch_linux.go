package guest

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// launcher runs the thread that starts every command. The thread has the restrictions that
// commands get and the guest does not have: no way to gain capabilities, the seccomp filter, the
// Landlock domain. Its children inherit them at no cost, while installing a filter would cost
// each command more than its fork.
type launcher struct {
	requests chan *launch
	closed   chan struct{} // closed when the thread is to end
	key      uintptr       // see prependCloneRule
	result   *childResult

	once      sync.Once
	reserved  chan struct{} // closed when the guest has reserved what commands could take from it
	ready     chan struct{} // closed when the thread is restricted, or that has failed
	err       error         // why it has failed; set before ready is closed
	closeOnce sync.Once
}

// launch is a request to start one child.
type launch struct {
	child   *child
	process *process // gets the pid
	reaper  *reaper  // registers the process
	pid     int
	errno   syscall.Errno // of the fork
	step    childStep
	cause   syscall.Errno // of the failed step
	done    chan struct{}
}

func newLauncher() *launcher {
	return &launcher{requests: make(chan *launch), closed: make(chan struct{}), ready: make(chan struct{}), reserved: make(chan struct{})}
}

// startThread starts the thread on the first call. At the same time it calls reserve, if not nil,
// before whose end nothing is launched.
func (l *launcher) startThread(cfg *Config, reserve func()) {
	l.once.Do(func() {
		go l.serveLaunches(cfg)
		if reserve == nil {
			close(l.reserved)
			return
		}
		go func() {
			defer close(l.reserved)
			reserve()
		}()
	})
}

// start starts the child for p. The launch reports whether its exec failed.
func (l *launcher) start(cfg *Config, to *reaper, c *child, p *process) (*launch, error) {
	l.startThread(cfg, nil)
	<-l.reserved
	<-l.ready
	if l.err != nil {
		return nil, fmt.Errorf("%w: restrict the thread that starts commands: %w", atoll.ErrUnavailable, l.err)
	}
	r := &launch{child: c, process: p, reaper: to, done: make(chan struct{})}
	select {
	case l.requests <- r:
	case <-l.closed:
		return nil, fmt.Errorf("%w: the guest is ending", atoll.ErrUnavailable)
	}
	<-r.done
	return r, nil
}

// close ends the thread. Further calls do nothing.
func (l *launcher) close() {
	l.once.Do(func() {
		l.err = os.ErrClosed
		close(l.reserved)
		close(l.ready)
	})
	l.closeOnce.Do(func() { close(l.closed) })
}

// serveLaunches is the main function of the thread. It never unlocks the thread, which ends with
// its restrictions.
func (l *launcher) serveLaunches(cfg *Config) {
	runtime.LockOSThread()
	l.err = l.restrictThread(cfg)
	close(l.ready)
	if l.err != nil {
		return
	}
	for {
		select {
		case r := <-l.requests:
			l.forkChild(r)
			close(r.done)
		case <-l.closed:
			_ = unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(l.result)), os.Getpagesize())) // leaks one page at worst
			return
		}
	}
}

// A child that has not executed its program after launchCheckInterval is checked repeatedly. If
// another program inside has stopped it, which blocks this thread, it is killed at once. If it is
// only slow, as on a busy host, it is killed after launchTimeout.
const (
	launchCheckInterval = 2 * time.Second
	launchTimeout       = 15 * time.Second
)

func (l *launcher) forkChild(r *launch) {
	r.child.result, r.child.key = l.result, l.key
	forked := make(chan struct{})
	t := time.AfterFunc(launchCheckInterval, func() { l.killStuckChild(forked) })
	r.reaper.mu.Lock()
	r.pid, r.errno = r.child.fork()
	if r.errno == 0 {
		r.process.pid = r.pid
		r.reaper.add(r.process)
	}
	r.reaper.mu.Unlock()
	t.Stop()
	close(forked)
	r.step, r.cause = l.result.step, l.result.errno
}

// killStuckChild kills a child that does not reach its exec.
func (l *launcher) killStuckChild(forked <-chan struct{}) {
	for waited := launchCheckInterval; ; waited += launchCheckInterval {
		if pid := int(l.result.pid.Load()); pid > 0 && (waited >= launchTimeout || isStopped(pid)) {
			_ = unix.Kill(pid, unix.SIGKILL) // the pid can't be reused before the fork returns
		}
		select {
		case <-forked:
			return
		case <-time.After(launchCheckInterval):
		}
	}
}

// isStopped reports whether a process is stopped by a signal or a tracer, or can't be examined.
func isStopped(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	i := bytes.LastIndex(b, []byte(") ")) // the program's name before it may contain anything
	return err != nil || i < 0 || i+2 >= len(b) || b[i+2] == 'T' || b[i+2] == 't'
}

// restrictThread applies the restrictions of commands to this thread.
func (l *launcher) restrictThread(cfg *Config) error {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	l.result = (*childResult)(unsafe.Pointer(&page[0]))
	if !cfg.KeepRights {
		if err := dropPrivileges(cfg); err != nil {
			return err
		}
	}
	if cfg.Landlock != nil {
		if err := cfg.Landlock.Restrict(); err != nil {
			return err
		}
	}
	if len(cfg.Filter) == 0 {
		return nil
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	l.key = uintptr(binary.NativeEndian.Uint64(b[:]))
	prog, err := prependCloneRule(cfg.Filter, uint64(l.key))
	if err != nil {
		return err
	}
	f := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&f))); errno != 0 {
		return fmt.Errorf("filter: %w", errno)
	}
	runtime.KeepAlive(prog)
	return nil
}

// dropPrivileges removes every way for this thread and its children to gain privileges.
func dropPrivileges(cfg *Config) error {
	if err := emptyBoundingSet(); err != nil && (cfg.CanSwitchUser || os.Geteuid() == 0) {
		return fmt.Errorf("capabilities: %w", err) // other users have none and can't gain any
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}

// emptyBoundingSet removes every capability from the bounding set of this thread and its children.
func emptyBoundingSet() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // past the last capability
		}
		if err == nil {
			continue
		}
		has, rerr := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if errors.Is(rerr, unix.EINVAL) {
			return nil
		}
		if rerr != nil || has != 0 {
			return err
		}
	}
}

// prependCloneRule allows this thread to call clone3, which the filter otherwise refuses because
// filters can't see its flags. The third argument, which the kernel ignores, is a secret key
// that programs inside can't learn.
func prependCloneRule(filter []byte, key uint64) ([]unix.SockFilter, error) {
	const (
		number, arch, low, high = 0, 4, 32, 36 // offsets in struct seccomp_data; low and high are the halves of args[2]
		size                    = int(unsafe.Sizeof(unix.SockFilter{}))
	)
	if len(filter)%size != 0 || len(filter)/size > 4000 {
		return nil, fmt.Errorf("%w: a filter of %d bytes", atoll.ErrInvalid, len(filter))
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: k}
	}
	prog := []unix.SockFilter{
		load(number), unless(unix.SYS_CLONE3, 7),
		load(arch), unless(auditArch, 5),
		load(low), unless(uint32(key), 3),
		load(high), unless(uint32(key>>32), 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	return append(prog, unsafe.Slice((*unix.SockFilter)(unsafe.Pointer(unsafe.SliceData(filter))), len(filter)/size)...), nil
}
