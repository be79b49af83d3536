package guest

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child holds everything that a child needs between fork and exec. It is prepared before the
// fork, because the child can neither allocate nor call anything but the kernel. The child has the
// restrictions of the thread that forks.
type child struct {
	paths  []*byte // programs to try; the first that exists is executed
	argv   []*byte
	script []*byte // /bin/sh, a place for the path, and the arguments: for a script without #!
	envv   []*byte
	dir    *byte
	files  []int // descriptors that become 0, 1, …; each is larger than its new number

	terminal bool // descriptor 0 becomes its controlling terminal
	switches bool // it switches to another user:
	uid, gid uintptr
	groups   []uint32
	oom      []byte // oom_score_adj; nil: the guest's
	nofile   unix.Rlimit
	nproc    unix.Rlimit

	cgroup int     // descriptor of its cgroup; 0: the guest's
	key    uintptr // the filter allows only clone3 with this key
	clone3 cloneArgs
	result *childResult // in memory shared by both
}

// cloneArgs is the kernel's struct clone_args as of Linux 5.7.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// childResult reports why a child could not execute its program.
type childResult struct {
	pid   atomic.Int32 // set by the kernel before the child runs
	step  childStep
	errno syscall.Errno
}

// childStep is the step that failed in a child.
type childStep int32

const (
	stepNone childStep = iota
	stepUser
	stepDir
	stepFiles
	stepTerminal
	stepExec
)

// These functions belong to the runtime. The syscall package uses them in the same way.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// fork starts the child. It returns when the child has executed its program or has failed to. On
// failure c.result has the cause, and the child must be reaped like any other.
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

// forkAndExec forks. It never returns in the child, which uses its stack frame until the exec;
// therefore the parent returns at once.
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
	afterForkInChild() // resets the signals that are handled
	setSignalAction(sigCancel, &defaultAction)
	setSignalAction(sigRTMin, &defaultAction)
	if _, _, err = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); err != 0 {
		goto failed
	}
	if c.oom != nil { // best effort
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
	if c.switches {
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

// switchUser switches the child to another user.
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

// exec executes the first program that exists, or sh for a script without #!. It returns only on
// failure, with the most informative error.
//
//go:nosplit
//go:norace
func (c *child) exec() (best syscall.Errno) {
	var err syscall.Errno
	best = syscall.ENOENT
	for i := range c.paths {
		if len(c.paths) > 1 {
			// An execve of a missing file first costs the kernel a new address space.
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
			*(*uintptr)(unsafe.Pointer(&c.script[1])) = uintptr(unsafe.Pointer(c.paths[i])) // a pointer write would invoke the garbage collector's write barrier
			_, _, _ = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.script[0])), uintptr(unsafe.Pointer(&c.script[0])), uintptr(unsafe.Pointer(&c.envv[0])))
			return err
		default:
			return err
		}
	}
	return best
}

var oomPath = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o', 'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', 0}
