package kubernetes_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
)

// apiProxy is a proxy before the cluster's API server, to which its kubeconfig points: it can cut connections
// and shift the cluster's clock.
type apiProxy struct {
	net.Listener

	skew   time.Duration // by which the cluster's clock seems to be ahead
	url    string
	flowed atomic.Int64 // bytes in both directions

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
}

// Accept counts the bytes of a connection, and remembers it for cut.
func (b *apiProxy) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = true
	return &countedConn{c, &b.flowed}, nil
}

// countedConn is a connection whose bytes are counted.
type countedConn struct {
	net.Conn
	n *atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// waitForBytes waits until n more bytes were transferred.
func (b *apiProxy) waitForBytes(t *testing.T, n int64) {
	t.Helper()
	begun := b.flowed.Load()
	for end := time.Now().Add(time.Minute); b.flowed.Load() < begun+n; <-time.After(time.Millisecond) { // there is no event to wait for
		if time.Now().After(end) {
			t.Fatalf("%d bytes went through, no %d", b.flowed.Load()-begun, n)
		}
	}
}

func newAPIProxy(t *testing.T, skew time.Duration) *apiProxy {
	t.Helper()
	cfg := clustertest.Config(t)
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &apiProxy{Listener: l, skew: skew, url: "http://" + l.Addr().String(), conns: make(map[net.Conn]bool)}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			if skew != 0 && r.In.Header.Get("Upgrade") == "" {
				r.Out.Header.Del("Accept-Encoding")
				r.Out.Header.Set("Accept", "application/json")
			}
		},
		Transport: transport, FlushInterval: -1,
		ModifyResponse: b.shiftTimes,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(b) })
	t.Cleanup(func() {
		_ = s.Close() // there is no one to report an error to
		b.cutConnections()
		serving.Wait()
	})
	return b
}

// cutConnections closes all connections.
func (b *apiProxy) cutConnections() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.Close() // as intended
		delete(b.conns, c)
	}
}

// writeKubeconfig writes a kubeconfig for this proxy.
func (b *apiProxy) writeKubeconfig(t *testing.T) string {
	t.Helper()
	text := strings.ReplaceAll(`apiVersion: v1
kind: Config
current-context: between
clusters: [{name: between, cluster: {server: "URL"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: between, context: {cluster: between, user: nobody}}]
`, "URL", b.url)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// stamp is a time as the API writes it.
var stamp = regexp.MustCompile(`"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"`)

// shiftTimes moves the times in the API's responses.
func (b *apiProxy) shiftTimes(r *http.Response) error {
	if b.skew == 0 || r.StatusCode == http.StatusSwitchingProtocols || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return nil
	}
	body := r.Body
	in, out := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewReader(body) // a watch sends one event per line
		for {
			line, err := lines.ReadBytes('\n')
			line = stamp.ReplaceAllFunc(line, func(m []byte) []byte {
				at, perr := time.Parse(`"`+time.RFC3339Nano+`"`, string(m))
				if perr != nil {
					return m
				}
				return []byte(at.Add(b.skew).Format(`"` + time.RFC3339 + `"`))
			})
			if _, werr := out.Write(line); werr != nil || err != nil {
				_ = out.CloseWithError(err) // EOF too
				return
			}
		}
	}()
	r.Body = in
	r.ContentLength = -1
	r.Header.Del("Content-Length")
	return nil
}
