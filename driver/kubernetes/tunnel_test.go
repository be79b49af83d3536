package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/tools/portforward"

	"github.com/atoll-sandbox/atoll"
)

// portForwarder forwards ports as an API server does, with the same libraries, with or without WebSockets.
type portForwarder struct {
	t       testing.TB
	sockets bool

	mu    sync.Mutex
	conns []io.Closer // guarded by mu
}

func (f *portForwarder) addConn(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, c)
}

// cutConnections ends all connections.
func (f *portForwarder) cutConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

func (f *portForwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/namespaces/here/pods/atoll-s/portforward" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"x\" not found","reason":"NotFound","code":404}`)
		return
	}
	pairs := new(portPairs)
	var conn httpstream.Connection
	if websocket.IsWebSocketUpgrade(r) {
		if !f.sockets {
			http.Error(w, "no WebSockets here", http.StatusBadRequest)
			return
		}
		up := websocket.Upgrader{Subprotocols: []string{"SPDY/3.1+portforward.k8s.io"}}
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			f.t.Error(err)
			return
		}
		f.addConn(ws.UnderlyingConn())
		conn, err = spdy.NewServerConnection(portforward.NewTunnelingConnection("server", ws), pairs.addStream)
		if err != nil {
			f.t.Error(err)
			return
		}
	} else {
		if r.Header.Get(httpstream.HeaderProtocolVersion) != portforward.PortForwardProtocolV1Name {
			f.t.Errorf("protocol %q", r.Header.Get(httpstream.HeaderProtocolVersion))
		}
		conn = spdy.NewResponseUpgrader().UpgradeResponse(w, r, pairs.addStream)
		if conn == nil {
			return
		}
		f.addConn(conn)
	}
	defer conn.Close()
	<-conn.CloseChan()
}

// portPairs connects streams to ports of this host, in any order.
type portPairs struct {
	mu   sync.Mutex
	errs httpstream.Stream // guarded by mu, as below
	data httpstream.Stream
}

func (p *portPairs) addStream(s httpstream.Stream, replied <-chan struct{}) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
		p.errs = s
	} else {
		p.data = s
	}
	if p.errs == nil || p.data == nil {
		return nil
	}
	go func() {
		<-replied
		p.connectPairs()
	}()
	return nil
}

func (p *portPairs) connectPairs() {
	defer p.errs.Close()
	defer p.data.Close()
	port := p.data.Headers().Get(corev1.PortHeader)
	conn, err := net.Dial("tcp", "127.0.0.1:"+port) //nolint:noctx // a test
	if err != nil {
		fmt.Fprintf(p.errs, "nobody listens on %s", port)
		return
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, p.data)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(p.data, conn)
}

// newForwardTarget returns a target whose pods have this host's ports.
func newForwardTarget(t testing.TB, sockets bool) (*target, *portForwarder) {
	t.Helper()
	f := &portForwarder{t: t, sockets: sockets}
	s := httptest.NewTLSServer(f)
	t.Cleanup(s.Close)
	t.Cleanup(f.cutConnections)
	return newTarget(t, s.URL), f
}

// newTarget returns the target that is the namespace "here" of an API server.
func newTarget(t testing.TB, server string) *target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"users":[{"name":"u","user":{"token":"secret"}}],"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}]}`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Driver{Kubeconfig: path, Namespace: "here", Dir: t.TempDir(), Home: "h"}
	tg, err := d.targetOf(atoll.Owner{})
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

// startEcho starts a server that echoes what it receives.
func startEcho(t testing.TB) int {
	t.Helper()
	return startServer(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
}

func startServer(t testing.TB, serve func(*net.TCPConn)) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// runBothWays runs a test with and without WebSockets.
func runBothWays(t *testing.T, f func(t *testing.T, tg *target, fw *portForwarder)) {
	for name, sockets := range map[string]bool{"WebSocket": true, "SPDY": false} {
		t.Run(name, func(t *testing.T) {
			tg, fw := newForwardTarget(t, sockets)
			f(t, tg, fw)
		})
	}
}

func TestTunnel(t *testing.T) {
	runBothWays(t, func(t *testing.T, tg *target, fw *portForwarder) {
		port := startEcho(t)
		conn, err := tg.openTunnel(t.Context(), "atoll-s", port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if plainly := tg.access.needsSPDY(); plainly == fw.sockets {
			t.Errorf("that WebSockets don't come through is remembered: %v", plainly)
		}
		const size = 64 << 20
		sent, got := sha256.New(), sha256.New()
		done := make(chan error, 1)
		go func() {
			_, err := io.Copy(conn, io.TeeReader(io.LimitReader(rand.Reader, size), sent))
			done <- errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite())
		}()
		n, err := io.Copy(got, conn)
		if err := errors.Join(err, <-done); err != nil || n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
			t.Errorf("%d of %d bytes came back, the same: %v, %v", n, size, bytes.Equal(sent.Sum(nil), got.Sum(nil)), err)
		}
	})
}

