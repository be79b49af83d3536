package egress

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/atoll-sandbox/atoll"
	"golang.org/x/time/rate"
)

// meter limits the traffic of a sandbox: total bytes, and bytes per second.
type meter struct {
	used  atomic.Int64
	limit atomic.Int64 // 0: no limit
	speed atomic.Pointer[rate.Limiter]
}

// chunkSize is the number of bytes that are sent at once.
const chunkSize = 32 << 10

func (m *meter) set(n *atoll.Network) {
	m.limit.Store(n.Bytes)
	if n.Rate <= 0 {
		m.speed.Store(nil)
		return
	}
	m.speed.Store(rate.NewLimiter(rate.Limit(n.Rate), int(max(n.Rate/10, chunkSize))))
}

var errBytesUsedUp = fmt.Errorf("%w: this sandbox has used all the bytes of its network", atoll.ErrQuota)

// checkRemaining returns errBytesUsedUp if nothing more may be sent.
func (m *meter) checkRemaining() error {
	if most := m.limit.Load(); most > 0 && m.used.Load() >= most {
		return errBytesUsedUp
	}
	return nil
}

// waitForBytes waits until n bytes, at most chunkSize, may be sent.
func (m *meter) waitForBytes(ctx context.Context, n int) error {
	if err := m.checkRemaining(); err != nil {
		return err
	}
	m.used.Add(int64(n))
	if l := m.speed.Load(); l != nil {
		return l.WaitN(ctx, n)
	}
	return nil
}

// meteredConn is a connection from inside whose traffic is counted and limited.
type meteredConn struct {
	net.Conn
	f *flow
}

// Read reads at most chunkSize bytes and waits until they may pass.
func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), chunkSize)])
	if n > 0 {
		c.f.traffic.sent.Add(int64(n))
		if err := c.f.s.meter.waitForBytes(c.f.ctx, n); err != nil {
			c.f.abortWith(err)
			return 0, err
		}
	}
	return n, err
}

// Write writes in chunks and waits until each may pass.
func (c *meteredConn) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		part := b[:min(len(b), chunkSize)]
		if err := c.f.s.meter.waitForBytes(c.f.ctx, len(part)); err != nil {
			c.f.abortWith(err)
			return written, err
		}
		n, err := c.Conn.Write(part)
		c.f.traffic.received.Add(int64(n))
		if written += n; err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}

// CloseWrite closes the sending half of the connection.
func (c *meteredConn) CloseWrite() error { return closeWrite(c.Conn) }
