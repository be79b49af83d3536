package agent

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// outcome puts together how a prompt ended: what the agent says of it counts,
// as long as nobody has ended it from here.
func (s *Session) outcome(p *exchangeOf, e *ending) Result {
	s.mu.Lock()
	why, spent, poor, pushed := p.stop, p.spent, p.poor > 0, s.watch.pushed
	s.mu.Unlock()
	var exit *Exit
	if e != nil && e.err == nil && !pushed { // else its status says nothing of the agent
		exit = &Exit{Code: e.exit.Code, Stderr: s.errs.last()}
	}
	var r Result
	s.guard(func() { r = s.talk.Result(exit) })
	if b, ok := s.talk.(broken); ok {
		r = b.Result(exit)
	}
	switch {
	case r.Outcome == "":
		s.missing(&r, why, e)
	case why != nil && r.Outcome != OK:
		r.Outcome, r.Code, r.Message = why.outcome, "", why.why
	}
	if spent != "" && (poor || r.Outcome != OK) && (why == nil || why.outcome == Spent) {
		r.Outcome, r.Code, r.Message = Spent, "budget", spent
	}
	if e != nil && e.err == nil {
		r.Exit = &e.exit.Code
	}
	if r.Outcome != OK && r.Stderr == "" {
		r.Stderr = string(bytes.ToValidUTF8(s.errs.last(), []byte("\uFFFD")))
	}
	if !resumable(r.Session) {
		r.Session = ""
	}
	r.Duration = time.Since(p.began)
	return r
}

// resumable reports whether a session that an agent tells can be an argument of
// its next process, as which it must not be a flag.
func resumable(session string) bool {
	const most = 1000
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	return len(session) <= most && !strings.HasPrefix(session, "-") && !strings.ContainsFunc(session, odd)
}

// missing says why there is no result.
func (s *Session) missing(r *Result, why *stop, e *ending) {
	r.Outcome = Crashed
	switch {
	case why != nil:
		r.Outcome, r.Message = why.outcome, why.why
	case e == nil:
		r.Message = "it has ended without a result"
	case e.err != nil:
		r.Code, r.Message = "sandbox", e.err.Error()
	case e.exit.Code == notFound && s.seq == 0:
		r.Code, r.Message = "program", "the agent's program is not in the sandbox: "+s.lastWord()
	default:
		r.Message = fmt.Sprintf("it ended with status %d and without a result", e.exit.Code)
		if w := s.lastWord(); w != "" {
			r.Message += ": " + w
		}
	}
}

// lastWord returns the last line of the process's standard error.
func (s *Session) lastWord() string {
	const most = 500
	b := bytes.TrimSpace(s.errs.last())
	b = b[bytes.LastIndexByte(b, '\n')+1:]
	return string(bytes.ToValidUTF8(b[:min(len(b), most)], nil))
}

// notFound is the exit status of a program that is not there.
const notFound = 127
