package hypervisor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/landlock"
)

// maxMonitorFiles limits the monitor's descriptors: two for each connection.
const maxMonitorFiles = 2*maxConns + 256

// confineSelf drops the rights that the monitor does not need once its hypervisor runs, in all
// threads: access to files outside of one directory, and all capabilities but the one to kill a
// hypervisor of another user.
func confineSelf(dir string) error {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxMonitorFiles}
	for what, n := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit %d: %w", what, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	if err := syscallAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	set, err := landlock.Rules{Write: []string{dir}}.Ruleset()
	switch {
	case errors.Is(err, atoll.ErrUnavailable): // continues without it: all input from the guest comes in bounded frames
	case err != nil:
		return err
	default:
		defer set.Close()
		if err := syscallAllThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, set.Fd(), 0, 0); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if os.Geteuid() != 0 {
		return nil // it has no capabilities
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	only := [2]unix.CapUserData{{Effective: 1 << unix.CAP_KILL, Permitted: 1 << unix.CAP_KILL}}
	if err := syscallAllThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&only[0])), 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// syscallAllThreads makes a system call in every thread.
func syscallAllThreads(call, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}
