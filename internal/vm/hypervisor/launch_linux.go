package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"golang.org/x/sys/unix"
)

// launchedMonitor is a monitor without the order to keep its VM.
type launchedMonitor struct {
	dir    string
	cmd    *exec.Cmd
	conn   *net.UnixConn
	waited chan struct{} // closed when the monitor has exited
}

// launchMonitor starts a monitor, and waits until it has executed its order.
func launchMonitor(ctx context.Context, given *Config, save string) (*launchedMonitor, error) {
	o := &monitorOrder{Config: *given, Save: save}
	o.NICs, o.Shares = append([]NIC(nil), given.NICs...), append([]Share(nil), given.Shares...)
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.resolveQEMU(); err != nil {
		return nil, err
	}
	if o.Template != "" {
		if err := o.checkTemplate(); err != nil {
			return nil, err
		}
	} else if o.Accel == TCG && o.Type == Microvm {
		o.TSC = measureTSC()
	}
	defer o.closeShares() // the monitor has its own
	if err := o.serveShares(ctx); err != nil {
		return nil, err
	}
	files, err := o.collectFiles()
	if err != nil {
		return nil, err
	}
	if o.Kills {
		defer files[0].Close() // the others are the caller's
	}
	s, err := startMonitor(o)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() }) // the monitor then exits
	defer stop()
	if err := s.sendOrder(o, files); err != nil {
		s.stopMonitor()
		return nil, s.wrapError(ctx, err)
	}
	return s, nil
}

// resolveQEMU sets the real path of QEMU.
func (o *monitorOrder) resolveQEMU() (err error) {
	if o.QEMU == "" {
		if o.QEMU, err = FindQEMU(); err != nil {
			return err
		}
	}
	if o.QEMU, err = filepath.EvalSymlinks(o.QEMU); err != nil {
		return fmt.Errorf("%w: QEMU: %w", atoll.ErrUnavailable, err)
	}
	return nil
}

// serveShares starts the servers of the shares and connects to them. The caller calls closeShares, also after an error.
func (o *monitorOrder) serveShares(ctx context.Context) (err error) {
	for i := range o.Shares {
		s := &o.Shares[i]
		if !s.isServed() {
			continue
		}
		if s.conn, err = s.Serve(ctx); err != nil {
			return fmt.Errorf("share %s: %w", s.Tag, err)
		}
	}
	return nil
}

func (o *monitorOrder) closeShares() {
	for _, s := range o.Shares {
		if s.conn != nil {
			_ = s.conn.Close()
		}
	}
}

// collectFiles returns the files to send with the order.
func (o *monitorOrder) collectFiles() (files []*os.File, err error) {
	if o.Group != nil {
		kills, err := o.Group.OpenOOMEvents()
		if err != nil {
			return nil, err
		}
		if kills != nil {
			o.Kills, files = true, append(files, kills)
		}
	}
	for _, n := range o.NICs {
		files = append(files, n.Tap)
	}
	for _, s := range o.Shares {
		if s.isServed() {
			files = append(files, s.conn)
		}
	}
	return files, nil
}

// startMonitor starts a monitor, which waits for its order.
func startMonitor(o *monitorOrder) (*launchedMonitor, error) {
	log, err := os.OpenFile(filepath.Join(o.Dir, BootLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	conn, theirs, err := fdpass.NewPair()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(o.Helper, "monitor") //nolint:noctx // it outlives this call
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = fdpass.SealInherited(); err == nil {
		err = cmd.Start()
	}
	_ = theirs.Close() // the monitor has its own
	if err != nil {
		_ = conn.Close() // the error above is the cause
		return nil, fmt.Errorf("%w: the VM's monitor: %w", atoll.ErrUnavailable, err)
	}
	s := &launchedMonitor{dir: o.Dir, cmd: cmd, conn: conn, waited: make(chan struct{})}
	go func() { // reap it, if it exits before this process
		_ = cmd.Wait() // it has reported any error already
		close(s.waited)
	}()
	return s, nil
}

// sendOrder sends the order, and waits for the answer.
func (s *launchedMonitor) sendOrder(o *monitorOrder, files []*os.File) error {
	if o.Group != nil {
		if err := o.Group.Add(s.cmd.Process.Pid); err != nil {
			return err
		}
	}
	if err := fdpass.Send(s.conn, o, files...); err != nil {
		return err
	}
	var a answer
	if _, err := fdpass.Receive(s.conn, &a); err != nil {
		return fmt.Errorf("%w: the VM's monitor: %w", atoll.ErrUnavailable, err)
	}
	if a.End != nil {
		return a.End.Err()
	}
	return nil
}

// stopMonitor stops the monitor, and with it the VM, and waits until both have exited.
func (s *launchedMonitor) stopMonitor() {
	_ = s.conn.Close() // the monitor then exits
	select {
	case <-s.waited:
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill() // its hypervisor is killed with it
		<-s.waited
	}
}

// stopTimeout is the time limit for a monitor to end its VM.
const stopTimeout = 10 * time.Second

// wrapError adds the context's cause and the end of the log to the reason why a VM was not started.
func (s *launchedMonitor) wrapError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
		if errors.Is(cause, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", atoll.ErrTimeout, cause)
		}
	}
	if tail := BootLogTail(s.dir); tail != "" {
		return fmt.Errorf("%w; the end of %s:\n%s", err, BootLog, tail)
	}
	return err
}
