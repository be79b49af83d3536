package tool

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

// TestSilentCallsAreKeptAlive: a call without progress sends heartbeats with increasing
// numbers.
func TestSilentCallsAreKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		last := -1.0
		r := &reporter{news: make(chan struct{}, 1), begun: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		go func() {
			time.Sleep(25 * time.Second)
			r.setProgress(7, 10, "seven of ten")
			time.Sleep(5 * time.Second)
			r.setProgress(3, 10, "back to three")
		}()
		r.sendLoop(ctx, func(p *mcp.ProgressNotificationParams) error {
			if p.Progress <= last {
				t.Errorf("progress %v after %v", p.Progress, last)
			}
			last = p.Progress
			told = append(told, p.Message)
			return nil
		})
		if want := []string{"at work for 10s", "at work for 20s", "seven of ten", "back to three", "at work for 40s"}; !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
	})
}

// TestIdleConnectionIsEnded: an idle server is disconnected, and connected again.
func TestIdleConnectionIsEnded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte("transport: stdio\ncommand: "+self+"\nenv: {ATOLL_TEST_TOOL_SERVER: '1'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(dir, nil, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := s.list["p"].upstream
	u.idleTime = 50 * time.Millisecond
	for range 2 {
		if tools, err := s.Tools(t.Context(), "p", nil); err != nil || len(tools) == 0 {
			t.Fatalf("%v, %v", tools, err)
		}
		u.lock <- struct{}{}
		gone, program := u.sessionEnded, u.program
		<-u.lock
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Fatal("it stays")
		}
		u.lock <- struct{}{} // once what ends it is done
		<-u.lock
		if err := program.cmd.Process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("its program goes on: %v", err)
		}
	}
}

// TestServerCanNotNameAnotherHost: secrets of a server go to it only.
func TestServerCanNotNameAnotherHost(t *testing.T) {
	u := &upstream{address: "https://mcp.example.com/sse", headers: map[string]string{"Authorization": "Bearer s3cret"}}
	for _, address := range []string{"https://evil.example/x", "https://mcp.example.com:8443/", "http://127.0.0.1/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := u.httpClient().Do(req)
		if !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
}
