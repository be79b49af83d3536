package atoll

import (
	"errors"
	"fmt"
	"strings"
)

// The reasons for which an operation can fail. Test for them with [errors.Is]; this works
// across the network too.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("already exists")
	ErrInvalid     = errors.New("invalid")
	ErrState       = errors.New("not possible in this state")
	ErrQuota       = errors.New("over quota")
	ErrUnavailable = errors.New("unavailable")
	ErrUnsupported = errors.New("not supported")
	ErrTimeout     = errors.New("timed out")
	ErrDenied      = errors.New("denied")
)

// Error is an operation on a sandbox that failed, with the cause.
type Error struct {
	Op  string // the user's verb: "create", "exec", "import"…
	ID  string // the sandbox or other object; may be empty
	Err error  // the cause; never nil
}

// Error returns one line: the operation, its object and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.ID != "" {
		b.WriteByte(' ')
		b.WriteString(e.ID)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FieldError is a mistake in one field of a request.
type FieldError struct {
	Field string // "limits.memory", "mounts[0].target"
	Err   error  // names the field in its text; never nil
}

// Error returns the text of the cause, which names the field.
func (e *FieldError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

// newFieldError returns a FieldError with a formatted cause.
func newFieldError(field, format string, a ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, a...)}
}
