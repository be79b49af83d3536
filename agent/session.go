package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Session is a conversation with one process of an agent. Its methods are safe for
// concurrent use.
type Session struct {
	job       Job
	features  Features
	multiTurn bool // the process remains after a result, for the next prompt
	startedAt time.Time

	conversation Conversation         // used by the loop only, as all fields up to the channels
	seq          int64                // of the last event
	logFailed    bool                 // a write to the log has failed
	askedToExit  bool                 // the process was asked to exit
	pending      []*pendingPermission // undecided requests for permission
	deferred     []func()             // run when the Conversation has returned

	journal *journal       // nil: none
	lineNum int64          // lines of output that were handled
	replay  []sessionInput // recorded inputs that the Conversation was not told yet
	resumes bool           // the recorded output is being handled again
	left    atomic.Bool    // the process is left to another host

	stderr     tail             // end of the process's standard error
	stdin      *input           // standard input of the process
	lines      chan line        // output of the process
	calls      chan func()      // functions for the loop to call
	interrupts chan struct{}    // asks the loop to interrupt the agent
	exited     chan processExit // exit of the process
	closed     chan struct{}    // closed when the session has ended
	signals    chan string      // signals to the process

	kill         context.CancelCauseFunc // kills the process and all its descendants
	killed       <-chan struct{}         // closed when the process was killed or has exited
	withDeadline func(deadline time.Time) (context.Context, context.CancelFunc)
	services     *services
	goroutines   sync.WaitGroup // goroutines besides the loop

	mu       sync.Mutex
	current  *promptRun  // guarded by mu: the running prompt, or the last one
	answer   ModelAnswer // guarded by mu: the last one in this prompt
	watchdog watchdog    // guarded by mu
}

// TextConversation is a Conversation with a process whose output is plain text:
// its empty lines are significant.
type TextConversation interface {
	Conversation

	PlainText()
}

// promptRun is a prompt and its result.
type promptRun struct {
	startedAt time.Time
	done      chan struct{} // closed when result is set
	result    Result        // written before done is closed

	stop     *StopReason // why the host stops it; nil: it does not. Guarded by the session's mu
	spent    string      // the budget that the model endpoint reported as used up; guarded by mu
	refusals int         // consecutive answers that reported it; guarded by mu
}

// processExit is how the process ended.
type processExit struct {
	exit atoll.Exit
	err  error
}

// StartSession starts the agent with the first prompt of a conversation. Events
// are passed to Job.Emit until Close; each prompt has its own Finished event and
// its own Job.Timeout. The conversation ends with ctx.
func StartSession(ctx context.Context, j Job) (*Session, error) {
	if err := j.checkAndFillDefaults(); err != nil {
		return nil, err
	}
	s := newSession(j)
	cmd, start, err := s.prepareSandbox(ctx)
	if err == nil && j.Journal != "" {
		start.Process = "agent_" + strings.ToLower(rand.Text())
		cmd.ID = start.Process
		if s.journal, err = createJournal(j.Journal, start); err != nil {
			err = fmt.Errorf("the journal of the session: %w", err)
		}
	}
	if err != nil {
		s.services.close()
		return nil, err
	}
	s.conversation = j.Agent.NewConversation(&s.job.Turn, start.Environment)
	s.runProcess(ctx, cmd, func(run context.Context, cmd atoll.Cmd, _ *lineWriter) (atoll.Exit, error) {
		return execWithSignals(run, j.Sandbox, cmd)
	})
	return s, nil
}

// newSession returns the session of a job.
func newSession(j Job) *Session {
	j.Turn.Prompt = slices.Clone(j.Turn.Prompt)
	s := &Session{
		job: j, features: j.Agent.Features(), startedAt: time.Now(), stdin: newInput(),
		lines: make(chan line), calls: make(chan func()), interrupts: make(chan struct{}, 1),
		exited: make(chan processExit, 1), closed: make(chan struct{}), signals: make(chan string, 1),
	}
	s.multiTurn = !j.Once && s.features.Turns
	s.current = &promptRun{startedAt: s.startedAt, done: make(chan struct{})}
	s.services = &services{onActivity: s.noteActivity, onModelAnswer: s.recordAnswer, open: make(map[io.Closer]bool)}
	return s
}

