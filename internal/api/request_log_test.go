package api

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a bytes.Buffer for concurrent writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// At info, the JSON log has one line for each change, with the id of the request, and none for what only reads or
// comes often. Secrets are in none.
func TestLogOfChanges(t *testing.T) {
	log := new(lockedBuffer)
	s := newSite(t, Options{Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
	ids := make(map[string]string)
	for _, k := range []struct{ method, target, body, route string }{
		{"POST", "/v1/sandboxes", `{"name":"web","secrets":{"KEY":"hunter2"}}`, "POST /v1/sandboxes"},
		{"GET", "/v1/sandboxes/web", "", ""},
		{"POST", "/v1/sandboxes/web/exec", `{"args":["echo","hunter2"]}`, ""},
		{"POST", "/v1/sandboxes", `{"name":"web"}`, "POST /v1/sandboxes"},
		{"GET", "/v1/info", "", ""},
		{"DELETE", "/v1/sandboxes/web", "", "DELETE /v1/sandboxes/{id}"},
	} {
		a := s.do(k.method, k.target, k.body)
		if k.route != "" {
			ids[a.header.Get("X-Request-Id")] = k.route
		} else {
			ids[a.header.Get("X-Request-Id")] = ""
		}
	}
	s.client.CloseIdleConnections()
	if err := s.server.Shutdown(t.Context()); err != nil { // every request is logged when it has ended
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(log.String()) {
		var entry struct {
			Msg, ID, Route, Owner, Token, Level string
			Status                              int
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if strings.Contains(line, "hunter2") || strings.Contains(line, "atoll_") {
			t.Errorf("the log has a secret: %s", line)
		}
		if entry.Msg != "request" {
			continue
		}
		seen++
		if ids[entry.ID] != entry.Route || entry.Level != "INFO" || entry.Owner != "local/local" || entry.Token == "" || entry.Status < http.StatusOK {
			t.Errorf("logged %+v, want the route %q", entry, ids[entry.ID])
		}
	}
	if seen != 3 {
		t.Errorf("%d changes are logged, want 3:\n%s", seen, log)
	}
}
