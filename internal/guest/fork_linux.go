package guest

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is all that a child needs between fork and exec, made before the fork:
// there it can neither allocate nor call anything but the kernel. The walls are
// those of the thread that forks.
type child struct {
	paths  []*byte // programs to try, the first that is there is taken
	argv   []*byte
	script []*byte // /bin/sh, a place for the path, and the arguments: for text without #!
	envv   []*byte
	dir    *byte
	files  []int // its descriptors from 0 on, all above their number

	terminal bool // descriptor 0 becomes its controlling terminal
	become   bool // it becomes another user:
	uid, gid uintptr
	groups   []uint32
	oom      []byte // for its oom_score_adj; nil: ours
	nofile   unix.Rlimit
	nproc    unix.Rlimit

	cgroup int     // in which it starts; 0: ours
	key    uintptr // the filter lets only this clone3 through
	clone3 cloneArgs
	result *childResult // in memory that both share
}

// cloneArgs is struct clone_args of the kernel, as of Linux 5.7.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// childResult is what a child says when it can't become another program.
type childResult struct {
	pid   atomic.Int32 // set by the kernel before the child runs
	step  childStep
	errno syscall.Errno
}

// childStep says what a child could not do.
type childStep int32

const (
	stepNone childStep = iota
	stepUser
	stepDir
	stepFiles
	stepTerminal
	stepExec
)

// These are the runtime's, as the syscall package uses them.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// fork starts the child. It returns when that is another program, or could not
// become one: then c.result says why, and its end must be waited for like any
// other's.
func (c *child) fork() (pid int, err syscall.Errno) {
	c.result.pid.Store(0)
	c.result.step, c.result.errno = stepNone, 0
	var args *cloneArgs
	if c.cgroup != 0 {
		c.clone3 = cloneArgs{
			flags: forkFlags | unix.CLONE_INTO_CGROUP | unix.CLONE_PARENT_SETTID, exitSignal: uint64(syscall.SIGCHLD), cgroup: uint64(c.cgroup),
			parentTID: uint64(uintptr(unsafe.Pointer(&c.result.pid))),
		}
		args = &c.clone3
	}
	n, err := c.forkAndExec(args)
	afterFork()
	runtime.KeepAlive(c)
	return int(n), err
}

// forkAndExec forks; in the child it never returns. Its frame is the child's
// until it is another program, which is why the parent leaves it at once.
//
//go:noinline
//go:norace
//go:nocheckptr
func (c *child) forkAndExec(args *cloneArgs) (pid uintptr, err syscall.Errno) {
	// No variable is declared after the fork.
	var (
		i    int
		fd   uintptr
		e    uintptr
		step childStep
	)
	beforeFork()
	if args != nil {
		pid, e = vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), c.key)
	} else {
		pid, e = vfork(unix.SYS_CLONE, forkFlags|unix.CLONE_PARENT_SETTID|uintptr(syscall.SIGCHLD), 0, uintptr(unsafe.Pointer(&c.result.pid)))
	}
	if e != 0 || pid != 0 {
		return pid, syscall.Errno(e)
	}

	step = stepFiles
	afterForkInChild()
	if _, _, err = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); err != 0 {
		goto failed
	}
	if c.oom != nil { // a wish
		fd, _, err = syscall.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&oomPath[0])), unix.O_WRONLY, 0, 0, 0)
		if err == 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&c.oom[0])), uintptr(len(c.oom)))
		}
	}
	for i = range c.files {
		if _, _, err = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.files[i]), uintptr(i), 0); err != 0 {
			goto failed
		}
	}
	if _, _, err = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(len(c.files)), 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != 0 && err != syscall.ENOSYS && err != syscall.EINVAL {
		goto failed
	}
	if c.terminal {
		step = stepTerminal
		if _, _, err = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); err != 0 {
			goto failed
		}
	}
	if c.nofile.Max != 0 {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&c.nofile)), 0, 0, 0)
	}
	if c.nproc.Max != 0 {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, uintptr(unsafe.Pointer(&c.nproc)), 0, 0, 0)
	}
	if c.become {
		step = stepUser
		if err = c.switchUser(); err != 0 {
			goto failed
		}
	}
	if c.dir != nil {
		step = stepDir
		if _, _, err = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); err != 0 {
			goto failed
		}
	}
	step, err = stepExec, c.exec()
failed:
	c.result.step, c.result.errno = step, err
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// switchUser makes the child another user.
//
//go:nosplit
//go:norace
func (c *child) switchUser() (err syscall.Errno) {
	if len(c.groups) == 0 {
		_, _, err = syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	} else {
		_, _, err = syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(c.groups)), uintptr(unsafe.Pointer(&c.groups[0])), 0)
	}
	if err != 0 {
		return err
	}
	if _, _, err = syscall.RawSyscall(unix.SYS_SETRESGID, c.gid, c.gid, c.gid); err != 0 {
		return err
	}
	_, _, err = syscall.RawSyscall(unix.SYS_SETRESUID, c.uid, c.uid, c.uid)
	return err
}

// exec makes the child the first program that is there, or text that sh runs.
// It returns only an error: that which says most.
//
//go:nosplit
//go:norace
func (c *child) exec() (best syscall.Errno) {
	var err syscall.Errno
	best = syscall.ENOENT
	for i := range c.paths {
		if len(c.paths) > 1 {
			// To execute what is not there costs the kernel an address space first.
			_, _, err = syscall.RawSyscall(unix.SYS_FACCESSAT, ^uintptr(99), uintptr(unsafe.Pointer(c.paths[i])), unix.F_OK)
			if err == syscall.ENOENT || err == syscall.ENOTDIR {
				continue
			}
		}
		_, _, err = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.paths[i])), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.envv[0])))
		switch err {
		case syscall.ENOENT, syscall.ENOTDIR:
		case syscall.EACCES:
			best = err
		case syscall.ENOEXEC:
			*(*uintptr)(unsafe.Pointer(&c.script[1])) = uintptr(unsafe.Pointer(c.paths[i])) // as a pointer, it would tell the collector
			_, _, _ = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.script[0])), uintptr(unsafe.Pointer(&c.script[0])), uintptr(unsafe.Pointer(&c.envv[0])))
			return err
		default:
			return err
		}
	}
	return best
}

var oomPath = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o', 'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', 0}