// runProcess runs the process by a call of exec, and the loop that communicates with it.
func (s *Session) runProcess(ctx context.Context, cmd atoll.Cmd, exec func(context.Context, atoll.Cmd, *lineWriter) (atoll.Exit, error)) {
	// The process is not killed with ctx: the agent is asked to stop first.
	run, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	s.kill, s.killed = kill, run.Done()
	s.withDeadline = func(deadline time.Time) (context.Context, context.CancelFunc) {
		return context.WithDeadlineCause(run, deadline, errUndecided)
	}
	out := newLineWriter(s.job.MaxLine, s.lines, s.killed)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Signals = s.stdin, out, &s.stderr, s.signals
	if s.journal != nil {
		cmd.Stdout, cmd.Stderr = io.MultiWriter(s.journal.stdout, out), io.MultiWriter(s.journal.stderr, &s.stderr)
	}
	s.mu.Lock()
	s.watchdog.stopContextWatch = context.AfterFunc(ctx, func() { s.stopWithContext(ctx) })
	s.startPromptTimers()
	s.mu.Unlock()
	s.goroutines.Go(func() {
		exit, err := exec(run, cmd, out)
		out.flushLast()
		s.stdin.discard()
		s.exited <- processExit{exit, err}
	})
	go s.runLoop()
}

// stopWithContext ends the session with its context, or leaves its process to the next one.
func (s *Session) stopWithContext(ctx context.Context) {
	if s.job.Journal != "" && errors.Is(context.Cause(ctx), atoll.ErrLeft) {
		s.left.Store(true)
		s.kill(atoll.ErrLeft)
		return
	}
	s.endSession(StopReasonOf(ctx))
}

// execWithSignals runs a command, without signals if the driver does not support them.
func execWithSignals(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd) (atoll.Exit, error) {
	exit, err := sb.Exec(ctx, cmd)
	if errors.Is(err, atoll.ErrUnsupported) {
		cmd.Signals = nil
		exit, err = sb.Exec(ctx, cmd)
	}
	return exit, err
}

// runLoop makes all calls of the Conversation.
func (s *Session) runLoop() {
	s.callConversation(func() { s.conversation.Begin(exchange{s}) })
	s.checkResult()
	s.replayInputs()
	for {
		select {
		case l := <-s.lines:
			s.noteActivity()
			s.handleLine(l)
			s.checkResult()
			s.lineNum++
			s.replayInputs()
			s.noteActivity() // Job.Emit may have taken long
		case f := <-s.calls:
			f()
			s.checkResult()
		case <-s.interrupts:
			s.interruptAgent()
		case e := <-s.exited:
			s.finishSession(e)
			return
		}
	}
}

// finishSession finishes the running prompt after the process exited, and stops
// the session's timers, services and goroutines.
func (s *Session) finishSession(e processExit) {
	s.stopWatchdog()
	s.services.close() // before the result, so that its usage is complete
	switch {
	case s.left.Load():
		s.current.result = Result{Outcome: Aborted, Message: atoll.ErrLeft.Error()} // no event: the session goes on
		close(s.current.done)
	case s.promptRunning():
		s.finishPrompt(&e)
	}
	s.kill(nil) // releases its context and cancels Job.Decide
	s.goroutines.Wait()
	if s.journal != nil {
		_ = s.journal.close() // it was read or is not needed any more
	}
	close(s.closed)
}

// handleLine passes a line to the Conversation.
func (s *Session) handleLine(l line) {
	if l.fullLen > 0 {
		s.emitEvent(Event{Type: Warning, Text: fmt.Sprintf("a line of %d bytes was cut: at most %d are read", l.fullLen, s.job.MaxLine)})
		s.emitEvent(Event{Type: Raw, Raw: jsonString(l.data)})
		return
	}
	if _, prose := s.conversation.(TextConversation); len(l.data) == 0 && !prose {
		return
	}
	s.callConversation(func() { s.conversation.HandleLine(exchange{s}, l.data) })
}

// checkResult runs the deferred functions, and finishes the prompt if it is
// settled. The process of the last prompt is asked to exit first; its output
// until then still counts.
func (s *Session) checkResult() {
	for len(s.deferred) > 0 {
		f := s.deferred[0]
		s.deferred = s.deferred[1:]
		f()
	}
	if !s.promptRunning() {
		return
	}
	settled := false
	s.callConversation(func() { settled = s.conversation.IsFinished() })
	switch {
	case !settled:
		if s.askedToExit {
			s.askedToExit = false
			s.cancelShutdown()
		}
	case s.multiTurn && !s.isEnding():
		s.finishPrompt(nil)
	case !s.askedToExit:
		s.askedToExit = true
		s.shutDownProcess()
	}
}

// promptRunning reports whether a prompt has no result yet.
func (s *Session) promptRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.current.isDone()
}

func (p *promptRun) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// finishPrompt emits the result of the running prompt. e is nil while the process runs.
func (s *Session) finishPrompt(e *processExit) {
	for len(s.pending) > 0 {
		s.resolvePermission(s.pending[0], Decision{Message: "the turn has ended"}, "end")
	}
	s.mu.Lock()
	p := s.current
	s.watchdog.stopPromptTimers()
	s.mu.Unlock()
	r := s.buildResult(p, e)
	s.emitEvent(Event{Type: Finished, Session: r.Session, Result: &r})
	p.result = r
	close(p.done)
}

