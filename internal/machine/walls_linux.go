package machine

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/landlock"
)

// mostMonitorFiles bounds the monitor's descriptors: two for each connection.
const mostMonitorFiles = 2*mostConns + 256

// confineSelf takes from all threads of this process what a monitor doesn't
// need any more when its hypervisor runs: all files but those of one directory,
// all capabilities but that to end a hypervisor of another user.
func confineSelf(dir string) error {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: mostMonitorFiles}
	for what, n := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit %d: %w", what, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	if err := everywhere(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	set, err := landlock.Rules{Write: []string{dir}}.Ruleset()
	switch {
	case errors.Is(err, atoll.ErrUnavailable): // it goes without: the guest speaks with it in bounded frames
	case err != nil:
		return err
	default:
		defer set.Close()
		if err := everywhere(unix.SYS_LANDLOCK_RESTRICT_SELF, set.Fd(), 0, 0); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if os.Geteuid() != 0 {
		return nil // it has none
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	only := [2]unix.CapUserData{{Effective: 1 << unix.CAP_KILL, Permitted: 1 << unix.CAP_KILL}}
	if err := everywhere(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&only[0])), 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// everywhere makes a system call in every thread.
func everywhere(call, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}
