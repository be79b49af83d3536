package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/daytona"
	"github.com/atoll-sandbox/atoll/internal/api/e2b"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// requestError is an error that the server answers itself, without the fleet.
type requestError struct {
	status int
	kind   string // as in the table of package wire
	detail string
	header http.Header // further headers; may be nil
	errs   []wire.Detail
}

func (e *requestError) Error() string { return e.detail }

// newRequestError returns a requestError of the kind "invalid".
func newRequestError(status int, format string, a ...any) error {
	return &requestError{status: status, kind: "invalid", detail: fmt.Sprintf(format, a...)}
}

// problem is a wire.Problem as an error response of huma.
type problem struct {
	*wire.Problem

	header http.Header
}

// GetStatus returns the HTTP status of the problem.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders returns the further headers of the response.
func (p *problem) GetHeaders() http.Header { return p.header }

// ContentType returns the media type of problems.
func (p *problem) ContentType(string) string { return wire.ContentType }

// problemOf converts an error to a problem for the caller. It counts quota errors and logs
// internal ones.
func (s *Server) problemOf(ctx context.Context, err error) *problem {
	c := callOf(ctx)
	var p *problem
	var own *requestError
	var known *problem
	var ofE2B *e2b.Error
	var ofDaytona *daytona.Error
	switch {
	case errors.As(err, &own):
		p = &problem{&wire.Problem{Title: http.StatusText(own.status), Status: own.status, Kind: own.kind, Detail: own.detail, Errors: own.errs}, own.header}
	case errors.As(err, &known):
		return known
	case errors.As(err, &ofE2B):
		p = &problem{Problem: &wire.Problem{Title: http.StatusText(ofE2B.Status), Status: ofE2B.Status, Kind: "invalid", Detail: ofE2B.Message}}
	case errors.As(err, &ofDaytona):
		p = &problem{Problem: &wire.Problem{Title: http.StatusText(ofDaytona.Status), Status: ofDaytona.Status, Kind: "invalid", Detail: ofDaytona.Message}}
	default:
		p = &problem{Problem: wire.ProblemOf(err)}
	}
	switch {
	case errors.Is(err, atoll.ErrQuota):
		s.metrics.quota.Inc()
	case p.Status == http.StatusInternalServerError:
		s.log.ErrorContext(ctx, "request failed", "id", c.id, "method", c.method, "route", c.pattern, "err", err)
		p.Op, p.ID, p.Errors = "", "", nil
		p.Detail = "internal error; see the server's log for request " + c.id
	case p.Status == http.StatusServiceUnavailable && p.header == nil:
		p.header = http.Header{"Retry-After": {"1"}}
	}
	p.Call = c.id
	return p
}

// writeProblem answers a request with a problem. If a response has already begun, the connection
// is aborted, so that a partial response is not taken for a complete one.
func (s *Server) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problemOf(r.Context(), err)
	out, ok := w.(*responseWriter)
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
	if s.writeDialectError(w, r, p) || s.writeDaytonaError(w, r, err, p) || s.writeE2BError(w, r, err, p) {
		return
	}
	h.Set("Content-Type", wire.ContentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.Problem) // write errors mean that the client is gone
}

// transformError converts huma's errors to problems.
func (s *Server) transformError(ctx huma.Context, _ string, v any) (any, error) {
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
		if d.Location != "body" && seen[d.Location] { // the type is wrong, and so is the configuration made of it
			continue
		}
		seen[d.Location] = true
		p.Errors = append(p.Errors, wire.Detail{Message: d.Message, Location: d.Location, Value: detailValue(d)})
	}
	p.Detail = summaryLine(p)
	return &problem{Problem: p}, nil
}

// detailValue returns the value of a detail, if it is short and no secret.
func detailValue(d *huma.ErrorDetail) any {
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

// summaryLine returns the details of a problem in one line.
func summaryLine(p *wire.Problem) string {
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
