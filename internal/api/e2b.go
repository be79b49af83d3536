package api

import (
	"errors"
	"net/http"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/daytona"
	"github.com/atoll-sandbox/atoll/internal/api/e2b"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// unknownRoute is the pattern of requests to a vendor's API for which atoll has no route.
const unknownRoute = "unknown"

// E2BServices returns handlers of requests to sandboxes by their host names, PORT-ID.DOMAIN, by port; nil
// if E2B's API is not served.
func (s *Server) E2BServices() map[int]http.Handler {
	if s.e2b == nil {
		return nil
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("E2b-Sandbox-Id", proxy.ServiceName(r.Context()))
		r.Host = "" // the proxy has checked it
		s.serveRequest(w, r)
	})
	services := make(map[int]http.Handler)
	for _, port := range e2b.Ports {
		services[port] = h
	}
	return services
}

// PortKeyNames returns where clients of the vendors' APIs that are served send port keys of sandboxes.
func (s *Server) PortKeyNames() preview.KeyNames {
	var names preview.KeyNames
	if s.e2b != nil {
		names.Headers = append(names.Headers, e2b.TrafficHeader)
	}
	if s.daytona != nil {
		names.Headers = append(names.Headers, daytona.PreviewHeader)
		names.Params = append(names.Params, daytona.PreviewParam)
	}
	return names
}

// kindOfE2B returns the part of E2B's API that a request calls.
func (s *Server) kindOfE2B(r *http.Request) e2b.Kind {
	if s.e2b == nil {
		return e2b.Other
	}
	return e2b.KindOf(r)
}

// serveE2B authenticates and answers a request to E2B's API.
func (s *Server) serveE2B(w *responseWriter, r *http.Request, c *call, kind e2b.Kind) error {
	if c.pattern = s.e2b.Pattern(kind, r); c.pattern == "" {
		c.pattern = unknownRoute
		s.metrics.unimplemented.WithLabelValues("e2b").Inc()
	}
	before := s.tokenCalls.generation()
	var err error
	if kind == e2b.Data {
		err = s.authenticateE2BSandbox(r, c)
	} else {
		err = s.authenticateE2BKey(r, c)
	}
	if err != nil {
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
	return s.e2b.Serve(kind, w, r, c.account)
}

// authenticateE2BKey identifies the caller of the control API by an API key, which is the secret of a token.
// On a local socket a request without a key is the local user's.
func (s *Server) authenticateE2BKey(r *http.Request, c *call) error {
	key := e2b.APIKey(r)
	if key == "" && c.local {
		c.caller = fleet.LocalCaller()
		c.account = s.fleet.Account(c.caller)
		return nil
	}
	caller, err := s.fleet.Authenticate(r.Context(), key)
	switch {
	case err == nil && caller.Link == nil:
		c.caller, c.account = caller, s.fleet.Account(caller)
		return nil
	case err != nil && !errors.Is(err, atoll.ErrDenied):
		return err
	}
	s.metrics.authFailures.Inc()
	if err := s.callers.recordWrongToken(r); err != nil {
		return err
	}
	return &e2b.Error{Status: http.StatusUnauthorized, Message: "Invalid API key: 'atoll token create --e2b' creates one"}
}

// authenticateE2BSandbox identifies the caller of a sandbox. A sandbox that does not exist, that was
// destroyed, or that the caller may not reach gives the same answer.
func (s *Server) authenticateE2BSandbox(r *http.Request, c *call) error {
	caller, err := s.e2b.Authenticate(r)
	switch {
	case err == nil:
		c.caller, c.account = caller, s.fleet.Account(caller)
		return nil
	case errors.Is(err, atoll.ErrDenied):
		s.metrics.authFailures.Inc()
		if err := s.callers.recordWrongToken(r); err != nil {
			return err
		}
	case !errors.Is(err, atoll.ErrNotFound):
		return err
	}
	return e2b.DeadSandbox(r.Header.Get("E2b-Sandbox-Id"))
}

// writeE2BError answers with an error in the format of E2B's API, if the request calls it.
func (s *Server) writeE2BError(w http.ResponseWriter, r *http.Request, err error, p *problem) bool {
	if s.kindOfE2B(r) == e2b.Other {
		return false
	}
	e2b.WriteError(w, r, p.Status, err, p.Detail)
	return true
}
