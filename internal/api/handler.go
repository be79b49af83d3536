package api

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/api/daytona"
	"github.com/atoll-sandbox/atoll/internal/api/e2b"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// call is one request in progress.
type call struct {
	id      string // in the log, in problems and in X-Request-Id
	local   bool   // came through a local socket
	method  string
	pattern string // of the route; empty: none
	caller  fleet.Caller
	account *fleet.Account
}

// errPanic is answered in place of a panic, which only the log shows.
var errPanic = errors.New("panic")

type callKey struct{}

// callOf returns the call of a context.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// account returns the fleet as the caller of a request sees it.
func account(ctx context.Context) *fleet.Account { return callOf(ctx).account }

// serveRequest authenticates a request, authorizes it and dispatches it to its route.
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request) {
	s.active.beginRequest()
	defer s.active.endRequest()
	s.fresh.Delete(r.Context().Value(connKey{}))
	c := &call{id: requestID(r), method: r.Method, local: isLocal(r.Context())}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	out := s.newWriter(w, r)
	if out.body = s.newBody(w, r); out.body != nil {
		r.Body = out.body
	}
	out.Header().Set("X-Request-Id", c.id)
	out.Header().Set("X-Content-Type-Options", "nosniff")
	out.Header().Set("Cache-Control", "no-store")
	out.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	begun := time.Now()
	defer func() {
		s.recoverPanic(out, r, recover())
		out.finishResponse()
		s.metrics.countRequest(r.Method, c.pattern, out.status, time.Since(begun))
		s.logRequest(r, c, out, time.Since(begun))
		if out.broken {
			panic(http.ErrAbortHandler) // makes net/http close the connection
		}
	}()
	if err := s.dispatchRequest(out, r, c); err != nil {
		s.writeProblem(out, r, err)
	}
}

// frequentRoutes are changes that are logged at debug level, as what only reads: there can be thousands a second, and
// the audit has them.
var frequentRoutes = []string{
	"POST /v1/sandboxes/{id}/exec",
	"POST /v1/sandboxes/{id}/terminals/{terminal}/input",
	"POST /v1/sandboxes/{id}/processes/{process}/signal",
	"PUT /v1/sandboxes/{id}/files",
	"PUT /v1/workspaces/{name}/files",
	"POST /mcp",
}

// logLevel returns the level at which a request is logged: info for a change by a caller, debug for all others.
func logLevel(c *call) slog.Level {
	method, _, _ := strings.Cut(c.pattern, " ")
	if c.account == nil || !slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, method) || slices.Contains(frequentRoutes, c.pattern) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// logRequest logs a request, with the id that its answer and its problem have.
func (s *Server) logRequest(r *http.Request, c *call, out *responseWriter, took time.Duration) {
	level := logLevel(c)
	if !s.log.Enabled(r.Context(), level) {
		return
	}
	s.log.Log(r.Context(), level, "request", "id", c.id, "method", r.Method, "route", c.pattern, "status", out.status,
		"bytes", out.written, "took", took, "owner", c.caller.Owner.String(), "token", c.caller.Token)
}

// dispatchRequest checks a request and passes it to its route.
func (s *Server) dispatchRequest(w *responseWriter, r *http.Request, c *call) error {
	if err := s.checkSize(r); err != nil {
		return err
	}
	if !c.local {
		if err := s.checkOrigin(r); err != nil {
			return err
		}
	}
	if kind := s.kindOfDaytona(r); kind != daytona.Other {
		return s.serveDaytona(w, r, c, kind)
	}
	if kind := s.kindOfE2B(r); kind != e2b.Other {
		return s.serveE2B(w, r, c, kind)
	}
	if isPublic(r) {
		if isConsole(r) {
			c.pattern = consolePath
			s.console.ServeHTTP(w, r)
			return nil
		}
		if isLogin(r) {
			return s.serveLogin(w, r, c)
		}
		c.pattern = r.URL.Path
		s.mux.ServeHTTP(w, r)
		return nil
	}
	before := s.tokenCalls.generation()
	if err := s.authenticateCall(r, c); err != nil {
		return err
	}
	if c.caller.Token != "" {
		var leave func()
		r, leave = s.limitToToken(w, r, c, before)
		defer leave()
	}
	if err := checkEncoding(r); err != nil {
		return err
	}
	done, err := s.callers.admitRequest(c)
	if err != nil {
		return err
	}
	defer done()
	h, pattern := s.mux.Handler(r)
	if pattern == "" {
		return s.routeError(h, r)
	}
	c.pattern = pattern
	if err := checkLinkRoute(c); err != nil {
		return err
	}
	s.mux.ServeHTTP(w, r)
	return nil
}

