package tool

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxFrame   = maxInput + 64<<10 // bytes of a message
	maxPending = 256               // unanswered calls of an offer
	maxWaiting = 4 * maxFrame      // bytes of them
)

// backlog counts the unanswered calls on all connections of an offer.
type backlog struct {
	mu      sync.Mutex
	calls   int           // guarded by mu, as all below
	bytes   int           // of these calls
	changed chan struct{} // closed, and replaced, when the counts decrease; nil: nothing waits
}

// add adds to the counts, which may be negative.
func (b *backlog) add(calls, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls += calls
	b.bytes += bytes
	if calls < 0 && b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// waitSignal returns a channel to wait for when the backlog is full; nil: it is not.
func (b *backlog) waitSignal() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls < maxPending && b.bytes < maxWaiting {
		return nil
	}
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// throttledTransport is a transport that stops reading while too many calls are
// unanswered, which slows a client that sends without end.
type throttledTransport struct {
	conn       net.Conn
	backlog    *backlog
	connection *throttledConn // set by Connect
}

func (t *throttledTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := (&mcp.IOTransport{Reader: t.conn, Writer: nopCloseWriter{t.conn}, MaxLineLength: maxFrame}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.connection = &throttledConn{Connection: c, done: ctx.Done(), all: t.backlog, size: make(map[jsonrpc.ID]int), drained: make(chan struct{}, 1)}
	return t.connection, nil
}

// releaseAll removes the unanswered calls from the backlog after the connection has ended.
func (t *throttledTransport) releaseAll() {
	if t.connection == nil {
		return
	}
	t.connection.mu.Lock()
	defer t.connection.mu.Unlock()
	for _, n := range t.connection.size {
		t.backlog.add(-1, -n)
	}
	clear(t.connection.size)
}

// nopCloseWriter does not close the connection, which its reader does.
type nopCloseWriter struct{ io.Writer }

func (nopCloseWriter) Close() error { return nil }

// throttledConn counts the unanswered calls of a connection.
type throttledConn struct {
	mcp.Connection
	done    <-chan struct{} // closed when Serve ends
	all     *backlog
	drained chan struct{} // has a buffer of one: all calls are answered

	mu   sync.Mutex
	size map[jsonrpc.ID]int // guarded by mu; bytes of each unanswered call
}

// Read reads the next message, once the backlog has room. At the end of the input, it
// waits a moment for pending answers: a client that closes its writing side may
// still read.
func (c *throttledConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for wait := c.all.waitSignal(); wait != nil; wait = c.all.waitSignal() {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, io.EOF
		case <-c.done:
			return nil, io.EOF
		}
	}
	m, err := c.Connection.Read(ctx)
	if errors.Is(err, io.EOF) {
		c.waitForAnswers(ctx)
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.mu.Lock()
		if _, twice := c.size[r.ID]; !twice {
			c.size[r.ID] = len(r.Params)
			c.all.add(1, len(r.Params))
		}
		c.mu.Unlock()
	}
	return m, err
}

// waitForAnswers waits until all calls are answered, for at most stopGrace.
func (c *throttledConn) waitForAnswers(ctx context.Context) {
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	for {
		c.mu.Lock()
		n := len(c.size)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-c.drained:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-c.done:
			return
		}
	}
}

func (c *throttledConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.removeCall(r.ID)
	}
	return err
}

func (c *throttledConn) removeCall(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.size[id]
	if !ok {
		return
	}
	delete(c.size, id)
	c.all.add(-1, -n)
	if len(c.size) == 0 {
		select {
		case c.drained <- struct{}{}:
		default:
		}
	}
}
