package agent

import (
	"bytes"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// buildResult returns the result of a prompt from the facts about it. e is nil while the process runs.
func (s *Session) buildResult(p *promptRun, e *processExit) Result {
	s.mu.Lock()
	end := Ending{Stop: p.stop, Budget: p.spent, Refused: p.refusals > 0, Answer: s.answer}
	pushed := s.watchdog.signalled
	s.mu.Unlock()
	var exit *Exit
	if e != nil && e.err == nil && !pushed { // else the status is not the agent's own
		exit = &Exit{Code: e.exit.Code, Stderr: s.stderr.lastBytes()}
	}
	s.callConversation(func() { end.Report = s.conversation.Result(exit) })
	if b, ok := s.conversation.(brokenConversation); ok {
		end.Report = b.Result(exit)
	}
	if e != nil && e.err == nil {
		end.Exit, end.Stderr = &e.exit.Code, s.lastStderrLine()
	}
	if end.Report.Outcome == "" && end.Stop == nil && e != nil {
		s.explainExit(&end.Report, e)
	}
	r := end.Result()
	r.Exit = end.Exit
	if r.Outcome != OK && r.Stderr == "" {
		r.Stderr = string(bytes.ToValidUTF8(s.stderr.lastBytes(), []byte("\uFFFD")))
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

// explainExit fills in the outcome of a process that could not run.
func (s *Session) explainExit(r *Result, e *processExit) {
	switch {
	case e.err != nil:
		r.Outcome, r.Code, r.Message = Crashed, "sandbox", e.err.Error()
	case e.exit.Code == exitNotFound && s.seq == 0:
		r.Outcome, r.Code, r.Message = Crashed, "program", "the agent's program is not in the sandbox: "+s.lastStderrLine()
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
