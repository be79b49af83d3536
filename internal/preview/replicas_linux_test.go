package preview_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry/pgtest"
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// echoing finds what a registry finds; every port of it is one server.
type echoing struct {
	proxy.Finder
	at string
}

type echo struct {
	proxy.Target
	at string
}

func (e echoing) Find(ctx context.Context, name string) (proxy.Target, error) {
	t, err := e.Finder.Find(ctx, name)
	return echo{t, e.at}, err
}

func (e echo) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", e.at)
}

// replica is a server of a fleet, with its names.
type replica struct {
	routes *preview.Registry
	at     string // its proxy's address
}

// A link revoked on one server is refused by the others, which also end its open
// streams; so does a registry that can't be reached.
func TestRevokedLinkEndsOnAllServers(t *testing.T) {
	testenv.Real(t, "postgres")
	pg, err := pgtest.Start(t.Context())
	if errors.Is(err, pgtest.ErrMissing) {
		testenv.Skip(t, "postgres", "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	registry, err := pgtest.Schema(t.Context(), pg.URL("public"), "links")
	if err != nil {
		t.Fatal(err)
	}
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			_ = c.Write(r.Context(), websocket.MessageText, []byte("ahoy"))
			_, _, _ = c.Read(r.Context()) // until the server closes it
		}
	}))
	t.Cleanup(inside.Close)
	place := t.TempDir()
	a, b := newReplica(t, registry, place, inside), newReplica(t, registry, place, inside)

	local := a.routes.Fleet.Account(fleet.LocalCaller())
	if _, err := local.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "box"}}); err != nil {
		t.Fatal(err)
	}
	link := func() atoll.RouteLink {
		t.Helper()
		l, err := a.routes.CreateLink(t.Context(), local, "box", 3000, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := link()
	there, here := a.open(t, l), b.open(t, l)
	if err := b.routes.Fleet.Account(fleet.LocalCaller()).RevokeRouteLink(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	for _, ws := range []*websocket.Conn{there, here} {
		if _, _, err := ws.Read(t.Context()); err == nil || t.Context().Err() != nil {
			t.Errorf("a stream continues after its link was revoked: %v", err)
		}
	}
	for _, r := range []*replica{a, b} {
		if _, res, err := r.dial(t, l); err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("the link lets in: %v", err)
		}
	}
	ws := b.open(t, link())
	if err := pg.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(t.Context()); err == nil || t.Context().Err() != nil {
		t.Errorf("a stream continues without a registry: %v", err)
	}
	if err := pg.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// sharedDriver is a virtual driver whose directory all servers use.
type sharedDriver struct{ *virtual.Driver }

// Shared returns true.
func (sharedDriver) Shared() bool { return true }

func newReplica(t *testing.T, registry, place string, inside *httptest.Server) *replica {
	t.Helper()
	d := sharedDriver{&virtual.Driver{Dir: place}}
	f, err := fleet.Open(t.Context(), fleet.Options{Home: t.TempDir(), Registry: registry, Drivers: []atoll.Driver{d}})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{routes: &preview.Registry{Fleet: f, Access: preview.LinkAccess(f), Address: preview.Address{Scheme: "http", Port: 80}}}
	p := &proxy.Proxy{Access: r.routes.Access, Finder: echoing{r.routes.Finder(), inside.Listener.Addr().String()}}
	s := httptest.NewServer(p)
	r.at = s.Listener.Addr().String()
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.routes.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.CloseClientConnections()
		s.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

// open opens a WebSocket with a link.
func (r *replica) open(t *testing.T, l atoll.RouteLink) *websocket.Conn {
	t.Helper()
	ws, _, err := r.dial(t, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	if _, said, err := ws.Read(t.Context()); err != nil || string(said) != "ahoy" {
		t.Fatalf("%q, %v", said, err)
	}
	return ws
}

func (r *replica) dial(t *testing.T, l atoll.RouteLink) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	host, _, _ := strings.Cut(strings.TrimPrefix(l.URL, "http://"), "/")
	return websocket.Dial(t.Context(), "ws://"+r.at+"/", &websocket.DialOptions{Host: host, HTTPHeader: http.Header{"Atoll-Access": {l.Secret}}})
}
