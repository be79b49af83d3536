package jail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is process 1 of a sandbox, from outside.
type Process struct {
	PID  int
	FD   *os.File // its pidfd
	In   bool     // it is in its control groups
	conn *net.UnixConn
}

// Setup tells the process what to build, and waits until it is ready to serve.
// Meanwhile joined is called, if it is not nil, which puts the process in its
// control groups: nothing of the sandbox runs before it has returned.
func (p *Process) Setup(ctx context.Context, s *Setup, files []*os.File, joined func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.Close() }) // the error is the context's
	defer stop()
	err := send(p.conn, s, files)
	if joined == nil && err == nil {
		_, err = p.conn.Write([]byte{join})
	}
	done := make(chan error, 1)
	if joined != nil {
		go func() { done <- joined() }()
	}
	if err == nil {
		err = p.answer()
	}
	if joined != nil {
		err = errors.Join(err, <-done)
		if err == nil {
			_, err = p.conn.Write([]byte{join})
		}
	}
	if err == nil {
		err = p.answer()
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// answer waits for what process 1 says of a part of its setup.
func (p *Process) answer() error {
	var a reply
	if _, err := receive(p.conn, &a); err != nil {
		return fmt.Errorf("process 1 of the sandbox: %w", err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// Keep lets the process outlive the spawner, and lets go of it.
func (p *Process) Keep() error {
	_, err := p.conn.Write([]byte{keep})
	return errors.Join(err, p.conn.Close(), p.FD.Close())
}

// Kill ends the process, and with it all others of its namespace, and lets go
// of it.
func (p *Process) Kill() error {
	err := Kill(p.FD)
	return errors.Join(err, p.conn.Close(), p.FD.Close())
}

// Kill ends what a pidfd stands for, and waits until it is gone.
func Kill(pidfd *os.File) error {
	fd := int(pidfd.Fd())
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return wait(fd)
}

// wait blocks until a process has ended.
func wait(pidfd int) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Find returns the pidfd of a process if it is the one that began at a time, as
// StartTime tells it; else an error that matches os.ErrNotExist.
func Find(pid int, start uint64) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			err = os.ErrNotExist
		}
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	if got, err := StartTime(pid); err != nil || got != start {
		return nil, errors.Join(os.ErrNotExist, f.Close())
	}
	return f, nil
}

// StartTime tells when a process began, in the kernel's own units; a zombie has
// none.
func StartTime(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrNotExist
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
