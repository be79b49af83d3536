package client_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	code := helpertest.Main(m)
	if err := goleak.Find(goleak.IgnoreAnyFunction("runtime.runFinalizers")); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// station is a server that listens, with a fleet behind it.
type station struct {
	fleet  *fleet.Fleet
	server *api.Server
	host   string // as a client calls it
	token  string // with all scopes; empty over a unix socket
}

// limits let a test do what it likes.
var limits = api.Limits{Rate: -1, Concurrent: -1}

// serve starts a server on a listener of a network, "unix" or "tcp".
func serve(t testing.TB, network string, drivers ...atoll.Driver) *station {
	t.Helper()
	home := t.TempDir()
	if len(drivers) == 0 {
		drivers = []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
	}
	f, err := fleet.Open(t.Context(), fleet.Options{Home: home, Drivers: drivers})
	if err != nil {
		t.Fatal(err)
	}
	st := &station{fleet: f, server: api.New(api.Options{HostID: "test", Fleet: f, Limits: limits})}
	var l net.Listener
	switch network {
	case "unix":
		path := filepath.Join(home, "atoll.sock")
		l, err = net.Listen("unix", path)
		st.host = "unix://" + path
	default:
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	if network != "unix" {
		st.host = "http://" + l.Addr().String()
		st.token = st.mint(t, atoll.Local, atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost, atoll.ScopeAdmin)
	}
	served := make(chan error, 1)
	go func() { served <- st.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := st.server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := f.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return st
}

func (st *station) mint(t testing.TB, o atoll.Owner, scopes ...atoll.Scope) string {
	t.Helper()
	tok, err := st.fleet.Account(fleet.LocalCaller()).CreateToken(t.Context(), atoll.Token{Owner: o, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return tok.Secret
}

// client returns a client of the station.
func (st *station) client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Host: st.host, Token: st.token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// sandbox returns a sandbox that is destroyed when the test ends.
func (st *station) sandbox(t testing.TB) *client.Sandbox {
	t.Helper()
	sb, err := st.client(t).CreateSandbox(t.Context(), atoll.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return sb
}

// TestSuite is the contract, over the wire.
func TestSuite(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			if network == "tcp" && (testing.Short() || !testenv.All()) {
				t.Skip("the whole suite, a second time: in the real tier")
			}
			t.Parallel() // they wait more than they work
			laws := atolltest.Laws()
			if network == "unix" {
				testenv.Logic(t)
			} else {
				laws = testenv.Sample(t, laws, len(laws)/4, "ATOLL_LAWS")
			}
			atolltest.RunLaws(t, serve(t, network).client(t), laws...)
		})
	}
}

func BenchmarkClient(b *testing.B) { atolltest.Bench(b, serve(b, "unix").client(b)) }
