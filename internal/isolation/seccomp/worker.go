package seccomp

import "runtime"

// Worker describes the process of a sealed worker.
type Worker struct {
	PID   int  // the process itself, the only one that it may signal
	Files bool // it reaches the directories that it mounts
}

// Filter returns the policy for the threads of the worker, which is a Go program, as Filter does. It
// allows what the Go runtime needs to run goroutines, to read and write open files, and to allocate
// private memory that is not executable; with Files, also calls on the files of its root directory.
// Calls with which an attack would go on end the process; others fail.
func (w Worker) Filter() ([]byte, error) { return compileFilter(runtime.GOARCH, w.rules(), eperm) }

func (w Worker) rules() map[string]rule {
	is := func(arg int, mask uint32, list ...uint32) cond { return cond{arg, mask, false, list} }
	rules := make(map[string]rule, len(calls))
	for _, c := range calls {
		rules[c.name] = refuseWith(eperm)
	}
	for _, name := range deadlyCalls {
		rules[name] = refuseWith(killsProcess)
	}
	for _, name := range runtimeCalls {
		rules[name] = always
	}
	notExecutable := is(2, protExec, 0)
	rules["mmap"] = rule{[][]cond{{notExecutable, is(3, mapKinds, mapPrivate|mapAnonymous)}}, eperm}
	rules["mprotect"] = rule{[][]cond{{notExecutable}}, eperm}
	rules["clone"] = rule{[][]cond{{is(0, low, threadFlags, threadFlags|setTLS)}}, killsProcess}
	rules["tgkill"] = rule{[][]cond{{is(0, low, uint32(w.PID))}}, killsProcess}
	if !w.Files {
		return rules
	}
	for _, name := range fileCalls {
		rules[name] = always
	}
	command := policyRules(Options{})
	for _, name := range []string{"openat", "fchmod", "fchmodat", "fchmodat2"} {
		rules[name] = command[name]
	}
	rules["fcntl"] = rule{[][]cond{{is(1, low, 1, 2, 3, 4, 1030)}}, eperm} // flags, and F_DUPFD_CLOEXEC
	return rules
}

// Values of arguments.
const (
	protExec     = 0x4
	mapPrivate   = 0x02
	mapAnonymous = 0x20
	mapKinds     = 0x23     // MAP_SHARED, MAP_PRIVATE and MAP_ANONYMOUS
	threadFlags  = 0x050f00 // with which the Go runtime makes a thread, on some processors with setTLS
	setTLS       = 0x080000
)

// runtimeCalls are what the Go runtime calls, besides those that depend on arguments.
var runtimeCalls = []string{
	"clock_gettime", "clock_nanosleep", "close", "epoll_ctl", "epoll_pwait", "epoll_wait", "exit", "exit_group", "futex", "getpid",
	"getrandom", "gettid", "gettimeofday", "madvise", "munmap", "nanosleep", "read", "readv", "restart_syscall", "rt_sigaction",
	"rt_sigprocmask", "rt_sigreturn", "sched_yield", "sigaltstack", "write", "writev",
}

// fileCalls are the calls on the files of the root directory, besides those that depend on arguments.
var fileCalls = []string{
	"copy_file_range", "dup3", "faccessat", "faccessat2", "fchown", "fchownat", "fdatasync", "fstat", "fstatfs", "fsync", "ftruncate", "getdents64",
	"inotify_add_watch", "inotify_init1", "inotify_rm_watch", "linkat", "lseek", "mkdirat", "newfstatat", "pread64", "pwrite64",
	"readlinkat", "renameat", "renameat2", "statx", "symlinkat", "unlinkat", "utimensat",
}

// deadlyCalls end the process.
var deadlyCalls = []string{
	"connect", "execve", "execveat", "fork", "kill", "memfd_create", "pidfd_open",
	"pidfd_send_signal", "process_vm_readv", "process_vm_writev", "ptrace", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "socket", "tkill",
	"vfork",
}
