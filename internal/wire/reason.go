// Package wire defines the formats that both ends of a connection share: errors, commands and their
// streams.
package wire

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/atoll-sandbox/atoll"
)

// Reason is one kind of error: its sentinel, its name on the wire and its HTTP status (RFC 9110; a
// number, so that the guest does not need net/http).
type Reason struct {
	Err    error
	Kind   string
	Status int
}

// reasons is the only table of reasons. The first match counts.
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
	{syscall.ENOSPC, "quota", 507},
	{syscall.EDQUOT, "quota", 507},
	{syscall.EMFILE, "unavailable", 503},
	{syscall.ENFILE, "unavailable", 503},
	{fs.ErrNotExist, "not_found", 404},
	{fs.ErrExist, "exists", 409},
	{fs.ErrPermission, "denied", 403},
}

// internalError is the reason of all other errors.
var internalError = Reason{Kind: "internal", Status: 500}

// ReasonOf returns the reason of an error that is not nil.
func ReasonOf(err error) Reason {
	for _, r := range reasons {
		if errors.Is(err, r.Err) {
			return r
		}
	}
	return internalError
}

// sentinelOf returns the sentinel of a kind, or nil if it is unknown.
func sentinelOf(kind string) error {
	for _, r := range reasons {
		if r.Kind == kind {
			return r.Err
		}
	}
	return nil
}
