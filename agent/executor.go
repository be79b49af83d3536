package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// Executor is a conversation with an agent in a sandbox that belongs to it, and the files and commands of that sandbox. It keeps the
// agent's process between prompts where the agent can do that, and resumes its session otherwise. Its methods are safe for concurrent
// use; one prompt runs at a time.
type Executor struct {
	job Job

	mu      sync.Mutex
	busy    bool     // guarded by mu: a prompt runs
	closed  bool     // guarded by mu
	session *Session // guarded by mu: the process; nil: none
	resumes string   // guarded by mu: the agent's session id
}

// NewExecutor returns an executor for a job without a prompt. The executor owns the job's sandbox: Close destroys it. Job.Emit receives
// the events of all prompts.
func NewExecutor(j Job) (*Executor, error) {
	if j.Sandbox == nil || j.Agent == nil {
		return nil, fmt.Errorf("%w: an executor needs a sandbox and an agent", atoll.ErrInvalid)
	}
	if len(j.Turn.Prompt) > 0 || j.Journal != "" {
		return nil, fmt.Errorf("%w: the job of an executor has no prompt and no journal", atoll.ErrInvalid)
	}
	return &Executor{job: j, resumes: j.Turn.Session}, nil
}

// Execute runs a prompt and waits for its result. As with [Run], an error means that the prompt was not run. When ctx is done, the agent
// is stopped.
func (e *Executor) Execute(ctx context.Context, prompt []Content) (Result, error) {
	return e.runPrompt(ctx, prompt, e.job.Emit)
}

// Stream runs a prompt and returns its events; the last one has the result. An error means that the prompt was not run. A caller that stops
// early stops the agent.
func (e *Executor) Stream(ctx context.Context, prompt []Content) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		events := make(chan Event)
		left := make(chan struct{}) // closed when the caller wants no more events
		done := make(chan error, 1)
		go func() {
			_, err := e.runPrompt(ctx, prompt, func(v Event) {
				if e.job.Emit != nil {
					e.job.Emit(v)
				}
				select {
				case events <- v:
				case <-left:
				}
			})
			done <- err
		}()
		for {
			select {
			case v := <-events:
				if !yield(v, nil) {
					close(left)
					cancel(errAbandoned)
					<-done
					return
				}
			case err := <-done:
				cancel(nil)
				if err != nil {
					yield(Event{}, err)
				}
				return
			}
		}
	}
}

// errAbandoned is the cause that stops an agent whose events are not read any more.
var errAbandoned = errors.New("the caller has stopped reading events")

// runPrompt runs a prompt, in the running process if there is one.
func (e *Executor) runPrompt(ctx context.Context, prompt []Content, emit func(Event)) (Result, error) {
	if emit == nil {
		emit = func(Event) {}
	}
	if err := e.begin(); err != nil {
		return Result{}, err
	}
	defer e.end()
	s, err := e.sendPrompt(ctx, prompt, emit)
	if err != nil {
		return Result{}, err
	}
	stop := context.AfterFunc(ctx, func() { s.Stop(StopReasonOf(ctx)) })
	defer stop()
	r, err := s.Wait(context.WithoutCancel(ctx))
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && r.Session != "" && e.job.Agent.Features().Resume {
		e.resumes = r.Session
	}
	return r, err
}

// begin reserves the executor for a prompt.
func (e *Executor) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	if e.busy {
		return errBusy
	}
	e.busy = true
	return nil
}

func (e *Executor) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy = false
}

// sendPrompt sends a prompt to the running process, or starts one with it.
func (e *Executor) sendPrompt(ctx context.Context, prompt []Content, emit func(Event)) (*Session, error) {
	e.mu.Lock()
	s, j := e.session, e.job
	j.Turn.Session, j.Turn.Prompt, j.Emit = e.resumes, prompt, emit
	e.mu.Unlock()
	if s != nil && s.AcceptsPrompt() {
		err := s.StartPrompt(ctx, NextPrompt{Prompt: prompt, Emit: emit})
		if !errors.Is(err, atoll.ErrState) { // else the process has just ended
			return s, err
		}
	}
	if s != nil {
		_ = s.Close() // never fails
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx)) // the session outlives the prompt, not its own start
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer stop()
	next, err := StartSession(life, j)
	if err != nil {
		end(nil)
		return nil, err
	}
	if !e.setSession(next) {
		_ = next.Close() // never fails
		return nil, errClosed
	}
	return next, nil
}

// errClosed is the error of a prompt of a closed executor.
var errClosed = fmt.Errorf("%w: the executor is closed", atoll.ErrState)

// setSession keeps a session for further prompts. It returns false if the executor was closed meanwhile.
func (e *Executor) setSession(s *Session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.session = s
	return true
}

// ReadFile returns the content of a file. A relative name is below the workspace, here and in the other methods.
func (e *Executor) ReadFile(ctx context.Context, name string) ([]byte, error) {
	return atoll.ReadFile(ctx, e.job.Sandbox, e.resolve(name))
}

// WriteFile writes a file, and creates its directory.
func (e *Executor) WriteFile(ctx context.Context, name string, data []byte) error {
	return atoll.WriteFile(ctx, e.job.Sandbox, e.resolve(name), data, 0o644)
}

// ListDir returns the entries of a directory.
func (e *Executor) ListDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	return atoll.ReadDir(ctx, e.job.Sandbox, e.resolve(name))
}

// Exec runs a command in the workspace and waits for it. A non-zero exit code is no error.
func (e *Executor) Exec(ctx context.Context, args ...string) (atoll.Exit, error) {
	return e.job.Sandbox.Exec(ctx, atoll.Cmd{Args: args, Dir: e.job.Dir})
}

// resolve returns a name below the workspace as an absolute one, if that is known.
func (e *Executor) resolve(name string) string {
	if path.IsAbs(name) || e.job.Dir == "" {
		return name
	}
	return path.Join(e.job.Dir, name)
}

// Close stops the agent and destroys the sandbox. Closing it twice is no error.
func (e *Executor) Close(ctx context.Context) error {
	e.mu.Lock()
	s := e.session
	e.session, e.closed = nil, true
	e.mu.Unlock()
	if s != nil {
		_ = s.Close() // never fails
	}
	return e.job.Sandbox.Destroy(ctx)
}
