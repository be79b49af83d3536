package hypervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
)

// monitor watches one VM, and owns the connections to it.
type monitor struct {
	o       *monitorOrder
	program program
	starter *net.UnixConn // until it sends a keepMessage
	kills   *os.File      // see Group.OpenOOMEvents; nil: not known
	log     *bootLog

	cmd  *exec.Cmd // the hypervisor
	ctl  controller
	port *port
	mux  *yamux.Session // nil: the guest does not serve yet

	streams      sync.WaitGroup          // readers of the hypervisor's output
	exited       chan struct{}           // closed when the hypervisor has exited and was reaped
	keepReceived chan struct{}           // closed when the starter has sent its keepMessage
	interrupt    context.CancelCauseFunc // ends the boot
	state        *os.File                // of the template that is saved or resumed; nil: none
	facts        Facts

	killedByMonitor bool        // the monitor killed the hypervisor
	lender          *openServer // nil: no opens are served

	mu         sync.Mutex
	serving    bool
	stopped    bool
	problem    string
	endOrdered bool          // a client of the monitor ordered the end
	cause      *End          // why the monitor ends the VM; the first cause stays
	pinging    chan struct{} // closed when the ping in flight is answered; nil: none
	answers    bool
}

// RunMonitor implements `atoll-guest monitor`: it reads its order from a socket, starts a VM, and
// returns when that has ended.
func RunMonitor(socket *os.File) error {
	unix.Umask(0o077)
	conn, err := fdpass.Conn(socket)
	if err != nil {
		return err
	}
	o := new(monitorOrder)
	files, err := fdpass.Receive(conn, o)
	if err != nil {
		return fmt.Errorf("its order: %w", err)
	}
	m := &monitor{o: o, program: qemu{}, starter: conn, exited: make(chan struct{}), keepReceived: make(chan struct{}), log: &bootLog{file: os.Stderr}}
	if err := m.assignFiles(files); err != nil {
		return err
	}
	return m.run()
}

// assignFiles assigns the received files to the parts of the order.
func (m *monitor) assignFiles(files []*os.File) error {
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
		if m.o.Shares[i].isServed() {
			m.o.Shares[i].conn = next()
		}
	}
	if len(files) > 0 {
		return fmt.Errorf("received %d unexpected files", len(files))
	}
	return m.o.check()
}

// run runs the VM from the lock on its directory to the record of its end.
func (m *monitor) run() error {
	lock, err := m.claimDir()
	if err != nil {
		m.notifyStarter(answer{End: &End{Reason: ByFault, Message: err.Error(), At: time.Now()}})
		return err
	}
	defer lock.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go m.watchStarter(cancel)
	killed := m.countOOMKills()
	if err := m.runVM(ctx, cancel); err != nil {
		m.recordCause(err)
	}
	if m.cmd != nil {
		m.reapHypervisor(ctx)
		m.streams.Wait()
	}
	end := m.decideEnd(m.countOOMKills() > killed)
	m.log.close()
	err = m.cleanUp(end)
	if m.o.Save == "" || end.Reason != ByOrder {
		m.notifyStarter(answer{End: end})
	} else {
		m.notifyStarter(answer{})
	}
	return err
}

// reapHypervisor waits until the hypervisor has exited, and kills it if it does not exit by itself.
func (m *monitor) reapHypervisor(ctx context.Context) {
	patience := closeTimeout // if it is about to exit, its status explains why
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
		m.killedByMonitor = true
		_ = m.cmd.Process.Kill() // it may have exited
		<-m.exited
	}
}

// runVM boots the VM, and then serves or saves it, until there is a reason to end it.
func (m *monitor) runVM(ctx context.Context, cancel context.CancelCauseFunc) error {
	if err := m.bootVM(ctx, time.Now()); err != nil {
		return err
	}
	if m.o.Save != "" {
		return m.saveState(ctx)
	}
	return m.serve(ctx, cancel)
}

// claimDir locks the directory for this VM until the returned file is closed, and removes what the
// VM before left there.
func (m *monitor) claimDir() (*os.File, error) {
	info, err := os.Lstat(m.o.Dir)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(m.o.Dir, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: m.o.Dir, Err: err}
	}
	if !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s: must be a directory of this user, in which only its owner can write", m.o.Dir)
	}
	f, err := os.OpenFile(filepath.Join(m.o.Dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // another monitor has the lock
		return nil, fmt.Errorf("%s: a VM already runs there", m.o.Dir)
	}
	if err := os.Stderr.Truncate(0); err != nil { // it is boot.log, with the output of the VM before
		return nil, errors.Join(err, f.Close())
	}
	for _, name := range []string{EndFile, stateFile, GuestSocket, MonitorSocket} {
		if err := os.Remove(filepath.Join(m.o.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// notifyStarter sends an answer to the starter, which may have exited.
func (m *monitor) notifyStarter(a answer) {
	if m.starter != nil {
		_ = fdpass.Send(m.starter, a)
	}
}

var errStarter = errors.New("the process that started the VM exited")

// watchStarter ends the VM if the starter exits before it sends its keepMessage.
func (m *monitor) watchStarter(cancel context.CancelCauseFunc) {
	if _, err := fdpass.Receive(m.starter, new(keepMessage)); err != nil {
		cancel(errStarter)
		return
	}
	close(m.keepReceived)
}

// keepMessage is sent by the starter: the VM then outlives it.
type keepMessage struct{ Keep bool }

// handleEvent records an event of the hypervisor.
func (m *monitor) handleEvent(e event) {
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
		m.interrupt(fmt.Errorf("%w: %s", errStuck, m.problem)) // a VM that does not serve yet can't be resumed
	}
}

// currentPhase returns the phase of the VM. The caller holds mu.
func (m *monitor) currentPhase() Phase {
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

// replaceFile replaces a file by a temporary one with new content.
func replaceFile(name string, b []byte) error {
	if err := os.WriteFile(name+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// vmRecord is the content of machine.json.
type vmRecord struct {
	Monitor      int    `json:"monitor"`
	MonitorStart uint64 `json:"monitor_start"` // see jail.StartTime
	Boot         string `json:"boot"`          // boot id of the host; start times count from there
	PID          int    `json:"pid"`
	Start        uint64 `json:"start"`
}

// writeRecord writes the processes of the VM to machine.json.
func (m *monitor) writeRecord() error {
	r := vmRecord{Monitor: os.Getpid(), PID: m.cmd.Process.Pid}
	var err1, err2, err3 error
	r.MonitorStart, err1 = jail.StartTime(r.Monitor)
	r.Start, err2 = jail.StartTime(r.PID)
	r.Boot, err3 = hostBoot()
	b, err4 := json.Marshal(r)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	return replaceFile(filepath.Join(m.o.Dir, stateFile), b)
}

// hostBoot returns the host's boot id.
func hostBoot() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
