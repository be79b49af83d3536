package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Session is a conversation with one process of an agent.
// Its methods may be called at once from many goroutines.
type Session struct {
	job      Job
	features Features
	keep     bool // the process stays after a result, for the next prompt
	begun    time.Time

	talk    Talk        // used by the loop only, as all up to the channels
	seq     int64       // of the last event
	muted   bool        // the log takes nothing any more
	settled bool        // the process has been asked to leave
	asked   []*question // permissions that nobody has decided yet
	late    []func()    // what is to be done when the Talk has returned

	errs    tail          // of the process's standard error
	in      *input        // what the process reads
	lines   chan line     // what it has written
	asks    chan func()   // for the loop
	hush    chan struct{} // asks the loop to interrupt the agent
	ended   chan ending   // of the process
	over    chan struct{} // closed when all is at an end
	signals chan string   // to the process

	kill    context.CancelCauseFunc // ends the process and all that it started
	dead    <-chan struct{}         // closed when it was killed, or has ended
	derive  func(deadline time.Time) (context.Context, context.CancelFunc)
	serving *services
	helpers sync.WaitGroup // goroutines besides the loop

	mu      sync.Mutex
	current *exchangeOf // guarded by mu: the prompt that is under way, or was last
	watch   watch       // guarded by mu
}

// Prose is a Talk with a process whose output is text: its empty lines count.
type Prose interface {
	Talk

	Prose()
}

// exchangeOf is a prompt and what came of it.
type exchangeOf struct {
	began  time.Time
	done   chan struct{} // closed when result is there
	result Result        // written before done is closed

	stop  *stop  // why it is ended from here; nil: it is not. Guarded by the session's mu
	spent string // the budget that the model's side said is used up; guarded by mu
	poor  int    // answers that said so, since the last other one; guarded by mu
}

// stop is why a prompt is ended from here.
type stop struct {
	outcome Outcome
	why     string
}

// ending is how the process ended.
type ending struct {
	exit atoll.Exit
	err  error
}

// Begin starts the agent with the first prompt of a conversation. Events go
// to Job.Emit until Close; each prompt has its own Finished, and its own
// Job.Timeout. The conversation ends with ctx.
func Begin(ctx context.Context, j Job) (*Session, error) {
	if err := j.complete(); err != nil {
		return nil, err
	}
	j.Turn.Prompt = slices.Clone(j.Turn.Prompt)
	s := &Session{
		job: j, features: j.Agent.Features(), begun: time.Now(), in: newInput(),
		lines: make(chan line), asks: make(chan func()), hush: make(chan struct{}, 1),
		ended: make(chan ending, 1), over: make(chan struct{}), signals: make(chan string, 1),
	}
	s.keep = !j.Once && s.features.Turns
	s.current = &exchangeOf{began: s.begun, done: make(chan struct{})}
	s.serving = &services{alive: s.alive, answered: s.answered, open: make(map[io.Closer]bool)}
	cmd, site, err := s.prepare(ctx)
	if err != nil {
		s.serving.close()
		return nil, err
	}
	s.talk = j.Agent.Talk(&s.job.Turn, site)
	s.start(ctx, cmd)
	return s, nil
}

// start runs the process, and the loop that talks with it.
func (s *Session) start(ctx context.Context, cmd atoll.Cmd) {
	// The process ends when it is killed, not with ctx: the agent is asked first.
	run, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	s.kill, s.dead = kill, run.Done()
	s.derive = func(deadline time.Time) (context.Context, context.CancelFunc) {
		return context.WithDeadlineCause(run, deadline, errUndecided)
	}
	out := newLineWriter(s.job.MaxLine, s.lines, s.dead)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Signals = s.in, out, &s.errs, s.signals
	s.mu.Lock()
	s.watch.life = context.AfterFunc(ctx, func() { s.depart(stopOf(ctx)) })
	s.guardTime()
	s.mu.Unlock()
	s.helpers.Go(func() {
		exit, err := execute(run, s.job.Sandbox, cmd)
		out.finish()
		s.in.end()
		s.ended <- ending{exit, err}
	})
	go s.loop()
}

// execute runs a command, without signals where they can't be sent.
func execute(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd) (atoll.Exit, error) {
	exit, err := sb.Exec(ctx, cmd)
	if errors.Is(err, atoll.ErrUnsupported) {
		cmd.Signals = nil
		exit, err = sb.Exec(ctx, cmd)
	}
	return exit, err
}

// loop owns the Talk: everything that it is given, it is given here.
func (s *Session) loop() {
	s.guard(func() { s.talk.Begin(exchange{s}) })
	s.look()
	for {
		select {
		case l := <-s.lines:
			s.alive()
			s.read(l)
			s.look()
			s.alive() // whoever watches may have taken long
		case f := <-s.asks:
			f()
			s.look()
		case <-s.hush:
			s.interrupt()
		case e := <-s.ended:
			s.end(e)
			return
		}
	}
}

// end tells the result of a process that is gone, and ends what belongs to it.
func (s *Session) end(e ending) {
	s.finishWatch()
	s.serving.close() // before the result: what it used is counted then
	if s.underWay() {
		s.finish(&e)
	}
	s.kill(nil) // lets go of its context, and of those who decide
	s.helpers.Wait()
	close(s.over)
}

