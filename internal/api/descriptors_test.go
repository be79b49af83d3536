//go:build unix

package api_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// descriptorsVar is the environment variable with the number of descriptors of a server, and
// connectionsVar that with its limit of connections.
const (
	descriptorsVar = "ATOLL_TEST_DESCRIPTORS"
	connectionsVar = "ATOLL_TEST_CONNECTIONS"
)

// limitDescriptors limits this process as descriptorsVar says, after what it has opened. Idle
// connections then stay for ever.
func limitDescriptors(l *api.Limits) (err error) {
	n, err := strconv.ParseUint(os.Getenv(descriptorsVar), 10, 31)
	if err != nil {
		return nil //nolint:nilerr // it has no such limit
	}
	l.HeaderTime = time.Hour
	l.Connections, err = strconv.Atoi(os.Getenv(connectionsVar))
	if err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}

// TestFewDescriptorsShedLoad: a server with 64 descriptors answers each request, with 503 if it has
// none for it, while idle connections occupy all that it gives away.
func TestFewDescriptorsShedLoad(t *testing.T) {
	for name, connections := range map[string]string{"DefaultLimitOfConnections": "0", "NoLimitOfConnections": "-1"} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			v := startVictim(t, home, descriptorsVar+"=64", connectionsVar+"="+connections)
			defer v.kill(t)
			v.await(t)
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
			defer cancel()
			var dialer net.Dialer
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", filepath.Join(home, "atoll.sock"))
			}
			for range 80 {
				c, err := dial(ctx, "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
			refused := 0
			for range 20 {
				refused += requestOnce(ctx, t, dial)
			}
			if refused == 0 {
				t.Error("no request was refused: this shows nothing")
			}
		})
	}
}

// requestOnce sends a request on a connection of its own. It returns 1 if the server refused it.
func requestOnce(ctx context.Context, t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) int {
	t.Helper()
	tr := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://atoll/v1/sandboxes", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if ctx.Err() != nil {
		t.Fatalf("a request has no answer: %v", err)
	}
	if err != nil {
		return 1 // the server has closed the connection
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode == http.StatusOK && err == nil:
		return 0
	case resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), `"kind":"unavailable"`):
		return 1
	}
	t.Fatalf("%d %s, %v", resp.StatusCode, body, err)
	return 0
}
