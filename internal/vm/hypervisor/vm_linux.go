package hypervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"golang.org/x/sys/unix"
)

// VM is a running VM. Its methods are safe for concurrent use.
type VM struct {
	dir     string
	record  vmRecord
	monitor *os.File // pidfd
	qemu    *os.File // pidfd of the hypervisor; nil: it had exited before Open
}

// Start starts a VM, and returns when its guest serves. If it fails, or this process is killed
// meanwhile, nothing is left of the VM but its boot.log and end.json; the error quotes the end of
// the log. Start does not keep the configuration, and does not close its files.
func Start(ctx context.Context, c *Config) (*VM, error) {
	s, err := bootMonitor(ctx, c, "", func() error { return nil })
	if err != nil {
		return nil, err
	}
	m, err := Open(c.Dir)
	if err == nil {
		if err = fdpass.Send(s.conn, keepMessage{true}); err != nil {
			err = errors.Join(err, m.Close())
		}
	}
	if err != nil {
		s.stopMonitor()
		return nil, s.wrapError(ctx, err)
	}
	_ = s.conn.Close() // nothing is left to send
	return m, nil
}

// Open returns the VM that runs in a directory; atoll.ErrNotFound if none does: see Ended.
func Open(dir string) (*VM, error) {
	m := &VM{dir: dir}
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no VM runs in %s", atoll.ErrNotFound, dir)
	}
	if err == nil {
		err = json.Unmarshal(b, &m.record)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	boot, err := hostBoot()
	if err != nil {
		return nil, err
	}
	if m.record.Boot != boot {
		return nil, fmt.Errorf("%w: the host was rebooted since a VM ran in %s", atoll.ErrNotFound, dir)
	}
	m.monitor, err = jail.FindProcess(m.record.Monitor, m.record.MonitorStart)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no VM runs in %s", atoll.ErrNotFound, dir)
	}
	if err != nil {
		return nil, err
	}
	m.qemu, err = jail.FindProcess(m.record.PID, m.record.Start)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, m.monitor.Close())
	}
	return m, nil
}

// Close releases the handle. The VM continues to run.
func (m *VM) Close() error {
	err := m.monitor.Close()
	if m.qemu != nil {
		err = errors.Join(err, m.qemu.Close())
	}
	return err
}

// Dial connects to the guest. If the VM has ended, the error says why.
func (m *VM) Dial(ctx context.Context) (net.Conn, error) { return m.dialSocket(ctx, GuestSocket) }

func (m *VM) dialSocket(ctx context.Context, name string) (*net.UnixConn, error) {
	path, done, err := socketPath(m.dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		if end, eerr := LastEnd(m.dir); eerr == nil && end != nil {
			return nil, end.Err()
		}
		return nil, fmt.Errorf("%w: the VM: %w", atoll.ErrUnavailable, err)
	}
	u := c.(*net.UnixConn) // the type of a connection to a unix socket
	if pid, err := peerPID(u); err != nil || pid != m.record.Monitor {
		_ = u.Close()
		//nolint:errorlint // the error of another process is nil
		return nil, fmt.Errorf("%w: %s is not the monitor's socket, process %d listens there (%v)", atoll.ErrDenied, filepath.Join(m.dir, name), pid, err)
	}
	return u, nil
}

// peerPID returns the process that listens at the other end.
func peerPID(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid, errors.Join(cerr, err)
}

// askMonitor sends a question to the monitor, with files, and returns the reply.
func (m *VM) askMonitor(ctx context.Context, q question, files ...*os.File) (*reply, error) {
	c, err := m.dialSocket(ctx, MonitorSocket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(3 * questionTimeout)) // can't fail on a socket
	err = fdpass.Send(c, q, files...)
	r := new(reply)
	if err == nil {
		_, err = fdpass.Receive(c, r)
	}
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%w: the VM's monitor does not answer", atoll.ErrTimeout)
	case err != nil:
		return nil, fmt.Errorf("%w: the VM's monitor: %w", atoll.ErrUnavailable, err)
	case r.Error != "":
		return nil, fmt.Errorf("%w: %s", atoll.ErrUnavailable, r.Error)
	}
	return r, nil
}

// hasEnded reports whether the monitor has exited.
func (m *VM) hasEnded() bool { return hasExited(m.monitor) }

// HypervisorExited reports whether the hypervisor has exited. Its monitor then exits soon, unless it is stopped.
func (m *VM) HypervisorExited() bool { return m.qemu == nil || hasExited(m.qemu) }

// hasExited reports whether a process has exited.
func hasExited(pidfd *os.File) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd.Fd()), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// Status returns the state of the VM. It is no error that the VM has ended.
func (m *VM) Status(ctx context.Context) (Status, error) {
	r, err := m.askMonitor(ctx, question{Do: verbStatus})
	if err == nil {
		r.Status.Facts.Resident = residentMemory(m.record.PID, r.Status.Facts.Cloned)
		return r.Status, nil
	}
	if end, eerr := LastEnd(m.dir); eerr == nil && end != nil {
		return Status{Phase: Ended, End: end}, nil
	}
	return Status{}, err
}

// Phase returns the phase of the VM, and its problem, without asking the guest. A monitor of an
// older atoll does not know the question, which is an error.
func (m *VM) Phase(ctx context.Context) (Status, error) {
	r, err := m.askMonitor(ctx, question{Do: verbPhase})
	if err != nil {
		return Status{}, err
	}
	return r.Status, nil
}

