//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAttacks returns attacks that use parts of the kernel that no sandbox needs. An
// attack succeeds if the kernel looks at the arguments of the call, which are invalid.
func kernelAttacks() map[string]attack {
	const senseless = ^uintptr(0)
	return map[string]attack{
		"kexec":             callSystem(unix.SYS_KEXEC_LOAD, 0, senseless, 0, senseless),
		"kexec-file":        callSystem(unix.SYS_KEXEC_FILE_LOAD, senseless, senseless, 0, 0, senseless),
		"module-load":       callSystem(unix.SYS_INIT_MODULE, 0, 0, 0),
		"module-load-file":  callSystem(unix.SYS_FINIT_MODULE, senseless, 0, senseless),
		"module-remove":     callSystem(unix.SYS_DELETE_MODULE, 0, 0),
		"reboot":            callSystem(unix.SYS_REBOOT, 1, 2, 3, 0), // no magic
		"swap-on":           callSystem(unix.SYS_SWAPON, 0, 0),
		"swap-off":          callSystem(unix.SYS_SWAPOFF, 0),
		"account":           enableAccounting,
		"quota":             callSystem(unix.SYS_QUOTACTL, senseless, 0, 0, 0),
		"clock-set":         setClock,
		"clock-adjust":      adjustClock,
		"host-name":         setHostName,
		"kernel-log":        readKernelLog,
		"bpf":               callSystem(unix.SYS_BPF, senseless, 0, 0),
		"perf":              openPerfEvent,
		"userfaultfd":       openUserfaultfd,
		"io-uring":          setUpIOUring,
		"io-ports":          accessIOPorts,
		"modify-ldt":        callSystem(unix.SYS_MODIFY_LDT, 0, 0, 0),
		"fanotify":          initFanotify,
		"vm-splice":         spliceMemory,
		"x32":               runX32Call,
		"x32-call":          callX32,
		"move-pages":        callSystem(unix.SYS_MOVE_PAGES, 1, 0, 0, 0, 0, 0),
		"socket-vsock":      openSocket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"socket-packet":     openSocket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"socket-raw":        openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"socket-raw6":       openSocket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW),
		"socket-alg":        openSocket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"socket-netfilter":  openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
		"socket-audit":      openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
		"socket-uevent":     openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
		"socket-xdp":        openSocket(unix.AF_XDP, unix.SOCK_RAW, 0),
		"socket-key":        openSocket(unix.AF_KEY, unix.SOCK_RAW, 2),
		"socket-bluetooth":  openSocket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1),
		"socket-can":        openSocket(unix.AF_CAN, unix.SOCK_RAW, 1),
		"socket-kcm":        openSocket(unix.AF_KCM, unix.SOCK_DGRAM, 0),
		"socket-rds":        openSocket(unix.AF_RDS, unix.SOCK_SEQPACKET, 0),
		"socket-tipc":       openSocket(unix.AF_TIPC, unix.SOCK_SEQPACKET, 0),
		"socket-smc":        openSocket(unix.AF_SMC, unix.SOCK_STREAM, 0),
		"socket-sctp":       openSocket(unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP),
		"socket-abstract":   connectAbstractSocket,
		"seccomp-is-on":     checkSeccomp,
		"uts-is-the-hosts":  func() (string, error) { return compareNamespace("uts", 0) },
		"ipc-is-the-hosts":  func() (string, error) { return compareNamespace("ipc", 0) },
		"net-is-the-hosts":  func() (string, error) { return compareNamespace("net", 0) },
		"pid-is-the-hosts":  func() (string, error) { return compareNamespace("pid", 0) },
		"user-is-the-hosts": func() (string, error) { return compareNamespace("user", 0) },
	}
}

func enableAccounting() (string, error) {
	err := unix.Acct("/nonexistent")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return "", err
	}
	return fmt.Sprintf("accounting asks for its file: %v", err), nil
}

