package api

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// slowListener is closed in two steps: nobody is accepted any more, and then the
// address is free.
type slowListener struct {
	net.Listener
	closing, free chan struct{}
}

func (l *slowListener) Accept() (net.Conn, error) {
	<-l.closing
	return nil, net.ErrClosed
}

func (l *slowListener) Close() error {
	select {
	case <-l.closing:
	default:
		close(l.closing)
	}
	<-l.free
	return nil
}

// TestTunnelIsClosedWhenItsAddressIsFree: the client hears that a listener is
// closed when the address inside is free, not as soon as that has begun.
func TestTunnelIsClosedWhenItsAddressIsFree(t *testing.T) {
	near, far := net.Pipe()
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	server, err := yamux.Server(far, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := yamux.Client(near, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	inner := &slowListener{closing: make(chan struct{}), free: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		(&reverseTunnel{mux: server, inner: inner}).run(t.Context())
	}()
	own, err := client.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := own.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-inner.closing
	if err := own.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := own.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF { //nolint:errorlint // as Read returns it
		t.Fatalf("the client heard of the end before the address was free: %d, %v", n, err)
	}
	close(inner.free)
	if err := own.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := own.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the client's word: %d, %v", n, err)
	}
	_ = client.Close() // it is gone
	<-ended
}
