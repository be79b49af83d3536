package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/jail"
)

// monitor watches one machine and holds the ways to it.
type monitor struct {
	o       *order
	program program
	starter *net.UnixConn // until told to keep
	kills   *os.File      // see Group.Kills; nil: not known
	log     *journal

	cmd  *exec.Cmd // the hypervisor
	ctl  controller
	port *port
	mux  *yamux.Session // nil: not yet

	streams   sync.WaitGroup          // readers of what the hypervisor says
	exited    chan struct{}           // closed when the hypervisor is gone and reaped
	kept      chan struct{}           // closed when the starter said so
	interrupt context.CancelCauseFunc // ends the boot
	state     *os.File                // of the template that is saved or woken; nil: none
	facts     Facts

	shot   bool    // the monitor killed it
	lender *lender // nil: nothing is lent

	mu      sync.Mutex
	serving bool
	stopped bool
	problem string
	wanted  bool          // its end was ordered
	cause   *End          // why the monitor itself ended it; the first one stays
	pinging chan struct{} // closed when the ping under way is answered; nil: none
	answers bool
}

// Monitor is what `atoll-guest monitor` does: it reads its order from a socket,
// starts a machine, and returns when that is over.
func Monitor(socket *os.File) error {
	unix.Umask(0o077)
	conn, err := connOf(socket)
	if err != nil {
		return err
	}
	o := new(order)
	files, err := receive(conn, o)
	if err != nil {
		return fmt.Errorf("its order: %w", err)
	}
	m := &monitor{o: o, program: qemu{}, starter: conn, exited: make(chan struct{}), kept: make(chan struct{}), log: &journal{file: os.Stderr}}
	if err := m.takeFiles(files); err != nil {
		return err
	}
	return m.run()
}

// takeFiles puts the files of an order where they belong.
func (m *monitor) takeFiles(files []*os.File) error {
	next := func() (f *os.File) {
		if len(files) > 0 {
			f, files = files[0], files[1:]
		}
		return f
	}
	if m.o.Kills {
		m.kills = next()
	}
	for i := range m.o.NICs {
		m.o.NICs[i].Tap = next()
	}
	for i := range m.o.Shares {
		if m.o.Shares[i].served() {
			m.o.Shares[i].Conn = next()
		}
	}
	if len(files) > 0 {
		return fmt.Errorf("%d files that nobody asked for", len(files))
	}
	return m.o.check()
}

// run has the machine's life.
func (m *monitor) run() error {
	lock, err := m.claim()
	if err != nil {
		m.tell(answer{End: &End{Reason: ByFault, Message: err.Error(), At: time.Now()}})
		return err
	}
	defer lock.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go m.watchStarter(cancel)
	killed := m.killed()
	if err := m.live(ctx, cancel); err != nil {
		m.blame(err)
	}
	if m.cmd != nil {
		m.finish(ctx)
		m.streams.Wait()
	}
	end := m.judge(m.killed() > killed)
	m.log.close()
	err = m.clean(end)
	if m.o.Save == "" || end.Reason != ByOrder {
		m.tell(answer{End: end})
	} else {
		m.tell(answer{})
	}
	return err
}

// finish waits until the hypervisor is gone, and kills it when it doesn't end.
func (m *monitor) finish(ctx context.Context) {
	patience := closingTime // what is about to end by itself tells why
	if m.cause != nil && m.cause.Reason == ByOrder || ctx.Err() != nil {
		patience = 0
	}
	select {
	case <-m.exited:
		return
	default:
	}
	select {
	case <-m.exited:
	case <-time.After(patience):
		m.shot = true
		_ = m.cmd.Process.Kill() // it may be gone just now
		<-m.exited
	}
}

// live is the machine's life until there is a reason to end it.
func (m *monitor) live(ctx context.Context, cancel context.CancelCauseFunc) error {
	if err := m.boot(ctx, time.Now()); err != nil {
		return err
	}
	if m.o.Save != "" {
		return m.save(ctx)
	}
	return m.serve(ctx, cancel)
}

