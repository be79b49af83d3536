package fleet

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// TestNetworkRulesStay: changed rules apply after stop and start and in the next fleet,
// and are in the registry.
func TestNetworkRulesStay(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, atoll.Config{
		Spec:      atoll.Spec{Name: "box", Network: atoll.Network{Allow: []string{"example.com"}}},
		Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent},
	})
	after, err := sb.ChangeNetwork(t.Context(), wire.NetworkChange{Allow: []string{"example.org:443"}, Deny: []string{"example.com"}})
	want := atoll.Network{Allow: []string{"example.org:443"}, Deny: []string{"example.com"}}
	if err != nil || !reflect.DeepEqual(after, want) {
		t.Fatalf("%+v, %v", after, err)
	}
	if got := d.stateOf(sb.ID()).rules; !reflect.DeepEqual(got, want) {
		t.Errorf("in force: %+v", got)
	}
	if _, err := sb.ChangeNetwork(t.Context(), wire.NetworkChange{Remove: []string{"example.net"}}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("removing what is not there: %v", err)
	}
	if err := sb.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeFleet(t, f)
	d.stateOf(sb.ID()).rules = atoll.Network{} // as if another process had changed them
	f = openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	if sb, err = f.Account(LocalCaller()).Open(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if err := sb.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.stateOf(sb.ID()).rules; !reflect.DeepEqual(got, want) {
		t.Errorf("in force after the start: %+v", got)
	}
	if n, err := sb.Network(t.Context()); err != nil || !reflect.DeepEqual(n, want) {
		t.Errorf("shown: %+v, %v", n, err)
	}
}

// TestAllowForATime: an entry with an end is in the rules until the first change after it; a longer or
// permanent permission is not shortened.
func TestAllowForATime(t *testing.T) {
	now := time.Now().Truncate(time.Second).UTC()
	d := newDetachingDriver(t.TempDir())
	f := openFleet(t, Options{Home: t.TempDir(), Drivers: []atoll.Driver{d}, Now: func() time.Time { return now }})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Spec: atoll.Spec{Name: "box", Network: atoll.Network{Allow: []string{"always.com"}}}})
	change := func(c wire.NetworkChange, want atoll.Network) {
		t.Helper()
		got, err := sb.ChangeNetwork(t.Context(), c)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, %v; want %+v", c, got, err, want)
		}
		if in := d.stateOf(sb.ID()).rules; !reflect.DeepEqual(in, want) {
			t.Errorf("%+v: in force %+v", c, in)
		}
	}
	begun := now
	until := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	change(wire.NetworkChange{Allow: []string{"once.com", "always.com"}, Seconds: 600}, atoll.Network{Allow: []string{"once.com", "always.com"}, Until: map[string]time.Time{"once.com": until(600)}})
	change(wire.NetworkChange{Allow: []string{"ONCE.com"}, Seconds: 60}, atoll.Network{Allow: []string{"always.com", "ONCE.com"}, Until: map[string]time.Time{"ONCE.com": until(600)}})
	change(wire.NetworkChange{Allow: []string{"other.com"}, Seconds: 1000}, atoll.Network{Allow: []string{"always.com", "ONCE.com", "other.com"}, Until: map[string]time.Time{"ONCE.com": until(600), "other.com": until(1000)}})
	now = now.Add(600 * time.Second)
	change(wire.NetworkChange{Deny: []string{"bad.com"}}, atoll.Network{Allow: []string{"always.com", "other.com"}, Deny: []string{"bad.com"}, Until: map[string]time.Time{"other.com": until(1000)}})
	change(wire.NetworkChange{Allow: []string{"other.com"}}, atoll.Network{Allow: []string{"always.com", "other.com"}, Deny: []string{"bad.com"}})
}

// TestNetworkRulesFailClosed: if a driver refuses rules, the former ones apply; if they
// can't be applied at start, the sandbox stays stopped.
func TestNetworkRulesFailClosed(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Spec: atoll.Spec{Network: atoll.Network{Deny: []string{"example.com"}}}})
	boom := errors.New("boom")
	d.stateOf(sb.ID()).refuse = boom
	if _, err := sb.ChangeNetwork(t.Context(), wire.NetworkChange{Allow: []string{"example.org"}}); !errors.Is(err, boom) {
		t.Errorf("change: %v", err)
	}
	if n, err := sb.Network(t.Context()); err != nil || len(n.Allow) != 0 {
		t.Errorf("after a change that failed: %+v, %v", n, err)
	}
	if err := sb.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sb.Start(t.Context()); !errors.Is(err, boom) {
		t.Errorf("start: %v", err)
	}
	if r := readRow(t, f, sb.ID()); r.state != atoll.Stopped {
		t.Errorf("after a start without rules it is %s", r.state)
	}
}

