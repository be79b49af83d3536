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

// launcher is the thread that starts every command. It stands behind the walls
// that they get, and that the guest itself doesn't have: no capability can be
// gained, the filter, the domain. What it forks inherits them at no cost, where
// a filter alone would cost each command more than its fork.
type launcher struct {
	requests chan *launch
	over     chan struct{} // closed when the thread is to end
	key      uintptr       // see guard
	result   *childResult

	once   sync.Once
	stands chan struct{} // closed when the walls stand, or can't
	err    error         // why the walls don't stand; set before that
	end    sync.Once
}

// launch is one child to start.
type launch struct {
	child *child
	of    *process // whose pid is set
	to    *reaper  // who then knows it
	pid   int
	errno syscall.Errno // of the fork
	step  childStep
	cause syscall.Errno // of the step
	done  chan struct{}
}

func newLauncher() *launcher {
	return &launcher{requests: make(chan *launch), over: make(chan struct{}), stands: make(chan struct{})}
}

// prepare makes the thread, if there is none.
func (l *launcher) prepare(cfg *Config) { l.once.Do(func() { go l.run(cfg) }) }

// start starts the child that becomes p. It may not have become a program.
func (l *launcher) start(cfg *Config, to *reaper, c *child, p *process) (*launch, error) {
	l.prepare(cfg)
	<-l.stands
	if l.err != nil {
		return nil, fmt.Errorf("%w: the walls of commands: %w", atoll.ErrUnavailable, l.err)
	}
	r := &launch{child: c, of: p, to: to, done: make(chan struct{})}
	select {
	case l.requests <- r:
	case <-l.over:
		return nil, fmt.Errorf("%w: the guest is ending", atoll.ErrUnavailable)
	}
	<-r.done
	return r, nil
}

// close ends the thread. It may be called twice.
func (l *launcher) close() {
	l.once.Do(func() {
		l.err = os.ErrClosed
		close(l.stands)
	})
	l.end.Do(func() { close(l.over) })
}

// run is the thread. It is never unlocked: it ends with its walls.
func (l *launcher) run(cfg *Config) {
	runtime.LockOSThread()
	l.err = l.restrict(cfg)
	close(l.stands)
	if l.err != nil {
		return
	}
	for {
		select {
		case r := <-l.requests:
			l.fork(r)
			close(r.done)
		case <-l.over:
			_ = unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(l.result)), os.Getpagesize())) // no more than a page
			return
		}
	}
}

// A child that is no program after launchLook is looked at again and again: one
// that another program inside has stopped, which keeps this thread, is killed, and
// one that is only slow, as on a busy host, after launchPatience.
const (
	launchLook     = 2 * time.Second
	launchPatience = 15 * time.Second
)

func (l *launcher) fork(r *launch) {
	r.child.result, r.child.key = l.result, l.key
	forked := make(chan struct{})
	t := time.AfterFunc(launchLook, func() { l.watch(forked) })
	r.to.mu.Lock()
	r.pid, r.errno = r.child.fork()
	if r.errno == 0 {
		r.of.pid = r.pid
		r.to.add(r.of)
	}
	r.to.mu.Unlock()
	t.Stop()
	close(forked)
	r.step, r.cause = l.result.step, l.result.errno
}

// watch ends a child that is not going to become a program.
func (l *launcher) watch(forked <-chan struct{}) {
	for waited := launchLook; ; waited += launchLook {
		if pid := int(l.result.pid.Load()); pid > 0 && (waited >= launchPatience || stopped(pid)) {
			_ = unix.Kill(pid, unix.SIGKILL) // it can't be reaped before its fork returns
		}
		select {
		case <-forked:
			return
		case <-time.After(launchLook):
		}
	}
}

// stopped reports whether a process stands still because a signal or a tracer
// made it, or can't be looked at.
func stopped(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	i := bytes.LastIndex(b, []byte(") ")) // the name before it may be anything
	return err != nil || i < 0 || i+2 >= len(b) || b[i+2] == 'T' || b[i+2] == 't'
}

// restrict puts this thread behind the walls.
func (l *launcher) restrict(cfg *Config) error {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	l.result = (*childResult)(unsafe.Pointer(&page[0]))
	if !cfg.Whole {
		if err := giveUp(cfg); err != nil {
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
	prog, err := guard(cfg.Filter, uint64(l.key))
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

// giveUp leaves this thread, and what it starts, no way to a privilege.
func giveUp(cfg *Config) error {
	if err := emptyBoundingSet(); err != nil && (cfg.Switch || os.Geteuid() == 0) {
		return fmt.Errorf("capabilities: %w", err) // other users have none, and can't gain any
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}

// emptyBoundingSet takes from this thread, and what it starts, the hope for
// every capability.
func emptyBoundingSet() error {
	for c := uintptr(0); ; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // there are no more
		}
		if err != nil {
			return err
		}
		if has == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
}

// guard puts before a filter, which refuses clone3 because no filter sees its
// flags, that this thread may call it: its third argument, of which the kernel
// takes no notice, is a key that nobody inside can learn.
func guard(filter []byte, key uint64) ([]unix.SockFilter, error) {
	const (
		number, arch, low, high = 0, 4, 32, 36 // in struct seccomp_data; of args[2] the halves
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