// limitToToken makes a request end when the token of its caller becomes invalid, until leave is called.
func (s *Server) limitToToken(w *responseWriter, r *http.Request, c *call, before uint64) (_ *http.Request, leave func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	remove := s.tokenCalls.addCall(ctx, c, before, func() {
		cancel(errTokenInvalid)
		w.abort()
	})
	return r.WithContext(ctx), func() {
		remove()
		cancel(nil)
	}
}

// linkRoutes are the routes that a token that is a link may call. All others, including future
// ones, are refused. The fleet checks the sandbox and the terminal.
var linkRoutes = []string{
	"GET /v1/info",
	"GET /v1/sandboxes/{id}/terminals",
	"POST /v1/sandboxes/{id}/terminals",
	"DELETE /v1/sandboxes/{id}/terminals/{terminal}",
	"GET /v1/sandboxes/{id}/terminals/{terminal}/screen",
	"POST /v1/sandboxes/{id}/terminals/{terminal}/input",
	"GET /v1/sandboxes/{id}/terminals/{terminal}/attach",
}

// checkLinkRoute refuses a call with a link to any other route.
func checkLinkRoute(c *call) error {
	if c.caller.Link == nil || slices.Contains(linkRoutes, c.pattern) {
		return nil
	}
	return &requestError{status: http.StatusForbidden, kind: "denied", detail: "the token is a link to terminals of a sandbox and gives no other access"}
}

// routeError returns the error of a request without a route: its path is unknown, or the method is
// not allowed.
func (s *Server) routeError(h http.Handler, r *http.Request) error {
	seen := &statusRecorder{header: make(http.Header)}
	h.ServeHTTP(seen, r)
	if seen.status == http.StatusMethodNotAllowed {
		allow := seen.header.Get("Allow")
		return &requestError{
			status: seen.status, kind: "unsupported", header: http.Header{"Allow": {allow}},
			detail: fmt.Sprintf("%s %s: allowed for this path: %s", r.Method, r.URL.Path, allow),
		}
	}
	return &requestError{
		status: http.StatusNotFound, kind: "not_found",
		detail: fmt.Sprintf("%s: no such path; /openapi.json lists all paths", r.URL.Path),
	}
}

// statusRecorder is a ResponseWriter that records only the status.
type statusRecorder struct {
	header http.Header
	status int
}

func (b *statusRecorder) Header() http.Header { return b.header }

func (b *statusRecorder) WriteHeader(status int) { b.status = status }

func (b *statusRecorder) Write(p []byte) (int, error) { return len(p), nil }

// recoverPanic answers a panic with an error without details, which the log has.
func (s *Server) recoverPanic(w *responseWriter, r *http.Request, p any) {
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		w.broken = true
		return
	}
	c := callOf(r.Context())
	s.log.ErrorContext(r.Context(), "panic", "id", c.id, "method", r.Method, "route", c.pattern, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	s.metrics.panics.Inc()
	s.writeProblem(w, r, errPanic)
}

// requestID returns the id of a request's header, if it is plain, or a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id != "" && len(id) <= 64 && isPlainID(id) {
		return id
	}
	b := make([]byte, 10)
	_, _ = rand.Read(b) // never fails
	return base32.HexEncoding.EncodeToString(b)
}

func isPlainID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
