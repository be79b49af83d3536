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

// Job is a turn and what it is done with.
type Job struct {
	Sandbox atoll.Sandbox
	Agent   Agent
	Turn    Turn

	Dir   string // the workspace inside; empty: the sandbox's directory
	State string // where agents keep what they know, one directory each; empty: /var/tmp/atoll

	// Once says that the conversation has one prompt: the process ends after
	// its result, which is told then, and is the last event.
	Once bool

	// Path are directories inside that are looked in for programs before those
	// of the sandbox's PATH.
	Path []string

	// Model answers what the agent asks its model. It is reached over the
	// sandbox's wire, at an address that only this turn has. An answer with the
	// header SpentHeader says that a budget is used up. Nil: none.
	Model http.Handler

	// Tools serves one connection of the Model Context Protocol; it closes it.
	// Nil: none.
	Tools func(net.Conn)

	// ToolProgram is the file of the host that is placed inside as atoll-tool.
	// It must be set if Tools is.
	ToolProgram string

	// Decide answers a request for permission. A context that is done, an
	// error, and a nil Decide deny. Used only with Turn.Ask: without it, what
	// is asked for nevertheless is denied.
	Decide func(context.Context, Permission) (Decision, error)

	// Patience is how long a request for permission waits for its answer; what
	// nobody answers is denied. 0: 5 min.
	Patience time.Duration

	// Emit gets every event, one at a time, in order; the agent waits for it. It
	// must not wait for the Session: for Decide, Prompt or Close. Nil: nobody.
	Emit func(Event)

	Log io.Writer // gets every event as a line of JSON; nil: none

	Timeout time.Duration // of the turn; 0: 1 hour, negative: none but the context's
	Idle    time.Duration // without a sign of life, after which it is ended; 0: 15 min, negative: none
	Grace   time.Duration // after the last result, until the process is ended; 0: 10 s

	// MaxLine is how long a line of the agent may be, in bytes; what is longer
	// is cut and told as a warning. 0: 50 MB.
	MaxLine int
}

// SpentHeader is set on an answer of Job.Model that refuses a request, or breaks
// off, because a budget is used up. Its value says which, in a line for people.
// It may be set when the answer has begun.
const SpentHeader = "Atoll-Spent"

// Run does one turn. What the agent did wrong is in the Result, whose Outcome
// then says so; an error means that there was no turn: the sandbox can't be
// used, the turn is invalid. When Run returns, all processes of the agent are
// gone and the last event was told.
//
// When ctx is done the agent is asked to stop, if it can be, and ended soon;
// the Result is then Aborted, or Timeout if that is the context's cause.
func Run(ctx context.Context, j Job) (Result, error) {
	j.Once = true
	s, err := Begin(ctx, j)
	if err != nil {
		return Result{}, err
	}
	defer s.Close()
	return s.Wait(context.WithoutCancel(ctx)) // ctx ends the agent, and that its wait
}

// What a Job gets where it says nothing.
const (
	defaultState    = "/var/tmp/atoll"
	defaultTimeout  = time.Hour
	defaultIdle     = 15 * time.Minute
	defaultGrace    = 10 * time.Second
	defaultPatience = 5 * time.Minute
	defaultMaxLine  = 50 << 20
)

// complete checks a job and fills in what it says nothing of.
func (j *Job) complete() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if j.Sandbox == nil || j.Agent == nil {
		bad("a turn needs a sandbox and an agent")
	}
	if len(j.Turn.Prompt) == 0 {
		bad("the prompt is empty")
	}
	if j.Tools != nil && j.ToolProgram == "" {
		bad("tools need ToolProgram, the program that reaches them")
	}
	def(&j.State, defaultState)
	def(&j.Timeout, defaultTimeout)
	def(&j.Idle, defaultIdle)
	def(&j.Grace, defaultGrace)
	def(&j.Patience, defaultPatience)
	def(&j.MaxLine, defaultMaxLine)
	def(&j.Turn.ID, "turn_"+strings.ToLower(rand.Text()))
	if j.Dir != "" {
		if err := apart(j.Dir, j.State); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return nil
}

// def sets what is zero.
func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// apart checks that the agents' own directory is not in the workspace, which
// others write.
func apart(dir, state string) error {
	dir, state = path.Clean(dir), path.Clean(state)
	switch {
	case !path.IsAbs(dir) || !path.IsAbs(state):
		return fmt.Errorf("the directories %q and %q must be absolute", dir, state)
	case state == dir || strings.HasPrefix(state, strings.TrimSuffix(dir, "/")+"/"):
		return fmt.Errorf("the agents' own directory %s lies in the workspace %s, whose files are not to be trusted", state, dir)
	}
	return nil
}
