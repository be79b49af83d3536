package codex

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/oneshot"
)

// conversation decodes the lines of codex exec.
type conversation struct {
	oneshot.StdinPrompt
	items

	turn      *agent.Turn
	status    int // last HTTP status of the model's API that Codex reported
	lastError string
	settled   bool
	result    agent.Result
}

// line is a line of codex exec.
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
	Input      int64 `json:"input_tokens"` // includes those of the cache
	CacheRead  int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// HandleLine handles a line.
func (t *conversation) HandleLine(x agent.Exchange, text []byte) {
	var l line
	if !jsonlines.Decode(text, &l) {
		t.emitRaw(x, text)
		return
	}
	switch l.Type {
	case "thread.started":
		if t.session == "" {
			t.session = l.Thread
			t.emitEvent(x, agent.Event{Type: agent.Started, Started: &agent.Start{Agent: "codex", Model: t.turn.Model}})
		}
	case "turn.started":
	case "item.started", "item.updated", "item.completed":
		if !t.handleItem(x, l.Item, l.Type == "item.completed") {
			t.emitRaw(x, text)
		}
	case "error":
		t.handleError(x, l.Message)
	case "turn.completed":
		t.finishTurn(x, agent.Result{Outcome: agent.OK}, l.Usage)
	case "turn.failed":
		t.handleError(x, l.Error.Message)
		t.finishTurn(x, t.failedResult(), nil)
	default:
		t.emitRaw(x, text)
	}
}

// Codex reports the answers of the API only in the text of its messages.
var (
	retrying   = regexp.MustCompile(`^Reconnecting\.\.\. (\d{1,4})/\d+`)
	lastStatus = regexp.MustCompile(`(?:unexpected status|last status:) (\d{3})\b`)
)

// recordStatus records the HTTP status in a message.
func (t *conversation) recordStatus(message string) {
	if m := lastStatus.FindStringSubmatch(message); m != nil {
		t.status, _ = strconv.Atoi(m[1])
	}
}

// handleError handles an error that is retried, or the cause of a later failure.
func (t *conversation) handleError(x agent.Exchange, message string) {
	t.recordStatus(message)
	if m := retrying.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1])
		t.emitEvent(x, agent.Event{Type: agent.Retrying, Retry: &agent.Retry{Attempt: n, Status: t.status, Message: message}})
		return
	}
	t.lastError = message
}

// failedResult returns the result of a failed turn.
func (t *conversation) failedResult() agent.Result {
	code := agent.ErrorCode(t.status)
	if code == "" {
		code = "agent"
	}
	return agent.Result{Outcome: agent.Failed, Code: code, Message: t.lastError}
}

// finishTurn sets the result of the turn. The tokens of a resumed thread include
// those of earlier turns, so they are not reported.
func (t *conversation) finishTurn(x agent.Exchange, r agent.Result, used *tokens) {
	t.items.endCalls(x)
	if used != nil && t.turn.Session == "" {
		r.Usage = agent.Usage{
			Model: t.turn.Model, Input: max(0, used.Input-used.CacheRead-used.CacheWrite), Output: used.Output,
			CacheRead: used.CacheRead, CacheWrite: used.CacheWrite,
		}
		u := r.Usage
		t.emitEvent(x, agent.Event{Type: agent.UsageReported, Usage: &u})
	}
	r.Text = t.lastText
	if t.turn.Schema != nil && r.Outcome == agent.OK && json.Valid([]byte(r.Text)) {
		r.Structured = json.RawMessage(r.Text)
	}
	t.result, t.settled = r, true
}

// IsFinished reports whether the turn has ended.
func (t *conversation) IsFinished() bool { return t.settled }

// Result returns how the turn ended. For a missing session Codex exits without
// output.
func (t *conversation) Result(exit *agent.Exit) agent.Result {
	r := t.result
	if exit != nil && !t.settled && t.lastError != "" {
		r = t.failedResult()
	}
	r.Session = t.session
	if exit != nil && !t.settled && t.session == "" && t.turn.Session != "" && bytes.Contains(exit.Stderr, []byte("thread/resume")) {
		r.Outcome, r.Code = agent.Failed, "session_not_found"
		r.Message = "there is no session " + t.turn.Session
	}
	return r
}

// stripShell returns the command line that a shell was given, without the shell.
func stripShell(s string) string {
	for _, shell := range []string{"/bin/bash -lc ", "bash -lc ", "/bin/bash -c ", "/usr/bin/bash -lc ", "/bin/sh -c ", "/bin/zsh -lc "} {
		if rest, ok := strings.CutPrefix(s, shell); ok {
			return unquoteWord(rest)
		}
	}
	return s
}

// unquoteWord removes the shell quotes of a single word.
func unquoteWord(s string) string {
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
