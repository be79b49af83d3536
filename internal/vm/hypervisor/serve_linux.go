package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// Limits of a monitor.
const (
	maxConns        = 512              // connections to the guest
	maxQuestions    = 64               // questions to the monitor
	questionTimeout = 10 * time.Second // time until a question was read, and for a command to be executed
	pingTimeout     = time.Second      // time for a guest's answer, until it is reported not to answer
	closeTimeout    = 2 * time.Second  // time for a VM to end after the guest has closed its port
)

// verb is a question to a monitor.
type verb string

const (
	verbStatus   verb = "status"
	verbPhase    verb = "phase" // without asking the guest
	verbPause    verb = "pause"
	verbResume   verb = "resume"
	verbPowerOff verb = "poweroff" // the VM is going to end by itself, as ordered
	verbKill     verb = "kill"
)

// question is sent on a connection to monitor.sock, reply is the answer.
type (
	question struct {
		Do    verb
		Layer string `json:",omitempty"` // of verbAddLayer, which is sent with files
	}
	reply struct {
		Status Status
		Layers []string `json:",omitempty"`
		Error  string
	}
)

// serve accepts connections to the guest and to the monitor. It returns nil when the hypervisor has
// exited, otherwise the reason to end the VM.
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
	m.notifyStarter(answer{})
	select {
	case <-m.keepReceived:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.exited:
		return nil
	}
	_ = m.starter.Close() // nothing is left to send
	m.starter = nil
	m.mu.Lock()
	m.serving = true
	m.mu.Unlock()
	ctx, end := context.WithCancel(ctx)
	defer end()
	go accept(ctx, guests, maxConns, func(c *net.UnixConn) { joinStream(ctx, m.mux, c) })
	go accept(ctx, asks, maxQuestions, func(c *net.UnixConn) { m.handleQuestion(ctx, cancel, c) })
	select {
	case <-m.exited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.mux.CloseChan():
	}
	if _, err := m.mux.AcceptStream(); isClosed(err) {
		return &End{Reason: ByProtocol, Message: "the hypervisor closed the guest's connection"} // it is probably ending
	}
	return &End{Reason: ByProtocol, Message: errProtocol}
}

const errProtocol = "the guest violated the wire protocol"

// listen creates a socket that only this user can connect to.
func listen(dir, name string) (*net.UnixListener, error) {
	path, done, err := socketPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}) // with the umask that Monitor sets
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	l.SetUnlinkOnClose(false) // cleanUp removes it by its real path
	return l, nil
}

// accept handles up to a number of connections at once, until the listener is closed.
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
		if err != nil { // out of descriptors: wait for others to be closed
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

// errOrdered is the cause of an end that was ordered.
var errOrdered = errors.New("it was switched off")

// handleQuestion handles one connection to monitor.sock.
func (m *monitor) handleQuestion(ctx context.Context, cancel context.CancelCauseFunc, c *net.UnixConn) {
	defer c.Close()
	ctx, done := context.WithTimeout(ctx, questionTimeout)
	defer done()
	_ = c.SetDeadline(time.Now().Add(2 * questionTimeout)) // can't fail on a socket
	var q question
	files, err := fdpass.Receive(c, &q)
	defer fdpass.CloseAll(files)
	if err != nil || len(files) > 0 && q.Do != verbAddLayer {
		return
	}
	var r reply
	switch q.Do {
	case verbStatus:
		_ = fdpass.Send(c, reply{Status: m.readStatus(ctx)}) // the client may have closed the connection
		return
	case verbPhase:
		m.mu.Lock()
		r := reply{Status: Status{Phase: m.currentPhase(), Problem: m.problem}}
		m.mu.Unlock()
		_ = fdpass.Send(c, r) // likewise
		return
	case verbPause:
		err = m.ctl.pause(ctx)
	case verbResume:
		err = m.ctl.resume(ctx)
	case verbLayers:
		r.Layers, err = m.ctl.listLayers(ctx)
	case verbAddLayer:
		err = m.ctl.addLayer(ctx, q.Layer, files)
	case verbPowerOff, verbKill:
		m.mu.Lock()
		m.endOrdered = true
		m.mu.Unlock()
	default:
		err = fmt.Errorf("unknown question %.20q", q.Do)
	}
	if err != nil {
		r.Error = printableLine(err.Error(), maxShown)
	}
	_ = fdpass.Send(c, r)
	if q.Do == verbKill {
		cancel(errOrdered)
	}
}

// readStatus returns the status of the VM.
func (m *monitor) readStatus(ctx context.Context) Status {
	m.mu.Lock()
	s := Status{Phase: m.currentPhase(), Problem: m.problem, Facts: m.facts}
	m.mu.Unlock()
	s.Facts.Accel, s.Facts.Type, s.Facts.Version = m.o.Accel, m.o.Type, m.ctl.version()
	s.Facts.PID, s.Facts.Monitor, s.Facts.Cloned = m.cmd.Process.Pid, os.Getpid(), m.o.Template != ""
	if s.Phase != Stuck {
		s.Problem = ""
	}
	if s.Phase == Running {
		s.Answers = m.pingGuest(ctx)
	}
	return s
}

// pingGuest reports whether the guest answers within pingTimeout. One ping is in flight at a time,
// so a guest that hangs does not accumulate pings.
func (m *monitor) pingGuest(ctx context.Context) bool {
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
	case <-time.After(pingTimeout):
	case <-ctx.Done():
	}
	return false
}

// copyAll copies until the hypervisor exits, and closes from.
func copyAll(to io.Writer, from io.ReadCloser) {
	defer from.Close()
	_, _ = io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}) // ends with the hypervisor
}
