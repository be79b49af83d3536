//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processAttacks returns attacks on process 1, on processes outside of the PID
// namespace, and on the sandbox's credentials.
func processAttacks() map[string]attack {
	return map[string]attack{
		"init-ptrace-attach": traceInit(unix.PTRACE_ATTACH),
		"init-ptrace-seize":  traceInit(unix.PTRACE_SEIZE),
		"init-vm-read":       readInitMemory,
		"init-getfd":         getInitDescriptor,
		"init-kcmp":          callSystem(unix.SYS_KCMP, 1, uintptr(os.Getpid()), 0, 0, 0),
		"init-prlimit":       setInitLimit,
		"init-signals":       signalInit,
		"init-affinity":      setInitAffinity,
		"init-priority":      func() (string, error) { return "process 1 is niced", unix.Setpriority(unix.PRIO_PROCESS, 1, 19) },
		"init-setns":         enterInitNamespaces,
		"host-processes":     findHostProcess,
		"sibling-kill":       signalHostProcess,
		"tty-inject":         injectTerminalInput,
		"tty-linux":          callConsoleIoctl,
		"keyring-add":        callSystem(unix.SYS_ADD_KEY, 0, 0, 0, 0, 0),
		"keyring-request":    callSystem(unix.SYS_REQUEST_KEY, 0, 0, 0, 0),
		"keyring-session":    getSessionKeyring,
		"become-root":        becomeRoot,
		"become-group":       func() (string, error) { return "groups can be chosen", unix.Setgroups([]int{0, 42}) },
		"capabilities":       findCapability,
		"bounding-set":       findBoundingCapability,
		"userns-root":        makeUserNamespace,
		"dumpable-core":      checkCoreLimit,
		"personality":        setPersonality,
		"nice-up":            func() (string, error) { return "a priority above normal", unix.Setpriority(unix.PRIO_PROCESS, 0, -5) },
		"realtime":           setRealtime,
	}
}

func traceInit(request uintptr) attack {
	return func() (string, error) {
		runtime.LockOSThread() // the tracer is a thread
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, 1, 0, 0, 0, 0)
		if errno != 0 {
			return "", errno
		}
		if request == unix.PTRACE_ATTACH { // wait for the stop, then detach
			var ws unix.WaitStatus
			_, _ = unix.Wait4(1, &ws, unix.WALL, nil)
			_ = unix.PtraceDetach(1)
		}
		return "process 1 is traced", nil
	}
}

func readInitMemory() (string, error) {
	b := make([]byte, 8)
	local := []unix.Iovec{{Base: &b[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: 0x400000, Len: 8}}
	_, err := unix.ProcessVMReadv(1, local, remote, 0)
	if errors.Is(err, unix.EFAULT) {
		err = nil // the address is invalid, but access was allowed
	}
	return "memory of process 1 can be read", err
}

func getInitDescriptor() (string, error) {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var errs []error
	for i := range 16 {
		got, err := unix.PidfdGetfd(fd, i, 0)
		if err == nil {
			_ = unix.Close(got)
			return fmt.Sprintf("descriptor %d of process 1", i), nil
		}
		errs = append(errs, err)
	}
	return "", errs[0]
}

// setInitLimit sets a limit of process 1 to its current value.
func setInitLimit() (string, error) {
	var old unix.Rlimit
	if err := unix.Prlimit(1, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return "", err
	}
	return "a limit of process 1 can be set", unix.Prlimit(1, unix.RLIMIT_NOFILE, &old, nil)
}

// signalInit sends every signal to process 1 and to each of its threads. It fails if
// none could be sent; otherwise the test checks that the sandbox still answers.
func signalInit() (string, error) {
	sent := 0
	var last error
	tids := []int{1}
	if list, err := os.ReadDir("/proc/1/task"); err == nil {
		for _, d := range list {
			if n, err := strconv.Atoi(d.Name()); err == nil {
				tids = append(tids, n)
			}
		}
	}
	for _, tid := range tids {
		for sig := 1; sig <= 64; sig++ {
			if sig == 32 || sig == 33 {
				continue
			}
			for _, err := range []error{unix.Kill(tid, syscall.Signal(sig)), unix.Tgkill(1, tid, syscall.Signal(sig))} {
				if err == nil {
					sent++
				} else {
					last = err
				}
			}
		}
	}
	if sent == 0 {
		return "", last
	}
	return fmt.Sprintf("%d signals sent", sent), nil
}

func setInitAffinity() (string, error) {
	var set unix.CPUSet
	set.Set(0)
	return "process 1 is bound to a processor", unix.SchedSetaffinity(1, &set)
}

// enterInitNamespaces enters one of the namespaces of process 1.
func enterInitNamespaces() (string, error) {
	var errs []error
	for _, ns := range []string{"mnt", "net", "ipc", "uts", "user", "cgroup", "time"} {
		fd, err := unix.Open("/proc/1/ns/"+ns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, 0)
			_ = unix.Close(fd)
		}
		if err == nil {
			return "the " + ns + " namespace of process 1 is entered", nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", ns, err))
	}
	return "", errors.Join(errs...)
}

// findHostProcess looks for a process that the test started on the host.
func findHostProcess() (string, error) {
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(list) == 0 {
		return "", fmt.Errorf("%w: /proc: %d processes, %w", errBad, len(list), err)
	}
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err == nil && len(b) > 0 && containsArg(b, stringArgument(0)) {
			return name + " is a process of the host", nil
		}
	}
	return "", fmt.Errorf("none of %d processes is the host's", len(list))
}

