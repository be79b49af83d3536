//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mountAttacks returns attacks that create or change mounts and namespaces.
func mountAttacks() map[string]attack {
	return map[string]attack{
		"mount-tmpfs":      mountTmpfs,
		"mount-proc":       mountProc,
		"mount-sysfs":      mountFileSystem("sysfs"),
		"mount-cgroup":     openReleaseAgent,
		"mount-overlay":    mountOverlay,
		"mount-remount-rw": remountWritable,
		"mount-unmask":     unmountMasks,
		"mount-move":       callSystem(unix.SYS_MOVE_MOUNT, ^uintptr(0), 0, ^uintptr(0), 0, 4|8),
		"mount-open-tree":  cloneTree,
		"mount-fsopen":     openFileSystem,
		"mount-setattr":    callSystem(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 0, 0, 0),
		"pivot-root":       callSystem(unix.SYS_PIVOT_ROOT, 0, 0),
		"chroot":           changeRoot,
		"unshare-mount":    func() (string, error) { return "an own mount namespace", unix.Unshare(unix.CLONE_NEWNS) },
		"unshare-user":     callSystem(unix.SYS_UNSHARE, unix.CLONE_NEWUSER), // EINVAL with threads: the call was allowed
		"unshare-net":      func() (string, error) { return "an own network namespace", unix.Unshare(unix.CLONE_NEWNET) },
		"unshare-cgroup":   func() (string, error) { return "an own cgroup namespace", unix.Unshare(unix.CLONE_NEWCGROUP) },
		"clone3-user":      clone3UserNamespace,
		"device-node":      makeBlockDevice,
		"char-node":        openCharDevice,
	}
}

func makeTempDir() (string, error) {
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	return dir, nil
}

func mountFileSystem(kind string) attack {
	return func() (string, error) {
		dir, err := makeTempDir()
		if err != nil {
			return "", err
		}
		if err := unix.Mount(kind, dir, kind, 0, ""); err != nil {
			return "", err
		}
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		return "a " + kind + " is mounted", nil
	}
}

func mountTmpfs() (string, error) { return mountFileSystem("tmpfs")() }

func mountProc() (string, error) { return mountFileSystem("proc")() }

// openReleaseAgent mounts a cgroup hierarchy and opens its release_agent, which the
// exploit of that name would write.
func openReleaseAgent() (string, error) {
	dir, err := makeTempDir()
	if err != nil {
		return "", err
	}
	var errs []error
	for _, controller := range []string{"memory", "pids", "cpu", "rdma", "misc"} {
		if err := unix.Mount("cgroup", dir, "cgroup", 0, controller); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", controller, err))
			continue
		}
		what, err := openAny(unix.O_WRONLY, filepath.Join(dir, "release_agent"), filepath.Join(dir, "cgroup.procs"))()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		if err == nil {
			return what, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func mountOverlay() (string, error) {
	dir, err := makeTempDir()
	if err != nil {
		return "", err
	}
	for _, d := range []string{"l", "u", "w", "m"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return "", fmt.Errorf("%w: %w", errBad, err)
		}
	}
	opt := fmt.Sprintf("lowerdir=%s/l,upperdir=%[1]s/u,workdir=%[1]s/w,userxattr", dir)
	if err := unix.Mount("overlay", dir+"/m", "overlay", 0, opt); err != nil {
		return "", err
	}
	_ = unix.Unmount(dir+"/m", unix.MNT_DETACH)
	return "an overlay is mounted", nil
}

// remountWritable remounts a read-only directory without the read-only flag.
func remountWritable() (string, error) {
	var errs []error
	for _, dir := range []string{"/usr", "/etc", "/proc/sys", "/sys", "/"} {
		err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, "")
		if err == nil {
			return dir + " is remounted", nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// unmountMasks unmounts a mount that hides a part of /proc or of the host.
func unmountMasks() (string, error) {
	var errs []error
	for _, name := range []string{"/proc/kcore", "/proc/keys", "/proc/acpi", "/proc/sys", "/etc/shadow", "/tmp", "/proc"} {
		err := unix.Unmount(name, unix.MNT_DETACH)
		if err == nil {
			return name + " is unmounted", nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func cloneTree() (string, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return "", err
	}
	_ = unix.Close(fd)
	return "a copy of the tree", nil
}

func openFileSystem() (string, error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", err
	}
	_ = unix.Close(fd)
	return "a file system is configured", nil
}

func changeRoot() (string, error) {
	dir, err := makeTempDir()
	if err != nil {
		return "", err
	}
	return "the root is another", unix.Chroot(dir)
}

// clone3UserNamespace creates a process in a new user namespace with clone3, whose
// arguments a filter can't read.
func clone3UserNamespace() (string, error) {
	args := struct{ flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64 }{
		flags: unix.CLONE_NEWUSER, exitSignal: uint64(unix.SIGCHLD),
	}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	switch {
	case errno != 0:
		return "", errno
	case pid == 0:
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	var ws unix.WaitStatus
	_, _ = unix.Wait4(int(pid), &ws, 0, nil)
	return "a process in a user namespace of its own", nil
}

func makeBlockDevice() (string, error) {
	dir, err := makeTempDir()
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "zero")
	if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))); err != nil {
		return "", err
	}
	defer os.Remove(name)
	return "a block device is made", nil
}

// openCharDevice makes a device node for /dev/kmsg and opens it without reading.
func openCharDevice() (string, error) {
	dir, err := makeTempDir()
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "kmsg")
	if err := unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 11))); err != nil {
		return "", err
	}
	defer os.Remove(name)
	return openAny(unix.O_RDONLY, name)()
}
