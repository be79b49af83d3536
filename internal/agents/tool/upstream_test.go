package tool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestMissingServerCostsNothing checks that a request does not wait for a server that was missing before: another attempt runs in the
// background.
func TestMissingServerCostsNothing(t *testing.T) {
	asked, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		once.Do(func() { close(asked) })
		<-held
	}))
	defer hanging.Close()
	defer close(held)
	missing := fmt.Errorf("%w: server s: %w", atoll.ErrUnavailable, exec.ErrNotFound)
	u := &upstream{
		name: "s", transport: "streamable-http", address: hanging.URL, idleTime: time.Hour, limit: time.Hour, lock: make(chan struct{}, 1),
		progress: make(map[string]func(float64, float64, string)), lastErr: missing, failed: time.Now().Add(-time.Hour),
	}
	for range 3 { // the server hangs until the test ends: a wait for it would not end
		if _, err := u.listTools(t.Context()); !errors.Is(err, missing) {
			t.Errorf("listing its tools: %v", err)
		}
	}
	<-asked
	if got := Reason(missing); got != "its program is not installed" {
		t.Errorf("the reason is %q", got)
	}
}

// TestReasonHasNoSecrets checks that the reason for users has nothing of the operator's address.
func TestReasonHasNoSecrets(t *testing.T) {
	_, err := (&http.Client{}).Get("http://127.0.0.1:1/?token=s3cret") //nolint:noctx,bodyclose // it fails
	for _, err := range []error{err, errors.New("GET https://x/?token=s3cret: 401"), context.DeadlineExceeded} {
		if r := Reason(err); r == "" || strings.Contains(r, "s3cret") || strings.Contains(r, "127.0.0.1") {
			t.Errorf("%v: %q", err, r)
		}
	}
}
