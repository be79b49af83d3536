package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// dialing is a driver whose sandboxes can be dialled: what they listen on is
// outside.
type dialing struct {
	atoll.Driver
	target string
}

func (d dialing) Probe(ctx context.Context) (atoll.Features, error) {
	f, err := d.Driver.Probe(ctx)
	f.Dial = true
	return f, err
}

func (d dialing) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.Driver.Create(ctx, spec)
	return dialable{sb, d.target}, err
}

func (d dialing) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	sb, err := d.Driver.Open(ctx, id)
	return dialable{sb, d.target}, err
}

type dialable struct {
	atoll.Sandbox
	target string
}

func (d dialable) Unwrap() atoll.Sandbox { return d.Sandbox }

func (d dialable) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != "localhost:80" {
		return nil, &atoll.Error{Op: "dial", ID: d.ID(), Err: fmt.Errorf("%w: nobody listens at %s", atoll.ErrUnavailable, address)}
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, d.target)
}

// listens returns a sandbox in which serve answers each connection.
func listens(t *testing.T, answer func(*net.TCPConn)) *client.Sandbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				answer(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return serve(t, "unix", dialing{&virtual.Driver{Dir: t.TempDir()}, l.Addr().String()}).sandbox(t)
}

func TestDialBothDirections(t *testing.T) {
	sb := listens(t, func(c *net.TCPConn) {
		b, err := io.ReadAll(c) // until the other end has no more
		if err == nil {
			_, err = c.Write(bytes.ToUpper(b))
		}
		if err != nil {
			t.Error(err)
		}
	})
	c, err := atoll.Dial(t.Context(), sb, "tcp", "localhost:80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := bytes.Repeat([]byte("abcdefgh"), 1<<18)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := c.Write(sent)
		if err = errors.Join(err, c.(interface{ CloseWrite() error }).CloseWrite()); err != nil {
			t.Error(err)
		}
	})
	got, err := io.ReadAll(c)
	wg.Wait()
	if err != nil || !bytes.Equal(got, bytes.ToUpper(sent)) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(sent), err)
	}
	if _, err := atoll.Dial(t.Context(), sb, "tcp", "localhost:81"); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("Dial of a closed port: %v", err)
	}
	if _, err := sb.Dial(t.Context(), "udp", "localhost:80"); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("Dial of an unknown network: %v", err)
	}
}

