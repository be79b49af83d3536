package codex

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/once"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// talk reads the lines of codex exec.
type talk struct {
	once.Deaf
	items

	turn    *agent.Turn
	status  int // of HTTP, that the model's API was last said to have answered with
	fault   string
	settled bool
	result  agent.Result
}

// line is one of codex exec.
type line struct {
	Type    string          `json:"type"`
	Thread  string          `json:"thread_id"`
	Item    json.RawMessage `json:"item"`
	Usage   *tokens         `json:"usage"`
	Message string          `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}

type tokens struct {
	Input      int64 `json:"input_tokens"` // those of the cache among them
	CacheRead  int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// Line takes a line.
func (t *talk) Line(x agent.Exchange, text []byte) {
	var l line
	if !lenient.Decode(text, &l) {
		t.raw(x, text)
		return
	}
	switch l.Type {
	case "thread.started":
		if t.session == "" {
			t.session = l.Thread
			t.emit(x, agent.Event{Type: agent.Started, Started: &agent.Start{Agent: "codex", Model: t.turn.Model}})
		}
	case "turn.started":
	case "item.started", "item.updated", "item.completed":
		if !t.item(x, l.Item, l.Type == "item.completed") {
			t.raw(x, text)
		}
	case "error":
		t.stumble(x, l.Message)
	case "turn.completed":
		t.finish(x, agent.Result{Outcome: agent.OK}, l.Usage)
	case "turn.failed":
		t.stumble(x, l.Error.Message)
		t.finish(x, t.failure(), nil)
	default:
		t.raw(x, text)
	}
}

// What Codex tells of the API's answers is only in its messages.
var (
	retrying   = regexp.MustCompile(`^Reconnecting\.\.\. (\d{1,4})/\d+`)
	lastStatus = regexp.MustCompile(`(?:unexpected status|last status:) (\d{3})\b`)
)

// note remembers the status that a message has.
func (t *talk) note(message string) {
	if m := lastStatus.FindStringSubmatch(message); m != nil {
		t.status, _ = strconv.Atoi(m[1])
	}
}

// stumble takes an error that passes, or the cause of the failure that follows.
func (t *talk) stumble(x agent.Exchange, message string) {
	t.note(message)
	if m := retrying.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1])
		t.emit(x, agent.Event{Type: agent.Retrying, Retry: &agent.Retry{Attempt: n, Status: t.status, Message: message}})
		return
	}
	t.fault = message
}

// failure is the result of a turn that failed.
func (t *talk) failure() agent.Result {
	code := agent.Code(t.status)
	if code == "" {
		code = "agent"
	}
	return agent.Result{Outcome: agent.Failed, Code: code, Message: t.fault}
}

// finish is the end of the turn. The tokens of a thread that goes on include
// those of turns long ago, so they are not told.
func (t *talk) finish(x agent.Exchange, r agent.Result, used *tokens) {
	t.items.finish(x)
	if used != nil && t.turn.Session == "" {
		r.Usage = agent.Usage{
			Model: t.turn.Model, Input: max(0, used.Input-used.CacheRead-used.CacheWrite), Output: used.Output,
			CacheRead: used.CacheRead, CacheWrite: used.CacheWrite,
		}
		u := r.Usage
		t.emit(x, agent.Event{Type: agent.UsageTold, Usage: &u})
	}
	r.Text = t.last
	if t.turn.Schema != nil && r.Outcome == agent.OK && json.Valid([]byte(r.Text)) {
		r.Structured = json.RawMessage(r.Text)
	}
	t.result, t.settled = r, true
}

// Settled reports that the turn has ended.
func (t *talk) Settled() bool { return t.settled }

// Result returns how the turn ended. A session that is not there makes Codex
// end before it says anything.
func (t *talk) Result(exit *agent.Exit) agent.Result {
	r := t.result
	if exit != nil && !t.settled && t.fault != "" {
		r = t.failure()
	}
	r.Session = t.session
	if exit != nil && !t.settled && t.session == "" && t.turn.Session != "" && bytes.Contains(exit.Stderr, []byte("thread/resume")) {
		r.Outcome, r.Code = agent.Failed, "session_not_found"
		r.Message = "there is no session " + t.turn.Session
	}
	return r
}

// command returns what a shell was given to run, without the shell.
func command(s string) string {
	for _, shell := range []string{"/bin/bash -lc ", "bash -lc ", "/bin/bash -c ", "/usr/bin/bash -lc ", "/bin/sh -c ", "/bin/zsh -lc "} {
		if rest, ok := strings.CutPrefix(s, shell); ok {
			return unquote(rest)
		}
	}
	return s
}

// unquote takes the quotes of a shell off a single word.
func unquote(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] {
		return s
	}
	in := s[1 : len(s)-1]
	switch {
	case s[0] == '\'' && !strings.Contains(in, "'"):
		return in
	case s[0] == '"':
		return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(in)
	}
	return s
}
