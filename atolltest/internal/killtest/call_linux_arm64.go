package killtest

import "golang.org/x/sys/unix"

// processCall returns the name of a system call that starts a process.
func processCall(nr uint64, args [6]uint64) string {
	if nr == unix.SYS_CLONE && args[0]&unix.CLONE_THREAD == 0 || nr == unix.SYS_CLONE3 {
		return "fork"
	}
	return ""
}
