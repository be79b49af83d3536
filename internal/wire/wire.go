// Package wire holds what both ends of any wire must know: how errors, commands
// and their streams are written down.
package wire

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// Reason is one kind of error: its sentinel, its name on the wire and its
// HTTP status.
type Reason struct {
	Err    error
	Kind   string
	Status int
}

// reasons is the one table of them; the first that matches is taken.
var reasons = []Reason{
	{atoll.ErrNotFound, "not_found", http.StatusNotFound},
	{atoll.ErrExists, "exists", http.StatusConflict},
	{atoll.ErrState, "state", http.StatusConflict},
	{atoll.ErrDenied, "denied", http.StatusForbidden},
	{atoll.ErrInvalid, "invalid", http.StatusUnprocessableEntity},
	{atoll.ErrQuota, "quota", http.StatusInsufficientStorage},
	{atoll.ErrUnsupported, "unsupported", http.StatusNotImplemented},
	{atoll.ErrTimeout, "timeout", http.StatusRequestTimeout},
	{atoll.ErrUnavailable, "unavailable", http.StatusServiceUnavailable},
	{context.Canceled, "interrupted", 499},
	{context.DeadlineExceeded, "timeout", http.StatusRequestTimeout},
	{fs.ErrNotExist, "not_found", http.StatusNotFound},
	{fs.ErrExist, "exists", http.StatusConflict},
	{fs.ErrPermission, "denied", http.StatusForbidden},
}

// unknown is the reason of all other errors.
var unknown = Reason{Kind: "internal", Status: http.StatusInternalServerError}

// ReasonOf returns the reason of an error that is not nil.
func ReasonOf(err error) Reason {
	for _, r := range reasons {
		if errors.Is(err, r.Err) {
			return r
		}
	}
	return unknown
}

// sentinel returns the error that a kind stands for; nil for an unknown one.
func sentinel(kind string) error {
	for _, r := range reasons {
		if r.Kind == kind {
			return r.Err
		}
	}
	return nil
}
