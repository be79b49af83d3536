package namespace_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
)

// startSite starts a server on a loopback address of this host.
func startSite(t *testing.T, text string) (port string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	t.Cleanup(s.Close)
	return s.URL[strings.LastIndexByte(s.URL, ':')+1:]
}

// TestGate checks that a program without proxy support reaches what is allowed through the egress proxy, and
// nothing else, also after a restart.
func TestGate(t *testing.T) {
	yes, no := egress.HostName+":"+startSite(t, "allowed"), egress.HostName+":"+startSite(t, "denied")
	sb, err := newDriver(t).Create(t.Context(), atoll.Spec{Network: atoll.Network{Allow: []string{yes}}})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(context.WithoutCancel(t.Context()))
	get := func(at string) string {
		t.Helper()
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"curl", "-sS", "--max-time", "20", "--noproxy", "*", "http://" + at + "/"}})
		if err != nil {
			t.Fatal(err)
		}
		return string(exit.Stdout)
	}
	if got := get(yes); got != "allowed" {
		t.Errorf("what is allowed: %q", got)
	}
	if got := get(no); strings.Contains(got, "denied") && !strings.Contains(got, "atoll") {
		t.Errorf("what is not allowed: %q", got)
	}
	if err := atoll.SetNetwork(t.Context(), sb, atoll.Network{Allow: []string{no}}); err != nil {
		t.Fatal(err)
	}
	if got := get(no); got != "denied" {
		t.Errorf("what is allowed now: %q", got)
	}
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if err := atoll.Start(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if got := get(no); got != "denied" {
		t.Errorf("after a restart: %q", got)
	}
	list, err := atoll.Connections(t.Context(), sb)
	if err != nil || len(list) == 0 {
		t.Errorf("connections: %v, %v", list, err)
	}
}
