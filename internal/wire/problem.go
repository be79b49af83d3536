package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Problem is an error as the wire carries it: an RFC 9457 document with
// members of ours.
type Problem struct {
	Type   string   `json:"type,omitempty"` // empty: about:blank
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail,omitempty"`
	Kind   string   `json:"kind"`              // the reason, for programs
	Op     string   `json:"op,omitempty"`      // what was tried
	ID     string   `json:"id,omitempty"`      // on what
	Call   string   `json:"request,omitempty"` // the request's id, as in the server's log
	Errors []Detail `json:"errors,omitempty"`  // each single problem
}

// Detail is one of several problems.
type Detail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty"` // "body.limits.memory"
	Value    any    `json:"value,omitempty"`
}

// ContentType is that of a Problem on its own.
const ContentType = "application/problem+json"

// ProblemOf writes an error down; nil for nil.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	r := ReasonOf(err)
	p := &Problem{Title: title(r), Status: r.Status, Kind: r.Kind, Detail: err.Error()}
	var e *atoll.Error
	if errors.As(err, &e) {
		p.Op, p.ID, p.Detail = e.Op, e.ID, e.Err.Error()
	}
	if r.Err == atoll.ErrInvalid { //nolint:errorlint // it is the table's own value
		for _, part := range parts(err) {
			d := Detail{Message: part.Error()}
			if f := (*atoll.FieldError)(nil); errors.As(part, &f) {
				d.Location = f.Field
			}
			p.Errors = append(p.Errors, d)
		}
	}
	return p
}

func title(r Reason) string {
	if r.Err == nil {
		return "internal error"
	}
	return r.Err.Error()
}

// parts returns the single problems that errors.Join has put together.
func parts(err error) []error {
	for err != nil {
		if u, ok := err.(interface{ Unwrap() []error }); ok {
			var list []error
			for _, e := range u.Unwrap() {
				if e != atoll.ErrInvalid { //nolint:errorlint // it is the mark itself that is left out
					if more := parts(e); len(more) > 0 {
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

// Error returns what was tried and why it failed.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// Err returns the error that a Problem was made of, as far as the wire
// carries it: errors.Is holds for the reasons, errors.As for *atoll.Error.
func (p *Problem) Err() error {
	if p == nil {
		return nil
	}
	var err error = &remote{text: p.text(), reason: sentinel(p.Kind)}
	if p.Op != "" {
		return &atoll.Error{Op: p.Op, ID: p.ID, Err: err}
	}
	return err
}

func (p *Problem) text() string {
	text := p.Error()
	for _, d := range p.Errors {
		if d.Location != "" && !strings.Contains(text, d.Message) {
			text += fmt.Sprintf("\n%s: %s", d.Location, d.Message)
		}
	}
	return text
}

// remote is an error from the other end.
type remote struct {
	text   string
	reason error // may be nil
}

func (r *remote) Error() string { return r.text }
func (r *remote) Unwrap() error { return r.reason }
