package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// closeGrace is how long a closed connection may take to send what was written
// to it.
const closeGrace = 5 * time.Second

// Dial connects to an address inside: "tcp" with "localhost:8080", "unix" with a
// path. The connection outlives ctx, which is for the dialing.
func (s *Sandbox) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	k := s.call("dial", "", "/dial")
	k.query = url.Values{"network": {network}, "address": {address}}
	if ctx.Err() != nil {
		return nil, k.fail(ended(ctx))
	}
	ws, err := s.c.upgrade(ctx, k, wire.DialProtocol)
	if err != nil {
		return nil, err
	}
	return newPort(ws, target{network, address}), nil
}

// target is the address of a connection inside a sandbox.
type target struct{ network, address string }

func (a target) Network() string { return a.network }
func (a target) String() string  { return a.address }

// port is a connection to an address inside a sandbox. An empty message says
// that one direction has ended.
type port struct {
	ws   conn
	addr net.Addr
	in   *wire.Pipe // from inside
	out  *wire.Pipe // to inside

	life context.Context //nolint:containedctx // of the connection
	stop context.CancelFunc
	sent chan struct{} // closed when nothing more is sent
	wg   sync.WaitGroup
	once sync.Once
}

func newPort(ws conn, addr net.Addr) *port {
	p := &port{ws: ws, addr: addr, sent: make(chan struct{}), in: wire.NewPipe(wire.Window, nil), out: wire.NewPipe(wire.Window, nil)}
	p.life, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.receive)
	p.wg.Go(p.send)
	return p
}

// receive takes what comes from inside.
func (p *port) receive() {
	var b bytes.Buffer
	for {
		if err := p.ws.Read(p.life, &b); err != nil {
			p.in.End(fmt.Errorf("%w: the connection broke: %w", io.ErrUnexpectedEOF, err))
			p.out.Stop()
			return
		}
		if b.Len() == 0 {
			p.in.End(nil)
			continue
		}
		if _, err := p.in.Write(b.Bytes()); err != nil {
			continue // nobody reads any more, or it went on after its end
		}
	}
}

// send sends what is written, and then that no more comes.
func (p *port) send() {
	defer close(p.sent)
	buf := make([]byte, wire.MaxPayload)
	for {
		n, err := p.out.Read(buf)
		if n > 0 && p.ws.Write(p.life, buf[:n]) != nil {
			break
		}
		if err != nil {
			if err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
				_ = p.ws.Write(p.life, nil) // the receiver says why
			}
			break
		}
	}
	p.out.Stop()
}

// Read reads what came from inside.
func (p *port) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	return n, p.fail("read", err)
}

// Write writes to inside.
func (p *port) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	return n, p.fail("write", err)
}

// fail gives errors the form that those of net have.
func (p *port) fail(op string, err error) error {
	switch err { //nolint:errorlint // these two are made by the pipe itself
	case nil, io.EOF:
		return err
	case io.ErrClosedPipe:
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: p.addr.Network(), Addr: p.addr, Err: err}
}

// CloseWrite says that nothing more is written; reading goes on.
func (p *port) CloseWrite() error {
	p.out.End(nil)
	return nil
}

// Close ends both directions. What was written is sent.
func (p *port) Close() error {
	p.once.Do(func() {
		p.in.Stop()
		p.out.End(nil)
		t := time.AfterFunc(closeGrace, p.stop)
		<-p.sent
		t.Stop()
		p.stop()
		p.ws.Close()
		p.wg.Wait()
	})
	return nil
}

// LocalAddr returns the address dialled: this end has none of its own.
func (p *port) LocalAddr() net.Addr { return p.addr }

// RemoteAddr returns the address dialled.
func (p *port) RemoteAddr() net.Addr { return p.addr }

// SetDeadline sets when reads and writes give up; the connection can be used
// afterwards.
func (p *port) SetDeadline(t time.Time) error {
	p.in.SetReadDeadline(t)
	p.out.SetWriteDeadline(t)
	return nil
}

// SetReadDeadline sets when reads give up.
func (p *port) SetReadDeadline(t time.Time) error {
	p.in.SetReadDeadline(t)
	return nil
}

// SetWriteDeadline sets when writes give up.
func (p *port) SetWriteDeadline(t time.Time) error {
	p.out.SetWriteDeadline(t)
	return nil
}
