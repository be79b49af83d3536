package caddy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/preview/caddy"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// run starts the machine's Caddy with a configuration, its admin API on a socket.
func run(t *testing.T, config string) (admin string) {
	t.Helper()
	testenv.Real(t, "caddy")
	bin, err := exec.LookPath("caddy")
	if err != nil {
		testenv.Skip(t, "caddy", "no caddy here (apt-get install caddy): %v", err)
	}
	dir, err := os.MkdirTemp("", "atoll-caddy-") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	admin = filepath.Join(dir, "admin")
	file := filepath.Join(dir, "caddy.json")
	config = strings.ReplaceAll(config, "ADMIN", "unix/"+admin)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(bin, "run", "--config", file)
	cmd.Env = []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "PATH=/usr/bin:/bin"}
	r, w := io.Pipe()
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, drained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drained)
		told := false
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			log.Write(buf[:n])
			if !told && (err != nil || bytes.Contains(log.Bytes(), []byte("serving initial configuration"))) {
				told = true
				close(ready)
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		w.Close()
		<-drained
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		}
	})
	<-ready
	return admin
}

// free returns an unused port on loopback.
func free(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// config is a Caddy that has a site of its owner's, which takes everything.
func config(port int) string {
	return fmt.Sprintf(`{"admin":{"listen":"ADMIN"},"logging":{"logs":{"default":{"level":"INFO"}}},"apps":{"http":{"servers":{"srv0":{"listen":["127.0.0.1:%d"],"automatic_https":{"disable":true},
		"routes":[{"@id":"theirs","handle":[{"handler":"static_response","body":"the owner's"}]}]}}}}}`, port)
}

func ask(t *testing.T, port int, host string) string {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://127.0.0.1:%d/x", port), nil)
	req.Host = host
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	for range 3 {
		if !errors.Is(err, syscall.ECONNRESET) {
			break
		}
		// Caddy has a new listener for each configuration, and closes the one before with what waits in its queue.
		res, err = client.Do(req)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

// expect checks the answer of a host name. Caddy's former configuration may answer for a moment after a new one was accepted.
func expect(t *testing.T, port int, host string, right func(string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got := ""
	if !testenv.Poll(ctx, func() bool {
		got = ask(t, port, host)
		return right(got)
	}) {
		t.Errorf("%s answers %q", host, got)
	}
}

// equals returns a function that compares with a text.
func equals(want string) func(string) bool { return func(got string) bool { return got == want } }

// whole returns Caddy's configuration as it stands.
func whole(t *testing.T, admin string) string {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", admin)
	}}}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://localhost/config/", nil)
	req.Host = "/"
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	b, _ = json.Marshal(v)
	return string(b)
}

func TestRealCaddy(t *testing.T) {
	port := free(t)
	admin := run(t, config(port))
	before := whole(t, admin)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "atoll ", r.Host, " ", r.Header.Get("X-Forwarded-For"))
	}))
	defer backend.Close()
	p := &caddy.Provider{Admin: admin, ID: "atoll", Upstream: proxy.Upstream(backend.Listener.Addr().String()), Port: port}
	publish := func(hosts ...string) {
		t.Helper()
		var routes []proxy.Route
		for _, h := range hosts {
			routes = append(routes, proxy.Route{Host: h})
		}
		if err := p.Publish(t.Context(), routes); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	if whole(t, admin) != before {
		t.Fatal("publishing nothing changed something")
	}
	publish("web.sandbox.example.com")
	expect(t, port, "web.sandbox.example.com", equals("atoll web.sandbox.example.com 127.0.0.1"))
	expect(t, port, "example.com", equals("the owner's"))
	once := whole(t, admin)
	publish("web.sandbox.example.com")
	if whole(t, admin) != once {
		t.Error("publishing twice changed something")
	}
	// Another process of the same home finds the route, and changes it.
	p = &caddy.Provider{Admin: admin, ID: "atoll", Upstream: p.Upstream, Port: port}
	publish("3000-web.sandbox.example.com", "*.two.example.com")
	for host, want := range map[string]bool{"3000-web.sandbox.example.com": true, "any.two.example.com": true, "web.sandbox.example.com": false} {
		expect(t, port, host, func(got string) bool { return strings.HasPrefix(got, "atoll") == want })
	}
	publish()
	if after := whole(t, admin); after != before {
		t.Errorf("something is left:\n%s\nwas\n%s", after, before)
	}
}

func TestAmbiguousServerIsRefused(t *testing.T) {
	a, b := free(t), free(t)
	admin := run(t, fmt.Sprintf(`{"admin":{"listen":"ADMIN"},"apps":{"http":{"servers":{"a":{"listen":["127.0.0.1:%d"],"automatic_https":{"disable":true}},"b":{"listen":["127.0.0.1:%d"]}}}}}`, a, b))
	p := &caddy.Provider{Admin: admin, ID: "atoll", Upstream: "127.0.0.1:1"}
	routes := []proxy.Route{{Host: "web.example.com"}}
	if err := p.Publish(t.Context(), routes); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("two servers, none on the port: %v", err)
	}
	p.SoleServer = true
	if err := p.Publish(t.Context(), routes); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("a (127.0.0.1:%d), b (127.0.0.1:%d)", a, b)) {
		t.Errorf("neither is the only one: %v", err)
	}
	p.Port = b
	if err := errors.Join(p.Publish(t.Context(), routes), p.Publish(t.Context(), nil)); err != nil {
		t.Errorf("one on the port: %v", err)
	}
	p.Server = "c"
	if err := p.Publish(t.Context(), routes); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a server that is not there: %v", err)
	}
	p.Server = "a"
	if err := p.Publish(t.Context(), routes); err != nil {
		t.Errorf("a server without routes: %v", err)
	}
	if !strings.Contains(whole(t, admin), "web.example.com") {
		t.Error("nothing was published")
	}
	empty := run(t, `{"admin":{"listen":"ADMIN"}}`)
	if err := (&caddy.Provider{Admin: empty, ID: "atoll", Upstream: "127.0.0.1:1"}).Publish(t.Context(), routes); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("no server at all: %v", err)
	}
}

