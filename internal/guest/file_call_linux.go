package guest

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setGroups sets the supplementary groups of this thread alone.
func setGroups(list []int) error {
	ids := make([]uint32, len(list)+1) // one more, so that there is a first
	for i, g := range list {
		ids[i] = uint32(g)
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(unsafe.Pointer(&ids[0])), 0)
	if e != 0 {
		return e
	}
	return nil
}

// setEffective sets the effective user and group of this thread alone, of which
// the real ones stay. Only with the real user has it the capabilities to set
// the group.
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

// futimens sets the times of an open file, without a name.
func futimens(fd int, times []unix.Timespec) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