// callConversation calls f, which calls the Conversation. If it panics, the
// Conversation is replaced and the process killed.
func (s *Session) callConversation(f func()) {
	defer func() {
		if v := recover(); v != nil {
			s.conversation = brokenConversation{reason: fmt.Sprint(v)}
			s.kill(errBroken)
		}
	}()
	f()
}

// doInLoop has the loop call f, and returns its error.
func (s *Session) doInLoop(ctx context.Context, f func() error) error {
	reply := make(chan error, 1)
	ask := func() {
		err := errBroken
		s.callConversation(func() { err = f() })
		reply <- err
	}
	select {
	case s.calls <- ask:
	case <-s.killed:
		return fmt.Errorf("%w: the agent has ended", atoll.ErrState)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return <-reply
}

// Wait waits for the result of the running prompt, or returns that of the last one.
func (s *Session) Wait(ctx context.Context) (Result, error) {
	s.mu.Lock()
	p := s.current
	s.mu.Unlock()
	select {
	case <-p.done:
		return p.result, nil
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// WasLeft reports whether the session goes on in another process: see Job.Journal.
func (s *Session) WasLeft() bool { return s.left.Load() }

// Prompt sends a further prompt, after the result of the last one. It returns
// ErrUnsupported for agents without Features.Turns, and ErrState while a prompt runs.
func (s *Session) Prompt(ctx context.Context, p []Content) error {
	switch {
	case !s.multiTurn:
		return fmt.Errorf("%w: %s accepts one prompt", atoll.ErrUnsupported, s.job.Agent.Name())
	case len(p) == 0:
		return fmt.Errorf("%w: the prompt is empty", atoll.ErrInvalid)
	case s.promptRunning():
		return errBusy
	}
	p = slices.Clone(p)
	if err := placeAttachments(ctx, s.job.Sandbox, s.job.Dir, p); err != nil {
		return err
	}
	return s.doInLoop(ctx, func() error {
		if s.promptRunning() {
			return errBusy
		}
		s.mu.Lock()
		last := s.current
		s.current = &promptRun{startedAt: time.Now(), done: make(chan struct{})}
		s.answer = ModelAnswer{}
		s.startPromptTimers()
		s.mu.Unlock()
		err := s.conversation.Prompt(exchange{s}, p)
		if err != nil {
			s.mu.Lock()
			s.current = last
			s.watchdog.stopPromptTimers()
			s.mu.Unlock()
		}
		return err
	})
}

// Interrupt stops the agent's work for the prompt; its result is Aborted. An agent
// that does not support interrupts is killed.
func (s *Session) Interrupt(context.Context) error {
	if s.promptRunning() {
		s.stopPrompt(StopReason{Aborted, "it was interrupted"})
	}
	return nil
}

// interruptAgent asks the agent to stop; it runs in the loop.
func (s *Session) interruptAgent() {
	s.mu.Lock()
	wanted := s.current.stop != nil && !s.current.isDone()
	s.mu.Unlock()
	if !wanted {
		return
	}
	s.mu.Lock()
	why := s.current.stop
	s.mu.Unlock()
	asked := false
	if s.recordInput(sessionInput{Stop: &stopNote{why.Outcome, why.Message}}) == nil {
		s.callConversation(func() { asked = s.conversation.Interrupt(exchange{s}) })
	}
	if !asked {
		s.kill(errStopped)
	}
	s.checkResult()
}

// Close ends the agent and all its processes. An idle agent gets a moment to exit.
func (s *Session) Close() error {
	if s.promptRunning() {
		s.stopPrompt(StopReason{Aborted, "it was closed"})
		s.kill(errStopped)
	} else {
		s.shutDownProcess()
	}
	<-s.closed
	return nil
}

// The reasons for killing a process, and errors of the session's methods.
var (
	errStopped   = errors.New("the agent was stopped")
	errBroken    = errors.New("the agent's output could not be handled")
	errUndecided = fmt.Errorf("%w: no decision", atoll.ErrTimeout)
	errBusy      = fmt.Errorf("%w: a prompt is under way", atoll.ErrState)
)

// brokenConversation replaces a Conversation that has panicked.
type brokenConversation struct{ reason string }

func (brokenConversation) Begin(Exchange)                          {}
func (brokenConversation) HandleLine(Exchange, []byte)             {}
func (brokenConversation) Prompt(Exchange, []Content) error        { return errBroken }
func (brokenConversation) Decide(Exchange, string, Decision) error { return errBroken }
func (brokenConversation) Interrupt(Exchange) bool                 { return false }
func (brokenConversation) IsFinished() bool                        { return false }
func (b brokenConversation) Result(*Exit) Result {
	return Result{Outcome: Failed, Code: "internal", Message: errBroken.Error() + ": " + b.reason}
}
