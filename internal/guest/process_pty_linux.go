package guest

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// pty is a pseudo-terminal: its master, and a descriptor of its slave for a command.
type pty struct {
	*os.File
	slave int
}

// openPty opens a pseudo-terminal.
func openPty(size atoll.Size) (*pty, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	p := &pty{File: os.NewFile(uintptr(fd), "/dev/ptmx"), slave: -1}
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
		var errno unix.Errno
		var slave uintptr
		if slave, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC); errno != 0 {
			err = errno
		}
		p.slave = int(slave)
	}
	if err == nil {
		err = p.setSize(size)
	}
	if err != nil {
		_ = p.Close() // the first error counts
		return nil, err
	}
	return p, nil
}

// setSize sets the window size, which notifies the foreground group.
func (p *pty) setSize(size atoll.Size) error {
	if size.Rows == 0 {
		size.Rows = 24
	}
	if size.Cols == 0 {
		size.Cols = 80
	}
	return p.withFD(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
}

// foregroundGroup returns the foreground process group.
func (p *pty) foregroundGroup() (pgid int, err error) {
	err = p.withFD(func(fd int) (err error) {
		pgid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return pgid, err
}

func (p *pty) withFD(f func(fd int) error) error {
	raw, err := p.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	if err == nil {
		err = inner
	}
	return err
}

// closeSlave closes the guest's descriptor of the slave.
func (p *pty) closeSlave() {
	if p.slave >= 0 {
		_ = unix.Close(p.slave) // not written to
		p.slave = -1
	}
}
