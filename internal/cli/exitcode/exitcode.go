// Package exitcode defines the exit statuses of atoll. All commands keep them;
// docs/exit-codes.md and 'atoll help exit-codes' show them to users.
package exitcode

import (
	"context"
	"errors"
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// Exit statuses of atoll itself. A command that runs another one in a sandbox ends
// with the status of that command: its own, 126 if it cannot be executed, 127 if it is
// not found, 128+N if signal N killed it.
const (
	OK          = 0   // done, or there was nothing to do
	Problems    = 1   // a check found problems or differences, or an agent's turn failed
	Usage       = 2   // the command line or the configuration is not valid
	Refused     = 3   // atoll refused, since work would be lost; nothing has changed
	Timeout     = 124 // a deadline passed
	Failed      = 125 // atoll could not do what was asked
	Interrupted = 130 // Ctrl-C
	BrokenPipe  = 141 // the reader of the output is gone
)

// Help is the table of exit statuses for users.
const Help = `Exit statuses of all commands:

    0  done, or there was nothing to do
    1  problems, differences or conflicts were found, or an agent's turn failed
    2  usage error: the command line or the configuration is not valid
    3  refused, since work would be lost; nothing has changed
  124  a deadline passed
  125  atoll could not do what was asked
  130  interrupted, by Ctrl-C or a signal
  141  the reader of the output is gone

'atoll run', 'exec', 'attach', 'shell' and 'ssh' exit with the status of the
command that they run:

       its own status
  126  it cannot be executed
  127  it was not found
128+N  signal N killed it
`

// Of returns the exit status for an error that a command returned.
func Of(err error) int {
	var silent Silent
	var coded Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &silent):
		return int(silent)
	case errors.As(err, &coded):
		return coded.Code
	case errors.Is(err, atoll.ErrTimeout):
		return Timeout
	case errors.Is(err, atoll.ErrInvalid):
		return Usage
	}
	return Failed
}

// FromExit returns the error with which atoll ends after a command in a sandbox: err,
// or the command's exit status; nil if that is 0.
func FromExit(exit atoll.Exit, err error) error {
	switch {
	case err != nil:
		return err
	case exit.Code != 0:
		return Silent(exit.Code)
	}
	return nil
}

// Silent is an error that sets the exit status and prints nothing.
type Silent int

func (s Silent) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// Error is an error with an exit status of its own. With the status OK it is a notice:
// there was nothing to do.
type Error struct {
	error

	Code int
}

// Unwrap returns the error without the status.
func (e Error) Unwrap() error { return e.error }

// With gives an error an exit status; nil stays nil.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return Error{err, code}
}

// IsNotice reports whether err means that there was nothing to do.
func IsNotice(err error) bool {
	var coded Error
	return errors.As(err, &coded) && coded.Code == OK
}

// kinds are the names of errors in JSON.
var kinds = []struct {
	err  error
	name string
}{
	{atoll.ErrNotFound, "not_found"},
	{atoll.ErrExists, "exists"},
	{atoll.ErrInvalid, "invalid"},
	{atoll.ErrState, "state"},
	{atoll.ErrQuota, "quota"},
	{atoll.ErrUnavailable, "unavailable"},
	{atoll.ErrUnsupported, "unsupported"},
	{atoll.ErrTimeout, "timeout"},
	{atoll.ErrDenied, "denied"},
	{context.Canceled, "interrupted"},
}

// KindOf returns the name of an error's kind in JSON; "error" if it has none.
func KindOf(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "error"
}
