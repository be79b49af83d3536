//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// modeAttacks returns attacks that create set-uid and set-gid files in the workspace,
// which the host may see, and two that use kernel resources shared by all.
func modeAttacks() map[string]attack {
	create := func(flags int, mode uint32) func() (int, error) {
		return func() (int, error) { return unix.Open(markedFile, flags|unix.O_CREAT|unix.O_CLOEXEC, mode) }
	}
	change := func(change func(fd int) error) attack {
		return openSetIDFile(func() (int, error) {
			fd, err := unix.Open(markedFile, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o755)
			if err != nil {
				return -1, errors.Join(errBad, err)
			}
			return fd, change(fd)
		})
	}
	return map[string]attack{
		"suid-open":   openSetIDFile(create(unix.O_RDWR, 0o4755)),
		"sgid-open":   openSetIDFile(create(unix.O_RDWR, 0o2755)),
		"suid-chmod":  change(func(int) error { return unix.Chmod(markedFile, 0o4755) }),
		"sgid-chmod":  change(func(int) error { return unix.Chmod(markedFile, 0o2755) }),
		"suid-fchmod": change(func(fd int) error { return unix.Fchmod(fd, 0o6755) }),
		"suid-fchmodat2": change(func(fd int) error {
			return unix.Fchmodat(fd, "", 0o4755, unix.AT_EMPTY_PATH)
		}),
		"suid-mknod": openSetIDFile(func() (int, error) {
			if err := unix.Mknod(markedFile, unix.S_IFREG|0o4755, 0); err != nil {
				return -1, err
			}
			return unix.Open(markedFile, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}),
		"suid-openat2": openSetIDFile(func() (int, error) {
			return unix.Openat2(unix.AT_FDCWD, markedFile, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_RDWR | unix.O_CLOEXEC, Mode: 0o4755})
		}),
		"suid-tmpfile": openSetIDFile(func() (int, error) {
			return unix.Open("/workspace", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o4755)
		}),
		"io-setup": callSystem(unix.SYS_IO_SETUP), // of no events: EINVAL
		"mqueue":   openMessageQueue,
	}
}

const markedFile = "/workspace/marked"

// openSetIDFile returns an attack that succeeds if the file that open returns has
// set-uid or set-gid.
func openSetIDFile(open func() (int, error)) attack {
	return func() (string, error) {
		unix.Umask(0)
		_ = os.Remove(markedFile) // of an earlier attack
		defer os.Remove(markedFile)
		fd, err := open()
		if fd >= 0 {
			defer unix.Close(fd)
		}
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
		}
		switch {
		case err != nil:
			return "", err
		case st.Mode&0o6000 == 0:
			return "", fmt.Errorf("the file has mode %o", st.Mode)
		}
		return fmt.Sprintf("a file of mode %o", st.Mode), nil
	}
}

// openMessageQueue creates a message queue, which uses kernel memory.
func openMessageQueue() (string, error) {
	name := []byte("queue\x00")
	fd, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if e != 0 {
		return "", e
	}
	_ = unix.Close(int(fd))
	_, _, e = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&name[0])), 0, 0)
	if e != 0 {
		return "", errors.Join(errBad, e)
	}
	return "a queue of messages", nil
}
