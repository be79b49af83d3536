package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/daytona"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// kindOfDaytona returns the part of Daytona's API that a request calls.
func (s *Server) kindOfDaytona(r *http.Request) daytona.Kind {
	if s.daytona == nil {
		return daytona.Other
	}
	return daytona.KindOf(r)
}

// serveDaytona authenticates and answers a request to Daytona's API.
func (s *Server) serveDaytona(w *responseWriter, r *http.Request, c *call, kind daytona.Kind) error {
	if c.pattern = s.daytona.Pattern(kind, r); c.pattern == "" {
		c.pattern = unknownRoute
		s.metrics.unimplemented.WithLabelValues("daytona").Inc()
	}
	if daytona.IsEvents(r) {
		return s.daytona.ServeEvents(w, r, s.newEventLogin(w, r, c))
	}
	before := s.tokenCalls.generation()
	if err := s.authenticateDaytona(r, c); err != nil {
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
	return s.daytona.Serve(kind, w, r, c.account)
}

// newEventLogin returns the function that authenticates the caller of a stream of events, whose key comes in a
// message.
func (s *Server) newEventLogin(w *responseWriter, r *http.Request, c *call) daytona.EventLogin {
	return func(ctx context.Context, key string) (context.Context, *fleet.Account, func(), error) {
		r := r.Clone(ctx)
		r.Header.Set("Authorization", "Bearer "+key)
		before := s.tokenCalls.generation()
		if err := s.authenticateDaytona(r, c); err != nil {
			return nil, nil, nil, err
		}
		var ends []func()
		leave := func() {
			for _, end := range slices.Backward(ends) {
				end()
			}
		}
		if c.caller.Token != "" {
			limited, end := s.limitToToken(w, r, c, before)
			r, ends = limited, append(ends, end)
		}
		done, err := s.callers.admitRequest(c)
		if err == nil {
			ends = append(ends, done)
			done, err = s.callers.admitStream(c, "events")
		}
		if err != nil {
			leave()
			return nil, nil, nil, err
		}
		ends = append(ends, done)
		return r.Context(), c.account, leave, nil
	}
}

// authenticateDaytona identifies the caller by an API key, which is the secret of a token, or by the signature
// of a URL of a file. On a local socket a request without either is the local user's.
func (s *Server) authenticateDaytona(r *http.Request, c *call) error {
	key := daytona.APIKey(r)
	if key == "" && c.local && !daytona.IsSigned(r) {
		c.caller = fleet.LocalCaller()
		c.account = s.fleet.Account(c.caller)
		return nil
	}
	var caller fleet.Caller
	var err error
	if key == "" && daytona.IsSigned(r) {
		caller, err = s.daytona.AuthenticateSignature(r)
	} else {
		caller, err = s.fleet.Authenticate(r.Context(), key)
	}
	switch {
	case err == nil && caller.Link == nil:
		c.caller, c.account = caller, s.fleet.Account(caller)
		return nil
	case err != nil && !errors.Is(err, atoll.ErrDenied) && !errors.Is(err, atoll.ErrNotFound):
		return err
	}
	s.metrics.authFailures.Inc()
	if err := s.callers.recordWrongToken(r); err != nil {
		return err
	}
	return &daytona.Error{Status: http.StatusUnauthorized, Message: "Invalid credentials: 'atoll token create --daytona' creates an API key"}
}

// writeDaytonaError answers with an error in the format of Daytona's API, if the request calls it.
func (s *Server) writeDaytonaError(w http.ResponseWriter, r *http.Request, err error, p *problem) bool {
	if s.kindOfDaytona(r) == daytona.Other {
		return false
	}
	daytona.WriteError(w, r, p.Status, err, strings.TrimSpace(p.Detail))
	return true
}