// read gives a line to the Talk.
func (s *Session) read(l line) {
	if l.cut > 0 {
		s.tell(Event{Type: Warning, Text: fmt.Sprintf("a line of %d bytes was cut: at most %d are read", l.cut, s.job.MaxLine)})
		s.tell(Event{Type: Raw, Raw: text(l.data)})
		return
	}
	if _, prose := s.talk.(Prose); len(l.data) == 0 && !prose {
		return
	}
	s.guard(func() { s.talk.Line(exchange{s}, l.data) })
}

// look sees whether the prompt has its result. The process of one prompt is
// asked to leave then; what it says until it is gone still counts.
func (s *Session) look() {
	for len(s.late) > 0 {
		f := s.late[0]
		s.late = s.late[1:]
		f()
	}
	if !s.underWay() {
		return
	}
	settled := false
	s.guard(func() { settled = s.talk.Settled() })
	switch {
	case !settled:
		if s.settled {
			s.settled = false
			s.stay()
		}
	case s.keep && !s.departing():
		s.finish(nil)
	case !s.settled:
		s.settled = true
		s.leave()
	}
}

// underWay reports whether a prompt has no result yet.
func (s *Session) underWay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.current.over()
}

func (p *exchangeOf) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// finish tells the one result of the prompt that is under way.
func (s *Session) finish(e *ending) {
	for len(s.asked) > 0 {
		s.resolve(s.asked[0], Decision{Message: "the turn has ended"}, "end")
	}
	s.mu.Lock()
	p := s.current
	s.watch.rest()
	s.mu.Unlock()
	r := s.outcome(p, e)
	s.tell(Event{Type: Finished, Session: r.Session, Result: &r})
	p.result = r
	close(p.done)
}

// guard calls f, which calls the Talk. A Talk that panics is given up, and the
// process with it.
func (s *Session) guard(f func()) {
	defer func() {
		if v := recover(); v != nil {
			s.talk = broken{why: fmt.Sprint(v)}
			s.kill(errBroken)
		}
	}()
	f()
}

// do has the loop call f, and returns its error.
func (s *Session) do(ctx context.Context, f func() error) error {
	reply := make(chan error, 1)
	ask := func() {
		err := errBroken
		s.guard(func() { err = f() })
		reply <- err
	}
	select {
	case s.asks <- ask:
	case <-s.dead:
		return fmt.Errorf("%w: the agent has ended", atoll.ErrState)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return <-reply
}

// Wait waits for the result of the prompt that is under way, or was last.
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

// Prompt says a further prompt, after the result of the last. Agents without
// Features.Turns refuse it.
func (s *Session) Prompt(ctx context.Context, p []Content) error {
	switch {
	case !s.keep:
		return fmt.Errorf("%w: %s takes one prompt", atoll.ErrUnsupported, s.job.Agent.Name())
	case len(p) == 0:
		return fmt.Errorf("%w: the prompt is empty", atoll.ErrInvalid)
	case s.underWay():
		return errBusy
	}
	p = slices.Clone(p)
	if err := attach(ctx, s.job.Sandbox, s.job.Dir, p); err != nil {
		return err
	}
	return s.do(ctx, func() error {
		if s.underWay() {
			return errBusy
		}
		s.mu.Lock()
		last := s.current
		s.current = &exchangeOf{began: time.Now(), done: make(chan struct{})}
		s.guardTime()
		s.mu.Unlock()
		err := s.talk.Prompt(exchange{s}, p)
		if err != nil {
			s.mu.Lock()
			s.current = last
			s.watch.rest()
			s.mu.Unlock()
		}
		return err
	})
}

// Interrupt ends what the agent does for the prompt; its result is Aborted.
// An agent that can't be asked to is ended.
func (s *Session) Interrupt(context.Context) error {
	if s.underWay() {
		s.halt(stop{Aborted, "it was interrupted"})
	}
	return nil
}

// interrupt asks the agent to stop, in the loop.
func (s *Session) interrupt() {
	s.mu.Lock()
	wanted := s.current.stop != nil && !s.current.over()
	s.mu.Unlock()
	if !wanted {
		return
	}
	asked := false
	s.guard(func() { asked = s.talk.Interrupt(exchange{s}) })
	if !asked {
		s.kill(errStopped)
	}
	s.look()
}

// Close ends the agent and all its processes. One that has nothing to do is
// given a moment to leave.
func (s *Session) Close() error {
	if s.underWay() {
		s.halt(stop{Aborted, "it was closed"})
		s.kill(errStopped)
	} else {
		s.leave()
	}
	<-s.over
	return nil
}

// The reasons for which a process is ended.
var (
	errStopped   = errors.New("the agent was stopped")
	errBroken    = errors.New("what the agent said could not be handled")
	errUndecided = fmt.Errorf("%w: nobody decided", atoll.ErrTimeout)
	errBusy      = fmt.Errorf("%w: a prompt is under way", atoll.ErrState)
)

// broken is in the place of a Talk that has panicked.
type broken struct{ why string }

func (broken) Begin(Exchange)                          {}
func (broken) Line(Exchange, []byte)                   {}
func (broken) Prompt(Exchange, []Content) error        { return errBroken }
func (broken) Decide(Exchange, string, Decision) error { return errBroken }
func (broken) Interrupt(Exchange) bool                 { return false }
func (broken) Settled() bool                           { return false }
func (b broken) Result(*Exit) Result {
	return Result{Outcome: Failed, Code: "internal", Message: errBroken.Error() + ": " + b.why}
}
