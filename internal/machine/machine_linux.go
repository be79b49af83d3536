package machine

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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/jail"
)

// Machine is a machine that runs. Its methods may be called at once from many
// goroutines.
type Machine struct {
	dir     string
	who     running
	monitor *os.File // its pidfd
	qemu    *os.File // the hypervisor's; nil: it was gone when we looked
}

// Start starts a machine and returns when its guest serves. When it fails, or
// this process is killed meanwhile, nothing of the machine is left but its
// boot.log and end.json; the error quotes the end of the log. The configuration
// is not kept; files in it remain the caller's.
func Start(ctx context.Context, c *Config) (*Machine, error) {
	s, err := launch(ctx, c, "")
	if err != nil {
		return nil, err
	}
	m, err := Open(c.Dir)
	if err == nil {
		if err = send(s.conn, keep{true}); err != nil {
			err = errors.Join(err, m.Close())
		}
	}
	if err != nil {
		s.end()
		return nil, s.failed(ctx, err)
	}
	_ = s.conn.Close() // all is said
	return m, nil
}

// starting is a monitor that isn't told yet to keep its machine.
type starting struct {
	dir    string
	cmd    *exec.Cmd
	conn   *net.UnixConn
	waited chan struct{} // closed when the monitor is gone
}

// launch starts a monitor and waits until it has done what was ordered.
func launch(ctx context.Context, given *Config, save string) (*starting, error) {
	o := &order{Config: *given, Save: save}
	o.NICs, o.Shares = append([]NIC(nil), given.NICs...), append([]Share(nil), given.Shares...)
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.prepare(); err != nil {
		return nil, err
	}
	if o.Template != "" {
		if err := o.checkTemplate(); err != nil {
			return nil, err
		}
	} else if o.Accel == TCG && o.Type == Microvm {
		o.TSC = clock()
	}
	files, err := o.files()
	if err != nil {
		return nil, err
	}
	if o.Kills {
		defer files[0].Close() // the rest are the caller's
	}
	s, err := startMonitor(o)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() }) // the monitor ends with it
	defer stop()
	if err := s.instruct(o, files); err != nil {
		s.end()
		return nil, s.failed(ctx, err)
	}
	return s, nil
}

// prepare finds out what a monitor must know.
func (o *order) prepare() (err error) {
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

// files are those that go along with an order.
func (o *order) files() (files []*os.File, err error) {
	if o.Group != nil {
		kills, err := o.Group.Kills()
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
		if s.served() {
			files = append(files, s.Conn)
		}
	}
	return files, nil
}

// startMonitor starts a monitor, which waits for its order.
func startMonitor(o *order) (*starting, error) {
	log, err := os.OpenFile(filepath.Join(o.Dir, BootLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	conn, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(o.Helper, "monitor") //nolint:noctx // it outlives this call
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = theirs.Close() // the monitor has its own
	if err != nil {
		_ = conn.Close() // the error says more
		return nil, fmt.Errorf("%w: the machine's monitor: %w", atoll.ErrUnavailable, err)
	}
	s := &starting{dir: o.Dir, cmd: cmd, conn: conn, waited: make(chan struct{})}
	go func() { // so that it is no zombie, should it end before this process
		_ = cmd.Wait() // what it had to say it said otherwise
		close(s.waited)
	}()
	return s, nil
}

// instruct gives the order and waits for the answer.
func (s *starting) instruct(o *order, files []*os.File) error {
	if o.Group != nil {
		if err := o.Group.Add(s.cmd.Process.Pid); err != nil {
			return err
		}
	}
	if err := send(s.conn, o, files...); err != nil {
		return err
	}
	var a answer
	if _, err := receive(s.conn, &a); err != nil {
		return fmt.Errorf("%w: the machine's monitor: %w", atoll.ErrUnavailable, err)
	}
	if a.End != nil {
		return a.End.Err()
	}
	return nil
}

// end ends the monitor, and with it the machine, and waits until both are gone.
func (s *starting) end() {
	_ = s.conn.Close() // that is what ends it
	select {
	case <-s.waited:
	case <-time.After(endPatience):
		_ = s.cmd.Process.Kill() // its hypervisor goes with it
		<-s.waited
	}
}

// endPatience is how long a monitor may take to end its machine.
const endPatience = 10 * time.Second

// failed says why a machine was not started.
func (s *starting) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
		if errors.Is(cause, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", atoll.ErrTimeout, cause)
		}
	}
	if tail := Tail(s.dir); tail != "" {
		return fmt.Errorf("%w; the end of %s:\n%s", err, BootLog, tail)
	}
	return err
}

// Open finds the machine that runs in a directory. That none does is
// atoll.ErrNotFound; see Ended.
func Open(dir string) (*Machine, error) {
	m := &Machine{dir: dir}
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no machine runs in %s", atoll.ErrNotFound, dir)
	}
	if err == nil {
		err = json.Unmarshal(b, &m.who)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	boot, err := hostBoot()
	if err != nil {
		return nil, err
	}
	if m.who.Boot != boot {
		return nil, fmt.Errorf("%w: the host was started anew since a machine ran in %s", atoll.ErrNotFound, dir)
	}
	m.monitor, err = jail.Find(m.who.Monitor, m.who.MonitorStart)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no machine runs in %s", atoll.ErrNotFound, dir)
	}
	if err != nil {
		return nil, err
	}
	m.qemu, err = jail.Find(m.who.PID, m.who.Start)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, m.monitor.Close())
	}
	return m, nil
}

