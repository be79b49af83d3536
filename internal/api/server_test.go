package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// site is a server of a fleet of its own, and a client of it.
type site struct {
	t      testing.TB
	server *Server
	fleet  *fleet.Fleet
	client *http.Client
	url    string        // of the server, without a path
	token  string        // shown with each request, if it is not empty
	home   string        // of the fleet
	clock  *atomic.Int64 // how far the fleet's clock goes ahead, in nanoseconds
}

// newSite starts a server on TCP, with an admin's token to call it.
func newSite(t testing.TB, opts Options) *site {
	t.Helper()
	return newSiteIn(t, t.TempDir(), opts)
}

// newSiteIn is newSite with a home.
func newSiteIn(t testing.TB, home string, opts Options) *site {
	t.Helper()
	return newSiteWith(t, home, &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}, opts)
}

// newSiteWith is newSite with a home and a driver.
func newSiteWith(t testing.TB, home string, d atoll.Driver, opts Options) *site {
	t.Helper()
	s := newFleetWith(t, home, d, opts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.serve(l)
	s.url = "http://" + l.Addr().String()
	s.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(s.client.CloseIdleConnections)
	s.token = s.newToken(atoll.Local, atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost, atoll.ScopeAdmin)
	return s
}

// newFleet makes a server that serves nobody yet.
func newFleet(t testing.TB, opts Options) *site {
	t.Helper()
	home := t.TempDir()
	return newFleetWith(t, home, &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}, opts)
}

// newFleetWith is newFleet with a home and a driver.
func newFleetWith(t testing.TB, home string, d atoll.Driver, opts Options) *site {
	t.Helper()
	clock := new(atomic.Int64)
	now := func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	f, err := fleet.Open(t.Context(), fleet.Options{Home: home, Now: now, Drivers: []atoll.Driver{d}})
	if err != nil {
		t.Fatal(err)
	}
	opts.Fleet = f
	if opts.Version == "" {
		opts.Version = "test"
	}
	if opts.Log == nil && testing.Verbose() {
		opts.Log = slog.New(slog.NewTextHandler(testLog{t}, nil))
	}
	s := &site{t: t, server: New(opts), fleet: f, home: home, clock: clock}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Errorf("close fleet: %v", err)
		}
	})
	return s
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// serve serves a listener until the test ends.
func (s *site) serve(l net.Listener) {
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(l) }()
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.server.Shutdown(ctx); err != nil {
			s.t.Errorf("shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			s.t.Errorf("serve: %v", err)
		}
	})
}

func (s *site) newToken(o atoll.Owner, scopes ...atoll.Scope) string {
	s.t.Helper()
	tok, err := s.fleet.Account(fleet.LocalCaller()).CreateToken(s.t.Context(), atoll.Token{Owner: o, Scopes: scopes})
	if err != nil {
		s.t.Fatal(err)
	}
	return tok.Secret
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// problem reads an answer as a problem, and checks that it is a whole one.
func (a answer) problem(t testing.TB) wire.Problem {
	t.Helper()
	var p wire.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	if got := a.header.Get("Content-Type"); got != wire.ContentType {
		t.Errorf("Content-Type %q of %s", got, a.body)
	}
	if p.Status != a.status || p.Title == "" || p.Kind == "" || p.Detail == "" || p.Call == "" || p.Call != a.header.Get("X-Request-Id") {
		t.Errorf("not a whole problem: %d %s", a.status, a.body)
	}
	return p
}

// do sends a request. headers are "Name: value".
func (s *site) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		switch {
		case k == "Host":
			r.Host = v
		case v == "":
			r.Header.Del(k)
		default:
			r.Header.Set(k, v)
		}
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// get reads JSON from a path into v.
func (s *site) want(status int, v any, method, path, body string, headers ...string) answer {
	s.t.Helper()
	a := s.do(method, path, body, headers...)
	if a.status != status {
		s.t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(a.body), v); err != nil {
			s.t.Fatalf("%s %s: %v in %s", method, path, err, a.body)
		}
	}
	return a
}

func dialUnix(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}
