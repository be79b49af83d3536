package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// ErrSessionLost is the cause of the end of a turn whose session can't be continued by another process: its journal, its sandbox or
// the agent's process is missing. The turn ends as Crashed.
var ErrSessionLost = errors.New("the server ended during the turn, and the next one can't continue it")

// ResumeSession continues the session of a process that has ended or has left it, from its Job.Journal. The
// job must be as that of [StartSession], but for its Turn, which is the journal's. The recorded output is
// handled again, so that Job.Emit receives every event of the last prompt from the first one on.
//
// It returns ErrSessionLost if the journal is incomplete or the sandbox was removed, and ErrUnsupported for a sandbox that is no
// atoll.CommandResumer. That the agent's process does not exist any more is an Outcome: Crashed.
func ResumeSession(ctx context.Context, j Job) (*Session, error) {
	start, inputs, err := readJournal(j.Journal)
	if err != nil {
		return nil, err
	}
	j.Turn, j.Once = start.Turn, !start.Several
	if err := j.checkAndFillDefaults(); err != nil {
		return nil, err
	}
	resumer, ok := atoll.As[atoll.CommandResumer](j.Sandbox)
	if !ok {
		return nil, fmt.Errorf("%w: commands in this sandbox end with their connection", atoll.ErrUnsupported)
	}
	s := newSession(j)
	if err := s.serveAgain(ctx, start); err != nil {
		s.services.close()
		if errors.Is(err, atoll.ErrNotFound) {
			err = fmt.Errorf("%w: its sandbox was removed: %w", ErrSessionLost, err)
		}
		return nil, err
	}
	if s.journal, err = openJournal(j.Journal, start); err != nil {
		s.services.close()
		return nil, err
	}
	s.replay, s.resumes = inputs, true
	for _, in := range inputs {
		if in.Prompt != nil {
			s.promptsToReplay++
		}
	}
	if s.promptsToReplay > 0 {
		s.last = &promptRun{startedAt: time.Now(), done: make(chan struct{})}
	}
	s.stdin.add(start.Stdin)
	s.conversation = j.Agent.NewConversation(&s.job.Turn, start.Environment)
	s.runProcess(ctx, atoll.Cmd{ID: start.Process, Args: []string{j.Agent.Name()}, Timeout: -1}, func(run context.Context, cmd atoll.Cmd, out *lineWriter) (atoll.Exit, error) {
		received := atoll.Resumption{Stdout: s.journal.stdout.size, Stderr: s.journal.stderr.size, Stdin: s.continueInput}
		if err := s.replayOutput(out); err != nil {
			return atoll.Exit{}, err
		}
		cmd.Stdin = nil // continueInput returns it
		exit, err := resumer.ResumeExec(run, cmd, received)
		if errors.Is(err, atoll.ErrNotFound) {
			err = fmt.Errorf("%w: the agent's process is missing in its sandbox: %w", ErrSessionLost, err)
		}
		return exit, err
	})
	return s, nil
}

// serveAgain serves the model and the tools at the addresses that the agent knows.
func (s *Session) serveAgain(ctx context.Context, start sessionStart) error {
	if start.Model != "" {
		if s.job.Model == nil {
			return fmt.Errorf("%w: the session needs its model", atoll.ErrInvalid)
		}
		if err := retryListen(ctx, func() error {
			_, err := s.services.serveModel(ctx, s.job.Sandbox, start.Model, s.job.Model)
			return err
		}); err != nil {
			return fmt.Errorf("the model endpoint: %w", err)
		}
	}
	if start.Tools != "" && s.job.Tools != nil {
		if err := retryListen(ctx, func() error {
			_, err := s.services.serveTools(ctx, s.job.Sandbox, start.Tools, s.job.Tools)
			return err
		}); err != nil {
			return fmt.Errorf("the tools: %w", err)
		}
	}
	return nil
}

// Attempts to listen at a former address: the guest may not have noticed yet that its host is gone, a program may have the port
// for a moment, or the sandbox's cluster may be restarting.
const (
	listenPatience = 2 * time.Minute
	listenWait     = 100 * time.Millisecond
)

// retryListen calls listen until it succeeds.
func retryListen(ctx context.Context, listen func() error) error {
	for begun := time.Now(); ; {
		err := listen()
		if err == nil || errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, atoll.ErrNotFound) || time.Since(begun) > listenPatience {
			return err
		}
		t := time.NewTimer(listenWait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// replayOutput handles the recorded output again.
func (s *Session) replayOutput(out *lineWriter) error {
	if err := errors.Join(s.journal.copyErrors(&s.stderr), s.journal.copyOutput(out)); err != nil {
		return fmt.Errorf("the journal of the session: %w", err)
	}
	return s.doInLoop(context.Background(), func() error { // ends with the session
		s.resumes = false
		for _, q := range s.pending {
			s.askDecision(q)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current.stop != nil { // the agent was asked to stop before
			s.startInterruptTimer(s.current)
		}
		return nil
	})
}

// replayInputs tells the Conversation the recorded inputs that came after the lines handled so far.
func (s *Session) replayInputs() {
	for len(s.replay) > 0 && s.replay[0].After <= s.lineNum {
		in := s.replay[0]
		s.replay = s.replay[1:]
		switch {
		case in.Stop != nil:
			s.mu.Lock()
			s.current.stop = &StopReason{in.Stop.Outcome, in.Stop.Message}
			s.mu.Unlock()
			s.callConversation(func() { s.conversation.Interrupt(exchange{s}) })
		case in.Decision != nil:
			if q := s.findPending(in.ID); q != nil {
				s.resolvePermission(q, *in.Decision, in.By)
			}
		case in.Message != nil:
			s.replayMessage(*in.Message)
		case in.Prompt != nil:
			s.promptsToReplay--
			p := &promptRun{startedAt: time.Now(), done: make(chan struct{})}
			if s.promptsToReplay == 0 {
				p = s.lastRecorded()
			}
			if s.promptRunning() {
				s.kill(errBroken) // the output is not the recorded one
				return
			}
			_ = s.beginPrompt(p, in) // the prompt was accepted when it was recorded
		}
		s.checkResult()
	}
}

// recordInput records an input of the Conversation in the journal, if there is one.
func (s *Session) recordInput(in sessionInput) error {
	if s.journal == nil {
		return nil
	}
	in.After = s.lineNum
	return s.journal.addInput(in)
}

// continueInput returns the standard input of the process behind what it has received.
func (s *Session) continueInput(received int64) (io.Reader, error) {
	if !s.stdin.skip(received) {
		return nil, fmt.Errorf("%w: the agent has received %d bytes of input, more than it was sent", errBroken, received)
	}
	return s.stdin, nil
}
