// Package wire holds what both ends of any wire must know: how errors, commands
// and their streams are written down.
package wire

import (
	"context"
	"errors"
	"io/fs"

	"github.com/atoll-sandbox/atoll"
)

// Reason is one kind of error: its sentinel, its name on the wire and its
// HTTP status (RFC 9110; a number, so that the guest needs no net/http).
type Reason struct {
	Err    error
	Kind   string
	Status int
}

// reasons is the one table of them; the first that matches is taken.
var reasons = []Reason{
	{atoll.ErrNotFound, "not_found", 404},
	{atoll.ErrExists, "exists", 409},
	{atoll.ErrState, "state", 409},
	{atoll.ErrDenied, "denied", 403},
	{atoll.ErrInvalid, "invalid", 422},
	{atoll.ErrQuota, "quota", 507},
	{atoll.ErrUnsupported, "unsupported", 501},
	{atoll.ErrTimeout, "timeout", 408},
	{atoll.ErrUnavailable, "unavailable", 503},
	{context.Canceled, "interrupted", 499},
	{context.DeadlineExceeded, "timeout", 408},
	{fs.ErrNotExist, "not_found", 404},
	{fs.ErrExist, "exists", 409},
	{fs.ErrPermission, "denied", 403},
}

// unknown is the reason of all other errors.
var unknown = Reason{Kind: "internal", Status: 500}

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
