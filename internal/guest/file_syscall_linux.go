package guest

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setGroups sets the supplementary groups of the calling thread only.
func setGroups(list []int) error {
	ids := make([]uint32, len(list)+1) // one more, so that ids[0] exists
	for i, g := range list {
		ids[i] = uint32(g)
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(unsafe.Pointer(&ids[0])), 0)
	if e != 0 {
		return e
	}
	return nil
}

// setEffective sets the effective user and group of the calling thread only, and keeps the real
// ones. The group is set while the thread has the real user, since only then it has the capability.
func setEffective(uid, gid int) error {
	set := func(call uintptr, id int) error {
		if _, _, e := unix.RawSyscall(call, ^uintptr(0), uintptr(id), ^uintptr(0)); e != 0 {
			return e
		}
		return nil
	}
	if uid == unix.Getuid() {
		return errors.Join(set(unix.SYS_SETRESUID, uid), set(unix.SYS_SETRESGID, gid))
	}
	if err := set(unix.SYS_SETRESGID, gid); err != nil {
		return err
	}
	return set(unix.SYS_SETRESUID, uid)
}

// setFileTimes sets the times of an open file.
func setFileTimes(fd int, times []unix.Timespec) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
