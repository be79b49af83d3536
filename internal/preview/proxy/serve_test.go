package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// pipes is a listener whose connections are in memory, so that the clock of a
// synctest counts for their deadlines.
type pipes struct {
	from  net.Addr
	conns chan net.Conn
	done  chan struct{}
}

func newPipes(from net.Addr) *pipes {
	return &pipes{from: from, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- &named{there, p.from}
	return here
}

type named struct {
	net.Conn
	from net.Addr
}

func (n *named) RemoteAddr() net.Addr { return n.from }

// piped is a target whose port answers in memory.
type piped struct {
	*island
	f func(c net.Conn)
}

func (p *piped) Dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go p.f(there)
	return here, nil
}

func away(last byte) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, last), Port: 4000} }

// start serves a proxy on pipes until the test's bubble ends.
func start(t *testing.T, p *proxy.Proxy, l *pipes) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Serve(ctx, l, proxy.ServeOptions{Public: true}) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.Close()
	}
}

// A client that sends its head byte by byte is not waited for.
func TestSlowHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes(away(2))
		end := start(t, &proxy.Proxy{Finder: sea{}}, l)
		defer end()
		c := l.dial()
		defer c.Close()
		began := time.Now()
		stopped := drip(c)
		_, _ = io.ReadAll(c)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("a slow head was waited for for %v", took)
		}
		<-stopped
	})
}

// A stream without data stays open for hours.
func TestSilentStreamStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes(away(2))
		web := &piped{newIsland("s1"), func(c net.Conn) {
			defer c.Close()
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 4\r\n\r\n")
			time.Sleep(5 * time.Hour)
			_, _ = io.WriteString(c, "late")
		}}
		end := start(t, &proxy.Proxy{Finder: sea{"web": web}}, l)
		defer end()
		c := l.dial()
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: 80-web.localhost\r\nConnection: close\r\n\r\n")
		if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "late") {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// One address can't take all connections.
func TestConnectionLimitPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes(away(2))
		end := start(t, &proxy.Proxy{Finder: sea{}}, l)
		defer end()
		var kept []net.Conn
		for range 300 {
			c := l.dial()
			defer c.Close()
			kept = append(kept, c)
		}
		synctest.Wait()
		open := 0
		for _, c := range kept {
			_ = c.SetReadDeadline(time.Now())
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				open++
			}
		}
		if open != 256 {
			t.Errorf("%d of 300 connections are open, want 256", open)
		}
		l.from = away(3)
		c := l.dial()
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: web.localhost\r\nConnection: close\r\n\r\n")
		if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 404") {
			t.Errorf("another address: %q, %v", b, err)
		}
	})
}

// A refused request's body is not waited for.
func TestSlowBodyOfARefusedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes(away(2))
		_, a := newRing()
		end := start(t, &proxy.Proxy{Finder: sea{}, Access: a}, l)
		defer end()
		c := l.dial()
		defer c.Close()
		began := time.Now()
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: web.localhost\r\nContent-Length: 1000000\r\n\r\n")
		stopped := drip(c)
		b, _ := io.ReadAll(c)
		if took := time.Since(began); took > 30*time.Second || !strings.HasPrefix(string(b), "HTTP/1.1 401") {
			t.Errorf("after %v: %q", took, b)
		}
		c.Close()
		<-stopped
	})
}

// drip writes a byte each second until writing fails.
func drip(c net.Conn) (stopped chan struct{}) {
	stopped = make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			if _, err := io.WriteString(c, "X"); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
	return stopped
}
