package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// ModelAnswer is the last answer of a model's API, as the model endpoint saw it.
type ModelAnswer struct {
	Status     int `json:"status,omitempty"`      // HTTP status; 0: no request was answered
	RetryAfter int `json:"retry_after,omitempty"` // seconds until a retry; 0: unknown
}

// StopReason is why the host stopped a turn.
type StopReason struct {
	Outcome Outcome // Aborted, Timeout or BudgetExceeded
	Message string  // one line for display
}

// StopReasonOf returns the StopReason of a context that is done.
func StopReasonOf(ctx context.Context) StopReason {
	err := context.Cause(ctx)
	if errors.Is(err, atoll.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return StopReason{Timeout, err.Error()}
	}
	return StopReason{Aborted, err.Error()}
}

// Ending is what is recorded about a turn until its end. [Ending.Result] is the only function that
// decides an Outcome: for one process, for a turn with hooks, for a model without an agent, and for a turn
// whose host was killed.
type Ending struct {
	// Report is the result that the agent reported, or that an earlier Ending returned. Without
	// an Outcome there is none.
	Report Result

	Stop   *StopReason // why the host stopped the turn; nil: it did not
	Err    error       // why the turn could not go on; nil: it went on
	Answer ModelAnswer // the last one
	Budget string      // the used up budget, for display; empty: none

	// Refused means that the model endpoint refused the last request for the Budget. Otherwise the
	// agent went on within the budget, and only a failure is attributed to it.
	Refused bool

	Session string // the agent's own session id, if it is known without a Report
	Usage   Usage  // as the model endpoint counted it; used if Usage.Counted

	Exit   *int   // exit status of the process; nil: it runs, or was killed by the host
	Stderr string // last line of its standard error, for a message
}

// exitKilled is the exit status of a process that was ended by SIGKILL.
const exitKilled = 128 + 9

// Result computes how the turn ended.
func (e *Ending) Result() Result {
	r := e.Report
	switch {
	case r.Outcome == "":
		e.explainMissing(&r)
	case e.Stop != nil && r.Outcome != OK && (r.Outcome != e.Stop.Outcome || r.Message == ""):
		r.Outcome, r.Code, r.Message = e.Stop.Outcome, "", e.Stop.Message
	}
	e.applyAnswer(&r)
	if e.Budget != "" && (e.Refused || r.Outcome != OK) && (e.Stop == nil || e.Stop.Outcome == BudgetExceeded) {
		r.Outcome, r.Code, r.Message, r.Status, r.RetryAfter = BudgetExceeded, "budget", e.Budget, 0, 0
	}
	switch {
	case r.Code != "":
	case r.Outcome == Timeout:
		r.Code = "timeout"
	case r.Outcome == Aborted:
		r.Code = "aborted"
	}
	if r.Session == "" {
		r.Session = e.Session
	}
	if !isResumable(r.Session) {
		r.Session = ""
	}
	if e.Usage.Counted {
		u := e.Usage
		if r.Usage.Model != "" {
			u.Model = r.Usage.Model
		}
		r.Usage = u
	}
	return r
}

// explainMissing fills in the outcome of a turn without a report.
func (e *Ending) explainMissing(r *Result) {
	r.Outcome = Crashed
	switch {
	case e.Stop != nil:
		r.Outcome, r.Message = e.Stop.Outcome, e.Stop.Message
	case errors.Is(e.Err, ErrSessionLost):
		r.Code, r.Message = "sandbox", e.Err.Error()
	case e.Err != nil:
		r.Outcome, r.Code, r.Message = Failed, CodeOf(e.Err), e.Err.Error()
		if errors.Is(e.Err, atoll.ErrTimeout) || errors.Is(e.Err, context.DeadlineExceeded) {
			r.Outcome = Timeout
		}
	case e.Exit == nil:
		r.Message = "the agent ended without a result"
	case *e.Exit == exitKilled:
		r.Message = fmt.Sprintf("the agent was killed (SIGKILL, status %d) without a result", exitKilled)
	default:
		r.Message = fmt.Sprintf("the agent exited with status %d and without a result", *e.Exit)
		if e.Stderr != "" {
			r.Message += ": " + e.Stderr
		}
	}
}

// ownCodes are codes of failures that agents know better than the status of the model's API does.
var ownCodes = []string{"session_not_found", "max_output", "prompt_too_long", "structured_output", "program", "sandbox", "budget"}

// applyAnswer sets the cause of a failure from the last answer of the model's API.
func (e *Ending) applyAnswer(r *Result) {
	status := e.Answer.Status
	code := ErrorCode(status)
	killed := e.Report.Outcome == "" && e.Exit != nil && *e.Exit == exitKilled
	if code == "" || r.Status != 0 || slices.Contains(ownCodes, r.Code) || killed {
		return
	}
	switch r.Outcome {
	case Failed, Crashed:
		if e.Err != nil && e.Report.Outcome == "" {
			return // the sandbox failed, not the model
		}
		r.Outcome, r.Code = Failed, code
	case Timeout: // the agent repeated its requests until the deadline
		r.Code = code
		r.Message += fmt.Sprintf("; the last answer of the model's API was %d", status)
	default:
		return
	}
	if r.Message == "" {
		r.Message = fmt.Sprintf("the model's API answered %d", status)
	}
	r.Status, r.RetryAfter = status, e.Answer.RetryAfter
}

// codeByError maps errors to codes of results.
var codeByError = []struct {
	err  error
	code string
}{
	{atoll.ErrNotFound, "not_found"},
	{atoll.ErrExists, "exists"},
	{atoll.ErrInvalid, "invalid_request"},
	{atoll.ErrState, "state"},
	{atoll.ErrQuota, "quota"},
	{atoll.ErrUnsupported, "unsupported"},
	{atoll.ErrTimeout, "timeout"},
	{atoll.ErrDenied, "denied"},
	{atoll.ErrUnavailable, "unavailable"},
}

// CodeOf returns the Result.Code for an error.
func CodeOf(err error) string {
	for _, c := range codeByError {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return "internal"
}