// Close lets go of the machine, which goes on.
func (m *Machine) Close() error {
	err := m.monitor.Close()
	if m.qemu != nil {
		err = errors.Join(err, m.qemu.Close())
	}
	return err
}

// Dial connects to the guest. When the machine is over, the error says why.
func (m *Machine) Dial(ctx context.Context) (net.Conn, error) { return m.dial(ctx, GuestSocket) }

func (m *Machine) dial(ctx context.Context, name string) (*net.UnixConn, error) {
	path, done, err := socketPath(m.dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		if end, eerr := Ended(m.dir); eerr == nil && end != nil {
			return nil, end.Err()
		}
		return nil, fmt.Errorf("%w: the machine: %w", atoll.ErrUnavailable, err)
	}
	u := c.(*net.UnixConn) // what dialling a unix socket gives
	if pid, err := listener(u); err != nil || pid != m.who.Monitor {
		_ = u.Close() // it is a stranger
		return nil, fmt.Errorf("%w: %s is not the monitor's socket, process %d listens there (%v)", atoll.ErrDenied, filepath.Join(m.dir, name), pid, err)
	}
	return u, nil
}

// listener is the process that listens at the other end.
func listener(c *net.UnixConn) (pid int, err error) {
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

// ask asks the monitor something.
func (m *Machine) ask(ctx context.Context, v verb) (*reply, error) {
	c, err := m.dial(ctx, MonitorSocket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(3 * askTime)) // it is a socket: that works
	err = send(c, question{v})
	r := new(reply)
	if err == nil {
		_, err = receive(c, r)
	}
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%w: the machine's monitor does not answer", atoll.ErrTimeout)
	case err != nil:
		return nil, fmt.Errorf("%w: the machine's monitor: %w", atoll.ErrUnavailable, err)
	case r.Error != "":
		return nil, fmt.Errorf("%w: %s", atoll.ErrUnavailable, r.Error)
	}
	return r, nil
}

// over reports whether the monitor is gone.
func (m *Machine) over() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.monitor.Fd()), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// Status tells how the machine is. One that is over is no error.
func (m *Machine) Status(ctx context.Context) (Status, error) {
	r, err := m.ask(ctx, verbStatus)
	if err == nil {
		r.Status.Facts.Resident = resident(m.who.PID, r.Status.Facts.Cloned)
		return r.Status, nil
	}
	if end, eerr := Ended(m.dir); eerr == nil && end != nil {
		return Status{Phase: Over, End: end}, nil
	}
	return Status{}, err
}