// claim is who runs a machine in the directory, until the file is closed.
func (m *monitor) claim() (*os.File, error) {
	info, err := os.Lstat(m.o.Dir)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(m.o.Dir, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: m.o.Dir, Err: err}
	}
	if !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s: must be a directory that only its owner, this user, can write in", m.o.Dir)
	}
	f, err := os.OpenFile(filepath.Join(m.o.Dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // it is another's
		return nil, fmt.Errorf("%s: a machine runs there already", m.o.Dir)
	}
	if err := os.Stderr.Truncate(0); err != nil { // it is boot.log, with what the one before said
		return nil, errors.Join(err, f.Close())
	}
	for _, name := range []string{EndFile, stateFile, GuestSocket, MonitorSocket} {
		if err := os.Remove(filepath.Join(m.o.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// tell says something to the starter, who may be gone.
func (m *monitor) tell(a answer) {
	if m.starter != nil {
		_ = send(m.starter, a)
	}
}

var errStarter = errors.New("who started the machine has ended")

// watchStarter ends the machine when the starter ends before he said to keep it.
func (m *monitor) watchStarter(cancel context.CancelCauseFunc) {
	if _, err := receive(m.starter, new(keep)); err != nil {
		cancel(errStarter)
		return
	}
	close(m.kept)
}

// keep is what the starter says so that the machine outlives him.
type keep struct{ Keep bool }

// boot starts the hypervisor and waits until the guest waits for us.
func (m *monitor) boot(ctx context.Context, began time.Time) (err error) {
	ctx, cancel := context.WithDeadlineCause(ctx, began.Add(m.o.Patience), errSilent)
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	m.interrupt = interrupt
	if err := m.start(ctx); err != nil {
		return &End{Reason: ByFault, Message: err.Error()}
	}
	if m.o.Template != "" {
		if err := m.wake(ctx); err != nil {
			return &End{Reason: ByTemplate, Message: "the template " + m.o.Template + ": " + err.Error()}
		}
	}
	if err := m.record(); err != nil {
		return &End{Reason: ByFault, Message: err.Error()}
	}
	if err := confineSelf(m.o.Dir); err != nil {
		return &End{Reason: ByFault, Message: "the monitor's own walls: " + err.Error()}
	}
	stop := context.AfterFunc(ctx, func() { _ = m.port.Close() })
	defer stop()
	return m.greet(ctx)
}

// greet brings the guest as far as to serve, or to where it is saved.
func (m *monitor) greet(ctx context.Context) error {
	if err := m.hello(); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStuck) {
			return stuck(cause)
		}
		if errors.Is(err, errNoise) {
			return &End{Reason: ByWire, Message: "the guest: " + err.Error()}
		}
		return &End{Reason: ByBoot, Message: m.silence(errors.Join(context.Cause(ctx), err))}
	}
	var (
		mux *yamux.Session
		v   verdict
		err error
	)
	switch {
	case m.o.Save == "":
		mux, v, err = m.port.goOn(ctx, m.o.Setup)
	case len(m.o.Form) > 0:
		v, err = m.port.form(ctx, m.o.Form)
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errStuck):
		return stuck(cause)
	case err != nil && cause != nil:
		return &End{Reason: ByWire, Message: "the guest, when it was told to go on: " + cause.Error()}
	case isEnd(err):
		return &End{Reason: ByBoot, Message: "the machine ended before its guest served"}
	case err != nil:
		return &End{Reason: ByWire, Message: "the guest, when it was told to go on: " + printable(err.Error(), maxShown)}
	}
	m.mux = mux
	if v.Error != "" {
		return &End{Reason: BySetup, Message: printable(v.Error, maxShown), Code: printable(v.Reason, 32)}
	}
	return nil
}

// hello waits for the guest's line. A clone was saved when it had come.
func (m *monitor) hello() error {
	if m.o.Template != "" {
		return nil
	}
	return m.port.awaitHello()
}

var (
	errSilent = errors.New("it has had time enough")
	errStuck  = errors.New("stuck")
)

// stuck is the end of a machine that nobody can resume, since it doesn't serve.
func stuck(cause error) *End {
	return &End{Reason: ByDisk, Message: strings.TrimPrefix(cause.Error(), errStuck.Error()+": ")}
}

// silence says how a guest did not come to speak.
func (m *monitor) silence(err error) string {
	if errors.Is(err, errSilent) {
		return fmt.Sprintf("the guest said nothing on its port within %v", m.o.Patience)
	}
	if errors.Is(err, errStarter) {
		return err.Error()
	}
	return "the machine ended before its guest spoke"
}

// start starts the hypervisor.
func (m *monitor) start(ctx context.Context) error {
	p := new(placer)
	defer p.close()
	args, err := m.program.arguments(m.o, p)
	if err != nil {
		return err
	}
	ours, err := m.connect(p)
	if err != nil {
		return err
	}
	args = append(args, m.o.streams(ours.ways)...)
	if err := m.openState(); err != nil {
		return err
	}
	c := &cell{Path: m.o.QEMU, Args: args, Read: p.read, Write: p.write, Groups: kvmGroups(m.o.Accel), Hold: p.lent != ""}
	if os.Geteuid() == 0 {
		c.User = m.o.User
	}
	if c.User == nil {
		c.Weak = append(c.Weak, "it runs as the user who started it")
	}
	stderr, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	m.streams.Go(func() { copyAll(hypervisor{m.log}, stderr) })
	m.streams.Go(func() { copyAll(console{m.log}, ours.console) })
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the hypervisor ends with this thread
		cmd, weak, held, err := startConfined(m.o.Helper, c, p.files, theirs)
		_ = theirs.Close() // it is the hypervisor's
		closeAll(ours.theirs)
		m.o.closeFiles()
		if err != nil {
			started <- err
			return
		}
		if held != nil {
			m.lender, err = lend(held, p.lent, p.loan)
		}
		m.cmd, m.facts.Weak = cmd, weak
		started <- err
		_ = cmd.Wait() // its state says how
		close(m.exited)
	}()
	if err := <-started; err != nil {
		return err
	}
	if m.lender != nil {
		defer m.lender.close()
	}
	m.port = &port{Conn: ours.port}
	m.ctl, err = m.program.control(ctx, ours.qmp, m.event)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// closeFiles closes what came along with the order and is the hypervisor's now:
// who is at the other end sees it end.
func (o *order) closeFiles() {
	for _, n := range o.NICs {
		_ = n.Tap.Close() // the hypervisor has it
	}
	for _, s := range o.Shares {
		if s.Conn != nil {
			_ = s.Conn.Close() // likewise
		}
	}
}

// ends are the monitor's ends of its connections with a hypervisor.
type ends struct {
	ways
	qmp, console, port *net.UnixConn
	theirs             []*os.File
}

func (m *monitor) connect(p *placer) (*ends, error) {
	e := new(ends)
	for _, to := range []struct {
		conn **net.UnixConn
		fd   *int
	}{{&e.qmp, &e.ways.qmp}, {&e.console, &e.ways.console}, {&e.port, &e.ways.port}} {
		ours, theirs, err := socketpair()
		if err != nil {
			return nil, err
		}
		*to.conn, *to.fd = ours, p.file(theirs)
		e.theirs = append(e.theirs, theirs)
	}
	return e, nil
}

// event notes what the hypervisor tells.
func (m *monitor) event(e event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.what {
	case eventPaused:
		m.stopped = true
	case eventRuns:
		m.stopped, m.problem = false, ""
	case eventStuck:
		m.problem = "a disk of the host: " + e.text
		if e.space {
			m.problem = "the host's disk is full"
		}
		m.interrupt(fmt.Errorf("%w: %s", errStuck, m.problem)) // nobody can resume what doesn't serve yet
	}
}

// phase is what the machine is at. The caller holds mu.
func (m *monitor) phase() Phase {
	switch {
	case !m.serving:
		return Booting
	case m.stopped && m.problem != "":
		return Stuck
	case m.stopped:
		return Paused
	}
	return Running
}

// replace writes a file to a temporary name and renames it.
func replace(name string, b []byte) error {
	if err := os.WriteFile(name+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// running is what machine.json tells of a machine.
type running struct {
	Monitor      int    `json:"monitor"`
	MonitorStart uint64 `json:"monitor_start"` // see jail.StartTime
	Boot         string `json:"boot"`          // of the host, since which those count
	PID          int    `json:"pid"`
	Start        uint64 `json:"start"`
}

// record writes who runs.
func (m *monitor) record() error {
	r := running{Monitor: os.Getpid(), PID: m.cmd.Process.Pid}
	var err1, err2, err3 error
	r.MonitorStart, err1 = jail.StartTime(r.Monitor)
	r.Start, err2 = jail.StartTime(r.PID)
	r.Boot, err3 = hostBoot()
	b, err4 := json.Marshal(r)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	return replace(filepath.Join(m.o.Dir, stateFile), b)
}

// hostBoot names the time since the host was started.
func hostBoot() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
