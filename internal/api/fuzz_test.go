package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// neighbour is what another owner has and no answer may hold.
const neighbour = "neighbours-secret-thing"

// FuzzServer sends requests of any form: each is answered in time, never by a
// fault of the server (501 and 507 are what drivers and quotas say), with a whole problem where it is one, and never with what
// is another owner's.
func FuzzServer(f *testing.F) {
	h, tokens := fuzzed(f)
	for _, seed := range []struct{ method, target, header, body string }{
		{"GET", "/v1/sandboxes", "", ""},
		{"GET", "/v1/sandboxes/mine", "", ""},
		{"GET", "/v1/sandboxes/" + neighbour, "", ""},
		{"POST", "/v1/sandboxes", "Content-Type: application/json", `{"name":"box","limits":{"memory":1048576},"env":["A=b"]}`},
		{"POST", "/v1/sandboxes", "Content-Type: application/json", `{"name":1,"mounts":[{"source":"/etc","target":"/x"}]}`},
		{"PATCH", "/v1/sandboxes/mine", "Content-Type: application/json", `{"labels":{"a":"b"}}`},
		{"POST", "/v1/sandboxes/mine/exec", "Content-Type: application/json", `{"shell":"echo hi; exit 3"}`},
		{"POST", "/v1/sandboxes/mine/processes", "Content-Type: application/json", `{"args":["cat"],"detach":true}`},
		{"GET", "/v1/sandboxes/mine/exec", "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", ""},
		{"GET", "/v1/sandboxes/mine/files?path=/etc/passwd", "Range: bytes=1-5", ""},
		{"PUT", "/v1/sandboxes/mine/files?path=/tmp/a&mode=0644", "If-None-Match: *", "data"},
		{"PUT", "/v1/sandboxes/mine/archive?path=/tmp", "Content-Encoding: gzip", "\x1f\x8b\x08"},
		{"GET", "/v1/sandboxes/mine/archive?path=/etc", "Accept-Encoding: gzip", ""},
		{"GET", "/v1/sandboxes/mine/files/list?path=../..", "", ""},
		{"POST", "/v1/sandboxes/mine/fork", "Content-Type: application/json", `{"spec":{"name":"two"}}`},
		{"POST", "/v1/workspaces", "Content-Type: application/json", `{"name":"ws"}`},
		{"PUT", "/v1/workspaces/ws/files?path=/a", "", "data"},
		{"GET", "/v1/workspaces/" + neighbour + "/files?path=/a", "", ""},
		{"POST", "/v1/workspaces/prune", "Content-Type: application/json", `{"all":true}`},
		{"POST", "/v1/tokens", "Content-Type: application/json", `{"owner":{"app":"other","user":"neighbour"},"scopes":["admin"]}`},
		{"PUT", "/v1/quotas/other/neighbour", "Content-Type: application/json", `{"sandboxes":1}`},
		{"GET", "/v1/events?follow=false&all_owners=true", "Last-Event-ID: 1", ""},
		{"GET", "/v1/audit?limit=3&all_owners=true", "", ""},
		{"GET", "/metrics", "", ""},
		{"GET", "/openapi.yaml", "Accept: application/cbor", ""},
		{"POST", "/mcp", "Content-Type: application/json\nAccept: application/json, text/event-stream", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		{"OPTIONS", "*", "", ""},
	} {
		f.Add(uint8(0), seed.method, seed.target, seed.header, seed.body)
		f.Add(uint8(1), seed.method, seed.target, seed.header, seed.body)
	}
	f.Fuzz(func(t *testing.T, who uint8, method, target, header, body string) {
		r := fuzzRequest(method, target, header, body)
		if r == nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+tokens[int(who)%len(tokens)])
		ctx, cancel := context.WithTimeout(r.Context(), 200*time.Millisecond) // streams that follow go on as long as they are read
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ctx))
		checkFuzzed(t, w, target+header+body)
	})
}

