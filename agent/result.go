package agent

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// buildResult combines the agent's report with the reason of a stop and the state
// of the budget. e is nil while the process runs. The agent's report counts
// unless the host has stopped the prompt.
func (s *Session) buildResult(p *promptRun, e *processExit) Result {
	s.mu.Lock()
	why, spent, poor, pushed := p.stop, p.spent, p.refusals > 0, s.watchdog.signalled
	s.mu.Unlock()
	var exit *Exit
	if e != nil && e.err == nil && !pushed { // else the status is not the agent's own
		exit = &Exit{Code: e.exit.Code, Stderr: s.stderr.lastBytes()}
	}
	var r Result
	s.callConversation(func() { r = s.conversation.Result(exit) })
	if b, ok := s.conversation.(brokenConversation); ok {
		r = b.Result(exit)
	}
	switch {
	case r.Outcome == "":
		s.explainMissingResult(&r, why, e)
	case why != nil && r.Outcome != OK:
		r.Outcome, r.Code, r.Message = why.outcome, "", why.message
	}
	if spent != "" && (poor || r.Outcome != OK) && (why == nil || why.outcome == BudgetExceeded) {
		r.Outcome, r.Code, r.Message = BudgetExceeded, "budget", spent
	}
	if e != nil && e.err == nil {
		r.Exit = &e.exit.Code
	}
	if r.Outcome != OK && r.Stderr == "" {
		r.Stderr = string(bytes.ToValidUTF8(s.stderr.lastBytes(), []byte("\uFFFD")))
	}
	if !isResumable(r.Session) {
		r.Session = ""
	}
	r.Duration = time.Since(p.startedAt)
	return r
}

// isResumable reports whether a session id of an agent is safe as an argument of
// its next process; it must not look like a flag.
func isResumable(session string) bool {
	const most = 1000
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	return len(session) <= most && !strings.HasPrefix(session, "-") && !strings.ContainsFunc(session, odd)
}

// explainMissingResult fills in the outcome of a prompt without a result.
func (s *Session) explainMissingResult(r *Result, why *stopReason, e *processExit) {
	r.Outcome = Crashed
	switch {
	case why != nil:
		r.Outcome, r.Message = why.outcome, why.message
	case e == nil:
		r.Message = "the agent ended without a result"
	case e.err != nil:
		r.Code, r.Message = "sandbox", e.err.Error()
	case e.exit.Code == exitNotFound && s.seq == 0:
		r.Code, r.Message = "program", "the agent's program is not in the sandbox: "+s.lastStderrLine()
	default:
		r.Message = fmt.Sprintf("the agent exited with status %d and without a result", e.exit.Code)
		if w := s.lastStderrLine(); w != "" {
			r.Message += ": " + w
		}
	}
}

// lastStderrLine returns the last line of the process's standard error.
func (s *Session) lastStderrLine() string {
	const most = 500
	b := bytes.TrimSpace(s.stderr.lastBytes())
	b = b[bytes.LastIndexByte(b, '\n')+1:]
	return string(bytes.ToValidUTF8(b[:min(len(b), most)], nil))
}

// exitNotFound is the exit status of a program that does not exist.
const exitNotFound = 127
