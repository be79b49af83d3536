package server

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
	"time"

	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// call is one request on its way through the server.
type call struct {
	id      string // in the log, in problems and in X-Request-Id
	local   bool   // came over a socket that only people of this machine reach
	method  string
	pattern string // of the route; empty: none
	caller  fleet.Caller
	account *fleet.Account
}

// errPanic stands for what only the log says.
var errPanic = errors.New("panic")

type callKey struct{}

// callOf returns the call that a context belongs to.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// account returns the fleet as the caller of a request sees it.
func account(ctx context.Context) *fleet.Account { return callOf(ctx).account }

// answer is the one way that every request takes: who is it, may he, where to.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	s.active.enter()
	defer s.active.leave()
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
		s.recovered(out, r, recover())
		out.finish()
		s.metrics.request(r.Method, c.pattern, out.status, time.Since(begun))
		s.logRequest(r, c, out, time.Since(begun))
		if out.broken {
			panic(http.ErrAbortHandler) // net/http then closes the connection
		}
	}()
	if err := s.pass(out, r, c); err != nil {
		s.fail(out, r, err)
	}
}

// logRequest says who asked what, for those who want to know it of each.
func (s *Server) logRequest(r *http.Request, c *call, out *writer, took time.Duration) {
	if !s.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	s.log.DebugContext(r.Context(), "request", "id", c.id, "method", r.Method, "route", c.pattern, "status", out.status,
		"bytes", out.written, "took", took, "owner", c.caller.Owner.String(), "token", c.caller.Token)
}

// pass lets a request through the gates, to its route.
func (s *Server) pass(w *writer, r *http.Request, c *call) error {
	if err := s.checkSize(r); err != nil {
		return err
	}
	if !c.local {
		if err := s.checkOrigin(r); err != nil {
			return err
		}
	}
	if open(r) {
		if isPage(r) {
			c.pattern = pagePath
			s.page.ServeHTTP(w, r)
			return nil
		}
		c.pattern = r.URL.Path
		s.mux.ServeHTTP(w, r)
		return nil
	}
	before := s.bearers.now()
	if err := s.authenticate(r, c); err != nil {
		return err
	}
	if c.caller.Token != "" {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		r = r.WithContext(ctx)
		defer s.bearers.enter(ctx, c, before, func() {
			cancel(errSpent)
			w.cut()
		})()
	}
	if err := checkForm(r); err != nil {
		return err
	}
	done, err := s.callers.admit(c)
	if err != nil {
		return err
	}
	defer done()
	h, pattern := s.mux.Handler(r)
	if pattern == "" {
		return s.noRoute(h, r)
	}
	c.pattern = pattern
	if err := mayFollow(c); err != nil {
		return err
	}
	s.mux.ServeHTTP(w, r)
	return nil
}

// linkRoutes are what a token that is a link is good for. A route that is not
// here, also one that is yet to be made, is closed to it; of which sandbox and
// which terminal they are, the fleet asks.
var linkRoutes = []string{
	"GET /v1/info",
	"GET /v1/sandboxes/{id}/terminals",
	"POST /v1/sandboxes/{id}/terminals",
	"DELETE /v1/sandboxes/{id}/terminals/{terminal}",
	"GET /v1/sandboxes/{id}/terminals/{terminal}/screen",
	"POST /v1/sandboxes/{id}/terminals/{terminal}/input",
	"GET /v1/sandboxes/{id}/terminals/{terminal}/attach",
}

// mayFollow refuses a call by a link that does not lead there.
func mayFollow(c *call) error {
	if c.caller.Link == nil || slices.Contains(linkRoutes, c.pattern) {
		return nil
	}
	return &refusal{status: http.StatusForbidden, kind: "denied", detail: "the token is a link to terminals of a sandbox, and good for nothing else"}
}

// noRoute says why no route takes a request: there is none of this path, or
// none of this method.
func (s *Server) noRoute(h http.Handler, r *http.Request) error {
	seen := &blind{header: make(http.Header)}
	h.ServeHTTP(seen, r)
	if seen.status == http.StatusMethodNotAllowed {
		allow := seen.header.Get("Allow")
		return &refusal{status: seen.status, kind: "unsupported", header: http.Header{"Allow": {allow}},
			detail: fmt.Sprintf("%s %s: this path takes %s", r.Method, r.URL.Path, allow)}
	}
	return &refusal{status: http.StatusNotFound, kind: "not_found",
		detail: fmt.Sprintf("%s: there is no such path; /openapi.json lists those that there are", r.URL.Path)}
}

// blind is a ResponseWriter that keeps only the status.
type blind struct {
	header http.Header
	status int
}

func (b *blind) Header() http.Header { return b.header }

func (b *blind) WriteHeader(status int) { b.status = status }

func (b *blind) Write(p []byte) (int, error) { return len(p), nil }

// recovered turns a panic into an answer without its internals; the log has
// them.
func (s *Server) recovered(w *writer, r *http.Request, p any) {
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
	s.fail(w, r, errPanic)
}

// requestID takes over the id of a request, if it is a plain one, or makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id != "" && len(id) <= 64 && plainID(id) {
		return id
	}
	b := make([]byte, 10)
	_, _ = rand.Read(b) // never fails
	return base32.HexEncoding.EncodeToString(b)
}

func plainID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
