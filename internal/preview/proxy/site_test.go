package proxy_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
)

// TestMain is also the program that serves the site inside sandboxes.
func TestMain(m *testing.M) {
	if port := os.Getenv("ATOLL_PROXY_SITE"); port != "" {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			err = http.Serve(l, site())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(helpertest.Main(m))
}

// heard is what a site was asked.
type heard struct {
	Proto, Method, Host, URI string
	Header                   http.Header
}

// site is a web server as programs inside have one.
func site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(heard{r.Proto, r.Method, r.Host, r.RequestURI, r.Header})
	})
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		c.SetReadLimit(1 << 24)
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, b) != nil {
				return
			}
		}
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %s %v", n, hex.EncodeToString(sum.Sum(nil)), err)
	})
	mux.HandleFunc("/trailer", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "Sum")
		fmt.Fprintf(w, "%s|%s", body, r.Trailer.Get("Ask"))
		w.Header().Set("Sum", "42")
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.Header().Set("Set-Cookie", "early=1; Domain=localhost")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Set-Cookie")
		fmt.Fprint(w, "done")
	})
	mux.HandleFunc("/set", func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.URL.Query() {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		if code, err := strconv.Atoi(r.URL.Query().Get("status")); err == nil {
			w.WriteHeader(code)
		}
		fmt.Fprint(w, "set")
	})
	return mux
}

// island is a target of the test's own process: ports that handlers answer.
type island struct {
	id   string
	main int

	mu     sync.Mutex
	state  atoll.State
	ports  map[int]string // port inside: address here
	tell   []chan atoll.Notice
	dials  int
	asked  int
	failed error // of State and Ports
}

var (
	_ proxy.Target   = (*island)(nil)
	_ atoll.Notifier = (*island)(nil)
)

func newIsland(id string) *island {
	return &island{id: id, state: atoll.Running, ports: make(map[int]string)}
}

func (s *island) ID() string    { return s.id }
func (s *island) MainPort() int { return s.main }

func (s *island) State(context.Context) (atoll.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.failed
}

func (s *island) Ports(context.Context) ([]atoll.Port, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	var list []atoll.Port
	for port := range s.ports {
		list = append(list, atoll.Port{Port: port, Address: "127.0.0.1"})
	}
	return list, s.failed
}

func (s *island) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	s.mu.Lock()
	at, ok := s.ports[n]
	s.dials++
	state := s.state
	s.mu.Unlock()
	if state != atoll.Running {
		return nil, atoll.ErrState
	}
	if !ok {
		return nil, fmt.Errorf("%w: nothing listens on %s", atoll.ErrUnavailable, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", at)
}

func (s *island) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	c := make(chan atoll.Notice, 64)
	s.mu.Lock()
	s.tell = append(s.tell, c)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tell = slices.DeleteFunc(s.tell, func(o chan atoll.Notice) bool { return o == c })
	}()
	if err := f(atoll.Notice{Kind: atoll.NoticeReady}); err != nil {
		return err
	}
	for {
		select {
		case n, ok := <-c:
			if !ok {
				return errors.New("the connection is lost")
			}
			if err := f(n); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open forwards a port to an address of this host and sends a notice.
func (s *island) open(port int, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports[port] = address
	for _, c := range s.tell {
		c <- atoll.Notice{Kind: atoll.NoticePortOpened, Port: port, Address: "127.0.0.1"}
	}
}

func (s *island) close(port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ports, port)
	for _, c := range s.tell {
		c <- atoll.Notice{Kind: atoll.NoticePortClosed, Port: port, Address: "127.0.0.1"}
	}
}

func (s *island) set(state atoll.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// sea is a Finder of islands.
type sea map[string]proxy.Target

func (s sea) Find(_ context.Context, project string) (proxy.Target, error) {
	if t, ok := s[project]; ok {
		return t, nil
	}
	return nil, fmt.Errorf("%w: %s", atoll.ErrNotFound, project)
}

// serve serves a handler on loopback until the test ends.
func serve(t testing.TB, h http.Handler) (address string) {
	t.Helper()
	return serveWith(t, &http.Server{Handler: h})
}

func serveWith(t testing.TB, s *http.Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return l.Addr().String()
}

// browser is a client that reaches every name at one address, as browsers do
// with localhost.
func browser(t testing.TB, address string) *http.Client {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get asks for a URL with fields "Name: value", and returns the answer and its
// whole body.
func get(t testing.TB, c *http.Client, method, url string, fields ...string) (*http.Response, string) {
	t.Helper()
	return send(t, c, method, url, nil, fields...)
}

func send(t testing.TB, c *http.Client, method, url string, body io.Reader, fields ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := cut(f)
		req.Header.Add(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res, string(b)
}

func cut(field string) (name, value string, ok bool) {
	for i := range field {
		if field[i] == ':' {
			return field[:i], field[i+2:], true
		}
	}
	return field, "", false
}

// ears reads what the site was asked.
func ears(t testing.TB, body string) heard {
	t.Helper()
	var h heard
	if err := json.Unmarshal([]byte(body), &h); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return h
}
