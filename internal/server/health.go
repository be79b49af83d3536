package server

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

// health adds what load balancers and init systems ask, without a token: it
// says nothing but yes or no.
func (s *Server) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(r.Context()); err != nil {
			say(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		say(w, http.StatusOK, "ok")
	})
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // who is gone hears nothing
}

// Ready reports why the server can't take requests now; nil: it can. What the
// registry says is true for a second, so that nobody keeps it busy by asking.
func (s *Server) Ready(ctx context.Context) error {
	if s.ending.Err() != nil {
		return fmt.Errorf("%w: the server is shutting down", atoll.ErrUnavailable)
	}
	r := &s.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) > time.Second {
		ctx, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		_, r.err = s.fleet.For(fleet.LocalCaller()).Allowance(ctx)
		if ctx.Err() == nil || r.err == nil {
			r.asked = time.Now()
		}
	}
	return r.err
}

// readyTime is how long the registry may take to answer.
const readyTime = 2 * time.Second

// readiness is whether the registry answered when it was asked last.
type readiness struct {
	mu    sync.Mutex
	asked time.Time // guarded by mu
	err   error     // guarded by mu
}
