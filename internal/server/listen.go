package server

import (
	"context"
	"net"
	"sync"
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
	ours, theirs := net.Pipe()
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