// TestNetworkHeadersAreSecret: only the driver gets the value of a header. It is not in
// commands, answers of the registry or the log of connections.
func TestNetworkHeadersAreSecret(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	cfg := atoll.Config{
		Spec: atoll.Spec{Network: atoll.Network{Inspect: true, Headers: []atoll.Header{
			{Host: "api.example.com", Name: "Authorization", Value: "Bearer ${API_TOKEN}"}, {Host: "b.example.com", Name: "X-Key", Value: "literal-one"},
		}}},
		Secrets: map[string]string{"API_TOKEN": "sesame-open", "OTHER": "inside-too"},
	}
	sb := mustCreate(t, a, cfg)
	headers := d.stateOf(sb.ID()).rules.Headers
	if headers[0].Value != "Bearer sesame-open" || headers[1].Value != "literal-one" {
		t.Errorf("the driver got %+v", headers)
	}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "env; echo sesame-open literal-one >&2"})
	if err != nil || strings.Contains(string(exit.Stdout), "sesame") || !strings.Contains(string(exit.Stdout), "inside-too") {
		t.Errorf("inside: %s, %v", exit.Stdout, err)
	}
	info, err := sb.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range info.Config.Network.Headers {
		if h.Value != hidden {
			t.Errorf("shown: %+v", h)
		}
	}
	hist, err := sb.History(t.Context())
	if err != nil || len(hist) != 1 || strings.Contains(hist[0].Command+hist[0].Stderr, "sesame") || strings.Contains(hist[0].Stderr, "literal") {
		t.Errorf("history: %+v, %v", hist, err)
	}
	log, err := sb.Connections(t.Context())
	if err != nil || len(log) != 2 || strings.Contains(log[0].Path+log[1].Path, "sesame") || strings.Contains(log[1].Path, "literal") {
		t.Errorf("connections: %+v, %v", log, err)
	}

	n := info.Config.Network // as it is shown: what is hidden stays
	n.Allow = []string{"example.com"}
	if err := sb.SetNetwork(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if got := d.stateOf(sb.ID()).rules; got.Headers[0].Value != "Bearer sesame-open" || len(got.Allow) != 1 {
		t.Errorf("after SetNetwork the driver has %+v", got)
	}
	n.Headers = append(n.Headers, atoll.Header{Host: "c.example.com", Name: "X", Value: hidden})
	if err := sb.SetNetwork(t.Context(), n); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a hidden value that was never there: %v", err)
	}
	cfg.Network.Headers[0].Value = "${NOBODY}"
	if _, err := a.Create(t.Context(), cfg); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a secret that there is not: %v", err)
	}
}

// TestNetworkChangeNeedsTheScope: a caller that can't create a sandbox with the host's
// network can't change the rules of one to reach it.
func TestNetworkChangeNeedsTheScope(t *testing.T) {
	home := t.TempDir()
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{newDetachingDriver(home + "/sandboxes")}})
	a := f.Account(Caller{Owner: atoll.Owner{App: "a", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	sb := mustCreate(t, a, atoll.Config{})
	for _, entry := range []string{"127.0.0.1:80", "localhost", "169.254.169.254", "10.0.0.1"} {
		if _, err := sb.ChangeNetwork(t.Context(), wire.NetworkChange{Allow: []string{entry}}); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("allow %s: %v", entry, err)
		}
		if err := sb.SetNetwork(t.Context(), atoll.Network{Allow: []string{entry}}); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("set %s: %v", entry, err)
		}
	}
	if err := sb.SetNetwork(t.Context(), atoll.Network{Mode: atoll.NetworkOpen}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("another mode: %v", err)
	}
	if _, err := sb.ChangeNetwork(t.Context(), wire.NetworkChange{Allow: []string{"example.com"}}); err != nil {
		t.Errorf("allow example.com: %v", err)
	}
	reader := f.Account(Caller{Owner: atoll.Owner{App: "a", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRead}})
	same, err := reader.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := same.ChangeNetwork(t.Context(), wire.NetworkChange{Allow: []string{"example.org"}}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("with the scope read: %v", err)
	}
	if c, err := same.CheckNetwork(t.Context(), "example.com"); err != nil || !c.Allowed {
		t.Errorf("asking with the scope read: %+v, %v", c, err)
	}
}
