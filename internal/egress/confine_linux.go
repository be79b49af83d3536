package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Resource limits of a proxy.
const (
	softMemory   = 128 << 20 // bytes; target of the garbage collector
	hardMemory   = 1 << 30   // bytes of data
	maxOpenFiles = 4096      // descriptors
	maxTasks     = 256       // threads, if the proxy has its own user
)

// systemRoots reads the certificates for checking servers, while files can still be read.
func systemRoots(wanted bool) (*x509.CertPool, error) {
	if !wanted {
		return nil, nil //nolint:nilnil // not needed
	}
	return x509.SystemCertPool()
}

// confineProcess gives up every right that a proxy does not need: afterwards it can read no file,
// start no program, signal no other process, and create only TCP and UDP sockets.
func confineProcess(b *bootConfig) error {
	if err := closeForeign(); err != nil {
		return err
	}
	signal.Ignore(unix.SIGXFSZ) // a full journal is a write error and must not end the proxy
	debug.SetMemoryLimit(softMemory)
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 4))
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { //nolint:noctx // makes package net probe the kernel while it can
		_ = l.Close() // not used
	}
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_DATA: hardMemory, unix.RLIMIT_NOFILE: maxOpenFiles, unix.RLIMIT_FSIZE: 2 * maxLogFile}
	if b.UID != 0 {
		limits[unix.RLIMIT_NPROC] = maxTasks
	}
	for what, n := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit %d: %w", what, err)
		}
	}
	if b.Root != "" {
		if err := chrootInto(b.Root); err != nil {
			return err
		}
	}
	if b.UID != 0 {
		if err := switchUser(b.UID); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	for _, step := range []func() error{setNoNewPrivileges, denyFiles, dropCapabilities, installFilter} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// closeForeign closes inherited descriptors that a proxy should not have. Those of the Go runtime
// stay.
func closeForeign() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= fdLock {
			continue
		}
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(to, "anon_inode:[event") || strings.HasPrefix(to, "/sys/fs/cgroup/") {
			continue // err: the descriptor of the listing itself
		}
		_ = unix.Close(fd) // not used by this process
	}
	return nil
}

// chrootInto makes an empty directory the root and removes it.
func chrootInto(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil {
		return err
	}
	return syscall.Chroot(".")
}

// switchUser switches this process to another user for good.
func switchUser(uid int) error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	if err := syscall.Setresgid(uid, uid, uid); err != nil {
		return fmt.Errorf("group %d: %w", uid, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("user %d: %w", uid, err)
	}
	return nil
}

// callOnAllThreads executes a system call on every thread.
func callOnAllThreads(call, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

func setNoNewPrivileges() error {
	if err := callOnAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	return nil
}

// denyFiles denies access to all files by Landlock, if the kernel has it. The seccomp filter denies
// it again.
func denyFiles() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return nil //nolint:nilerr // no Landlock here
	}
	bits := 13 // rights of version 1
	for _, version := range []uintptr{2, 3, 5} {
		if abi >= version {
			bits++ // each of these versions added one
		}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: 1<<bits - 1}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), 8, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	defer unix.Close(int(fd))
	if err := callOnAllThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// dropCapabilities drops all capabilities. A proxy of root has none any more, but one in a user
// namespace may.
func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := callOnAllThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none[0])), 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// allowedSyscalls are the system calls of a Go program that only uses open descriptors and network
// connections. All others fail with EPERM.
var allowedSyscalls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_CLOSE, unix.SYS_FSTAT,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME,
	unix.SYS_GETTIMEOFDAY, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRANDOM, unix.SYS_RSEQ, unix.SYS_SET_ROBUST_LIST,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2, unix.SYS_FCNTL,
	unix.SYS_CONNECT, unix.SYS_ACCEPT4, unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SHUTDOWN,
	unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Offsets in struct seccomp_data.
const (
	dataCall = 0
	dataArch = 4
	dataArgs = 16
)

// installFilter installs the seccomp filter on all threads.
func installFilter() error {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return errors.New("no seccomp filter for " + runtime.GOARCH)
	}
	program := []unix.SockFilter{
		loadWord(dataArch), skipIf(unix.BPF_JEQ, arch, 1), returnAction(unix.SECCOMP_RET_KILL_PROCESS), loadWord(dataCall),
	}
	for _, nr := range allowedSyscalls {
		program = append(program, skipUnless(unix.BPF_JEQ, nr, 1), returnAction(unix.SECCOMP_RET_ALLOW))
	}
	program = append(program, matchSyscall(unix.SYS_SOCKET, 0,
		skipIf(unix.BPF_JEQ, unix.AF_INET, 2), skipIf(unix.BPF_JEQ, unix.AF_INET6, 1), returnEPERM(), returnAction(unix.SECCOMP_RET_ALLOW))...)
	program = append(program, matchSyscall(unix.SYS_CLONE, 0,
		skipIf(unix.BPF_JSET, unix.CLONE_THREAD, 1), returnEPERM(), returnAction(unix.SECCOMP_RET_ALLOW))...)
	program = append(program, matchSyscall(unix.SYS_TGKILL, 0,
		skipIf(unix.BPF_JEQ, uint32(os.Getpid()), 1), returnEPERM(), returnAction(unix.SECCOMP_RET_ALLOW))...)
	for _, nr := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		program = append(program, matchSyscall(nr, 2,
			skipUnless(unix.BPF_JSET, unix.PROT_EXEC, 1), returnEPERM(), returnAction(unix.SECCOMP_RET_ALLOW))...)
	}
	program = append(program, matchSyscall(unix.SYS_CLONE3, 0, returnAction(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))...)
	program = append(program, returnEPERM())
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("seccomp filter: %w", errno)
	}
	return nil
}

// matchSyscall returns the part of a filter for one system call, with an argument loaded. Every path
// through then must return.
func matchSyscall(nr uint32, arg int, then ...unix.SockFilter) []unix.SockFilter {
	out := []unix.SockFilter{skipUnless(unix.BPF_JEQ, nr, uint8(len(then)+1)), loadWord(uint32(dataArgs + 8*arg))}
	return append(out, then...)
}

func loadWord(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// skipIf and skipUnless skip n instructions.
func skipIf(test uint16, k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jt: n}
}

func skipUnless(test uint16, k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jf: n}
}

func returnAction(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func returnEPERM() unix.SockFilter { return returnAction(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)) }
