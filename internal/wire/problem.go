package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Problem is an error in JSON: an RFC 9457 document with further members.
type Problem struct {
	Type   string   `json:"type,omitempty"` // empty: about:blank
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail,omitempty"`
	Kind   string   `json:"kind"`              // the reason, machine-readable
	Op     string   `json:"op,omitempty"`      // the operation
	ID     string   `json:"id,omitempty"`      // the object of the operation
	Call   string   `json:"request,omitempty"` // id of the request, as in the server's log
	Errors []Detail `json:"errors,omitempty"`  // every single mistake in a request
}

// Detail describes one mistake in a request.
type Detail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty"` // "body.limits.memory"
	Value    any    `json:"value,omitempty"`
}

// ContentType is the media type of a Problem.
const ContentType = "application/problem+json"

// ProblemOf converts an error; nil for nil.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	r := ReasonOf(err)
	p := &Problem{Title: titleOf(r), Status: r.Status, Kind: r.Kind, Detail: err.Error()}
	var e *atoll.Error
	if errors.As(err, &e) {
		p.Op, p.ID, p.Detail = e.Op, e.ID, e.Err.Error()
	}
	if r.Err == atoll.ErrInvalid { //nolint:errorlint // a value of the table
		for _, part := range splitErrors(err) {
			d := Detail{Message: part.Error()}
			if f := (*atoll.FieldError)(nil); errors.As(part, &f) {
				d.Location = f.Field
			}
			p.Errors = append(p.Errors, d)
		}
	}
	return p
}

func titleOf(r Reason) string {
	if r.Err == nil {
		return "internal error"
	}
	return r.Err.Error()
}

// splitErrors returns the single errors that errors.Join has joined.
func splitErrors(err error) []error {
	for err != nil {
		if u, ok := err.(interface{ Unwrap() []error }); ok {
			var list []error
			for _, e := range u.Unwrap() {
				if e != atoll.ErrInvalid { //nolint:errorlint // the sentinel itself is left out
					if more := splitErrors(e); len(more) > 0 {
						list = append(list, more...)
					} else {
						list = append(list, e)
					}
				}
			}
			return list
		}
		err = errors.Unwrap(err)
	}
	return nil
}

// Error returns the detail, or the title if there is none.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// Err converts back to an error: errors.Is works for the reasons, errors.As for *atoll.Error.
func (p *Problem) Err() error {
	if p == nil {
		return nil
	}
	var err error = &remoteError{text: p.fullText(), reason: sentinelOf(p.Kind)}
	if p.Op != "" {
		return &atoll.Error{Op: p.Op, ID: p.ID, Err: err}
	}
	return err
}

func (p *Problem) fullText() string {
	text := p.Error()
	for _, d := range p.Errors {
		if d.Location != "" && !strings.Contains(text, d.Message) {
			text += fmt.Sprintf("\n%s: %s", d.Location, d.Message)
		}
	}
	return text
}

// remoteError is an error from the other end.
type remoteError struct {
	text   string
	reason error // may be nil
}

func (r *remoteError) Error() string { return r.text }
func (r *remoteError) Unwrap() error { return r.reason }
