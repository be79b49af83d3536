//go:build linux && !amd64 && !arm64

package guest

import "syscall"

// forkFlags: the child gets a copy of the memory; other architectures share it (fork_linux_vm.go).
const (
	forkFlags = syscall.CLONE_VFORK
	auditArch = 0 // there is no seccomp filter for this architecture
)

//go:nosplit
//go:norace
func vfork(trap, a1, a2, a3 uintptr) (r1, errno uintptr) {
	pid, _, err := syscall.RawSyscall6(trap, a1, a2, a3, 0, 0, 0)
	return pid, uintptr(err)
}
