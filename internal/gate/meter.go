package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/atoll-sandbox/atoll"
)

// meter bounds all traffic of a sandbox: bytes in all, and bytes a second.
type meter struct {
	used  atomic.Int64
	most  atomic.Int64 // 0: no limit
	speed atomic.Pointer[rate.Limiter]
}

// piece is how many bytes go at once.
const piece = 32 << 10

func (m *meter) set(n *atoll.Network) {
	m.most.Store(n.Bytes)
	if n.Rate <= 0 {
		m.speed.Store(nil)
		return
	}
	m.speed.Store(rate.NewLimiter(rate.Limit(n.Rate), int(max(n.Rate/10, piece))))
}

var errSpent = fmt.Errorf("%w: this sandbox has used all the bytes of its network", atoll.ErrQuota)

// left returns errSpent when nothing more may flow.
func (m *meter) left() error {
	if most := m.most.Load(); most > 0 && m.used.Load() >= most {
		return errSpent
	}
	return nil
}

// take waits until n bytes, at most a piece, may flow.
func (m *meter) take(ctx context.Context, n int) error {
	if err := m.left(); err != nil {
		return err
	}
	m.used.Add(int64(n))
	if l := m.speed.Load(); l != nil {
		return l.WaitN(ctx, n)
	}
	return nil
}

// inside is a connection from inside: what goes over it is counted and bounded.
type inside struct {
	net.Conn
	f *flow
}

// Read reads at most a piece, once it may flow.
func (c *inside) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), piece)])
	if n > 0 {
		c.f.traffic.sent.Add(int64(n))
		if err := c.f.s.meter.take(c.f.ctx, n); err != nil {
			c.f.cut(err)
			return 0, err
		}
	}
	return n, err
}

// Write writes piece by piece, as they may flow.
func (c *inside) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		part := b[:min(len(b), piece)]
		if err := c.f.s.meter.take(c.f.ctx, len(part)); err != nil {
			c.f.cut(err)
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

// CloseWrite closes the sending half.
func (c *inside) CloseWrite() error { return closeWrite(c.Conn) }

// errNoHalf says that only a whole connection can be closed.
var errNoHalf = errors.New("half of this connection can't be closed")

func closeWrite(c net.Conn) error {
	h, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errNoHalf
	}
	return h.CloseWrite()
}

// abort breaks a connection so that its other end sees more than an end.
func abort(c net.Conn) {
	switch c := c.(type) {
	case interface{ Reset() error }:
		_ = c.Reset() // it is gone anyway
	case *net.TCPConn:
		_ = c.SetLinger(0) // likewise
	}
	_ = c.Close() // likewise
}
