package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerHealth registers the health checks for load balancers and init systems. They need no
// token and reveal nothing else.
func (s *Server) registerHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(r.Context()); err != nil {
			writeText(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		writeText(w, http.StatusOK, "ok")
	})
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // write errors mean that the client is gone
}

// Ready reports whether the server can handle requests now. The state of the registry is cached
// for a second, so that requests can't overload it.
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
		_, r.err = s.fleet.Account(fleet.LocalCaller()).Allowance(ctx)
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
