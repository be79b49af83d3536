package preview_test

import (
	"context"
	"fmt"
	"io"
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
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// dialingDriver makes virtual sandboxes all of whose ports are one server of the test.
type dialingDriver struct {
	*virtual.Driver
	at string
}

type dialingSandbox struct {
	atoll.Sandbox
	at string
}

func (d dialingDriver) Probe(ctx context.Context) (atoll.Features, error) {
	ft, err := d.Driver.Probe(ctx)
	ft.Dial = true
	return ft, err
}

func (d dialingDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.Driver.Create(ctx, spec)
	return dialingSandbox{sb, d.at}, err
}

func (d dialingDriver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	sb, err := d.Driver.Open(ctx, id)
	return dialingSandbox{sb, d.at}, err
}

func (s dialingSandbox) Unwrap() atoll.Sandbox { return s.Sandbox }

func (s dialingSandbox) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.at)
}

// portSite is a proxy of a fleet with an owner's sandboxes.
type portSite struct {
	t      *testing.T
	fleet  *fleet.Fleet
	routes *preview.Registry
	owner  *fleet.Account
	at     string // address of the proxy
}

func newPortSite(t *testing.T, locked bool) *portSite {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, r.RequestURI, r.Header.Values("X-Port-Key"))
			return
		}
		if c, err := websocket.Accept(w, r, nil); err == nil {
			_ = c.Write(r.Context(), websocket.MessageText, []byte("ahoy"))
			_, _, _ = c.Read(r.Context()) // until the proxy closes it
		}
	}))
	t.Cleanup(inside.Close)
	f, err := fleet.Open(t.Context(), fleet.Options{Home: t.TempDir(), Drivers: []atoll.Driver{dialingDriver{virtual.New(), inside.Listener.Addr().String()}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &portSite{t: t, fleet: f, routes: &preview.Registry{Fleet: f, Address: preview.Address{Scheme: "http", Port: 80}}}
	s.owner = f.Account(fleet.Caller{Owner: atoll.Owner{App: "app", User: "alice"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	if locked {
		s.routes.Access = preview.LinkAccess(f)
	}
	p := &proxy.Proxy{Access: s.routes.Access, Finder: s.routes.Finder(), Admitter: s.routes.NewAdmitter(preview.KeyNames{Headers: []string{"X-Port-Key"}, Params: []string{"KEY"}})}
	front := httptest.NewServer(p)
	s.at = front.Listener.Addr().String()
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.routes.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		front.CloseClientConnections()
		front.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *portSite) create(a *fleet.Account, cfg atoll.Config) *fleet.Sandbox {
	s.t.Helper()
	sb, err := a.Create(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return sb
}

func (s *portSite) portKey(sb *fleet.Sandbox) string {
	s.t.Helper()
	key, err := sb.PortKey(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// get sends a request to a host name and returns the answer.
func (s *portSite) get(host, path, key string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", "http://"+s.at+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Host = host; key != "" {
		r.Header.Set("X-Port-Key", key)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// hostOf returns the host of a URL.
func hostOf(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return host
}

// TestPortsWithoutLink asks for ports of sandboxes without a link's token: public ones answer, and others with
// their port key or by the host name of a link; nothing else does.
func TestPortsWithoutLink(t *testing.T) {
	for _, locked := range []bool{true, false} {
		t.Run(fmt.Sprintf("locked=%v", locked), func(t *testing.T) {
			s := newPortSite(t, locked)
			private, other := s.create(s.owner, atoll.Config{}), s.create(s.owner, atoll.Config{})
			public := s.create(s.owner, atoll.Config{Spec: atoll.Spec{Name: "shown"}, PublicPorts: true})
			access, err := private.AccessKey(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			key := s.portKey(private)
			name := "3000-" + private.ID() + ".localhost"
			refused := http.StatusUnauthorized
			if !locked {
				refused = http.StatusNotFound // to the proxy, these sandboxes do not exist
			}
			link, err := s.routes.CreateHostLink(t.Context(), s.owner, private.ID(), 3000, time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			host := hostOf(link.URL)
			ended, err := s.routes.CreateHostLink(t.Context(), s.owner, private.ID(), 3000, time.Now().Add(time.Hour))
			if err == nil {
				err = s.owner.RevokeRouteLink(t.Context(), ended.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range []struct {
				what, host, path, key string
				status                int
				want                  string
			}{
				{"nothing", name, "/", "", refused, ""},
				{"the port key", name, "/a?b=c", key, 200, "/a?b=c[]"}, // which the program does not see
				{"the port key in the URL", name, "/a?KEY=" + key + "&b=c", "", 200, "/a?b=c[]"},
				{"a wrong key", name, "/", key[:len(key)-1] + "x", refused, ""},
				{"the access key", name, "/", access, refused, ""},
				{"the port key of another", name, "/", s.portKey(other), refused, ""},
				{"a public one", "3000-" + public.ID() + ".localhost", "/", "", 200, "/[]"},
				{"a public one by its name", "3000-shown.localhost", "/", "", refused, ""},
				{"one that does not exist", "3000-s0123456789ab.localhost", "/", key, refused, ""},
				{"a link's host", host, "/deep/path?q", "", 200, "/deep/path?q[]"},
				{"a link's host and another port", "3001" + strings.TrimPrefix(host, "3000"), "/", "", refused, ""},
				{"a link's host without port", strings.TrimPrefix(host, "3000-"), "/", "", refused, ""},
				{"a forged host", strings.Replace(host, link.Secret, link.ID+strings.Repeat("0", 32), 1), "/", "", refused, ""},
				{"the host of a revoked link", hostOf(ended.URL), "/", "", refused, ""},
			} {
				if status, text := s.get(k.host, k.path, k.key); status != k.status || k.want != "" && text != k.want {
					t.Errorf("%s: %d %.200s, want %d %s", k.what, status, text, k.status, k.want)
				}
			}
			no := false
			if _, err := s.owner.Update(t.Context(), public.ID(), fleet.Change{PublicPorts: &no}); err != nil {
				t.Fatal(err)
			}
			if status, _ := s.get("3000-"+public.ID()+".localhost", "/", ""); status != refused {
				t.Errorf("one that is private again: %d", status)
			}
			if err := private.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			for host, key := range map[string]string{name: key, host: ""} {
				if status, text := s.get(host, "/", key); status == 200 {
					t.Errorf("%s of a destroyed sandbox: %d %s", host, status, text)
				}
			}
		})
	}
}

// TestOnlyLinks: where the operator demands links, ports are never public.
func TestOnlyLinks(t *testing.T) {
	s := newPortSite(t, true)
	s.routes.OnlyLinks = true
	sb := s.create(s.owner, atoll.Config{PublicPorts: true})
	if status, _ := s.get("3000-"+sb.ID()+".localhost", "/", ""); status != http.StatusUnauthorized {
		t.Errorf("without a link: %d", status)
	}
	if status, _ := s.get("3000-"+sb.ID()+".localhost", "/", s.portKey(sb)); status != 200 {
		t.Errorf("with the port key: %d", status)
	}
}

// TestAdmittedStreamsEnd: a stream ends when its right does.
func TestAdmittedStreamsEnd(t *testing.T) {
	s := newPortSite(t, true)
	sb := s.create(s.owner, atoll.Config{PublicPorts: true})
	link, err := s.routes.CreateHostLink(t.Context(), s.owner, sb.ID(), 3000, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	open := func(host string) *websocket.Conn {
		t.Helper()
		ws, _, err := websocket.Dial(t.Context(), "ws://"+s.at+"/", &websocket.DialOptions{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		if _, said, err := ws.Read(t.Context()); err != nil || string(said) != "ahoy" {
			t.Fatalf("%q, %v", said, err)
		}
		return ws
	}
	linked, public := open(hostOf(link.URL)), open("3000-"+sb.ID()+".localhost")
	if err := s.owner.RevokeRouteLink(t.Context(), link.ID); err != nil {
		t.Fatal(err)
	}
	no := false
	if _, err := s.owner.Update(t.Context(), sb.ID(), fleet.Change{PublicPorts: &no}); err != nil {
		t.Fatal(err)
	}
	for what, ws := range map[string]*websocket.Conn{"of a link": linked, "to public ports": public} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if _, _, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("a stream %s continues: %v", what, err)
		}
		cancel()
	}
}
