package virtual

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/isolation/seal"
)

// workerAttr returns the attributes of a worker's process.
func workerAttr(mounts bool) *syscall.SysProcAttr {
	if mounts {
		return seal.Attr()
	}
	return &syscall.SysProcAttr{Setsid: true}
}

func newSocketPair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

// wasForbidden reports whether a process was ended by its filter of system calls.
func wasForbidden(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == unix.SIGSYS
}
