package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Bounds of what a monitor does at once, and for how long it waits.
const (
	mostConns    = 512              // connections to the guest
	mostAsks     = 64               // questions to the monitor
	askTime      = 10 * time.Second // how long a question may take to come, and a command to be obeyed
	pingPatience = time.Second      // how long a guest may take to answer before it is said not to
	closingTime  = 2 * time.Second  // how long a machine whose wire is closed may take to end
)

// verb is what a monitor is asked for.
type verb string

const (
	verbStatus   verb = "status"
	verbPhase    verb = "phase" // without asking the guest
	verbPause    verb = "pause"
	verbResume   verb = "resume"
	verbPowerOff verb = "poweroff" // it is going to end by itself, and that is right
	verbKill     verb = "kill"
)

// question is what a connection to monitor.sock says, reply what it hears.
type (
	question struct{ Do verb }
	reply    struct {
		Status Status
		Error  string
	}
)

// serve lets hosts to the guest and to the monitor until the machine is over,
// which is nil, or must be ended.
func (m *monitor) serve(ctx context.Context, cancel context.CancelCauseFunc) error {
	guests, err := listen(m.o.Dir, GuestSocket)
	if err != nil {
		return err
	}
	defer guests.Close()
	asks, err := listen(m.o.Dir, MonitorSocket)
	if err != nil {
		return err
	}
	defer asks.Close()
	m.tell(answer{})
	select {
	case <-m.kept:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.exited:
		return nil
	}
	_ = m.starter.Close() // all is said
	m.starter = nil
	m.mu.Lock()
	m.serving = true
	m.mu.Unlock()
	ctx, end := context.WithCancel(ctx)
	defer end()
	go accept(ctx, guests, mostConns, func(c *net.UnixConn) { pump(ctx, m.mux, c) })
	go accept(ctx, asks, mostAsks, func(c *net.UnixConn) { m.answer(ctx, cancel, c) })
	select {
	case <-m.exited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.mux.CloseChan():
	}
	if _, err := m.mux.AcceptStream(); isEnd(err) {
		return &End{Reason: ByWire, Message: "the hypervisor has closed the guest's wire"} // it is ending, most likely
	}
	return &End{Reason: ByWire, Message: errProtocol}
}

const errProtocol = "the guest does not keep to the protocol of its wire"

// listen makes a socket that only this user can connect to.
func listen(dir, name string) (*net.UnixListener, error) {
	path, done, err := socketPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}) // under the umask that Monitor sets
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	l.SetUnlinkOnClose(false) // clean does it, by its right name
	return l, nil
}

// accept handles connections, so many at once, until the listener is closed.
func accept(ctx context.Context, l *net.UnixListener, most int, handle func(*net.UnixConn)) {
	room := make(chan struct{}, most)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors: others are given back
			<-room
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			continue
		}
		go func() {
			defer func() { <-room }()
			handle(c)
		}()
	}
}

// errOrdered says that the machine's end was asked for.
var errOrdered = errors.New("it was switched off")

// answer does what one connection asks.
func (m *monitor) answer(ctx context.Context, cancel context.CancelCauseFunc, c *net.UnixConn) {
	defer c.Close()
	ctx, done := context.WithTimeout(ctx, askTime)
	defer done()
	_ = c.SetDeadline(time.Now().Add(2 * askTime)) // it is a socket: that works
	var q question
	if files, err := receive(c, &q); err != nil || len(files) > 0 {
		closeAll(files)
		return
	}
	var err error
	switch q.Do {
	case verbStatus:
		_ = send(c, reply{Status: m.look(ctx)}) // who asked may be gone
		return
	case verbPhase:
		m.mu.Lock()
		r := reply{Status: Status{Phase: m.phase(), Problem: m.problem}}
		m.mu.Unlock()
		_ = send(c, r) // likewise
		return
	case verbPause:
		err = m.ctl.pause(ctx)
	case verbResume:
		err = m.ctl.resume(ctx)
	case verbPowerOff, verbKill:
		m.mu.Lock()
		m.wanted = true
		m.mu.Unlock()
	default:
		err = fmt.Errorf("what is %.20q?", q.Do)
	}
	var r reply
	if err != nil {
		r.Error = printable(err.Error(), maxShown)
	}
	_ = send(c, r)
	if q.Do == verbKill {
		cancel(errOrdered)
	}
}

// look tells how the machine is.
func (m *monitor) look(ctx context.Context) Status {
	m.mu.Lock()
	s := Status{Phase: m.phase(), Problem: m.problem, Facts: m.facts}
	m.mu.Unlock()
	s.Facts.Accel, s.Facts.Type, s.Facts.Version = m.o.Accel, m.o.Type, m.ctl.version()
	s.Facts.PID, s.Facts.Monitor, s.Facts.Cloned = m.cmd.Process.Pid, os.Getpid(), m.o.Template != ""
	if s.Phase != Stuck {
		s.Problem = ""
	}
	if s.Phase == Running {
		s.Answers = m.ping(ctx)
	}
	return s
}

// ping reports whether the guest answers soon. One question is under way at a
// time, however long it takes: a guest that hangs makes nothing pile up here.
func (m *monitor) ping(ctx context.Context) bool {
	m.mu.Lock()
	if m.pinging == nil {
		done := make(chan struct{})
		m.pinging = done
		go func() {
			_, err := m.mux.Ping()
			m.mu.Lock()
			m.pinging, m.answers = nil, err == nil
			m.mu.Unlock()
			close(done)
		}()
	}
	done := m.pinging
	m.mu.Unlock()
	select {
	case <-done:
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.answers
	case <-time.After(pingPatience):
	case <-ctx.Done():
	}
	return false
}

func copyAll(to io.Writer, from io.ReadCloser) {
	defer from.Close()
	_, _ = io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}) // it ends with the hypervisor
}
