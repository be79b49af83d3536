package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// bootVM starts the hypervisor, and waits until the guest agent serves, or can be saved. It fails
// after the configured patience.
func (m *monitor) bootVM(ctx context.Context, began time.Time) (err error) {
	ctx, cancel := context.WithDeadlineCause(ctx, began.Add(m.o.StartTimeout), errSilent)
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	m.interrupt = interrupt
	if err := m.startHypervisor(ctx); err != nil {
		return &End{Reason: ByFault, Message: err.Error()}
	}
	if m.o.Template != "" {
		if err := m.loadTemplate(ctx); err != nil {
			return &End{Reason: ByTemplate, Message: "the template " + m.o.Template + ": " + err.Error()}
		}
	}
	if err := m.writeRecord(); err != nil {
		return &End{Reason: ByFault, Message: err.Error()}
	}
	if err := confineSelf(m.o.Dir); err != nil {
		return &End{Reason: ByFault, Message: "confining the monitor: " + err.Error()}
	}
	stop := context.AfterFunc(ctx, func() { _ = m.port.Close() })
	defer stop()
	return m.setUpGuest(ctx)
}

// setUpGuest waits for the guest's hello, and sends it its setup, or the form of a template.
func (m *monitor) setUpGuest(ctx context.Context) error {
	if err := m.waitForHello(); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStuck) {
			return stuckEnd(cause)
		}
		if errors.Is(err, errNoise) {
			return &End{Reason: ByProtocol, Message: "the guest: " + err.Error()}
		}
		return &End{Reason: ByBoot, Message: m.describeSilence(errors.Join(context.Cause(ctx), err))}
	}
	var (
		mux *yamux.Session
		v   setupReply
		err error
	)
	switch {
	case m.o.Save == "":
		mux, v, err = m.port.startGuest(ctx, m.o.Setup)
	case len(m.o.TemplateSetup) > 0:
		v, err = m.port.sendForm(ctx, m.o.TemplateSetup)
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errStuck):
		return stuckEnd(cause)
	case err != nil && cause != nil:
		return &End{Reason: ByProtocol, Message: "the guest's answer to its setup: " + cause.Error()}
	case isClosed(err):
		return &End{Reason: ByBoot, Message: "the VM ended before its guest served"}
	case err != nil:
		return &End{Reason: ByProtocol, Message: "the guest's answer to its setup: " + printableLine(err.Error(), maxShown)}
	}
	m.mux = mux
	if v.Error != "" {
		return &End{Reason: BySetup, Message: printableLine(v.Error, maxShown), Code: printableLine(v.Reason, 32)}
	}
	return nil
}

// waitForHello waits for the guest's hello line. The guest of a clone has sent it before it was
// saved.
func (m *monitor) waitForHello() error {
	if m.o.Template != "" {
		return nil
	}
	return m.port.waitForHello()
}

var (
	errSilent = errors.New("the time limit was exceeded")
	errStuck  = errors.New("stuck")
)

// stuckEnd returns the end of a VM that can't be resumed, since it does not serve yet.
func stuckEnd(cause error) *End {
	return &End{Reason: ByDisk, Message: strings.TrimPrefix(cause.Error(), errStuck.Error()+": ")}
}

// describeSilence returns why the guest has not sent its hello.
func (m *monitor) describeSilence(err error) string {
	if errors.Is(err, errSilent) {
		return fmt.Sprintf("the guest sent nothing on its port within %v", m.o.StartTimeout)
	}
	if errors.Is(err, errStarter) {
		return err.Error()
	}
	return "the VM ended before its guest sent its hello"
}

// startHypervisor starts the hypervisor and connects to it.
func (m *monitor) startHypervisor(ctx context.Context) error {
	p := new(inheritedFiles)
	defer p.close()
	args, err := m.program.buildArgs(m.o, p)
	if err != nil {
		return err
	}
	ours, err := m.connectHypervisor(p)
	if err != nil {
		return err
	}
	args = append(args, m.o.streamArgs(ours.charDevs)...)
	if err := m.openState(); err != nil {
		return err
	}
	c := &confinement{Path: m.o.QEMU, Args: args, Read: p.readPaths, Write: p.writePaths, Groups: kvmGroups(m.o.Accel), Hold: p.servedPath != ""}
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
	m.streams.Go(func() { copyAll(hypervisorWriter{m.log}, stderr) })
	m.streams.Go(func() { copyAll(consoleWriter{m.log}, ours.console) })
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the hypervisor is killed when this thread exits
		cmd, weak, held, err := startConfined(m.o.Helper, c, p.files, theirs)
		_ = theirs.Close() // the hypervisor has its own
		fdpass.CloseAll(ours.theirs)
		m.o.closeFiles()
		if err != nil {
			started <- err
			return
		}
		if held != nil {
			m.lender, err = serveOpens(held, p.servedPath, p.servedFile)
		}
		m.cmd, m.facts.MissingIsolation = cmd, weak
		started <- err
		_ = cmd.Wait() // cmd.ProcessState has the result
		close(m.exited)
	}()
	if err := <-started; err != nil {
		return err
	}
	if m.lender != nil {
		defer m.lender.close()
	}
	m.port = &port{Conn: ours.port}
	m.ctl, err = m.program.connectControl(ctx, ours.qmp, m.handleEvent)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// closeFiles closes the files of the order that the hypervisor has inherited, so that their peers
// notice when it exits.
func (o *monitorOrder) closeFiles() {
	for _, n := range o.NICs {
		_ = n.Tap.Close() // the hypervisor has its own
	}
	o.closeShares() // likewise
}

// monitorConns are the monitor's ends of its connections to a hypervisor.
type monitorConns struct {
	charDevs
	qmp, console, port *net.UnixConn
	theirs             []*os.File
}

// connectHypervisor makes the socket pairs between monitor and hypervisor.
func (m *monitor) connectHypervisor(p *inheritedFiles) (*monitorConns, error) {
	e := new(monitorConns)
	for _, to := range []struct {
		conn **net.UnixConn
		fd   *int
	}{{&e.qmp, &e.charDevs.qmp}, {&e.console, &e.charDevs.console}, {&e.port, &e.charDevs.port}} {
		ours, theirs, err := fdpass.NewPair()
		if err != nil {
			return nil, err
		}
		*to.conn, *to.fd = ours, p.addFile(theirs)
		e.theirs = append(e.theirs, theirs)
	}
	return e, nil
}
