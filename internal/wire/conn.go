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

// HalfCloser is a connection whose sending half can be closed separately.
type HalfCloser interface {
	net.Conn
	CloseWrite() error
}

// Conn is a channel of a multiplexed connection as a net.Conn, with the errors of package net.
type Conn struct {
	*yamux.Stream
	addr   net.Addr
	closed atomic.Bool
}

// NewConn returns a channel as a connection. Both its addresses are addr, since only one end has an
// address.
func NewConn(st *yamux.Stream, addr net.Addr) *Conn { return &Conn{Stream: st, addr: addr} }

// LocalAddr returns the address of the connection.
func (l *Conn) LocalAddr() net.Addr { return l.addr }

// RemoteAddr returns the same address as LocalAddr.
func (l *Conn) RemoteAddr() net.Addr { return l.addr }

// Read reads data from the other end.
func (l *Conn) Read(b []byte) (int, error) {
	n, err := l.Stream.Read(b)
	return n, l.wrapError("read", err)
}

// Write writes data to the other end.
func (l *Conn) Write(b []byte) (int, error) {
	n, err := l.Stream.Write(b)
	return n, l.wrapError("write", err)
}

// Close closes the connection. Data that was written still arrives. Data that the other end sends
// later resets the connection, as with TCP.
func (l *Conn) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	_ = l.CloseWrite() // fails if the connection is reset already
	return l.Reset()   // after CloseWrite only the other direction is reset
}

// Abort resets the connection, so that the other end gets an error instead of a normal end.
func (l *Conn) Abort() {
	l.closed.Store(true)
	_ = l.Reset() // never fails
}

// wrapError converts errors to those of package net.
func (l *Conn) wrapError(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		return err
	}
	switch {
	case l.closed.Load():
		err = net.ErrClosed
	case err == yamux.ErrTimeout: //nolint:errorlint // never wrapped by the stream
		err = os.ErrDeadlineExceeded
	case errors.Is(err, yamux.ErrStreamReset):
		err = syscall.ECONNRESET
	}
	return &net.OpError{Op: op, Net: l.addr.Network(), Addr: l.addr, Err: err}
}

// Join copies in both directions between two connections until both directions have ended, or ctx is
// done. When one side closes its sending half, the half is closed on the other side. After an error
// both connections are aborted.
func Join(ctx context.Context, a, b HalfCloser) {
	stop := context.AfterFunc(ctx, func() { Abort(a); Abort(b) })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyOneWay(a, b)
	}()
	copyOneWay(b, a)
	<-done
	_, _ = a.Close(), b.Close() // both halves are closed already
}

// copyOneWay copies in one direction.
func copyOneWay(to, from HalfCloser) {
	if _, err := io.Copy(writerOnly{to}, readerOnly{from}); err != nil {
		Abort(to)
		Abort(from)
		return
	}
	if err := to.CloseWrite(); err != nil {
		Abort(from)
	}
}

// These types hide ReadFrom and WriteTo: those of TCP save no allocation and need pipes.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)

// Abort resets a connection, so that the other end gets an error instead of a normal end, if the
// connection supports that.
func Abort(c net.Conn) {
	switch c := c.(type) {
	case *yamux.Stream:
		_ = c.Reset() // never fails
	case *net.TCPConn:
		_ = c.SetLinger(0) // fails if it is closed already
		_ = c.Close()
	case interface{ Abort() }:
		c.Abort()
	default:
		_ = c.Close() // the best that is possible
	}
}
