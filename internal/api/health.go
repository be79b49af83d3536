package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerHealth registers the health checks for load balancers and init systems. They need no
// token and reveal nothing else. /readyz?exclude=space does not report a full disk, on which the
// server still reads, stops and removes.
func (s *Server) registerHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		switch err := s.Ready(r.Context()); {
		case err == nil, errors.Is(err, atoll.ErrQuota) && slices.Contains(r.URL.Query()["exclude"], "space"):
			writeText(w, http.StatusOK, "ok")
		case errors.Is(err, atoll.ErrQuota):
			writeText(w, http.StatusServiceUnavailable, "not ready: no space left on the disk of the server")
		default:
			writeText(w, http.StatusServiceUnavailable, "not ready")
		}
	})
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // write errors mean that the client is gone
}

// Ready reports whether the server can handle requests now. It returns ErrQuota if it can, but has
// no space on its disk. The result is cached for a second, so that requests can't overload the
// registry.
func (s *Server) Ready(ctx context.Context) error {
	if s.stopping.Err() != nil {
		return fmt.Errorf("%w: the server is shutting down", atoll.ErrUnavailable)
	}
	r := &s.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) > time.Second {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		if _, r.err = s.fleet.Account(fleet.LocalCaller()).Allowance(ctx); r.err == nil {
			r.err = s.fleet.CheckSpace()
		}
		if ctx.Err() == nil || r.err == nil {
			r.asked = time.Now()
		}
	}
	return r.err
}

// readyTimeout bounds the check of the registry.
const readyTimeout = 2 * time.Second

// readiness caches the last check of the registry.
type readiness struct {
	mu    sync.Mutex
	asked time.Time // guarded by mu
	err   error     // guarded by mu
}
