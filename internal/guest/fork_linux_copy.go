//go:build linux && !amd64 && !arm64

package guest

import "syscall"

// forkFlags: the child has a copy of our memory; see vfork of other machines.
const (
	forkFlags = syscall.CLONE_VFORK
	auditArch = 0 // no filter of ours is for this machine
)

//go:nosplit
//go:norace
func vfork(trap, a1, a2, a3 uintptr) (r1, errno uintptr) {
	pid, _, err := syscall.RawSyscall6(trap, a1, a2, a3, 0, 0, 0)
	return pid, uintptr(err)
}
