package seal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/seccomp"
)

// Attr returns the attributes with which a process is started that can later keep directories: in a
// mount namespace of its own, for which an ordinary user needs a user namespace.
func Attr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setsid: true}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return a
}

// Process seals the calling process, all its threads, for good. The directories become the only
// content of its root directory, as [Path] names them. Files that are open stay open. After an error
// the process must not be used for hostile callers.
func Process(o Options) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := ownsUser() // reads /proc
	if err != nil {
		return err
	}
	if err := setLimits(o.Memory); err != nil { // likewise
		return err
	}
	if len(o.Dirs) > 0 {
		if err := enterRoot(o.Dirs); err != nil {
			return err
		}
	} else if !own {
		if own, err = becomeOwnUser(); err != nil {
			return err
		}
	}
	if own { // the limit counts all processes of a user
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: MaxThreads, Max: MaxThreads}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if o.EndWithParent { // the kernel forgets it when a process becomes another user
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl", err)
		}
	}
	filter, err := seccomp.Worker{PID: os.Getpid(), Files: len(o.Dirs) > 0}.Filter()
	if err != nil {
		return err
	}
	return seccomp.LoadAll(filter)
}

// ownsUser reports whether this process is the only one of its user in its user namespace, as Attr
// makes it for ordinary users, and whether the kernel counts processes by user namespace, which Linux does
// since 5.14.
func ownsUser() (bool, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false, os.NewSyscallError("uname", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil || major < 5 || major == 5 && minor < 14 {
		return false, nil //nolint:nilerr // an unknown kernel
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, err
	}
	fields := strings.Fields(string(b))
	return len(fields) == 3 && fields[2] == "1", nil // one line: its user, and no other
}

// firstOwnUser is the user id of process 0; no host assigns such high ids to its users.
const firstOwnUser = 1 << 30

// becomeOwnUser makes root an ordinary user without other processes or files, if it can. Its parent
// must be able to end it still, which takes a capability.
func becomeOwnUser() (bool, error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return false, os.NewSyscallError("capget", err)
	}
	const need = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	if have[0].Effective&need != need {
		return false, nil
	}
	id := firstOwnUser + os.Getpid()
	if syscall.Setresgid(id, id, id) != nil { // a user namespace without such ids
		return false, nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return false, os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresuid(id, id, id); err != nil {
		return false, os.NewSyscallError("setresuid", err)
	}
	return true, nil
}

// Path returns the path of the directory with an index in Options.Dirs, once the process is sealed.
func Path(i int) string { return "/" + strconv.Itoa(i) }

// enterRoot makes a new root directory, which contains only mounts of the directories, the root of
// this process.
func enterRoot(dirs []Dir) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: a mount namespace for the sandbox's mounts: %w", atoll.ErrUnavailable, err)
	}
	var trees []int
	defer func() {
		for _, fd := range trees {
			_ = unix.Close(fd) // O_PATH: nothing to lose
		}
	}()
	for _, d := range dirs {
		fd, err := cloneMount(d)
		if err != nil {
			return fmt.Errorf("host directory %s: %w", d.Source, err)
		}
		trees = append(trees, fd)
	}
	const at = "/proc" // exists on every host
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=755"); err != nil {
		return os.NewSyscallError("mount tmpfs", err)
	}
	if err := unix.Chdir(at); err != nil {
		return err
	}
	for i, fd := range trees {
		name := Path(i)[1:]
		if err := unix.Mkdir(name, 0o755); err != nil {
			return os.NewSyscallError("mkdir", err)
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return os.NewSyscallError("move_mount", err)
		}
	}
	if err := unix.Mount("", ".", "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return os.NewSyscallError("making the root read-only", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root lies over the new one
		return os.NewSyscallError("unmounting the old root", err)
	}
	return unix.Chdir("/")
}

// cloneMount returns a detached copy of a directory's mount.
func cloneMount(d Dir) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, d.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, os.NewSyscallError("open_tree", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}
	if d.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return -1, errors.Join(os.NewSyscallError("mount_setattr", err), unix.Close(fd))
	}
	return fd, nil
}

// stackSize limits the stack of the first thread, which RLIMIT_DATA does not count, in bytes.
const stackSize = 8 << 20

// setLimits limits the private memory of this process, and what it could do to the host with files.
// All its memory is private: it can't map files or share memory.
func setLimits(memory int64) error {
	limits := []struct {
		resource int
		value    uint64
	}{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_MEMLOCK, 0}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_STACK, stackSize}}
	if memory > 0 {
		used, err := privateMemory()
		if err != nil {
			return err
		}
		limits = append(limits, struct {
			resource int
			value    uint64
		}{unix.RLIMIT_DATA, uint64(used + memory)})
	}
	for _, l := range limits {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return nil
}

// privateMemory returns what counts against RLIMIT_DATA now, in bytes.
func privateMemory() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(b, []byte("\nVmData:"))
	line, _, _ := bytes.Cut(rest, []byte(" kB"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("%w: /proc/self/status names no VmData", atoll.ErrUnavailable)
	}
	return n << 10, nil
}

// dropCapabilities drops all capabilities of all threads.
func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none[0])), 0); e != 0 {
		return os.NewSyscallError("capset", e)
	}
	return nil
}