func containsArg(cmdline []byte, arg string) bool {
	for _, a := range splitNUL(cmdline) {
		if a == arg {
			return strconv.Itoa(os.Getpid()) != "" && !isProbe(cmdline)
		}
	}
	return false
}

// isProbe reports whether a command line is that of a probe.
func isProbe(cmdline []byte) bool {
	parts := splitNUL(cmdline)
	return len(parts) > 2 && parts[2] == "host-processes"
}

func splitNUL(b []byte) []string {
	var list []string
	start := 0
	for i, c := range b {
		if c == 0 {
			list = append(list, string(b[start:i]))
			start = i + 1
		}
	}
	return list
}

// signalHostProcess sends a signal to a process of the host by its ID there.
func signalHostProcess() (string, error) {
	pid, err := strconv.Atoi(stringArgument(0))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	return "a process of the host takes a signal", unix.Kill(pid, 0)
}

// injectTerminalInput adds a character to the controlling terminal's input.
func injectTerminalInput() (string, error) {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%w: no terminal: %w", errBad, err)
	}
	defer unix.Close(fd)
	c := byte('x')
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	if errno != 0 {
		return "", errno
	}
	return "a character is typed", nil
}

// callConsoleIoctl calls the console ioctl TIOCLINUX with a subcode that does nothing.
func callConsoleIoctl() (string, error) {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%w: no terminal: %w", errBad, err)
	}
	defer unix.Close(fd)
	c := byte(255)
	const tiocLinux = 0x541C
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), tiocLinux, uintptr(unsafe.Pointer(&c)))
	if errno == unix.EPERM || errno == unix.EACCES {
		return "", errno
	}
	return fmt.Sprintf("the call reaches the terminal: %v", errno), nil
}

func getSessionKeyring() (string, error) {
	_, err := unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, unix.KEY_SPEC_SESSION_KEYRING, 0, 0, 0)
	return "the session keyring is reached", err
}

// becomeRoot succeeds if the process is root or can become root.
func becomeRoot() (string, error) {
	if unix.Getuid() == 0 {
		return "the command is root already", nil
	}
	var errs []error
	for _, f := range []func() error{
		func() error { return unix.Setresuid(0, 0, 0) },
		func() error { return unix.Setresuid(-1, 0, -1) },
		func() error { return unix.Setresgid(0, 0, 0) },
	} {
		if err := f(); err == nil {
			return "root", nil
		} else {
			errs = append(errs, err)
		}
	}
	return "", errors.Join(errs...)
}

// findCapability succeeds if any capability set is not empty.
func findCapability() (string, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	if data[0].Permitted|data[1].Permitted|data[0].Effective|data[1].Effective|data[0].Inheritable|data[1].Inheritable == 0 {
		return "", errors.New("no capability in any set")
	}
	return fmt.Sprintf("permitted %08x%08x", data[1].Permitted, data[0].Permitted), nil
}

func findBoundingCapability() (string, error) {
	for c := range 64 {
		if n, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil && n == 1 {
			return fmt.Sprintf("capability %d can still be got", c), nil
		}
	}
	return "", errors.New("the bounding set is empty")
}

// makeUserNamespace runs a process with all capabilities in a new user namespace.
func makeUserNamespace() (string, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1], "capabilities") //nolint:noctx // it ends by itself
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	return string(out), nil
}

// checkCoreLimit succeeds if a crash could write a core file.
func checkCoreLimit() (string, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	if l.Max == 0 {
		return "", errors.New("cores have no room")
	}
	return fmt.Sprintf("a core of %d bytes is allowed", l.Max), nil
}

// setPersonality turns off address randomization.
func setPersonality() (string, error) {
	const addrNoRandomize = 0x0040000
	_, _, errno := unix.Syscall(unix.SYS_PERSONALITY, addrNoRandomize, 0, 0)
	if errno != 0 {
		return "", errno
	}
	return "addresses are not random", nil
}

func setRealtime() (string, error) {
	p := struct{ prio int32 }{1}
	_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 0, 1 /* SCHED_FIFO */, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return "", errno
	}
	return "real-time priority", nil
}

// compareNamespace succeeds if a namespace is the host's, which is the attack's i-th
// argument.
func compareNamespace(kind string, i int) (string, error) {
	mine, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	if mine == stringArgument(i) {
		return "the " + kind + " namespace is the host's", nil
	}
	return "", fmt.Errorf("%s is not %s", mine, stringArgument(i))
}
