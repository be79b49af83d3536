package egress

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
)

// upstreamProxy puts a proxy of the host at an address of the world. It connects to what it is asked
// for in the world, by its own names, and returns the requested targets.
func (w *world) upstreamProxy(at string, names map[string]string) (targets func() string) {
	var asked []string
	w.listen(at, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		w.mu.Lock()
		asked = append(asked, req.Method+" "+req.Host+" "+req.Header.Get("Proxy-Authorization"))
		host, port, _ := net.SplitHostPort(req.Host)
		if a, ok := names[host]; ok {
			host = a
		}
		real := w.hosts[net.JoinHostPort(host, port)]
		w.mu.Unlock()
		up, err := net.Dial("tcp", real)
		if err != nil {
			_, _ = io.WriteString(c, "HTTP/1.1 503 No\r\n\r\n")
			return
		}
		defer up.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: y\r\n\r\n")
		go func() { _, _ = io.Copy(up, c) }()
		_, _ = io.Copy(c, up)
	})
	return func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Join(asked, ", ")
	}
}

func TestUpstreamProxy(t *testing.T) {
	w := newWorld(t, atoll.Network{Mode: atoll.NetworkNAT, Allow: []string{"listed.test", "far.test", "lan.test", "mapped.test=10.1.2.3", "direct.test"}, Deny: []string{"denied.test"}})
	w.n.names.Store(&resolution{Upstream: upstream.Proxies{HTTP: "http://user:pass@proxy.corp:3128", HTTPS: "http://proxy.corp:3128", NoProxy: "direct.test"}})
	w.names["proxy.corp"] = []string{"10.9.9.9"}
	for _, name := range []string{"listed.test", "any.test", "denied.test", "direct.test"} {
		w.names[name] = []string{public}
	}
	w.names["lan.test"], w.names["evil.test"] = []string{private}, []string{private}
	srv := w.webTLS(public + ":443")
	w.web(public+":80", private+":80")
	targets := w.upstreamProxy("10.9.9.9:3128", map[string]string{"listed.test": public, "far.test": public, "evil.test": private, "lan.test": private, "unknown.test": private})
	for _, way := range ways {
		c := w.client(way, trust(srv))
		for url, works := range map[string]bool{
			"http://listed.test/": true, "http://any.test/": true, "http://far.test/": true, "http://mapped.test/": true, "http://direct.test/": true,
			"http://denied.test/": false, "http://lan.test/": false, "http://evil.test/": false, "http://unknown.test/": false, "http://" + private + "/": false,
		} {
			if got := get(c, url); strings.HasPrefix(got, "GET ") != works {
				t.Errorf("%s %s: %q", way, url, got)
			}
		}
	}
	tls, err := w.dialName("listed.test", "443")
	if err != nil || !handshake(tls, "listed.test") {
		t.Errorf("TLS: %v", err)
	}
	for target, works := range map[string]bool{"far.test:443": true, "unknown.test:443": false, "lan.test:443": false} {
		if c, err := w.s.evaluate(t.Context(), target); err != nil || c.Allowed != works {
			t.Errorf("check of %s: %+v, %v", target, c, err)
		}
	}
	got := targets()
	for _, want := range []string{"CONNECT listed.test:80 Basic dXNlcjpwYXNz", "CONNECT listed.test:443 ", "CONNECT " + public + ":80", "CONNECT far.test:80"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	for _, never := range []string{"denied", "lan.", "evil", "unknown", "mapped", "direct", private, "any.test"} {
		if strings.Contains(got, never) {
			t.Errorf("%s was requested: %s", never, got)
		}
	}
}

// Another scheme than http is refused, and nothing is dialled directly instead.
func TestUpstreamProxyFailsClosed(t *testing.T) {
	for _, text := range []string{"socks5://proxy.corp:1080", "https://proxy.corp", "http://%zz", "http://gone.corp:3128"} {
		w := newWorld(t, atoll.Network{Allow: []string{"a.test"}})
		w.n.names.Store(&resolution{Upstream: upstream.Proxies{HTTP: text, HTTPS: text}})
		w.names["a.test"] = []string{public}
		w.web(public + ":80")
		if got := get(w.client("proxy", nil), "http://a.test/"); !strings.Contains(got, "502") || !strings.Contains(got, "upstream proxy") || w.dials() != "" {
			t.Errorf("%s: %q, dialled %q", text, got, w.dials())
		}
	}
	u := upstream.Proxies{HTTP: "http://u:pa55@%zz"}
	if _, err := u.ProxyFor("a.test", 80); err == nil || strings.Contains(err.Error(), "pa55") {
		t.Errorf("the error has the password: %v", err)
	}
}
