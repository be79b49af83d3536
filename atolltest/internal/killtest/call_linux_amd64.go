package killtest

import "golang.org/x/sys/unix"

// oldCalls have newer equivalents, which other architectures have alone.
var oldCalls = map[uint64]string{
	unix.SYS_MKDIR: "mkdir", unix.SYS_RENAME: "rename", unix.SYS_UNLINK: "unlink", unix.SYS_RMDIR: "rmdir", unix.SYS_CHMOD: "chmod", unix.SYS_CHOWN: "chown",
	unix.SYS_LCHOWN: "chown", unix.SYS_LINK: "link", unix.SYS_SYMLINK: "symlink", unix.SYS_MKNOD: "mknod",
}

// processCall returns the name of a system call that starts a process, or of an old one that changes something.
func processCall(nr uint64, args [6]uint64) string {
	if nr == unix.SYS_VFORK || nr == unix.SYS_FORK || nr == unix.SYS_CLONE && args[0]&unix.CLONE_THREAD == 0 || nr == unix.SYS_CLONE3 {
		return "fork"
	}
	return oldCalls[nr]
}
