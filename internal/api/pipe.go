package api

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

const pipeNetwork = "pipe"

// Pipe returns a listener for connections within this process, and a function that dials it, for
// clients in the process of the server.
func Pipe() (net.Listener, func(context.Context) (net.Conn, error)) {
	p := &pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
	return p, p.dial
}

type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a connection.
func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener. Connections stay open.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr returns an address of the network "pipe".
func (p *pipe) Addr() net.Addr { return pipeAddr{} }

func (p *pipe) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := newMemoryConns()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type pipeAddr struct{}

// Network returns "pipe".
func (pipeAddr) Network() string { return pipeNetwork }

// String returns "pipe".
func (pipeAddr) String() string { return pipeNetwork }

// memoryBuffer is the buffer of one direction of a connection. It exceeds the standard input and
// the control messages of a stream together.
const memoryBuffer = 512 << 10

// newMemoryConns returns the two ends of a connection in this process. Writes are buffered, so
// that no end waits for the other's reader: readers answer pings themselves, and two that did so
// at the same time over net.Pipe would deadlock until the WebSocket gave up.
func newMemoryConns() (ours, theirs net.Conn) {
	there, back := wire.NewPipe(memoryBuffer, nil), wire.NewPipe(memoryBuffer, nil)
	return &memoryConn{in: back, out: there}, &memoryConn{in: there, out: back}
}

// memoryConn is one end. Its methods may be called concurrently.
type memoryConn struct{ in, out *wire.Pipe }

// Read reads what the other end has written. After the other end's Close it returns the rest, then
// io.EOF.
func (c *memoryConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write writes to the other end. It blocks only while the buffer is full.
func (c *memoryConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// Close closes both directions. The other end can still read what was written.
func (c *memoryConn) Close() error {
	c.in.CloseReader()
	c.out.CloseWriter(nil)
	return nil
}

// LocalAddr returns an address of the network "pipe".
func (c *memoryConn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr returns an address of the network "pipe".
func (c *memoryConn) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline sets the deadlines of reads and writes.
func (c *memoryConn) SetDeadline(t time.Time) error {
	c.in.SetReadDeadline(t)
	c.out.SetWriteDeadline(t)
	return nil
}

// SetReadDeadline sets the deadline of reads; zero: none.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.SetReadDeadline(t)
	return nil
}

// SetWriteDeadline sets the deadline of writes; zero: none.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.SetWriteDeadline(t)
	return nil
}
