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
	// RLIMIT_DATA counts pages that can be written, but neither stacks that grow nor pages that were
	// written and then protected, nor the page tables of pages that are only read.
	rules["mmap"] = rule{[][]cond{{is(2, low, 0, protReadWrite), is(3, ^uint32(mapFixed|mapNoReserve), mapPrivate|mapAnonymous)}}, eperm}
	rules["mprotect"] = rule{[][]cond{{is(2, low, protReadWrite)}}, eperm}
	rules["madvise"] = rule{[][]cond{{is(2, low, madviseKinds...)}}, eperm}
	rules["futex"] = rule{[][]cond{{is(1, ^uint32(futexPrivate|futexRealTime), futexWait, futexWake, futexWaitBitset, futexWakeBitset)}}, eperm}
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
	protReadWrite = 0x3
	mapPrivate    = 0x02
	mapAnonymous  = 0x20
	mapFixed      = 0x10
	mapNoReserve  = 0x4000
	threadFlags   = 0x050f00 // with which the Go runtime makes a thread, on some processors with setTLS
	setTLS        = 0x080000

	futexWait       = 0
	futexWake       = 1
	futexWaitBitset = 9
	futexWakeBitset = 10
	futexPrivate    = 128
	futexRealTime   = 256
)

// madviseKinds are what the Go runtime advises: MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE,
// MADV_NOHUGEPAGE and MADV_COLLAPSE.
var madviseKinds = []uint32{4, 8, 14, 15, 25}

// runtimeCalls are what the Go runtime calls, besides those that depend on arguments.
var runtimeCalls = []string{
	"clock_gettime", "clock_nanosleep", "close", "epoll_ctl", "epoll_pwait", "epoll_wait", "exit", "exit_group", "getpid",
	"getrandom", "gettid", "gettimeofday", "munmap", "nanosleep", "read", "readv", "restart_syscall", "rt_sigaction",
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
