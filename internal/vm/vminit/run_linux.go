package vminit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/vm/timer"
)

// Run is the main function of process 1 of a VM. It never returns: it ends with the VM. If it ends
// early, it prints the reason on the console, in a line that begins with "atoll: ".
func Run() {
	defer func() {
		if p := recover(); p != nil {
			printError(fmt.Errorf("process 1 panicked: %v\n%s", p, debug.Stack()))
		}
		powerOff(nil)
	}()
	if err := run(); err != nil {
		printError(err)
	}
}

// printError writes an error to the console.
func printError(err error) { fmt.Fprintf(os.Stderr, "atoll: %v\n", err) }

func run() error {
	if err := mountEarly(); err != nil {
		return err
	}
	emulated, err := isEmulated()
	if err == nil && emulated {
		err = timer.Check()
	}
	if err != nil {
		return err
	}
	reduceRuntimeCost()
	m, err := readModules()
	if err != nil {
		return err
	}
	if err := m.load(bootModules()...); err != nil {
		return err
	}
	redirected, err := prepareKernel()
	if err != nil {
		return err
	}
	p, err := openPort()
	if err != nil {
		return err
	}
	f, err := waitToContinue(p, m, redirected)
	if err != nil {
		return err
	}
	mux, err := yamux.Server(p, muxConfig(), nil)
	if err != nil {
		return err
	}
	defer mux.Close()
	s, err := setUpGuest(mux, m, redirected, f)
	if err != nil {
		return err
	}
	return serve(mux, s)
}

// isEmulated reports whether the host has told the VM that its processor is emulated.
func isEmulated() (bool, error) {
	b, err := os.ReadFile("/proc/cmdline")
	return slices.Contains(strings.Fields(string(b)), EmulatedParameter), err
}

// prepareKernel performs the steps that are the same in every VM before the hello, so that they are
// part of saved VMs. redirected: connections are redirected to the host's egress proxy, as a kernel
// parameter ordered (see EgressParameter).
func prepareKernel() (redirected bool, err error) {
	if err := mountAll(secondaryMounts()); err != nil {
		return false, err
	}
	if err := hardenKernel(); err != nil {
		return false, err
	}
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return false, err
	}
	told := strings.Fields(string(b))
	if slices.Contains(told, EmulatedParameter) {
		reduceFaultAround()
	}
	if !slices.Contains(told, EgressParameter) {
		return false, nil
	}
	return true, guest.RedirectConnections()
}

// waitToContinue waits until the host tells the VM to continue. The result is nil unless a form was
// applied before.
func waitToContinue(p *port, m *modules, redirected bool) (f *preparedVM, err error) {
	for {
		form, err := p.waitForHost()
		if err != nil || !form {
			return f, err
		}
		if f != nil {
			return nil, errors.New("it received two forms")
		}
		if f, err = acceptForm(p, m, redirected); err != nil {
			return nil, err
		}
	}
}

// acceptForm reads a form, applies it, and answers. It also runs commands, so that their code is in
// memory when the VM is saved.
func acceptForm(p *port, m *modules, redirected bool) (*preparedVM, error) {
	f := new(preparedVM)
	setup, err := readSetup(p)
	if err == nil {
		err = setup.setDefaults()
	}
	if err == nil {
		f.limits = setup.Limits
		f.guest, err = setup.applyForm(m, redirected)
	}
	if err == nil {
		err = setup.writeOwnFiles(false) // the files exist then, and only get new texts later
	}
	if err == nil {
		warmUp(f.guest)
		unix.Sync()
		f.guest.ReleaseMemory()
	}
	if e := sendVerdict(p, err); err == nil && e != nil {
		err = fmt.Errorf("answering to its form: %w", e)
	}
	if err != nil {
		_ = p.SetReadDeadline(time.Now().Add(hangUpTimeout)) // it fails only if the host has disconnected
		_, _ = p.Read(make([]byte, 1))                       // until the host hangs up
	}
	return f, err
}

// warmUp runs commands, to load the code that commands need.
func warmUp(s *guest.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), warmUpTimeout)
	defer cancel()
	host, own := net.Pipe()
	go s.ServeConn(own)
	c, err := guest.Connect(ctx, host, guest.Options{})
	if err != nil {
		return // the next client gets the error
	}
	defer c.Close()
	for range 2 {
		for _, cmd := range []atoll.Cmd{{Shell: "echo"}, {Args: []string{"echo"}}} {
			_, _ = c.Exec(ctx, cmd) // the image may lack both: only the way there matters
		}
	}
}

// warmUpTimeout is the time limit of commands that do nothing.
const warmUpTimeout = 20 * time.Second

// setUpGuest applies the setup of the first stream, and answers. If it fails, the VM is of no use,
// and ends after the host has received the reason. f is the result of waitToContinue.
func setUpGuest(mux *yamux.Session, m *modules, redirected bool, f *preparedVM) (*guest.Server, error) {
	st, err := mux.AcceptStream()
	if err != nil {
		return nil, fmt.Errorf("waiting for its setup: %w", err)
	}
	defer st.Close()
	var s *guest.Server
	setup, err := readSetup(st)
	if err == nil {
		s, err = applySetup(setup, m, redirected, f)
	}
	if e := sendVerdict(st, err); err == nil && e != nil {
		err = fmt.Errorf("answering to its setup: %w", e)
	}
	if err != nil {
		_ = st.SetReadDeadline(time.Now().Add(hangUpTimeout)) // it fails only if the host has disconnected
		_, _ = st.Read(make([]byte, 1))                       // until the host hangs up
	}
	return s, err
}

// hangUpTimeout is the time that a failed VM waits for its host to hang up.
const hangUpTimeout = 5 * time.Second

// serve passes every further stream to the guest agent, until the host closes the port.
func serve(mux *yamux.Session, s *guest.Server) error {
	for {
		st, err := mux.AcceptStream()
		if err != nil {
			return fmt.Errorf("its port is closed: %w", err)
		}
		go s.ServeConn(st)
	}
}

// powerOff flushes and trims the disks, and switches the VM off.
func powerOff(free trims) {
	done := make(chan struct{})
	go func() {
		unix.Sync()
		free.trimDisks()
		unmountDisks()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(syncTimeout): // a disk does not respond: the VM must end
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // in case the VM can't be switched off
	select {}
}

// syncTimeout is the time limit for flushing the disks at the end.
const syncTimeout = 10 * time.Second
