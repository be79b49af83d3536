package server

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

const pipeNetwork = "pipe"

// Pipe returns a listener whose connections stay in this process, and the
// function that makes them: for a client of a server in the same process.
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

// Close ends the listener; connections stay.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr returns an address of the network "pipe".
func (p *pipe) Addr() net.Addr { return pipeAddr{} }

func (p *pipe) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := inMemory()
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

// wayRoom is how many bytes may be on their way in one direction. It is more than
// a stream's standard input and its messages of control are together.
const wayRoom = 512 << 10

// inMemory returns the two ends of a connection in this process. What is written
// waits in it, so that no end waits for the other's reader: those answer pings
// themselves, and two that did so at the same time over net.Pipe would wait for each
// other, until the WebSocket gave up.
func inMemory() (ours, theirs net.Conn) {
	there, back := wire.NewPipe(wayRoom, nil), wire.NewPipe(wayRoom, nil)
	return &memoryConn{in: back, out: there}, &memoryConn{in: there, out: back}
}

// memoryConn is one end. Its methods may be called at once.
type memoryConn struct{ in, out *wire.Pipe }

// Read reads what the other end has written; after its Close what is left of it,
// then io.EOF.
func (c *memoryConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write writes to the other end. It waits only where that has much left to read.
func (c *memoryConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// Close ends both directions; what was written can still be read.
func (c *memoryConn) Close() error {
	c.in.Stop()
	c.out.End(nil)
	return nil
}

// LocalAddr returns an address of the network "pipe".
func (c *memoryConn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr returns an address of the network "pipe".
func (c *memoryConn) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline sets that of reads and of writes.
func (c *memoryConn) SetDeadline(t time.Time) error {
	c.in.SetReadDeadline(t)
	c.out.SetWriteDeadline(t)
	return nil
}

// SetReadDeadline sets when reads give up; zero: never.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.SetReadDeadline(t)
	return nil
}

// SetWriteDeadline sets when writes give up; zero: never.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.SetWriteDeadline(t)
	return nil
}
