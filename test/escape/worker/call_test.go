//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// These tests start a server whose sealed workers are the program of this package: it seals itself
// as atoll-worker does, and then makes the system calls of code that has taken the process over.

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, "sealed", func(m *testing.M) int { return m.Run() }))
}

// outcome is what the kernel does with a call of a sealed process.
type outcome int

const (
	refused outcome = iota // the call fails, and the process goes on
	ended                  // the process ends
)

// workerCall is a system call that a sealed worker must not make.
type workerCall struct {
	name    string
	number  uintptr
	args    []string // of "call"; PARENT is the id of the server's process
	outcome outcome
	paths   bool // with mounts the call is made, below a root directory that has nothing but them
	// uncontrolled is why the call is not made without a seal: "" if it is, and must be permitted there.
	uncontrolled string
}

const (
	noPrivilege = "a host may refuse it to the root of a user namespace, or not have it"
	ownChild    = "it would make a copy of a Go process"
)

// listWorkerCalls returns the calls of the attack table. "Refused" is the word of the filter alone:
// the arguments are such that the kernel would give another answer.
func listWorkerCalls() []workerCall {
	at := strconv.Itoa(unix.AT_FDCWD)
	const passwd = "text:/etc/passwd"
	file := func(name string, number uintptr, args ...string) workerCall {
		return workerCall{name: name, number: number, args: args, paths: true}
	}
	refuse := func(name string, number uintptr, args ...string) workerCall {
		return workerCall{name: name, number: number, args: args}
	}
	end := func(name string, number uintptr, args ...string) workerCall {
		return workerCall{name: name, number: number, args: args, outcome: ended}
	}
	barred := func(c workerCall) workerCall {
		c.uncontrolled = noPrivilege
		return c
	}
	child := func(c workerCall) workerCall {
		c.uncontrolled = ownChild
		return c
	}
	flags := func(n int) string { return strconv.Itoa(n) }
	return []workerCall{
		// Files.
		refuse("open", unix.SYS_OPEN, passwd, "0", "0"),
		refuse("open for writing", unix.SYS_OPEN, passwd, flags(unix.O_WRONLY), "0"),
		refuse("creat", unix.SYS_CREAT, "text:/proc/none", "0600"),
		file("openat", unix.SYS_OPENAT, at, passwd, "0", "0"),
		file("openat /proc/self/mem", unix.SYS_OPENAT, at, "text:/proc/self/mem", flags(unix.O_RDWR), "0"),
		file("openat /proc/self/maps", unix.SYS_OPENAT, at, "text:/proc/self/maps", "0", "0"),
		file("openat /proc/self/root", unix.SYS_OPENAT, at, "text:/proc/self/root", flags(unix.O_PATH), "0"),
		file("openat the parent's memory", unix.SYS_OPENAT, at, "text:/proc/PARENT/mem", "0", "0"),
		file("openat the parent's environment", unix.SYS_OPENAT, at, "text:/proc/PARENT/environ", "0", "0"),
		file("openat the parent's descriptor", unix.SYS_OPENAT, at, "text:/proc/PARENT/fd/0", "0", "0"),
		refuse("openat2", unix.SYS_OPENAT2, at, passwd, "zeros:24", "24"),
		refuse("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, "-1", "zeros:16", "0"),
		refuse("name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, at, passwd, "zeros:256", "zeros:8", "0"),
		refuse("stat", unix.SYS_STAT, passwd, "zeros:256"),
		refuse("access", unix.SYS_ACCESS, passwd, "0"),
		refuse("readlink", unix.SYS_READLINK, "text:/proc/self/exe", "zeros:256", "256"),
		file("statx", unix.SYS_STATX, at, passwd, "0", "0", "zeros:256"),
		file("faccessat", unix.SYS_FACCESSAT, at, passwd, "0"),
		file("readlinkat", unix.SYS_READLINKAT, at, "text:/proc/self/exe", "zeros:256", "256"),
		file("mkdirat", unix.SYS_MKDIRAT, at, "text:/proc/none", "0700"),
		file("unlinkat", unix.SYS_UNLINKAT, at, "text:/proc/none", "0"),
		file("renameat2", unix.SYS_RENAMEAT2, at, "text:/proc/none", at, "text:/proc/none2", "0"),
		file("linkat", unix.SYS_LINKAT, at, "text:/proc/none", at, "text:/proc/none2", "0"),
		file("symlinkat", unix.SYS_SYMLINKAT, passwd, at, "text:/proc/none"),
		file("fchmodat", unix.SYS_FCHMODAT, at, "text:/proc/none", "0777"),
		file("fchownat", unix.SYS_FCHOWNAT, at, "text:/proc/none", "0", "0", "0"),
		file("utimensat", unix.SYS_UTIMENSAT, at, "text:/proc/none", "0", "0"),
		refuse("mknodat", unix.SYS_MKNODAT, at, "text:/proc/none", flags(unix.S_IFIFO), "0"),
		refuse("truncate", unix.SYS_TRUNCATE, "text:/proc/none", "0"),
		refuse("chdir", unix.SYS_CHDIR, "text:/"),
		refuse("chroot", unix.SYS_CHROOT, "text:/"),
		refuse("getcwd", unix.SYS_GETCWD, "zeros:256", "256"),
		refuse("setxattr", unix.SYS_SETXATTR, "text:/proc/none", "text:user.x", "text:x", "1", "0"),
		// Programs and processes.
		end("execve", unix.SYS_EXECVE, "text:/proc/none", "0", "0"),
		end("execveat", unix.SYS_EXECVEAT, at, "text:/proc/none", "0", "0", "0"),
		child(end("fork", unix.SYS_FORK)),
		child(end("vfork", unix.SYS_VFORK)),
		child(end("clone a process", unix.SYS_CLONE, flags(int(unix.SIGCHLD)))),
		end("clone a user namespace", unix.SYS_CLONE, flags(unix.CLONE_NEWUSER|unix.CLONE_SIGHAND)),
		end("clone a network namespace", unix.SYS_CLONE, flags(unix.CLONE_NEWNET|unix.CLONE_SIGHAND)),
		refuse("clone3", unix.SYS_CLONE3, "zeros:88", "3"),
		refuse("unshare", unix.SYS_UNSHARE, flags(unix.CLONE_NEWUTS)),
		refuse("setns", unix.SYS_SETNS, "-1", "0"),
		refuse("wait4", unix.SYS_WAIT4, "-1", "0", flags(unix.WNOHANG), "0"),
		end("kill the parent", unix.SYS_KILL, "PARENT", "9"),
		end("tgkill the parent", unix.SYS_TGKILL, "PARENT", "PARENT", "9"),
		end("tkill the parent", unix.SYS_TKILL, "PARENT", "9"),
		end("rt_sigqueueinfo", unix.SYS_RT_SIGQUEUEINFO, "PARENT", "10", "0"),
		end("rt_tgsigqueueinfo", unix.SYS_RT_TGSIGQUEUEINFO, "PARENT", "PARENT", "10", "0"),
		end("pidfd_open", unix.SYS_PIDFD_OPEN, "PARENT", "0"),
		end("pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL, "-1", "9", "0", "0"),
		refuse("pidfd_getfd", unix.SYS_PIDFD_GETFD, "-1", "0", "0"),
		barred(end("ptrace the parent", unix.SYS_PTRACE, flags(unix.PTRACE_SEIZE), "PARENT", "0", "0")),
		end("process_vm_readv", unix.SYS_PROCESS_VM_READV, "PARENT", "0", "0", "0", "0", "0"),
		end("process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, "PARENT", "0", "0", "0", "0", "0"),
		refuse("process_madvise", unix.SYS_PROCESS_MADVISE, "-1", "0", "0", "0", "0"),
		barred(refuse("kcmp", unix.SYS_KCMP, "PARENT", "PARENT", "99")),
		refuse("prlimit64 of the parent", unix.SYS_PRLIMIT64, "PARENT", flags(unix.RLIMIT_NOFILE), "0", "zeros:16"),
		refuse("setpriority", unix.SYS_SETPRIORITY, "0", "PARENT", "19"),
		refuse("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, "PARENT", "8", "zeros:8"),
		refuse("sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER, "PARENT", "99", "zeros:8"),
		refuse("ioprio_set", unix.SYS_IOPRIO_SET, "1", "PARENT", "0xffff"),
		refuse("prctl PR_SET_DUMPABLE", unix.SYS_PRCTL, flags(unix.PR_SET_DUMPABLE), "1", "0", "0", "0"),
		refuse("prctl PR_SET_NO_NEW_PRIVS", unix.SYS_PRCTL, flags(unix.PR_SET_NO_NEW_PRIVS), "1", "0", "0", "0"),
		refuse("prctl PR_SET_PDEATHSIG", unix.SYS_PRCTL, flags(unix.PR_SET_PDEATHSIG), "0", "0", "0", "0"),
		refuse("seccomp", unix.SYS_SECCOMP, "99", "0", "0"),
		refuse("arch_prctl", unix.SYS_ARCH_PRCTL, "0x9999", "0"),
		// Connections.
		end("socket of the internet", unix.SYS_SOCKET, flags(unix.AF_INET), flags(unix.SOCK_STREAM), "0"),
		end("socket of unix", unix.SYS_SOCKET, flags(unix.AF_UNIX), flags(unix.SOCK_STREAM), "0"),
		end("socket of netlink", unix.SYS_SOCKET, flags(unix.AF_NETLINK), flags(unix.SOCK_RAW), "0"),
		end("socket of packets", unix.SYS_SOCKET, flags(unix.AF_PACKET), flags(unix.SOCK_RAW), "0"),
		end("connect", unix.SYS_CONNECT, "-1", "zeros:16", "16"),
		refuse("socketpair", unix.SYS_SOCKETPAIR, flags(unix.AF_UNIX), flags(unix.SOCK_STREAM), "0", "zeros:8"),
		refuse("bind", unix.SYS_BIND, "-1", "zeros:16", "16"),
		refuse("listen", unix.SYS_LISTEN, "-1", "1"),
		refuse("accept4", unix.SYS_ACCEPT4, "-1", "0", "0", "0"),
		refuse("sendto", unix.SYS_SENDTO, "-1", "zeros:1", "1", "0", "0", "0"),
		refuse("sendmsg", unix.SYS_SENDMSG, "-1", "zeros:56", "0"),
		refuse("recvmsg", unix.SYS_RECVMSG, "-1", "zeros:56", "0"),
		refuse("setsockopt", unix.SYS_SETSOCKOPT, "-1", "1", "1", "zeros:4", "4"),
		refuse("ioctl", unix.SYS_IOCTL, "-1", flags(unix.TIOCSTI), "zeros:1"),
		// Descriptors.
		barred(refuse("memfd_secret", unix.SYS_MEMFD_SECRET, "99")),
		end("memfd_create", unix.SYS_MEMFD_CREATE, "text:x", "0"),
		refuse("dup", unix.SYS_DUP, "-1"),
		refuse("pipe2", unix.SYS_PIPE2, "zeros:8", "0"),
		refuse("eventfd2", unix.SYS_EVENTFD2, "0", "0"),
		refuse("timerfd_create", unix.SYS_TIMERFD_CREATE, "0", "0"),
		refuse("signalfd4", unix.SYS_SIGNALFD4, "-1", "zeros:8", "8", "0"),
		refuse("epoll_create1", unix.SYS_EPOLL_CREATE1, "0"),
		refuse("fanotify_init", unix.SYS_FANOTIFY_INIT, "0x200", "0"),
		refuse("splice", unix.SYS_SPLICE, "-1", "0", "-1", "0", "1", "0"),
		refuse("sendfile", unix.SYS_SENDFILE, "-1", "-1", "0", "1"),
		// Parts of the kernel.
		barred(refuse("io_uring_setup", unix.SYS_IO_URING_SETUP, "1", "zeros:120")),
		barred(refuse("io_uring_enter", unix.SYS_IO_URING_ENTER, "-1", "0", "0", "0", "0", "0")),
		refuse("io_setup", unix.SYS_IO_SETUP, "0", "zeros:8"),
		barred(refuse("bpf", unix.SYS_BPF, "0", "zeros:128", "128")),
		barred(refuse("perf_event_open", unix.SYS_PERF_EVENT_OPEN, "zeros:128", "0", "-1", "-1", "0")),
		barred(refuse("userfaultfd", unix.SYS_USERFAULTFD, "1")),
		barred(refuse("landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, "0", "0", "1")),
		refuse("keyctl", unix.SYS_KEYCTL, "0", "-3", "1"),
		refuse("add_key", unix.SYS_ADD_KEY, "text:user", "text:x", "text:x", "1", "-2"),
		refuse("shmget", unix.SYS_SHMGET, "0", "4096", "01600"),
		refuse("msgget", unix.SYS_MSGGET, "0", "01600"),
		refuse("semget", unix.SYS_SEMGET, "0", "1", "01600"),
		refuse("mq_open", unix.SYS_MQ_OPEN, "text:x", "0", "0", "0"),
		refuse("mount", unix.SYS_MOUNT, "text:tmpfs", "text:/proc/none", "text:tmpfs", "0", "0"),
		refuse("umount2", unix.SYS_UMOUNT2, "text:/proc/none", flags(unix.MNT_DETACH)),
		refuse("pivot_root", unix.SYS_PIVOT_ROOT, "text:/proc/none", "text:/proc/none"),
		refuse("fsopen", unix.SYS_FSOPEN, "text:tmpfs", "0"),
		refuse("open_tree", unix.SYS_OPEN_TREE, at, "text:/", "0"),
		refuse("move_mount", unix.SYS_MOVE_MOUNT, "-1", "text:/", "-1", "text:/", "0"),
		barred(refuse("init_module", unix.SYS_INIT_MODULE, "0", "0", "0")),
		barred(refuse("finit_module", unix.SYS_FINIT_MODULE, "-1", "0", "-1")),
		barred(refuse("kexec_load", unix.SYS_KEXEC_LOAD, "0", "-1", "0", "-1")),
		barred(refuse("reboot", unix.SYS_REBOOT, "1", "2", "3", "0")), // no magic numbers
		barred(refuse("syslog", unix.SYS_SYSLOG, "10", "0", "0")),
		barred(refuse("settimeofday", unix.SYS_SETTIMEOFDAY, "zeros:16", "0")),
		refuse("sethostname", unix.SYS_SETHOSTNAME, "text:x", "1"),
		barred(refuse("iopl", unix.SYS_IOPL, "3")),
		refuse("modify_ldt", unix.SYS_MODIFY_LDT, "0", "0", "0"),
		refuse("personality", unix.SYS_PERSONALITY, "0x40000"),
		// Users and limits.
		refuse("setuid", unix.SYS_SETUID, "0"),
		refuse("setresgid", unix.SYS_SETRESGID, "0", "0", "0"),
		refuse("capset", unix.SYS_CAPSET, "0", "0"),
		refuse("setrlimit", unix.SYS_SETRLIMIT, flags(unix.RLIMIT_CORE), "zeros:16"),
		refuse("prlimit64", unix.SYS_PRLIMIT64, "0", flags(unix.RLIMIT_CORE), "zeros:16", "0"),
		// Memory.
		refuse("mmap that can be executed", unix.SYS_MMAP, "0", "4096", "5", flags(unix.MAP_PRIVATE|unix.MAP_ANONYMOUS), "-1", "0"),
		refuse("mmap that is shared", unix.SYS_MMAP, "0", "4096", "3", flags(unix.MAP_SHARED|unix.MAP_ANONYMOUS), "-1", "0"),
		refuse("mmap of a file", unix.SYS_MMAP, "0", "4096", "3", flags(unix.MAP_PRIVATE), "-1", "0"),
		refuse("mmap that grows", unix.SYS_MMAP, "0", "4096", "3", flags(unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_GROWSDOWN), "-1", "0"),
		refuse("mprotect that can be executed", unix.SYS_MPROTECT, "4096", "4096", "7"),
		refuse("pkey_mprotect", unix.SYS_PKEY_MPROTECT, "4096", "4096", "7", "-1"),
		refuse("mremap", unix.SYS_MREMAP, "4096", "4096", "8192", "0"),
		refuse("remap_file_pages", unix.SYS_REMAP_FILE_PAGES, "4096", "4096", "0", "0", "0"),
		refuse("madvise MADV_MERGEABLE", unix.SYS_MADVISE, "4096", "4096", flags(unix.MADV_MERGEABLE)),
		refuse("mlock", unix.SYS_MLOCK, "4096", "4096"),
		refuse("move_pages", unix.SYS_MOVE_PAGES, "0", "0", "0", "0", "0", "0"),
		refuse("futex FUTEX_LOCK_PI", unix.SYS_FUTEX, "zeros:4", "6", "0", "0", "0", "0"),
		// Other interfaces of the processor.
		barred(refuse("open of x32", x32Bit|unix.SYS_OPEN, passwd, "0", "0")),
		barred(refuse("getpid of x32", x32Bit|unix.SYS_GETPID)),
		barred(refuse("an unknown number", 5000)),
	}
}

const x32Bit = 0x40000000

// words returns the arguments of "call", for a process of the host.
func (c workerCall) words(parent int) []string {
	list := []string{"call", strconv.FormatUint(uint64(c.number), 10)}
	for _, a := range c.args {
		list = append(list, strings.ReplaceAll(a, "PARENT", strconv.Itoa(parent)))
	}
	return list
}

// TestCallsOfTakenOverWorker makes each call of the table in a sealed worker of a server, and requires
// the kernel's refusal, and the answers of the server and of another sandbox afterwards. Without a seal
// the kernel must not refuse the call, so that the refusal is that of the seal.
func TestCallsOfTakenOverWorker(t *testing.T) {
	program := buildWorker(t)
	t.Run("unsealed", func(t *testing.T) {
		for _, c := range listWorkerCalls() {
			t.Run(c.name, func(t *testing.T) { callUnsealed(t, program, c) })
		}
	})
	for _, v := range []struct {
		name  string
		mount string
	}{{"no-mounts", ""}, {"mounts", t.TempDir()}} {
		t.Run(v.name, func(t *testing.T) {
			s := startSealingServer(t, program)
			attacked, other := s.createSandbox(t, v.mount), s.createSandbox(t, "")
			s.mustPrint(t, attacked, "echo saved > /saved", "")
			s.mustPrint(t, other, "x=kept", "")
			for _, c := range listWorkerCalls() {
				t.Run(c.name, func(t *testing.T) {
					s.callSealed(t, attacked, c, v.mount != "")
					s.mustPrint(t, other, "echo $x", "kept\n")
					s.mustPrint(t, attacked, "cat /saved", "saved\n")
				})
			}
		})
	}
}

// callUnsealed requires that the kernel would take the call, of the root of separate namespaces.
func callUnsealed(t *testing.T, program string, c workerCall) {
	if c.uncontrolled != "" {
		t.Log("not made: ", c.uncontrolled)
		return
	}
	target := exec.Command("cat") // in place of the server
	in, err := target.StdinPipe()
	if err == nil {
		err = target.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = target.Wait() // a call may have killed it
	}()
	cmd := exec.Command(program, c.words(target.Process.Pid)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if result := strings.TrimSpace(string(out)); err != nil || result == "" || slices.Contains(refusals, result) {
		t.Errorf("without a seal: %q, %v: a refusal by the seal would show nothing", result, err)
	}
}

// refusals are the errors of a filter.
var refusals = []string{"EPERM", "ENOSYS"}

// callSealed makes the call in a sealed worker, and requires its refusal.
func (s *sealingServer) callSealed(t *testing.T, sb atoll.Sandbox, c workerCall, mounts bool) {
	t.Helper()
	exit, err := sb.Exec(s.ctx, atoll.Cmd{Args: c.words(s.pid)})
	result := strings.TrimSpace(string(exit.Stdout))
	switch {
	case c.outcome == ended:
		if !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "forbidden system call") {
			t.Errorf("the process was not ended for the call: %+v, %v", exit, err)
		}
	case err != nil || exit.Code != 0:
		t.Errorf("the call: %d, %q, %v", exit.Code, exit.Stderr, err)
	case c.paths && mounts:
		if result == "" || strings.HasPrefix(result, "succeeded") {
			t.Errorf("the call reached a file of the host: %s", result)
		}
	case !slices.Contains(refusals, result):
		t.Errorf("the kernel did not refuse the call: %q", result)
	}
}

// allowedCalls are the calls that a sealed worker may make with any arguments, and those that the
// filter permits with some of them.
var allowedCalls = []uintptr{
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOSE, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_WAIT,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_GETPID, unix.SYS_GETRANDOM, unix.SYS_GETTID, unix.SYS_GETTIMEOFDAY, unix.SYS_MUNMAP,
	unix.SYS_NANOSLEEP, unix.SYS_READ, unix.SYS_READV, unix.SYS_RESTART_SYSCALL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
	unix.SYS_RT_SIGRETURN, unix.SYS_SCHED_YIELD, unix.SYS_SIGALTSTACK, unix.SYS_WRITE, unix.SYS_WRITEV,
}

// unfilteredCalls are the calls of x86 that Linux passes by every filter: uretprobe and uprobe, of which
// the kernel ends the caller, or refuses the call, unless it has placed a breakpoint itself.
var unfilteredCalls = []uintptr{335, 336}

// TestEveryCallNumberIsRefused makes every call but the allowed ones, by their numbers and by those
// of the x32 interface, in one sealed worker that goes on: its kernel may be newer than the table above.
func TestEveryCallNumberIsRefused(t *testing.T) {
	s := startSealingServer(t, buildWorker(t))
	sb := s.createSandbox(t, "")
	except := slices.Concat(allowedCalls, unfilteredCalls)
	for _, c := range listWorkerCalls() {
		if c.outcome == ended { // TestCallsOfTakenOverWorker makes it
			except = append(except, c.number)
		}
	}
	const numbers = 1024 // Linux has fewer than 500
	for _, first := range []uintptr{0, x32Bit} {
		words := []string{"calls", fmt.Sprint(first), fmt.Sprint(first + numbers)}
		made := numbers
		if first == 0 {
			slices.Sort(except)
			except = slices.Compact(except)
			for _, n := range except {
				words = append(words, fmt.Sprint(n))
			}
			made -= len(except)
		}
		exit, err := sb.Exec(s.ctx, atoll.Cmd{Args: words})
		if err != nil || exit.Code != 0 {
			t.Fatalf("calls from %#x: %d, %q, %v", first, exit.Code, exit.Stderr, err)
		}
		lines := strings.Split(strings.TrimSpace(string(exit.Stdout)), "\n")
		if len(lines) != made {
			t.Errorf("calls from %#x: %d answers, want %d", first, len(lines), made)
		}
		for _, line := range lines {
			if _, result, _ := strings.Cut(line, " "); !slices.Contains(refusals, result) {
				t.Errorf("call %s", line)
			}
		}
	}
}

// buildWorker builds the program of this package as atoll-worker, and returns its path.
func buildWorker(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "atoll-worker")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the worker: %v: %s", err, out)
	}
	return path
}

// sealingServer is a server whose sealed workers are the program of a test.
type sealingServer struct {
	ctx context.Context
	pid int
	c   *client.Client // of an owner who is not the local one
}

// addressLine is what a server prints when it listens.
var addressLine = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// startSealingServer starts a server that runs the sandboxes of a client of another owner in workers
// of the program. It ends with the test.
func startSealingServer(t *testing.T, worker string) *sealingServer {
	t.Helper()
	home := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ATOLL_HOME=" + home, "ATOLL_HELPERS=" + filepath.Dir(worker)}
	var log lockedBuffer
	server := exec.Command(testenv.Atoll(t), "serve", "--listen", "127.0.0.1:0")
	server.Env, server.Stdout, server.Stderr = env, &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM) // it may have exited
		<-over
		if t.Failed() {
			t.Logf("the server:\n%s", log.String())
		}
	})
	var address string
	testenv.WaitFor(t, "the server's address", func() bool {
		select {
		case <-over:
			t.Fatalf("the server exited:\n%s", log.String())
		default:
		}
		address = addressLine.FindString(log.String())
		return address != ""
	})
	create := exec.CommandContext(t.Context(), testenv.Atoll(t), "token", "create", "--quiet", "--owner", "shop/ann", "--scope", "run,host")
	create.Env = env
	secret, err := create.Output()
	if err != nil {
		t.Fatalf("token create: %v", err)
	}
	c, err := client.New(client.Options{Host: address, Token: strings.TrimSpace(string(secret))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return &sealingServer{ctx, server.Process.Pid, c}
}

// createSandbox creates a sealed sandbox, with a directory if it is not empty.
func (s *sealingServer) createSandbox(t *testing.T, dir string) atoll.Sandbox {
	t.Helper()
	spec := atoll.Spec{}
	if dir != "" {
		spec.Mounts = []atoll.Mount{{Source: dir, Target: "/mnt"}}
	}
	sb, err := s.c.Create(s.ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := sb.Exec(s.ctx, atoll.Cmd{Args: []string{"call", strconv.Itoa(unix.SYS_GETPID)}}); err != nil || exit.Code != 0 {
		t.Fatalf("the sandbox does not run in the worker of this test: %d, %q, %v", exit.Code, exit.Stderr, err)
	}
	return sb
}

// mustPrint runs a shell text and requires its output.
func (s *sealingServer) mustPrint(t *testing.T, sb atoll.Sandbox, text, want string) {
	t.Helper()
	exit, err := sb.Exec(s.ctx, atoll.Cmd{Shell: text, Session: true})
	if err != nil || exit.Code != 0 || string(exit.Stdout) != want {
		t.Errorf("%s: %d, %q, %q, %v; want %q", text, exit.Code, exit.Stdout, exit.Stderr, err, want)
	}
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// Write appends b.
func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
