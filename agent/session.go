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
	unread       []Message            // that the agent has not read
	sent         map[string]bool      // ids of messages that it was sent
	sentBytes    int                  // of these messages
	deferred     []func()             // run when the Conversation has returned

	journal *journal       // nil: none
	lineNum int64          // lines of output that were handled
	replay  []sessionInput // recorded inputs that the Conversation was not told yet
	resumes bool           // the recorded output is being handled again
	started *Event         // the last event of type Started

	promptsToReplay int // recorded prompts that the Conversation was not told yet; events before the last of them are not emitted again

	left atomic.Bool // the process is left to another host

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
	last     *promptRun  // guarded by mu: the last recorded prompt, until it is current; nil otherwise
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
		start.Process, start.Several = "agent_"+strings.ToLower(rand.Text()), s.multiTurn
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
	s.multiTurn = !j.Once && s.features.AcceptsPrompts(&j.Turn)
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
	if errors.Is(context.Cause(ctx), atoll.ErrLeft) && s.Leave() {
		return
	}
	s.endSession(StopReasonOf(ctx))
}

// Leave leaves the agent to another process, which continues the session. It returns false, and does nothing, for a session without
// a Job.Journal.
func (s *Session) Leave() bool {
	if s.job.Journal == "" {
		return false
	}
	s.left.Store(true)
	s.kill(atoll.ErrLeft)
	return true
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
	s.services.close()                   // before the result, so that its usage is complete
	if p := s.lastRecorded(); p != nil { // the process has ended before its recorded output was handled
		s.promptsToReplay = 0
		s.setCurrent(p)
	}
	switch {
	case !s.promptRunning():
	case s.left.Load():
		s.current.result = Result{Outcome: Aborted, Message: atoll.ErrLeft.Error()} // no event: the session goes on
		close(s.current.done)
	default:
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
	if !s.promptRunning() || s.left.Load() {
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
	for len(s.unread) > 0 {
		s.emitEvent(Event{Type: MessageChanged, Message: &Message{ID: s.unread[0].ID, State: MessageDropped}})
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
	if s.last != nil {
		p = s.last
	}
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

// NextPrompt is a further prompt of a session.
type NextPrompt struct {
	Prompt []Content

	// Turn is the Turn.ID of its events; empty: that of the last prompt.
	Turn string

	// Journal is the directory in which the session goes on with its journal, if it has a Job.Journal; the former one
	// may be removed. Empty: it remains where it is.
	Journal string

	// Emit and Decide replace those of the Job. The first event is the last one of type Started. Nil: they remain.
	Emit   func(Event)
	Decide func(context.Context, Permission) (Decision, error)
}

// Prompt sends a further prompt, after the result of the last one. It returns
// ErrUnsupported for agents that accept one prompt, and ErrState while a prompt runs.
func (s *Session) Prompt(ctx context.Context, p []Content) error {
	return s.StartPrompt(ctx, NextPrompt{Prompt: p})
}

// StartPrompt is Prompt with more options.
func (s *Session) StartPrompt(ctx context.Context, next NextPrompt) error {
	switch {
	case !s.multiTurn:
		return fmt.Errorf("%w: %s accepts one prompt", atoll.ErrUnsupported, s.job.Agent.Name())
	case len(next.Prompt) == 0:
		return fmt.Errorf("%w: the prompt is empty", atoll.ErrInvalid)
	case s.promptRunning():
		return errBusy
	}
	in := sessionInput{Prompt: slices.Clone(next.Prompt), Turn: next.Turn}
	if err := placeAttachments(ctx, s.job.Sandbox, s.job.Dir, in.Prompt); err != nil {
		return err
	}
	return s.doInLoop(ctx, func() error {
		if s.promptRunning() {
			return errBusy
		}
		if err := s.recordPrompt(in, next.Journal); err != nil {
			return err
		}
		if next.Emit != nil {
			s.job.Emit = next.Emit
		}
		if next.Decide != nil {
			s.job.Decide = next.Decide
		}
		last := s.current
		err := s.beginPrompt(&promptRun{startedAt: time.Now(), done: make(chan struct{})}, in)
		if err != nil {
			s.setCurrent(last)
			s.mu.Lock()
			s.watchdog.stopPromptTimers()
			s.mu.Unlock()
		}
		return err
	})
}

// recordPrompt records a prompt in the journal, if there is one, and moves that to a directory, if one is named.
func (s *Session) recordPrompt(in sessionInput, dir string) error {
	if s.journal == nil || dir == "" {
		return s.recordInput(in)
	}
	in.After = s.lineNum
	if err := s.journal.moveTo(dir, in); err != nil {
		return fmt.Errorf("the journal of the session: %w", err)
	}
	return nil
}

// beginPrompt sends a further prompt to the agent, in the loop.
func (s *Session) beginPrompt(p *promptRun, in sessionInput) error {
	s.mu.Lock()
	s.current, s.answer, s.last = p, ModelAnswer{}, s.lastUnless(p)
	s.startPromptTimers()
	s.mu.Unlock()
	if in.Turn != "" {
		s.job.Turn.ID = in.Turn
		if s.started != nil {
			s.emitEvent(*s.started)
		}
	}
	err := errBroken
	s.callConversation(func() { err = s.conversation.Prompt(exchange{s}, in.Prompt) })
	return err
}

// setCurrent makes a prompt the current one.
func (s *Session) setCurrent(p *promptRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.last = p, s.lastUnless(p)
}

// lastUnless returns the last recorded prompt, or nil if that is p. The caller holds mu.
func (s *Session) lastUnless(p *promptRun) *promptRun {
	if s.last == p {
		return nil
	}
	return s.last
}

// lastRecorded returns the last recorded prompt; nil: it is the current one, or there is none.
func (s *Session) lastRecorded() *promptRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// AcceptsPrompt reports whether the session would accept a further prompt now: its process runs, has its result, and has not written
// more than a process that continues the session should read.
func (s *Session) AcceptsPrompt() bool {
	select {
	case <-s.killed:
		return false
	default:
	}
	return s.multiTurn && !s.promptRunning() && !s.isEnding() && (s.journal == nil || s.journal.isShort())
}

// Ended returns a channel that is closed when the session's process and services have ended.
func (s *Session) Ended() <-chan struct{} { return s.closed }

// Stop stops the agent's work for the prompt for a reason, as Interrupt does.
func (s *Session) Stop(why StopReason) { s.stopPrompt(why) }

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
