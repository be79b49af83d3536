package landlock

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Version returns the version of Landlock's interface in this kernel. The error states why there is
// none.
func Version() (int, error) {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case e == unix.EOPNOTSUPP:
		return 0, fmt.Errorf("%w: Landlock is not among this kernel's security modules (lsm=)", atoll.ErrUnavailable)
	case e != 0:
		return 0, fmt.Errorf("%w: this kernel has no Landlock: %w", atoll.ErrUnavailable, e)
	}
	return int(v), nil
}

// Versions of the interface that introduced a feature.
const (
	withRefer    = 2
	withTruncate = 3
	withNet      = 4
	withIoctl    = 5
	withScope    = 6
	withLog      = 7
)

// Rights to files: toRead for Rules.Read, toFile for anything that is no directory.
const (
	toRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	toFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// allRights returns all rights to files that a version of the interface knows.
func allRights(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if version >= withRefer {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= withTruncate {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= withIoctl {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// Restrict puts the calling thread, and the threads and processes that it starts from now on, into
// a new domain for good, and sets no_new_privs. The caller must have locked its goroutine to the
// thread. If the kernel lacks a feature, the error is ErrUnavailable, and nothing is restricted.
func (r Rules) Restrict() error {
	set, err := r.Ruleset()
	if err != nil {
		return err
	}
	defer set.Close()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	version, err := Version()
	if err != nil {
		return err
	}
	var flags uintptr
	if version >= withLog {
		flags = unix.LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF // otherwise hostile code could fill the host's audit log
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set.Fd(), flags, 0); e != 0 {
		return fmt.Errorf("landlock: %w", e)
	}
	return nil
}

// Ruleset returns the rules as a kernel object, for callers that restrict several threads. If the
// kernel lacks a feature, the error is ErrUnavailable.
func (r Rules) Ruleset() (*os.File, error) {
	version, err := Version()
	if err != nil {
		return nil, err
	}
	if r.Scope && version < withScope {
		return nil, fmt.Errorf("%w: scopes need Landlock %d, this kernel has %d", atoll.ErrUnavailable, withScope, version)
	}
	attr := unix.LandlockRulesetAttr{}
	if len(r.Read)+len(r.Write) > 0 {
		attr.Handled_access_fs = allRights(version)
	}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if version >= withNet {
		size += unsafe.Sizeof(attr.Handled_access_net)
	}
	if version >= withScope {
		size += unsafe.Sizeof(attr.Scoped)
	}
	if r.Scope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return nil, fmt.Errorf("landlock: %w", e)
	}
	set := os.NewFile(fd, "landlock")
	if err := r.add(int(fd), attr.Handled_access_fs); err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return set, nil
}

// add adds the rules for files to a ruleset.
func (r Rules) add(set int, all uint64) error {
	for i, path := range append(append([]string(nil), r.Read...), r.Write...) {
		rights := all
		if i < len(r.Read) {
			rights &= toRead
		}
		if err := addRule(set, path, rights); err != nil {
			return fmt.Errorf("landlock: %s: %w", path, err)
		}
	}
	return nil
}

// addRule allows rights below a path. A missing path is skipped.
func addRule(set int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= toFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
