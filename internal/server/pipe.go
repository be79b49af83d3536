package server

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
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
	there, back := newWay(), newWay()
	return &memoryConn{in: back, out: there}, &memoryConn{in: there, out: back}
}

// memoryConn is one end. Its methods may be called at once.
type memoryConn struct{ in, out *way }

// Read reads what the other end has written; after its Close what is left of it,
// then io.EOF.
func (c *memoryConn) Read(p []byte) (int, error) { return c.in.take(p) }

// Write writes to the other end. It waits only where that has much left to read.
func (c *memoryConn) Write(p []byte) (int, error) { return c.out.put(p) }

// Close ends both directions; what was written can still be read.
func (c *memoryConn) Close() error {
	c.in.change(func() { c.in.deaf = true })
	c.out.change(func() { c.out.ended = true })
	return nil
}

// LocalAddr returns an address of the network "pipe".
func (c *memoryConn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr returns an address of the network "pipe".
func (c *memoryConn) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline sets that of reads and of writes.
func (c *memoryConn) SetDeadline(t time.Time) error {
	c.in.until(&c.in.reads, t)
	c.out.until(&c.out.writes, t)
	return nil
}

// SetReadDeadline sets when reads give up; zero: never.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.until(&c.in.reads, t)
	return nil
}

// SetWriteDeadline sets when writes give up; zero: never.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.until(&c.out.writes, t)
	return nil
}

// way is one direction.
type way struct {
	mu     sync.Mutex
	cond   sync.Cond
	buf    bytes.Buffer // guarded by mu
	ended  bool         // guarded by mu; nothing more is written
	deaf   bool         // guarded by mu; nothing more is read
	reads  deadline     // guarded by mu
	writes deadline     // guarded by mu
}

// deadline is when reads or writes give up.
type deadline struct {
	passed bool
	timer  *time.Timer // nil: it has none
}

func newWay() *way {
	w := new(way)
	w.cond.L = &w.mu
	return w
}

// change does f, and has all look again who wait.
func (w *way) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.cond.Broadcast()
}

// until sets a deadline of this way.
func (w *way) until(d *deadline, t time.Time) {
	w.change(func() {
		if d.timer != nil {
			d.timer.Stop()
		}
		d.timer, d.passed = nil, !t.IsZero() && !t.After(time.Now())
		if t.IsZero() || d.passed {
			return
		}
		var own *time.Timer
		own = time.AfterFunc(time.Until(t), func() {
			w.change(func() { d.passed = d.passed || d.timer == own }) // it may have been set anew just now
		})
		d.timer = own
	})
}

func (w *way) take(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.deaf:
			return 0, io.ErrClosedPipe
		case w.reads.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case w.buf.Len() > 0:
			w.cond.Broadcast()
			return w.buf.Read(p)
		case w.ended:
			return 0, io.EOF
		}
		w.cond.Wait()
	}
}

func (w *way) put(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		room := wayRoom - w.buf.Len()
		switch {
		case w.ended, w.deaf:
			return n, io.ErrClosedPipe
		case w.writes.passed:
			return n, os.ErrDeadlineExceeded
		case n == len(p):
			return n, nil
		case room > 0:
			k, _ := w.buf.Write(p[n:min(len(p), n+room)]) // it never fails
			n += k
			w.cond.Broadcast()
			continue
		}
		w.cond.Wait()
	}
}
