package server

import (
	"context"
	"io"
	"net/http"
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

// Ready reports why the server can't take requests now; nil: it can.
func (s *Server) Ready(ctx context.Context) error {
	if err := s.ending.Err(); err != nil {
		return err
	}
	return nil
}