// Phase tells what the machine is at, and its problem, without asking its guest. A
// monitor of an older atoll does not know the question, which is an error.
func (m *Machine) Phase(ctx context.Context) (Status, error) {
	r, err := m.ask(ctx, verbPhase)
	if err != nil {
		return Status{}, err
	}
	return r.Status, nil
}

// Work is what a hypervisor is at, as its host sees it.
type Work int

// What it may be at.
const (
	Idle   Work = iota // all its threads wait for something to come
	Busy               // one runs, or waits for a processor or a disk of the host
	Halted             // a signal has stopped it
)

// Work tells what the hypervisor is at now, without asking it or its monitor. That it
// is gone is an error.
func (m *Machine) Work() (Work, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", m.who.PID))
	if err != nil {
		return Idle, err
	}
	w, seen := Idle, 0
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		seen++
		_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ") // a name may have anything in it
		switch state, _, _ := strings.Cut(rest, " "); state {
		case "R", "D":
			return Busy, nil
		case "T", "t":
			w = Halted
		}
	}
	if seen == 0 {
		return Idle, fmt.Errorf("%w: no machine runs in %s", atoll.ErrNotFound, m.dir)
	}
	return w, nil
}

// resident is what a process holds of the host's memory: of a clone, what isn't
// its template's. It costs nothing, however large the machine is.
func resident(pid int, cloned bool) int64 {
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

// Pause stops the machine's processors. Pausing twice is not an error.
func (m *Machine) Pause(ctx context.Context) error {
	_, err := m.ask(ctx, verbPause)
	return err
}

// Resume lets a machine go on that is paused or stuck.
func (m *Machine) Resume(ctx context.Context) error {
	_, err := m.ask(ctx, verbResume)
	return err
}

// PowerOff waits until the machine, which was asked over the wire to switch
// itself off, has done so, and kills it when ctx is done first. Afterwards
// monitor and hypervisor are gone.
func (m *Machine) PowerOff(ctx context.Context) error {
	if _, err := m.ask(ctx, verbPowerOff); err == nil {
		if m.await(ctx) == nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	return m.Kill(ctx)
}

// Kill ends the machine at once. When it returns, monitor and hypervisor are
// gone. Killing one that is over is not an error.
func (m *Machine) Kill(ctx context.Context) error {
	if m.over() {
		return m.await(ctx)
	}
	patience, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	if _, err := m.ask(patience, verbKill); err == nil && m.await(patience) == nil {
		return nil
	}
	if err := unix.PidfdSendSignal(int(m.monitor.Fd()), unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending the machine's monitor: %w", err)
	}
	return m.await(ctx)
}

// await waits until monitor and hypervisor are gone.
func (m *Machine) await(ctx context.Context) error {
	for _, f := range []*os.File{m.monitor, m.qemu} {
		if f == nil {
			continue
		}
		if err := gone(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// gone waits until a process has ended.
func gone(ctx context.Context, pidfd *os.File) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer func() {
		if stop() {
			_ = w.Close() // nobody waits any more
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
			return fmt.Errorf("%w: waiting for the machine's end: %w", atoll.ErrTimeout, context.Cause(ctx))
		}
	}
}

// Wait waits until the machine is over and tells why; see Ended.
func (m *Machine) Wait(ctx context.Context) (*End, error) {
	if err := m.await(ctx); err != nil {
		return nil, err
	}
	return Ended(m.dir)
}

// maxEnd bounds what is read of an end.json.
const maxEnd = 64 << 10

// Ended returns why the last machine in a directory ended; nil: it runs, or
// there was none.
func Ended(dir string) (*End, error) {
	f, err := os.Open(filepath.Join(dir, EndFile))
	if errors.Is(err, fs.ErrNotExist) {
		return lost(dir)
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

// lost is the end of a machine whose monitor had no time to say why.
func lost(dir string) (*End, error) {
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
	return &End{Reason: ByMonitor, Message: "the machine's monitor was ended from outside, and the machine with it, or the host was restarted", At: info.ModTime()}, nil
}
