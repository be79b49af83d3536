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

// Messages is a connection of messages, such as a WebSocket. One goroutine
// reads, one writes.
type Messages interface {
	// Read replaces what is in b by the next message.
	Read(ctx context.Context, b *bytes.Buffer) error
	Write(ctx context.Context, message []byte) error
}

// What one end of a listener's WebSocket believes of the other.
const (
	maxLines    = 256              // channels at once that one end opens
	lineMessage = 64 << 10         // bytes of a message
	aliveEvery  = 30 * time.Second // between looks whether the other end is there
	aliveGrace  = 30 * time.Second // that it may take to take or say something
)

// LineLimit is how long a message may be between the ends of a [Multiplexed].
const LineLimit = lineMessage + 1024

// Opener says who opens channels.
type Opener bool

// The two ends of a listener. The far end, a server's, opens a channel for each
// connection; the near one, a client's, opens the listener's own.
const (
	Far  Opener = true
	Near Opener = false
)

// Multiplexed makes channels of a connection of messages. end is called when
// they have ended.
func Multiplexed(m Messages, who Opener, end func()) (*yamux.Session, error) {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval = aliveEvery
	c.ConnectionWriteTimeout = aliveGrace
	c.MeasureRTTInterval = math.MaxInt64
	c.WriteCoalesceDelay = 0
	c.MaxMessageSize = lineMessage
	c.MaxStreamWindowSize = 1 << 20
	c.LogOutput = io.Discard
	b := &byteConn{m: m, end: end}
	b.life, b.stop = context.WithCancel(context.Background())
	if who == Far {
		c.MaxIncomingStreams = 1
		return yamux.Client(b, c, nil)
	}
	c.MaxIncomingStreams = maxLines
	return yamux.Server(b, c, nil)
}

// byteConn is the bytes in messages as a connection, as far as a multiplexer
// needs one.
type byteConn struct {
	m        Messages
	buf      bytes.Buffer
	deadline atomic.Pointer[time.Time] // of writes

	life context.Context //nolint:containedctx // of the connection
	stop context.CancelFunc
	end  func()
}

// Read reads of the next message.
func (c *byteConn) Read(b []byte) (int, error) {
	for c.buf.Len() == 0 {
		if err := c.m.Read(c.life, &c.buf); err != nil {
			return 0, err
		}
	}
	return c.buf.Read(b)
}

// Write writes a message.
func (c *byteConn) Write(b []byte) (int, error) {
	ctx := c.life
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

// Close ends the connection.
func (c *byteConn) Close() error {
	c.stop()
	c.end()
	return nil
}

// SetWriteDeadline sets when a write gives up, and the connection with it.
func (c *byteConn) SetWriteDeadline(t time.Time) error {
	c.deadline.Store(&t)
	return nil
}

// The rest of a net.Conn is not asked for.
func (c *byteConn) LocalAddr() net.Addr             { return nil }
func (c *byteConn) RemoteAddr() net.Addr            { return nil }
func (c *byteConn) SetDeadline(time.Time) error     { return nil }
func (c *byteConn) SetReadDeadline(time.Time) error { return nil }