// Activity is the activity of a hypervisor, as its host sees it.
type Activity int

// Activities of a hypervisor.
const (
	Idle   Activity = iota // all its threads wait
	Busy                   // one runs, or waits for a processor or a disk of the host
	Halted                 // stopped by a signal
)

// Activity returns the present activity of the hypervisor, without asking it or its monitor. If it has
// exited, the error is atoll.ErrNotFound.
func (m *VM) Activity() (Activity, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", m.record.PID))
	if err != nil {
		return Idle, err
	}
	w, seen := Idle, 0
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has exited
		}
		seen++
		_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ") // the name may contain anything
		switch state, _, _ := strings.Cut(rest, " "); state {
		case "R", "D":
			return Busy, nil
		case "T", "t":
			w = Halted
		}
	}
	if seen == 0 {
		return Idle, fmt.Errorf("%w: no VM runs in %s", atoll.ErrNotFound, m.dir)
	}
	return w, nil
}

// residentMemory returns the bytes of the host's memory that a process uses; of a clone, without
// the template's. The cost does not depend on the VM's size.
func residentMemory(pid int, cloned bool) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	f := strings.Fields(string(b))
	if err != nil || len(f) < 3 {
		return 0
	}
	all, err1 := strconv.ParseInt(f[1], 10, 64)
	files, err2 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	if cloned {
		all -= files
	}
	return all * int64(os.Getpagesize())
}

// Pause stops the VM's processors. Pausing twice is not an error.
func (m *VM) Pause(ctx context.Context) error {
	_, err := m.askMonitor(ctx, question{Do: verbPause})
	return err
}

// Resume continues a VM that is paused or stuck.
func (m *VM) Resume(ctx context.Context) error {
	_, err := m.askMonitor(ctx, question{Do: verbResume})
	return err
}

// PowerOff waits until the VM, which was asked over the wire protocol to switch itself off, has
// done so, and kills it if ctx is done first. When it returns, monitor and hypervisor have exited.
func (m *VM) PowerOff(ctx context.Context) error {
	if _, err := m.askMonitor(ctx, question{Do: verbPowerOff}); err == nil {
		if m.waitForExit(ctx) == nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return m.Kill(ctx)
}

// Kill kills the VM. When it returns, monitor and hypervisor have exited. It is no error if the VM
// has ended before.
func (m *VM) Kill(ctx context.Context) error {
	if m.hasEnded() {
		return m.waitForExit(ctx)
	}
	patience, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	_, err := m.askMonitor(patience, question{Do: verbKill})
	if err != nil { // a monitor that answers nobody may be ending by itself, and about to record why
		patience, cancel = context.WithTimeout(ctx, endGrace)
		defer cancel()
	}
	if m.waitForExit(patience) == nil {
		return nil
	}
	if err := unix.PidfdSendSignal(int(m.monitor.Fd()), unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing the VM's monitor: %w", err)
	}
	return m.waitForExit(ctx)
}

// endGrace is the time for a monitor that no longer answers to record how its VM has ended.
const endGrace = 2 * time.Second

// WaitForMonitor waits until no monitor has a directory. One whose starter was killed before the VM could be
// opened ends by itself.
func WaitForMonitor(ctx context.Context, dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(filelock.Poll(ctx, f), f.Close())
}

// waitForExit waits until monitor and hypervisor have exited.
func (m *VM) waitForExit(ctx context.Context) error {
	for _, f := range []*os.File{m.monitor, m.qemu} {
		if f == nil {
			continue
		}
		if err := waitForProcess(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// waitForProcess waits until a process has exited.
func waitForProcess(ctx context.Context, pidfd *os.File) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer func() {
		if stop() {
			_ = w.Close() // the result is not awaited any more
		}
	}()
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd.Fd()), Events: unix.POLLIN}, {Fd: int32(r.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if fds[0].Revents != 0 {
			return nil
		}
		if fds[1].Revents != 0 {
			return fmt.Errorf("%w: waiting for the VM's end: %w", atoll.ErrTimeout, context.Cause(ctx))
		}
	}
}

// Wait waits until the VM has ended, and returns why; see Ended.
func (m *VM) Wait(ctx context.Context) (*End, error) {
	if err := m.waitForExit(ctx); err != nil {
		return nil, err
	}
	return LastEnd(m.dir)
}

// maxEnd limits the bytes read of an end.json.
const maxEnd = 64 << 10

// LastEnd returns why the last VM in a directory ended; nil if it runs, or there was none.
func LastEnd(dir string) (*End, error) {
	f, err := os.Open(filepath.Join(dir, EndFile))
	if errors.Is(err, fs.ErrNotExist) {
		return endWithoutRecord(dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := new(End)
	if err := json.NewDecoder(io.LimitReader(f, maxEnd)).Decode(e); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return e, nil
}

// endWithoutRecord returns the end of a VM whose monitor could not record it.
func endWithoutRecord(dir string) (*End, error) {
	info, err := os.Stat(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there was none
	}
	if err != nil {
		return nil, err
	}
	m, err := Open(dir)
	if err == nil {
		return nil, m.Close() // it runs
	}
	if !errors.Is(err, atoll.ErrNotFound) {
		return nil, err
	}
	return &End{Reason: ByMonitor, Message: "the VM's monitor was killed, and the VM with it, or the host was restarted", At: info.ModTime()}, nil
}
