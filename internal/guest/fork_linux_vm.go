//go:build linux && (amd64 || arm64)

package guest

import "syscall"

// forkFlags: the child shares the memory until its exec, so that nothing is copied.
const forkFlags = syscall.CLONE_VFORK | syscall.CLONE_VM

func vfork(trap, a1, a2, a3 uintptr) (r1, errno uintptr)