func TestDialHasDeadlines(t *testing.T) {
	sb := listens(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	c, err := atoll.Dial(t.Context(), sb, "tcp", "localhost:80")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read past its deadline: %v", err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Errorf("Write after a deadline: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("Read after a deadline: %v", err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	if _, err := c.Write(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
}

func TestHTTPThroughDial(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, "hello from %s", r.URL.Path) }))
	defer web.Close()
	sb := serve(t, "tcp", dialing{&virtual.Driver{Dir: t.TempDir()}, web.Listener.Addr().String()}).sandbox(t)
	tr := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return atoll.Dial(ctx, sb, network, "localhost:80")
	}}
	defer tr.CloseIdleConnections()
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://inside/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || string(b) != "hello from /x" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestTruncatedDownloads are never taken for whole ones.
func TestTruncatedDownloads(t *testing.T) {
	var whole bytes.Buffer
	tw := tar.NewWriter(&whole)
	if err := errors.Join(tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: 5}), func() error { _, err := tw.Write([]byte("12345")); return err }(), tw.Close()); err != nil {
		t.Fatal(err)
	}
	for law, answer := range map[string]http.HandlerFunc{
		"Broken": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(whole.Bytes()) // even if all of it came: the end did not
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"ShorterThanSaid": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(whole.Len()+1))
			_, _ = w.Write(whole.Bytes())
		},
		"SaysWhy": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", wire.FailureTrailer)
			_, _ = w.Write(whole.Bytes())
			b, _ := json.Marshal(wire.ProblemOf(&atoll.Error{Op: "export", ID: "x", Err: atoll.ErrUnavailable}))
			w.Header().Set(wire.FailureTrailer, string(b))
		},
		"SaysNonsense": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", wire.FailureTrailer)
			_, _ = w.Write(whole.Bytes())
			w.Header().Set(wire.FailureTrailer, "{")
		},
	} {
		t.Run(law, func(t *testing.T) {
			f := pretend(t, answer).Files("w")
			rc, err := f.Export(t.Context(), "/")
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(rc)
			if !errors.Is(err, atoll.ErrUnavailable) {
				t.Errorf("reading %d bytes: %v", len(b), err)
			}
			if err := rc.Close(); !errors.Is(err, atoll.ErrUnavailable) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// pretend returns a client of something that is no server of ours.
func pretend(t *testing.T, answer http.HandlerFunc) *client.Client {
	t.Helper()
	web := httptest.NewServer(answer)
	t.Cleanup(web.Close)
	c, err := client.New(client.Options{Host: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // never fails
	return c
}

func TestErrorHints(t *testing.T) {
	ctx := t.Context()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	st := serve(t, "tcp")
	sock := filepath.Join(t.TempDir(), "none.sock")
	pool := x509.NewCertPool()
	pool.AddCert(secure.Certificate())
	for _, c := range []struct {
		law  string
		o    client.Options
		err  error
		text string
	}{
		{"NoSocket", client.Options{Host: "unix://" + sock}, atoll.ErrUnavailable, sock + ": no server listens there"},
		{"Refused", client.Options{Host: "http://127.0.0.1:1"}, atoll.ErrUnavailable, "http://127.0.0.1:1: no server listens there"},
		{"UnknownAuthority", client.Options{Host: secure.URL}, atoll.ErrUnavailable, "authority"},
		{"NoTLS", client.Options{Host: strings.Replace(plain.URL, "http:", "https:", 1)}, atoll.ErrUnavailable, "does not speak TLS"},
		{"OtherServer", client.Options{Host: plain.URL}, atoll.ErrUnavailable, "404"},
		{"OtherSecureServer", client.Options{Host: secure.URL, TLSConfig: &tls.Config{RootCAs: pool}}, atoll.ErrUnavailable, "404"},
		{"NoToken", client.Options{Host: st.host}, atoll.ErrDenied, "token"},
		{"WrongToken", client.Options{Host: st.host, Token: "wrong"}, atoll.ErrDenied, "token"},
	} {
		t.Run(c.law, func(t *testing.T) {
			cl, err := client.New(c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			_, err = cl.Probe(ctx)
			if !errors.Is(err, c.err) || !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("Probe: %v", err)
			}
			if _, err := cl.Create(ctx, atoll.Spec{}); !errors.Is(err, c.err) {
				t.Errorf("Create: %v", err)
			}
			if cl.Name() != "remote" {
				t.Errorf("Name: %q", cl.Name())
			}
		})
	}
	for _, host := range []string{"", "example.com", "ftp://x", "unix://relative", "unix:x", "http://", "http://u:p@h", "http://h?q", "http://h#f", ":"} {
		if _, err := client.New(client.Options{Host: host}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("host %q: %v", host, err)
		}
	}
}

// TestEventsReconnect breaks the connection again and again.
func TestEventsReconnect(t *testing.T) {
	st := serve(t, "tcp")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cut := &cutter{}
	c, err := client.New(client.Options{Host: st.host, Token: st.token, DialContext: cut.dial})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := c.FollowEvents(ctx, client.EventFilter{Types: []string{"workspace.created"}}, func(e atoll.Event) error {
			told <- e.Object
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("FollowEvents: %v", err)
		}
	})
	maker := st.client(t)
	for i := range 5 {
		name := fmt.Sprintf("w%d", i)
		if _, err := maker.CreateWorkspace(ctx, atoll.Workspace{Name: name}); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-told:
			if got != name {
				t.Errorf("told of %s, not of %s", got, name)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not told", name)
		}
		cut.all()
	}
	cancel()
	wg.Wait()
	if len(told) > 0 {
		t.Errorf("%s was delivered twice", <-told)
	}
	enough := errors.New("enough")
	err = maker.FollowEvents(t.Context(), client.EventFilter{}, func(atoll.Event) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("FollowEvents whose function fails: %v", err)
	}
	list, err := maker.Events(t.Context(), client.EventFilter{Types: []string{"workspace.created"}})
	if err != nil || len(list) != 5 {
		t.Errorf("Events: %d, %v", len(list), err)
	}
}

// TestFleetThroughTheClient calls what is not a sandbox's.
func TestFleetThroughTheClient(t *testing.T) {
	testenv.Logic(t)
	st := serve(t, "tcp")
	c, ctx := st.client(t), t.Context()
	info, err := c.Info(ctx)
	if err != nil || info.Owner != atoll.Local || len(info.Scopes) != 4 || len(info.Drivers) != 1 {
		t.Errorf("Info: %+v, %v", info, err)
	}
	tok, err := c.CreateToken(ctx, atoll.Token{Name: "ann", Owner: atoll.Owner{App: "app", User: "ann"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	if err != nil || tok.Secret == "" {
		t.Fatalf("CreateToken: %+v, %v", tok, err)
	}
	if list, err := c.Tokens(ctx); err != nil || len(list) == 0 {
		t.Errorf("Tokens: %v, %v", list, err)
	}
	ann, err := client.New(client.Options{Host: st.host, Token: tok.Secret})
	if err != nil {
		t.Fatal(err)
	}
	defer ann.Close()
	cfg := atoll.Config{Spec: atoll.Spec{Name: "anns", Labels: map[string]string{"a": "b"}}}
	sb, err := ann.CreateSandbox(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := c.Sandboxes(ctx, client.Filter{AllOwners: true, Labels: map[string]string{"a": "b"}, States: []atoll.State{atoll.Running}}); err != nil || len(list) != 1 {
		t.Errorf("Sandboxes of all owners: %v, %v", list, err)
	}
	name := "other"
	if info, err := sb.Update(ctx, atoll.Change{Name: &name}); err != nil || info.Name != name {
		t.Errorf("Update: %+v, %v", info, err)
	}
	if byName, err := ann.Open(ctx, name); err != nil || byName.ID() != sb.ID() {
		t.Errorf("Open by name: %v", err)
	}
	if _, err := sb.Snapshot(ctx, "point"); err != nil {
		t.Error(err)
	}
	if list, err := ann.Snapshots(ctx); err != nil || len(list) != 1 || list[0].Name != "point" {
		t.Errorf("Snapshots: %v, %v", list, err)
	}
	if err := c.SetQuota(ctx, atoll.Owner{App: "app", User: "ann"}, atoll.Quota{Sandboxes: 1}); err != nil {
		t.Error(err)
	}
	if a, err := ann.Quota(ctx); err != nil || a.Limit.Sandboxes != 1 || a.Used.Sandboxes != 1 {
		t.Errorf("Quota: %+v, %v", a, err)
	}
	if _, err := ann.Create(ctx, atoll.Spec{}); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("Create over quota: %v", err)
	}
	if _, err := c.SetPool(ctx, atoll.Pool{Name: "warm"}); err != nil {
		t.Error(err)
	}
	if list, err := c.Pools(ctx); err != nil || len(list) != 1 || list[0].Name != "warm" {
		t.Errorf("Pools: %v, %v", list, err)
	}
	if err := c.RemovePool(ctx, "warm"); err != nil {
		t.Error(err)
	}
	if p, err := c.Prune(ctx, client.PruneOptions{DryRun: true}); err != nil || !p.DryRun {
		t.Errorf("Prune: %+v, %v", p, err)
	}
	if _, err := c.Audit(ctx, client.AuditFilter{Limit: 10, AllOwners: true}); err != nil {
		t.Errorf("Audit: %v", err)
	}
	if _, err := ann.Audit(ctx, client.AuditFilter{AllOwners: true}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("Audit of all owners without the scope: %v", err)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if err := c.RevokeToken(ctx, tok.ID); err != nil {
		t.Error(err)
	}
	if _, err := ann.List(ctx); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("List with a revoked token: %v", err)
	}
}
