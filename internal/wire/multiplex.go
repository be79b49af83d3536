package wire

import (
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// Messages is a connection that carries messages, such as a WebSocket. One goroutine may read and one
// write.
type Messages interface {
	// Read replaces the content of b by the next message.
	Read(ctx context.Context, b *bytes.Buffer) error
	Write(ctx context.Context, message []byte) error
}

// Limits for the other end of a listener's WebSocket.
const (
	maxChannels       = 256              // channels that one end can open at once
	maxMessageSize    = 64 << 10         // bytes
	keepAliveInterval = 30 * time.Second // between checks of the other end
	keepAliveTimeout  = 30 * time.Second // for its answer, and for each write
)

// LineLimit is the longest message of a connection of [NewSession] in bytes.
const LineLimit = maxMessageSize + 1024

// Opener is the end that opens channels.
type Opener bool

// The two ends of a listener. The far end, a server, opens a channel for each connection. The near
// end, a client, opens the control channel of the listener.
const (
	FarEnd  Opener = true
	NearEnd Opener = false
)

// NewSession multiplexes channels over a connection of messages. It calls end when the session has
// ended.
func NewSession(m Messages, who Opener, end func()) (*yamux.Session, error) {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval = keepAliveInterval
	c.ConnectionWriteTimeout = keepAliveTimeout
	c.MeasureRTTInterval = math.MaxInt64
	c.WriteCoalesceDelay = 0
	c.MaxMessageSize = maxMessageSize
	c.MaxStreamWindowSize = 1 << 20
	c.LogOutput = io.Discard
	b := &byteConn{m: m, end: end}
	b.ctx, b.stop = context.WithCancel(context.Background())
	if who == FarEnd {
		c.MaxIncomingStreams = 1
		return yamux.Client(b, c, nil)
	}
	c.MaxIncomingStreams = maxChannels
	return yamux.Server(b, c, nil)
}

// byteConn makes a connection of messages a byte stream, as far as the multiplexer needs it.
type byteConn struct {
	m        Messages
	buf      bytes.Buffer
	deadline atomic.Pointer[time.Time] // deadline of writes

	ctx  context.Context //nolint:containedctx // of the connection
	stop context.CancelFunc
	end  func()
}

// Read reads from the current or the next message.
func (c *byteConn) Read(b []byte) (int, error) {
	for c.buf.Len() == 0 {
		if err := c.m.Read(c.ctx, &c.buf); err != nil {
			return 0, err
		}
	}
	return c.buf.Read(b)
}

// Write writes one message.
func (c *byteConn) Write(b []byte) (int, error) {
	ctx := c.ctx
	if t := c.deadline.Load(); t != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, *t)
		defer cancel()
	}
	if err := c.m.Write(ctx, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close closes the connection.
func (c *byteConn) Close() error {
	c.stop()
	c.end()
	return nil
}

// SetWriteDeadline sets the deadline of writes. A write that misses it closes the connection.
func (c *byteConn) SetWriteDeadline(t time.Time) error {
	c.deadline.Store(&t)
	return nil
}

// The multiplexer does not use the other methods of net.Conn.
func (c *byteConn) LocalAddr() net.Addr             { return nil }
func (c *byteConn) RemoteAddr() net.Addr            { return nil }
func (c *byteConn) SetDeadline(time.Time) error     { return nil }
func (c *byteConn) SetReadDeadline(time.Time) error { return nil }
