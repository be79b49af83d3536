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

// closeGrace is how long Close waits until written data is sent.
const closeGrace = 5 * time.Second

// Dial connects to an address inside the sandbox: "tcp" with "localhost:8080", "unix"
// with a path. ctx applies to connecting only; the connection outlives it.
func (s *Sandbox) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	k := s.newCall("dial", "", "/dial")
	k.query = url.Values{"network": {network}, "address": {address}}
	if ctx.Err() != nil {
		return nil, k.wrapError(contextError(ctx))
	}
	ws, err := s.c.openWebSocket(ctx, k, wire.DialProtocol)
	if err != nil {
		return nil, err
	}
	return newPort(ws, remoteAddr{network, address}), nil
}

// remoteAddr is the address of a connection inside a sandbox.
type remoteAddr struct{ network, address string }

func (a remoteAddr) Network() string { return a.network }
func (a remoteAddr) String() string  { return a.address }

// remotePort is a connection to an address inside a sandbox. An empty message marks
// the end of one direction.
type remotePort struct {
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

func newPort(ws conn, addr net.Addr) *remotePort {
	p := &remotePort{ws: ws, addr: addr, sent: make(chan struct{}), in: wire.NewPipe(wire.Window, nil), out: wire.NewPipe(wire.Window, nil)}
	p.life, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.readMessages)
	p.wg.Go(p.send)
	return p
}

// readMessages reads messages from the sandbox into the pipe until the connection ends.
func (p *remotePort) readMessages() {
	var b bytes.Buffer
	for {
		if err := p.ws.Read(p.life, &b); err != nil {
			p.in.CloseWriter(fmt.Errorf("%w: the connection broke: %w", io.ErrUnexpectedEOF, err))
			p.out.CloseReader()
			return
		}
		if b.Len() == 0 {
			p.in.CloseWriter(nil)
			continue
		}
		if _, err := p.in.Write(b.Bytes()); err != nil {
			continue // closed for reading, or data after the end
		}
	}
}

// send sends written data, then an empty message for the end.
func (p *remotePort) send() {
	defer close(p.sent)
	buf := make([]byte, wire.MaxPayload)
	for {
		n, err := p.out.Read(buf)
		if n > 0 && p.ws.Write(p.life, buf[:n]) != nil {
			break
		}
		if err != nil {
			if err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
				_ = p.ws.Write(p.life, nil) // readMessages reports the error
			}
			break
		}
	}
	p.out.CloseReader()
}

// Read reads data from the sandbox.
func (p *remotePort) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	return n, p.failWith("read", err)
}

// Write writes data to the sandbox.
func (p *remotePort) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	return n, p.failWith("write", err)
}

// failWith wraps an error like those of package net.
func (p *remotePort) failWith(op string, err error) error {
	switch err { //nolint:errorlint // these two are made by the pipe itself
	case nil, io.EOF:
		return err
	case io.ErrClosedPipe:
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: p.addr.Network(), Addr: p.addr, Err: err}
}

// CloseWrite ends the writing direction; reading continues.
func (p *remotePort) CloseWrite() error {
	p.out.CloseWriter(nil)
	return nil
}

// Close ends both directions after it has sent what was written.
func (p *remotePort) Close() error {
	p.once.Do(func() {
		p.in.CloseReader()
		p.out.CloseWriter(nil)
		t := time.AfterFunc(closeGrace, p.stop)
		<-p.sent
		t.Stop()
		p.stop()
		p.ws.Close()
		p.wg.Wait()
	})
	return nil
}

// LocalAddr returns the dialled address: there is no local one.
func (p *remotePort) LocalAddr() net.Addr { return p.addr }

// RemoteAddr returns the address dialled.
func (p *remotePort) RemoteAddr() net.Addr { return p.addr }

// SetDeadline sets the deadline of reads and writes; the connection stays usable
// after it has passed.
func (p *remotePort) SetDeadline(t time.Time) error {
	p.in.SetReadDeadline(t)
	p.out.SetWriteDeadline(t)
	return nil
}

// SetReadDeadline sets the deadline of reads.
func (p *remotePort) SetReadDeadline(t time.Time) error {
	p.in.SetReadDeadline(t)
	return nil
}

// SetWriteDeadline sets the deadline of writes.
func (p *remotePort) SetWriteDeadline(t time.Time) error {
	p.out.SetWriteDeadline(t)
	return nil
}
