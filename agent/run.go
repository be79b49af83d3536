package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Job is a turn, the sandbox it runs in and the services it uses.
type Job struct {
	Sandbox atoll.Sandbox
	Agent   Agent
	Turn    Turn

	Dir   string // the workspace inside; empty: the sandbox's directory
	State string // directory inside for the agents' own state, one subdirectory each; empty: /var/tmp/atoll

	// Once ends the process after the first prompt; its result is the last
	// event. Without it, the session accepts further prompts if the agent does.
	Once bool

	// Journal is a directory of the host in which the session stores what another
	// process needs to continue it by [ResumeSession]; the caller removes it. It
	// requires a sandbox that is an atoll.CommandResumer. A context whose cause is
	// atoll.ErrLeft, or [Session.Leave], leaves the agent to the next process. Empty:
	// the agent ends with this process.
	Journal string

	// Path are directories inside that are searched for programs before the
	// sandbox's PATH.
	Path []string

	// Model serves the agent's requests to its model. The agent connects to it
	// at an address inside the sandbox that only this turn has. The status and
	// Retry-After of its answers decide the Code of a failed turn. An answer with
	// the header BudgetHeader means that a budget is used up. Nil: none.
	Model http.Handler

	// Tools serves one connection of the Model Context Protocol, and closes it.
	// Nil: none.
	Tools func(net.Conn)

	// ToolProgram is the host file that is placed inside as atoll-tool. It must
	// be set if Tools is.
	ToolProgram string

	// Decide answers a request for permission. A done context, an error and a
	// nil Decide deny. It is used only with Turn.Ask; without it, every request
	// is denied.
	Decide func(context.Context, Permission) (Decision, error)

	// PermissionTimeout is how long a request for permission waits; after that
	// it is denied. 0: 5 min.
	PermissionTimeout time.Duration

	// Emit receives every event, one at a time, in order; the agent waits for
	// it. It must not wait for the Session's Decide, Prompt or Close. Nil: none.
	Emit func(Event)

	Log io.Writer // receives every event as a line of JSON; nil: none

	Timeout time.Duration // of the turn; 0: 1 hour, negative: only the context's
	Idle    time.Duration // time without activity after which the turn is ended; 0: 15 min, negative: no limit
	Grace   time.Duration // after the last result, until the process is killed; 0: 10 s

	// MaxLine is the longest line of the agent's output, in bytes; a longer one
	// is cut, with a warning. 0: 50 MB.
	MaxLine int
}

// BudgetHeader is set on an answer of Job.Model that refuses a request, or breaks
// off, because a budget is used up. Its value is a line for display that names the
// budget. It may be set after the answer has begun.
const BudgetHeader = "Atoll-Spent"

// StatusHeader is set on an answer of Job.Model that breaks off after it has begun. Its value is the HTTP
// status of the failure.
const StatusHeader = "Atoll-Status"

// Run runs one turn. Failures of the agent are in the Result, as its Outcome; an
// error means that no turn was run, because the sandbox can't be used or the turn
// is invalid. When Run returns, all processes of the agent have ended and the
// last event was emitted.
//
// When ctx is done, the agent is asked to stop, if it supports that, and killed
// soon after; the Result is then Aborted, or Timeout if that is the context's cause.
func Run(ctx context.Context, j Job) (Result, error) {
	j.Once = true
	s, err := StartSession(ctx, j)
	if err != nil {
		return Result{}, err
	}
	defer s.Close()
	return s.Wait(context.WithoutCancel(ctx)) // ctx stops the agent, which ends the wait
}

// Defaults of a Job.
const (
	defaultState    = "/var/tmp/atoll"
	defaultTimeout  = time.Hour
	defaultIdle     = 15 * time.Minute
	defaultGrace    = 10 * time.Second
	defaultPatience = 5 * time.Minute
	defaultMaxLine  = 50 << 20
)

// checkAndFillDefaults checks a job and sets the defaults of its zero fields.
func (j *Job) checkAndFillDefaults() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if j.Sandbox == nil || j.Agent == nil {
		bad("a turn needs a sandbox and an agent")
	}
	if len(j.Turn.Prompt) == 0 {
		bad("the prompt is empty")
	}
	if j.Tools != nil && j.ToolProgram == "" {
		bad("Tools requires ToolProgram, the program that connects to them")
	}
	setDefault(&j.State, defaultState)
	setDefault(&j.Timeout, defaultTimeout)
	setDefault(&j.Idle, defaultIdle)
	setDefault(&j.Grace, defaultGrace)
	setDefault(&j.PermissionTimeout, defaultPatience)
	setDefault(&j.MaxLine, defaultMaxLine)
	setDefault(&j.Turn.ID, "turn_"+strings.ToLower(rand.Text()))
	if j.Dir != "" {
		if err := checkSeparateDirs(j.Dir, j.State); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return nil
}

// setDefault sets *p to v if it is zero.
func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// checkSeparateDirs checks that the agents' state directory is not in the
// workspace, whose files are untrusted.
func checkSeparateDirs(dir, state string) error {
	dir, state = path.Clean(dir), path.Clean(state)
	switch {
	case !path.IsAbs(dir) || !path.IsAbs(state):
		return fmt.Errorf("the directories %q and %q must be absolute", dir, state)
	case state == dir || strings.HasPrefix(state, strings.TrimSuffix(dir, "/")+"/"):
		return fmt.Errorf("the agents' state directory %s is in the workspace %s, whose files are untrusted", state, dir)
	}
	return nil
}