// setClock sets the clock to an invalid time.
func setClock() (string, error) {
	ts := unix.Timespec{Sec: -1, Nsec: -1}
	_, _, errno := unix.Syscall(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&ts)), 0)
	if errno == unix.EPERM || errno == unix.ENOSYS {
		return "", errno
	}
	return fmt.Sprintf("the clock looks at the time: %v", errno), nil
}

// adjustClock adjusts the clock by an invalid amount.
func adjustClock() (string, error) {
	t := unix.Timex{Modes: unix.ADJ_TICK, Tick: 1} // out of range: refused after the permission check
	_, err := unix.Adjtimex(&t)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return "", err
	}
	return fmt.Sprintf("the clock looks at the adjustment: %v", err), nil
}

// setHostName sets the host name to its current value.
func setHostName() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	return "the host name can be set", unix.Sethostname([]byte(unix.ByteSliceToString(u.Nodename[:])))
}

func readKernelLog() (string, error) {
	const sizeBuffer = 10
	n, err := unix.Klogctl(3, make([]byte, 256))
	if err != nil {
		_, err = unix.Klogctl(sizeBuffer, nil)
	}
	return fmt.Sprintf("%d bytes of the kernel's log", n), err
}

func openPerfEvent() (string, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return "", err
	}
	_ = unix.Close(fd)
	return "a performance event opens", nil
}

func openUserfaultfd() (string, error) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1 /* UFFD_USER_MODE_ONLY */, 0, 0)
	if errno != 0 {
		return "", errno
	}
	_ = unix.Close(int(fd))
	return "faults can be handled in user space", nil
}

func setUpIOUring() (string, error) {
	var params [120]byte
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return "", errno
	}
	_ = unix.Close(int(fd))
	return "a ring opens", nil
}

func accessIOPorts() (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", errors.New("no such thing on this processor")
	}
	if what, err := callSystem(unix.SYS_IOPL, 3)(); err == nil {
		_, _, _ = unix.Syscall(unix.SYS_IOPL, 0, 0, 0)
		return what, nil
	}
	return callSystem(unix.SYS_IOPERM, 0x80, 1, 1)()
}

func initFanotify() (string, error) {
	fd, err := unix.FanotifyInit(unix.FAN_CLOEXEC|unix.FAN_CLASS_CONTENT, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	_ = unix.Close(fd)
	return "accesses of others can be watched and held", nil
}

func spliceMemory() (string, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	b := []byte("x")
	iov := []unix.Iovec{{Base: &b[0], Len: 1}}
	_, err := unix.Vmsplice(p[1], iov, 0)
	return "pages go into a pipe", err
}

// runX32Call makes a harmless call of the x32 ABI, which some filters forget. It runs
// in a child process, because a filter may kill the thread.
func runX32Call() (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", errors.New("no such thing on this processor")
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1], "x32-call").Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", out, err)
	}
	return string(out), nil
}

func callX32() (string, error) {
	const x32Bit = 0x40000000
	_, _, errno := unix.Syscall(x32Bit|unix.SYS_GETPID, 0, 0, 0)
	if errno == 0 {
		return "calls of the x32 ABI work", nil
	}
	return "", errno
}

func openSocket(family, kind, proto int) attack {
	return func() (string, error) {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)
		if err != nil {
			return "", err
		}
		_ = unix.Close(fd)
		return "the socket opens", nil
	}
}

// connectAbstractSocket connects to an abstract unix socket on which the test listens
// on the host.
func connectAbstractSocket() (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + stringArgument(0)}); err != nil {
		return "", err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
	b := make([]byte, 64)
	n, err := unix.Read(fd, b)
	return fmt.Sprintf("the host's socket sent %q", b[:max(n, 0)]), err
}

func checkSeccomp() (string, error) {
	n, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	if n == 2 {
		return "", errors.New("a filter is on")
	}
	return "no filter is on", nil
}

// answerTimeout is how long an attack waits for an answer that should not come.
const answerTimeout = 3 * time.Second