// fuzzed makes a server with the things of two owners, and tokens of the one who
// calls: one that may do what owners do, one that may only look.
func fuzzed(f *testing.F) (h http.Handler, tokens []string) {
	home := f.TempDir()
	fl, err := fleet.Open(f.Context(), fleet.Options{
		Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}},
		Quota: atoll.Quota{Sandboxes: 5, Workspaces: 5, Processes: 5},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := fl.Close(context.Background()); err != nil {
			f.Error(err)
		}
	})
	admin := fl.Account(fleet.LocalCaller())
	mint := func(o atoll.Owner, scopes ...atoll.Scope) string {
		tok, err := admin.CreateToken(f.Context(), atoll.Token{Owner: o, Scopes: scopes})
		if err != nil {
			f.Fatal(err)
		}
		return tok.Secret
	}
	for _, o := range []struct {
		owner atoll.Owner
		name  string
	}{{atoll.Owner{App: "other", User: "neighbour"}, neighbour}, {atoll.Owner{App: "app", User: "me"}, "mine"}} {
		tok := mint(o.owner, atoll.ScopeRead, atoll.ScopeRun)
		caller, err := fl.Authenticate(f.Context(), tok)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := fl.Account(caller).Create(f.Context(), atoll.Config{Spec: atoll.Spec{Name: o.name, Labels: map[string]string{"name": o.name}}}); err != nil {
			f.Fatal(err)
		}
		if _, err := fl.Account(caller).CreateWorkspace(f.Context(), atoll.Workspace{Name: o.name}); err != nil {
			f.Fatal(err)
		}
		tokens = append(tokens[:0], tok, mint(o.owner, atoll.ScopeRead))
	}
	return New(Options{Fleet: fl, Limits: Limits{Rate: -1, Body: 64 << 10}}).Handler(), tokens
}

// fuzzRequest makes a request as net/http would have read it; nil: it would not.
func fuzzRequest(method, target, header, body string) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil || method == "" || strings.ContainsAny(method, " \r\n\t") || u.Host != "" || u.Opaque != "" {
		return nil
	}
	r := (&http.Request{
		Method: method, URL: u, RequestURI: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header),
		Host: "127.0.0.1", RemoteAddr: "127.0.0.1:1", Body: http.NoBody,
	}).WithContext(context.Background())
	for line := range strings.Lines(header) {
		k, v, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok || k == "" || strings.ContainsAny(k, " \t") || strings.ContainsAny(v, "\x00\r\n") {
			continue
		}
		r.Header.Add(k, strings.TrimSpace(v))
	}
	if body != "" {
		r.Body, r.ContentLength = nopCloser{bytes.NewReader([]byte(body))}, int64(len(body))
	}
	return r
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// checkFuzzed looks at an answer.
func checkFuzzed(t *testing.T, w *httptest.ResponseRecorder, sent string) {
	t.Helper()
	text := w.Body.String()
	mine := strings.Contains(sent, neighbour) || strings.Contains(sent, "neighbour")
	if !mine && strings.Contains(text, "neighbour") {
		t.Errorf("an answer holds what is another's: %s", text)
	}
	if w.Code < 200 || w.Code == http.StatusInternalServerError || w.Code > 507 || w.Code == 502 || w.Code == 504 {
		t.Errorf("status %d: %s", w.Code, text)
	}
	kind := w.Header().Get("Content-Type")
	switch {
	case w.Code >= 400 && kind == wire.ContentType:
		var p wire.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || p.Status != w.Code || p.Kind == "" || p.Title == "" || p.Detail == "" || p.Call == "" {
			t.Errorf("status %d, not a whole problem: %s", w.Code, text)
		}
	case w.Code >= 400 && !strings.HasPrefix(sent, "/mcp"):
		t.Errorf("status %d is no problem: %s %s", w.Code, kind, text)
	case kind == "application/json" && !json.Valid(w.Body.Bytes()):
		t.Errorf("status %d, not JSON: %s", w.Code, text)
	}
}
