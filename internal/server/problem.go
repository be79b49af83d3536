package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// refusal is what the server itself answers, before or instead of the fleet.
type refusal struct {
	status int
	kind   string // as in wire's table of reasons
	detail string
	header http.Header // besides; may be nil
	errs   []wire.Detail
}

func (e *refusal) Error() string { return e.detail }

// refuse makes a refusal whose kind is "invalid".
func refuse(status int, format string, a ...any) error {
	return &refusal{status: status, kind: "invalid", detail: fmt.Sprintf(format, a...)}
}

// problem is a Problem as huma answers with it.
type problem struct {
	*wire.Problem

	header http.Header
}

// GetStatus returns the HTTP status.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders returns what the answer's header has besides.
func (p *problem) GetHeaders() http.Header { return p.header }

// ContentType returns that of problems.
func (p *problem) ContentType(string) string { return wire.ContentType }

// problemOf writes an error down for the caller, and notes what operators
// want to know.
func (s *Server) problemOf(ctx context.Context, err error) *problem {
	c := callOf(ctx)
	var p *problem
	var own *refusal
	var known *problem
	switch {
	case errors.As(err, &own):
		p = &problem{&wire.Problem{Title: http.StatusText(own.status), Status: own.status, Kind: own.kind, Detail: own.detail, Errors: own.errs}, own.header}
	case errors.As(err, &known):
		return known
	default:
		p = &problem{Problem: wire.ProblemOf(err)}
	}
	switch {
	case errors.Is(err, atoll.ErrQuota):
		s.metrics.quota.Inc()
	case p.Status == http.StatusInternalServerError:
		s.log.ErrorContext(ctx, "request failed", "id", c.id, "method", c.method, "route", c.pattern, "err", err)
		p.Op, p.ID, p.Errors = "", "", nil
		p.Detail = "the server failed; its log says more under request " + c.id
	case p.Status == http.StatusServiceUnavailable && p.header == nil:
		p.header = http.Header{"Retry-After": {"1"}}
	}
	p.Call = c.id
	return p
}

// fail answers a request with a problem. Where an answer has begun already, the
// connection is broken off, so that nobody takes half of it for the whole.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problemOf(r.Context(), err)
	out, ok := w.(*writer)
	if ok && out.status != 0 {
		out.broken = true
		return
	}
	for k, v := range p.header {
		w.Header()[k] = v
	}
	h := w.Header()
	for _, k := range []string{"Content-Length", "Content-Encoding", "Content-Disposition", "Etag", "Last-Modified"} {
		h.Del(k)
	}
	if s.foreign(w, r, p) {
		return
	}
	h.Set("Content-Type", wire.ContentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.Problem) // who is gone reads no problems
}

// transform gives the problems that huma finds our form.
func (s *Server) transform(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := &wire.Problem{Title: http.StatusText(m.Status), Status: m.Status, Kind: "invalid", Detail: m.Detail}
	if c := callOf(ctx.Context()); c != nil {
		p.Call = c.id
	}
	seen := make(map[string]bool)
	for _, d := range m.Errors {
		if d.Location != "body" && seen[d.Location] { // the type is wrong and so is what the configuration made of it
			continue
		}
		seen[d.Location] = true
		p.Errors = append(p.Errors, wire.Detail{Message: d.Message, Location: d.Location, Value: shown(d)})
	}
	p.Detail = summary(p)
	return &problem{Problem: p}, nil
}

// shown returns the value of a detail, if it is short and no secret.
func shown(d *huma.ErrorDetail) any {
	for _, part := range []string{"secret", "env", "stdin"} {
		if strings.Contains(strings.ToLower(d.Location), part) {
			return nil
		}
	}
	switch v := d.Value.(type) {
	case bool, float64, int, int64:
		return v
	case string:
		if d.Location != "body" && len(v) <= 64 {
			return v
		}
	}
	return nil
}

// summary says in one line what is wrong.
func summary(p *wire.Problem) string {
	var parts []string
	for i, d := range p.Errors {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("and %d more", len(p.Errors)-i))
			break
		}
		text := d.Message
		if d.Location != "" && !strings.HasPrefix(d.Message, d.Location) {
			text = d.Location + ": " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return p.Detail
	}
	return strings.Join(parts, "; ")
}