func TestFaults(t *testing.T) {
	routes := []proxy.Route{{Host: "web.example.com"}}
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 10 {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer huge.Close()
	for name, c := range map[string]struct {
		p    *caddy.Provider
		want error
	}{
		"no server":    {&caddy.Provider{Admin: "/nonexistent", ID: "atoll", Upstream: "127.0.0.1:1"}, atoll.ErrUnavailable},
		"bad id":       {&caddy.Provider{ID: "../config", Upstream: "127.0.0.1:1"}, atoll.ErrInvalid},
		"bad upstream": {&caddy.Provider{ID: "atoll", Upstream: "evil.com:80 }"}, atoll.ErrInvalid},
		"no JSON":      {&caddy.Provider{Admin: huge.URL, ID: "atoll", Upstream: "127.0.0.1:1"}, nil},
	} {
		if err := c.p.Publish(t.Context(), routes); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What Export writes, Caddy and nginx take.
func TestCaddyAcceptsExport(t *testing.T) {
	names := proxy.Names{Domains: []string{"localhost", "sandbox.example.com", "two.example.com"}}
	for _, u := range []proxy.Upstream{"127.0.0.1:7080", "[::1]:7080", "/run/atoll/proxy.sock"} {
		file := filepath.Join(t.TempDir(), "Caddyfile")
		text, err := proxy.Export(proxy.Caddyfile, names, u)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if bin, err := exec.LookPath("caddy"); err != nil {
			testenv.Skip(t, "caddy", "no caddy here: %v", err)
		} else if out, err := exec.Command(bin, "adapt", "--adapter", "caddyfile", "--config", file).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("*.two.example.com")) {
			t.Errorf("caddy: %v: %s", err, out)
		}
		if text, err = proxy.Export(proxy.Nginx, names, u); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file = filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(file, []byte("pid "+dir+"/pid; error_log stderr; events {}\nhttp {\naccess_log off;\n"+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if bin, err := exec.LookPath("nginx"); err != nil {
			testenv.Skip(t, "nginx", "no nginx here: %v", err)
		} else if out, err := exec.Command(bin, "-t", "-c", file).CombinedOutput(); err != nil {
			t.Errorf("nginx: %v: %s", err, out)
		}
	}
	for _, u := range []proxy.Upstream{"", "80", "host", "a b:80", "127.0.0.1:80;", "/run/a b", "/run/../x", "/run/x;}", "127.0.0.1:0", "host:99999", "$host:80"} {
		if text, err := proxy.Export(proxy.Nginx, names, u); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("upstream %q: %v %s", u, err, text)
		}
	}
	if _, err := proxy.Export(proxy.Caddyfile, proxy.Names{}, "127.0.0.1:80"); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("localhost alone: %v", err)
	}
	if _, err := proxy.Export("apache", names, "127.0.0.1:80"); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an unknown format: %v", err)
	}
}

// island is a sandbox whose every port is one server.
type island struct{ at string }

func (island) ID() string                                  { return "s1" }
func (island) MainPort() int                               { return 3000 }
func (island) State(context.Context) (atoll.State, error)  { return atoll.Running, nil }
func (island) Ports(context.Context) ([]atoll.Port, error) { return nil, nil }
func (s island) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.at)
}

// Find is for the proxy: there is one sandbox, "web".
func (s island) Find(_ context.Context, project string) (proxy.Target, error) {
	if project == "web" {
		return s, nil
	}
	return nil, atoll.ErrNotFound
}

// The whole way: Caddy, the proxy on a socket, a server that knows localhost only.
func TestCaddyInFront(t *testing.T) {
	port := free(t)
	admin := run(t, config(port))
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			_ = c.Write(r.Context(), websocket.MessageText, []byte("ahoy "+r.Host))
			_ = c.Close(websocket.StatusNormalClosure, "")
			return
		}
		w.Header().Set("X-Accel-Redirect", "/etc/passwd")
		fmt.Fprintf(w, "%s for %s", r.Host, r.Header.Get("X-Forwarded-For"))
	}))
	defer backend.Close()
	socket := admin + ".proxy"
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy.Proxy{Finder: island{backend.Listener.Addr().String()}, Names: proxy.Names{Domains: []string{"sandbox.example.com"}}, BehindProxy: true}
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Serve(ctx, l, proxy.ServeOptions{Public: true}) }()
	c := &caddy.Provider{Admin: admin, ID: "atoll", Upstream: proxy.Upstream(socket), SoleServer: true}
	if err := c.Publish(t.Context(), []proxy.Route{{Host: "*.sandbox.example.com"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, port, "3000-web.sandbox.example.com", equals("localhost:3000 for 127.0.0.1"))
	expect(t, port, "nobody.sandbox.example.com", func(got string) bool { return strings.Contains(got, "No sandbox called nobody") })
	ws, _, err := websocket.Dial(t.Context(), fmt.Sprintf("ws://127.0.0.1:%d/", port), &websocket.DialOptions{Host: "web.sandbox.example.com", HTTPHeader: http.Header{"Origin": {"http://web.sandbox.example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if _, b, err := ws.Read(t.Context()); err != nil || string(b) != "ahoy localhost:3000" {
		t.Errorf("%q, %v", b, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
