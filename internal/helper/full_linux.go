package helper

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// LoadFull returns a file in memory with the packed full program, for machines on which it can't be
// unpacked to a directory from which programs can run.
func LoadFull() (*os.File, error) {
	fd, err := unix.MemfdCreate(FullProgram, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), FullProgram)
	if err := copyFull(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isPrivate reports whether only this user and root can change a file.
func isPrivate(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && info.Mode().Perm()&0o022 == 0
}
