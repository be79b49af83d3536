package virtual

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
)

// startUpstream starts an HTTP proxy that connects every request to one server. It returns its
// address, and the targets of the requests so far.
func startUpstream(t *testing.T, server string) (addr string, targets func() string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var mu sync.Mutex
	var list []string
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				mu.Lock()
				list = append(list, req.Method+" "+req.Host)
				mu.Unlock()
				up, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer up.Close()
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
				go func() { _, _ = io.Copy(up, c) }()
				_, _ = io.Copy(c, up)
			}()
		}
	}()
	return l.Addr().String(), func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(list, ", ")
	}
}

// TestNetworkUsesUpstreamProxy: connections of a virtual sandbox leave through the configured proxy, and
// only those that the rules allow.
func TestNetworkUsesUpstreamProxy(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello "+r.Host) }))
	t.Cleanup(srv.Close)
	proxy, targets := startUpstream(t, srv.Listener.Addr().String())
	n, err := newNetwork(atoll.Network{Mode: atoll.NetworkNAT, Allow: []string{"far.test", "other.test", "lan.test"}, Deny: []string{"denied.test"}}, upstream.Config{Proxy: "http://" + proxy})
	if err != nil {
		t.Fatal(err)
	}
	n.resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "127.0.0.1":
			return []netip.Addr{netip.MustParseAddr(host)}, nil
		case "public.test":
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		case "lan.test":
			return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
		}
		return nil, atoll.ErrNotFound
	}
	get := func(host, asked string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = asked
		resp, err := n.RoundTrip(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	for _, c := range []struct{ host, asked, want string }{
		{"far.test", "", "hello far.test"},
		{"public.test", "", "hello public.test"},
		{"denied.test", "", "denied"},
		{"unknown.test", "", "not found"},
		{"lan.test", "", "not a public one"},
		{"far.test", "other.test", "may lead elsewhere"},
	} {
		if got := get(c.host, c.asked); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.host, c.asked, got, c.want)
		}
	}
	got := targets()
	for _, want := range []string{"CONNECT far.test:80", "CONNECT 93.184.216.34:80"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	for _, never := range []string{"denied", "unknown", "lan.", "public.test"} {
		if strings.Contains(got, never) {
			t.Errorf("%s was requested: %s", never, got)
		}
	}
}