func TestTunnelToClosedPort(t *testing.T) {
	runBothWays(t, func(t *testing.T, tg *target, _ *portForwarder) {
		conn, err := tg.openTunnel(t.Context(), "atoll-s", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
		if !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "nobody listens on 1") {
			t.Errorf("data of the other end is lost: %v", err)
		}
		if _, err := tg.openTunnel(t.Context(), "atoll-other", 1); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a pod that is not there: %v", err)
		}
	})
}

func TestTunnelIsCut(t *testing.T) {
	runBothWays(t, func(t *testing.T, tg *target, fw *portForwarder) {
		conn, err := tg.openTunnel(t.Context(), "atoll-s", startEcho(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		fw.cutConnections()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a tunnel that was cut is read")
		}
	})
}

// TestTunnelEnds checks that a close, a deadline and a context end a tunnel while it is in use.
func TestTunnelEnds(t *testing.T) {
	runBothWays(t, func(t *testing.T, tg *target, _ *portForwarder) {
		stuck := startServer(t, func(*net.TCPConn) { <-t.Context().Done() })
		open := func() net.Conn {
			conn, err := tg.openTunnel(t.Context(), "atoll-s", stuck)
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		for name, f := range map[string]func(net.Conn) error{
			"Read":  func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err },
			"Write": func(c net.Conn) error { _, err := io.Copy(c, zeros{}); return err },
		} {
			conn := open()
			_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
			if err := f(conn); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s past its deadline: %v", name, err)
			}
			conn = open()
			time.AfterFunc(100*time.Millisecond, func() { _ = conn.Close() })
			if err := f(conn); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s of a closed tunnel: %v", name, err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	tg := newTarget(t, "https://127.0.0.1:"+strconv.Itoa(startServer(t, func(*net.TCPConn) { <-t.Context().Done() })))
	if _, err := tg.openTunnel(ctx, "atoll-s", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that sends nothing: %v", err)
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestIdleTunnelCost checks that an idle tunnel needs no goroutine, and that a closed one leaves nothing.
func TestIdleTunnelCost(t *testing.T) {
	tg, _ := newForwardTarget(t, true)
	port := startEcho(t)
	own := func() int {
		b := make([]byte, 8<<20)
		n := 0
		for _, g := range strings.Split(string(b[:runtime.Stack(b, true)]), "\n\n") {
			if strings.Contains(g, "driver/kubernetes.") && !strings.Contains(g, "_test.go") {
				n++
			}
		}
		return n
	}
	before := own()
	var list []net.Conn
	for range 20 {
		conn, err := tg.openTunnel(t.Context(), "atoll-s", port)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, conn)
	}
	if n := own(); n > before {
		t.Errorf("20 tunnels are %d goroutines", n-before)
	}
	for _, c := range list {
		_ = c.Close()
	}
}

// TestDeadTunnel checks that an unresponsive end is noticed without traffic.
func TestDeadTunnel(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	c := &forwardedConn{conn: ours, port: 1}
	c.notFull.L = &c.mu
	c.pinger = time.AfterFunc(time.Hour, c.sendPing)
	c.sendPing()
	c.sendPing()
	if err := c.SetDeadline(time.Now()); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("without an answer: %v", err)
	}
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{
		"", "\x80\x03\x00\x02\x00\x00\x00\x04\x00\x00\x00\x01\x80\x03\x00\x02\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00\x03\x01\x00\x00\x02hi",
		"\x00\x00\x00\x01\x01\xff\xff\xffwhy", "\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x02", "\x80\x03\x00\x07\x00\x00\x00\x00", "\x80\x03\x00\x03\x00\x00\x00\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = theirs.Write(b)
			_ = theirs.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		conn, err := openPort(ctx, ours, 1)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
		_ = conn.Close()
	})
}

func BenchmarkTunnel(b *testing.B) {
	tg, _ := newForwardTarget(b, true)
	conn, err := tg.openTunnel(b.Context(), "atoll-s", startEcho(b))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	b.Run("RoundTrip", func(b *testing.B) {
		p := make([]byte, 100)
		for b.Loop() {
			_, err := conn.Write(p)
			if err == nil {
				_, err = io.ReadFull(conn, p)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Stream", func(b *testing.B) {
		p := make([]byte, 64<<10)
		b.SetBytes(int64(len(p)))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.CopyN(io.Discard, conn, int64(b.N)*int64(len(p)))
		}()
		for range b.N {
			if _, err := conn.Write(p); err != nil {
				b.Fatal(err)
			}
		}
		<-done
	})
}
