package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/libp2p/go-yamux/v5"
)

// Halver is a connection whose sending half can be closed alone.
type Halver interface {
	net.Conn
	CloseWrite() error
}

// Line is a channel of a multiplexed connection as those of net are: with their
// errors, and their end.
type Line struct {
	*yamux.Stream
	addr   net.Addr
	closed atomic.Bool
}

// NewLine returns a channel as a connection, both of whose addresses are addr:
// only one end has any.
func NewLine(st *yamux.Stream, addr net.Addr) *Line { return &Line{Stream: st, addr: addr} }

// LocalAddr returns the address that the connection leads to.
func (l *Line) LocalAddr() net.Addr { return l.addr }

// RemoteAddr returns the same.
func (l *Line) RemoteAddr() net.Addr { return l.addr }

// Read reads what the other end has sent.
func (l *Line) Read(b []byte) (int, error) {
	n, err := l.Stream.Read(b)
	return n, l.fail("read", err)
}

// Write writes to the other end.
func (l *Line) Write(b []byte) (int, error) {
	n, err := l.Stream.Write(b)
	return n, l.fail("write", err)
}

// Close ends the connection: what was written arrives, and what the other end
// still sends breaks it, as with TCP.
func (l *Line) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	_ = l.CloseWrite() // where it is broken, it is closed already
	return l.Reset()   // the end was said: only the other direction is broken
}

// Abort breaks the connection, so that its other end sees that this is not an
// ordinary end.
func (l *Line) Abort() {
	l.closed.Store(true)
	_ = l.Reset() // never fails
}

// fail gives errors the form that those of net have.
func (l *Line) fail(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		return err
	}
	switch {
	case l.closed.Load():
		err = net.ErrClosed
	case err == yamux.ErrTimeout: //nolint:errorlint // it is the stream's own
		err = os.ErrDeadlineExceeded
	case errors.Is(err, yamux.ErrStreamReset):
		err = syscall.ECONNRESET
	}
	return &net.OpError{Op: op, Net: l.addr.Network(), Addr: l.addr, Err: err}
}

// Join copies both ways between two connections until both directions have
// ended, or ctx. A half that ends is closed on the other side; when one breaks,
// both are broken.
func Join(ctx context.Context, a, b Halver) {
	stop := context.AfterFunc(ctx, func() { Abort(a); Abort(b) })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		flow(a, b)
	}()
	flow(b, a)
	<-done
	_, _ = a.Close(), b.Close() // both halves are closed already
}

// flow copies one direction.
func flow(to, from Halver) {
	if _, err := io.Copy(writerOnly{to}, readerOnly{from}); err != nil {
		Abort(to)
		Abort(from)
		return
	}
	if err := to.CloseWrite(); err != nil {
		Abort(from)
	}
}

// Neither ReadFrom nor WriteTo: those of TCP allocate no less and take pipes.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)

// Abort breaks a connection so that its other end sees that it is not an
// ordinary end, where the connection can say so.
func Abort(c net.Conn) {
	switch c := c.(type) {
	case *yamux.Stream:
		_ = c.Reset() // never fails
	case *net.TCPConn:
		_ = c.SetLinger(0) // it is gone anyway
		_ = c.Close()
	case interface{ Abort() }:
		c.Abort()
	default:
		_ = c.Close() // nothing more can be said
	}
}
