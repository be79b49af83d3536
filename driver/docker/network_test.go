package docker_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/egress"
)

// startWebsite returns the port of a server of this host's loopback.
func startWebsite(t *testing.T, says string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(says + r.Header.Get("X-Key") + "\n"))
	}))
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestGate(t *testing.T) {
	d := newDriver(t)
	yes, no := egress.HostName+":"+startWebsite(t, "allowed "), egress.HostName+":"+startWebsite(t, "denied ")
	sb := createTestSandbox(t, d, atoll.Spec{Network: atoll.Network{Allow: []string{yes}, Headers: []atoll.Header{{Host: "http://" + yes, Name: "X-Key", Value: "secret-key"}}}})
	get := func(sb atoll.Sandbox, at string) string {
		t.Helper()
		return runShell(t, sb, atoll.Cmd{Shell: "unset http_proxy HTTP_PROXY all_proxy ALL_PROXY; wget -q -O - http://" + at + "/ 2>&1"})
	}
	if got := get(sb, yes); got != "allowed secret-key\n" {
		t.Errorf("an allowed host, through the redirect: %q", got)
	}
	if got := runShell(t, sb, atoll.Cmd{Shell: "wget -q -O - http://" + yes + "/"}); got != "allowed secret-key\n" {
		t.Errorf("an allowed host, through the proxy: %q", got)
	}
	if got := get(sb, no); strings.Contains(got, "denied ") {
		t.Errorf("a host that is not allowed: %q", got)
	}
	for _, at := range []string{"169.254.169.254", "192.0.2.1", "10.0.0.1:80", "example.com"} {
		if got := get(sb, at); !strings.Contains(got, "wget:") {
			t.Errorf("%s: %q", at, got)
		}
	}
	if env := runShell(t, sb, atoll.Cmd{Shell: "env; cat /etc/resolv.conf"}); strings.Contains(env, "secret-key") || !strings.Contains(env, "nameserver 127.0.0.1") {
		t.Errorf("inside there is %s", env)
	}
	list, err := atoll.Connections(t.Context(), sb)
	if err != nil || len(list) < 3 {
		t.Errorf("connections: %+v, %v", list, err)
	}
	if c, err := atoll.CheckNetwork(t.Context(), sb, no); err != nil || c.Allowed {
		t.Errorf("CheckNetwork: %+v, %v", c, err)
	}
	if err := atoll.SetNetwork(t.Context(), sb, atoll.Network{Allow: []string{no}}); err != nil {
		t.Fatal(err)
	}
	if got := get(sb, no); got != "denied \n" {
		t.Errorf("what is allowed now: %q", got)
	}
	if got := get(sb, yes); strings.HasPrefix(got, "allowed ") {
		t.Errorf("what is no longer allowed: %q", got)
	}
	for what, f := range map[string]func() error{
		"a stop and a start": func() error { return errors.Join(atoll.Stop(t.Context(), sb), atoll.Start(t.Context(), sb)) },
		"a snapshot and a return": func() error {
			_, err := atoll.Snapshot(t.Context(), sb, "")
			return errors.Join(err, restoreNewest(t, sb))
		},
	} {
		if err := f(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := get(sb, no); got != "denied \n" {
			t.Errorf("after %s: %q", what, got)
		}
	}
}

// restoreNewest restores the newest snapshot.
func restoreNewest(t *testing.T, sb atoll.Sandbox) error {
	t.Helper()
	list, err := atoll.Snapshots(t.Context(), sb)
	if err != nil {
		return err
	}
	return atoll.Restore(t.Context(), sb, list[len(list)-1].ID)
}

// TestNetworkRulesForRunningSandbox gives rules to a running sandbox without a network.
func TestNetworkRulesForRunningSandbox(t *testing.T) {
	d := newDriver(t)
	at := egress.HostName + ":" + startWebsite(t, "hello")
	sb := createTestSandbox(t, d, atoll.Spec{})
	get := atoll.Cmd{Shell: "wget -q -O - http://" + at + "/ 2>&1"}
	if got := runShell(t, sb, get); strings.Contains(got, "hello") {
		t.Errorf("without a network: %q", got)
	}
	if list, err := atoll.Connections(t.Context(), sb); err != nil || len(list) > 0 {
		t.Errorf("connections: %+v, %v", list, err)
	}
	other, err := (&docker.Driver{Host: d.Host, Dir: d.Dir}).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := atoll.SetNetwork(t.Context(), other, atoll.Network{Allow: []string{at}}); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, get); got != "hello\n" {
		t.Errorf("with one: %q", got)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(d.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
