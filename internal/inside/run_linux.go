package inside

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
)

// Run is all that process 1 of a machine does. It never returns: it ends with
// the machine. Why it ends early is one line on the console, which begins with
// "atoll: ".
func Run() {
	defer func() {
		if p := recover(); p != nil {
			say(fmt.Errorf("process 1 broke: %v\n%s", p, debug.Stack()))
		}
		off(nil)
	}()
	if err := run(); err != nil {
		say(err)
	}
}

// say writes an error to the console.
func say(err error) { fmt.Fprintf(os.Stderr, "atoll: %v\n", err) }

func run() error {
	if err := earlyMounts(); err != nil {
		return err
	}
	calm()
	m, err := readModules()
	if err != nil {
		return err
	}
	if err := m.load(atBoot()...); err != nil {
		return err
	}
	led, err := prepare()
	if err != nil {
		return err
	}
	p, err := openPort()
	if err != nil {
		return err
	}
	f, err := take(p, m, led)
	if err != nil {
		return err
	}
	mux, err := yamux.Server(p, muxConfig(), nil)
	if err != nil {
		return err
	}
	defer mux.Close()
	s, err := setUp(mux, m, led, f)
	if err != nil {
		return err
	}
	return serve(mux, s)
}

// prepare does what is the same in every machine before the first word, so that
// machines that are saved then have done it. led: connections are led to the
// host's gate; which machines want that, their kernel is told (see GateParameter).
func prepare() (led bool, err error) {
	if err := mountAll(beside()); err != nil {
		return false, err
	}
	if err := harden(); err != nil {
		return false, err
	}
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return false, err
	}
	told := strings.Fields(string(b))
	if slices.Contains(told, EmulatedParameter) {
		fewerPages()
	}
	if !slices.Contains(told, GateParameter) {
		return false, nil
	}
	return true, guest.Redirect()
}

// take waits until the machine is told to go on. If it is told to take its form
// first, what it returns is not nil.
func take(p *port, m *modules, led bool) (f *formed, err error) {
	for {
		form, err := p.greet()
		if err != nil || !form {
			return f, err
		}
		if f != nil {
			return nil, errors.New("it was told twice which form to take")
		}
		if f, err = takeForm(p, m, led); err != nil {
			return nil, err
		}
	}
}

// takeForm makes the machine what all of a kind are, and answers. What commands
// need is in memory then.
func takeForm(p *port, m *modules, led bool) (*formed, error) {
	f := new(formed)
	setup, err := readSetup(p)
	if err == nil {
		err = setup.fill()
	}
	if err == nil {
		f.limits = setup.Limits
		f.guest, err = setup.form(m, led)
	}
	if err == nil {
		err = setup.personal(false) // so that the files are there whose text is to come
	}
	if err == nil {
		rehearse(f.guest)
		unix.Sync()
		f.guest.Rest()
	}
	if e := answer(p, err); err == nil && e != nil {
		err = fmt.Errorf("answering to its form: %w", e)
	}
	if err != nil {
		_ = p.SetReadDeadline(time.Now().Add(lastWords)) // it can only fail if nobody listens
		_, _ = p.Read(make([]byte, 1))                   // until the host hangs up
	}
	return f, err
}

// rehearse runs what commands run.
func rehearse(s *guest.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), rehearsalTime)
	defer cancel()
	host, own := net.Pipe()
	go s.ServeConn(own)
	c, err := guest.Connect(ctx, host, guest.Options{})
	if err != nil {
		return // who comes next is told why
	}
	defer c.Close()
	for range 2 {
		for _, cmd := range []atoll.Cmd{{Shell: "echo"}, {Args: []string{"echo"}}} {
			_, _ = c.Exec(ctx, cmd) // an image may have neither: what counts is the way there
		}
	}
}

// rehearsalTime is how long commands that do nothing may take.
const rehearsalTime = 20 * time.Second

// setUp does what the first stream says, and answers. When it fails the machine
// is of no use: it ends when the host has heard why. f is take's.
func setUp(mux *yamux.Session, m *modules, led bool, f *formed) (*guest.Server, error) {
	st, err := mux.AcceptStream()
	if err != nil {
		return nil, fmt.Errorf("waiting for its setup: %w", err)
	}
	defer st.Close()
	var s *guest.Server
	setup, err := readSetup(st)
	if err == nil {
		s, err = apply(setup, m, led, f)
	}
	if e := answer(st, err); err == nil && e != nil {
		err = fmt.Errorf("answering to its setup: %w", e)
	}
	if err != nil {
		_ = st.SetReadDeadline(time.Now().Add(lastWords)) // it can only fail if nobody listens
		_, _ = st.Read(make([]byte, 1))                   // until the host hangs up
	}
	return s, err
}

// lastWords is how long a machine that failed waits for its host to hang up.
const lastWords = 5 * time.Second

// serve hands every further stream to the guest, until the host's end is gone.
func serve(mux *yamux.Session, s *guest.Server) error {
	for {
		st, err := mux.AcceptStream()
		if err != nil {
			return fmt.Errorf("its port is closed: %w", err)
		}
		go s.ServeConn(st)
	}
}

// off writes what is not written yet, tells which blocks are free, and ends the
// machine.
func off(free trims) {
	done := make(chan struct{})
	go func() {
		unix.Sync()
		free.trim()
		settle()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(syncPatience): // a disk that does not answer: the machine must end
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // a machine that has no switch
	select {}
}

// syncPatience is how long disks may take to write at the end.
const syncPatience = 10 * time.Second
