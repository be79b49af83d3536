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

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// Process is process 1 of a sandbox, as its creator sees it.
type Process struct {
	PID       int
	FD        *os.File   // pidfd
	InCgroups bool       // it was started in all its control groups
	Trees     []*os.File // clones of the trees of StartConfig; the caller closes them

	conn *net.UnixConn
}

// SendSetup sends the setup to the process, and waits until it is ready to serve. At the same time it
// calls joined, if not nil, which moves the process into its control groups: no code of the sandbox
// runs before joined has returned. When ctx is done, the connection is closed, and the error is the
// cause.
func (p *Process) SendSetup(ctx context.Context, s *Setup, files []*os.File, joined func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.Close() }) // the error is the context's
	defer stop()
	err := fdpass.Send(p.conn, s, files...)
	if joined == nil && err == nil {
		_, err = p.conn.Write([]byte{wordJoin})
	}
	done := make(chan error, 1)
	if joined != nil {
		go func() { done <- joined() }()
	}
	if err == nil {
		err = p.readReply()
	}
	if joined != nil {
		err = errors.Join(err, <-done)
		if err == nil {
			_, err = p.conn.Write([]byte{wordJoin})
		}
	}
	if err == nil {
		err = p.readReply()
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// readReply waits for the result of one part of the setup.
func (p *Process) readReply() error {
	var a reply
	if _, err := fdpass.Receive(p.conn, &a); err != nil {
		return fmt.Errorf("process 1 of the sandbox: %w", err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// Detach lets the process outlive the spawner, and releases the handle.
func (p *Process) Detach() error {
	_, err := p.conn.Write([]byte{wordKeep})
	return errors.Join(err, p.conn.Close(), p.FD.Close())
}

// Kill kills the process, and with it all others of its PID namespace, and releases the handle.
func (p *Process) Kill() error {
	err := KillProcess(p.FD)
	return errors.Join(err, p.conn.Close(), p.FD.Close())
}

// KillProcess kills the process of a pidfd, and waits until it has exited.
func KillProcess(pidfd *os.File) error {
	fd := int(pidfd.Fd())
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return waitForExit(fd)
}

// waitForExit waits until a process has exited.
func waitForExit(pidfd int) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// FindProcess returns the pidfd of a process if its start time, in the unit of StartTime, is the given
// one; otherwise an error that matches os.ErrNotExist.
func FindProcess(pid int, start uint64) (*os.File, error) {
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

// StartTime returns the start time of a process in clock ticks since the host's boot. For a zombie
// the error matches os.ErrNotExist.
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

// IsEnding reports whether a process was killed and has not ended yet, which takes a while for
// process 1 of a sandbox: the kernel ends all others first.
func IsEnding(pid int) bool {
	const (
		exiting  = 0x4 // PF_EXITING, of the flags in stat
		killed   = 1 << (int(unix.SIGKILL) - 1)
		flagsPos = 6 // after the name
	)
	proc := "/proc/" + strconv.Itoa(pid)
	b, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return true
	}
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) > flagsPos {
		if flags, err := strconv.ParseUint(fields[flagsPos], 10, 64); err == nil && flags&exiting != 0 {
			return true
		}
	}
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64); err == nil && set&killed != 0 {
			return true
		}
	}
	return false
}
