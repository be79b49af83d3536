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
	maxPending = 256               // calls of an offer that have no answer yet
	maxWaiting = 4 * maxFrame      // bytes of them
)

// backlog counts the calls that were read, on all connections of an offer, and
// have no answer yet.
type backlog struct {
	mu      sync.Mutex
	calls   int           // guarded by mu, as all below
	bytes   int           // of them
	changed chan struct{} // closed, and made anew, when there is less; nil: nobody waits
}

// add counts a call, or takes it back.
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

// full returns what to wait for when there are too many; nil: there are not.
func (b *backlog) full() <-chan struct{} {
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

// throttle is a transport that reads no further while too much that was read
// has no answer yet: who sends without end waits for himself.
type throttle struct {
	conn    net.Conn
	backlog *backlog
	open    *throttled // by Connect
}

func (t *throttle) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := (&mcp.IOTransport{Reader: t.conn, Writer: writer{t.conn}, MaxLineLength: maxFrame}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.open = &throttled{Connection: c, end: ctx.Done(), all: t.backlog, size: make(map[jsonrpc.ID]int), empty: make(chan struct{}, 1)}
	return t.open, nil
}

// forget takes back what has no answer when the connection has ended.
func (t *throttle) forget() {
	if t.open == nil {
		return
	}
	t.open.mu.Lock()
	defer t.open.mu.Unlock()
	for _, n := range t.open.size {
		t.backlog.add(-1, -n)
	}
	clear(t.open.size)
}

// writer is a connection whose one Close is that of its reader.
type writer struct{ io.Writer }

func (writer) Close() error { return nil }

// throttled counts the calls that a connection has read and not answered.
type throttled struct {
	mcp.Connection
	end   <-chan struct{} // of what it serves
	all   *backlog
	empty chan struct{} // has room for one: all is answered

	mu   sync.Mutex
	size map[jsonrpc.ID]int // guarded by mu; bytes of each call without an answer
}

// Read reads the next message, once there is room for it. At the end of what
// the client sends, it waits a moment for what is still to be answered: who
// closes one direction may listen on the other.
func (c *throttled) Read(ctx context.Context) (jsonrpc.Message, error) {
	for wait := c.all.full(); wait != nil; wait = c.all.full() {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, io.EOF
		case <-c.end:
			return nil, io.EOF
		}
	}
	m, err := c.Connection.Read(ctx)
	if errors.Is(err, io.EOF) {
		c.linger(ctx)
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

// linger waits until all is answered, for as long as patience goes.
func (c *throttled) linger(ctx context.Context) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		c.mu.Lock()
		n := len(c.size)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-c.empty:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-c.end:
			return
		}
	}
}

func (c *throttled) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.answered(r.ID)
	}
	return err
}

func (c *throttled) answered(id jsonrpc.ID) {
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
		case c.empty <- struct{}{}:
		default:
		}
	}
}
