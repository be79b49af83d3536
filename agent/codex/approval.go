package codex

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonrpc"
)

// The methods of the app server's approval requests.
const (
	approveCommand = "item/commandExecution/requestApproval"
	approveChange  = "item/fileChange/requestApproval"
	elicitation    = "mcpServer/elicitation/request"
)

// requestApproval handles a request of the app server: an approval request waits
// for a decision, all others are refused.
func (t *appServer) requestApproval(x agent.Exchange, m jsonrpc.Message) {
	var v struct {
		Item    string `json:"itemId"`
		Command string `json:"command"`
		Reason  string `json:"reason"`
		Server  string `json:"serverName"`
		Message string `json:"message"`
		Meta    struct {
			Kind  string          `json:"codex_approval_kind"`
			Input json.RawMessage `json:"tool_params"`
			Title string          `json:"tool_title"`
			Tool  string          `json:"tool_name"`
		} `json:"_meta"`
	}
	jsonlines.Decode(m.Params, &v)
	tool := agent.ToolCall{ID: v.Item, Kind: agent.Other, Reason: v.Reason}
	if c, ok := t.calls[v.Item]; ok {
		tool = c.ToolCall
	}
	tool.Status = ""
	switch m.Method {
	case approveCommand:
		tool.Name, tool.Kind = "shell", agent.Execute
		if v.Command != "" {
			tool.Title, tool.Input = stripShell(v.Command), encodeField("command", v.Command)
		}
	case approveChange:
		tool.Name, tool.Kind = "apply_patch", agent.Edit
	case elicitation:
		if v.Meta.Kind != "mcp_tool_call" {
			x.Send(t.peer.Reply(m.ID, map[string]string{"action": "decline"}))
			return
		}
		tool.Kind, tool.Title, tool.Input = agent.MCP, v.Message, v.Meta.Input
		tool.Name = "mcp__" + v.Server + "__" + v.Meta.Tool
	default:
		x.Send(t.peer.ReplyError(m.ID, jsonrpc.MethodNotFound, "this client does not support "+m.Method))
		return
	}
	id := strings.Trim(string(m.ID), `"`)
	if _, twice := t.pending[id]; twice || t.settled || t.interrupted || !t.turn.Ask || len(t.pending) == maxPending {
		x.Send(t.peer.Reply(m.ID, encodeDecision(m.Method, agent.Decision{Allow: !t.turn.Ask && !t.settled && !t.interrupted})))
		return
	}
	t.pending[id] = approvalRequest{id: m.ID, method: m.Method, call: v.Item}
	t.emitEvent(x, agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: id, Tool: tool}})
}

// maxPending limits how many approval requests wait at once.
const maxPending = 100

// encodeDecision returns a decision in the format of the request's method.
func encodeDecision(method string, d agent.Decision) map[string]any {
	if method == elicitation {
		switch {
		case !d.Allow:
			return map[string]any{"action": "decline"}
		case d.Always:
			return map[string]any{"action": "accept", "content": map[string]any{}, "_meta": map[string]string{"persist": "session"}}
		}
		return map[string]any{"action": "accept", "content": map[string]any{}}
	}
	switch {
	case d.Allow && d.Always:
		return map[string]any{"decision": "acceptForSession"}
	case d.Allow:
		return map[string]any{"decision": "accept"}
	}
	return map[string]any{"decision": "decline"}
}

// Decide answers an approval request. The protocol can't change the input of a
// tool.
func (t *appServer) Decide(x agent.Exchange, id string, d agent.Decision) error {
	r, ok := t.pending[id]
	if !ok {
		return fmt.Errorf("codex: permission %s: %w", id, atoll.ErrNotFound)
	}
	if d.Allow && d.Input != nil {
		return fmt.Errorf("codex: permission %s: %w: changing the input of a tool", id, atoll.ErrUnsupported)
	}
	delete(t.pending, id)
	x.Send(t.peer.Reply(r.id, encodeDecision(r.method, d)))
	if d.Allow {
		return nil
	}
	denied := agent.ToolCall{ID: r.call}
	if c, ok := t.calls[r.call]; ok {
		denied = c.ToolCall
	}
	denied.Status, denied.Reason = agent.Denied, d.Message
	t.denials = append(t.denials, denied)
	return nil
}

// turnError is the error of a turn.
type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// codeByError maps Codex's error names to codes of results.
var codeByError = map[string]string{
	"contextWindowExceeded": "max_input", "sessionBudgetExceeded": "budget", "usageLimitExceeded": "billing",
	"rateLimitExceeded": "rate_limit", "serverOverloaded": "overloaded", "modelNotFound": "not_found",
	"internalServerError": "server_error", "unauthorized": "authentication", "badRequest": "invalid_request",
}

// errorCode returns the code of an error, and its HTTP status if there is one.
func (f *turnError) errorCode() (code string, status int) {
	var word string
	if json.Unmarshal(f.Info, &word) == nil {
		code = codeByError[word]
	}
	var kinds map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	jsonlines.Decode(f.Info, &kinds)
	for _, k := range kinds {
		if k.Status > 0 {
			code, status = agent.ErrorCode(k.Status), k.Status
		}
	}
	if m := lastStatus.FindStringSubmatch(f.Message + f.Details); status == 0 && m != nil {
		status, _ = strconv.Atoi(m[1]) // can't fail for three digits
		code = agent.ErrorCode(status)
	}
	if code == "" {
		code = "agent"
	}
	return code, status
}

// handleError handles an error notification: it emits retries and ignores final
// errors, which are reported again when the turn ends.
func (t *appServer) handleError(x agent.Exchange, n notification) {
	if n.Error == nil || !n.Retry {
		return
	}
	_, status := n.Error.errorCode()
	r := agent.Retry{Attempt: 1, Status: status, Message: n.Error.Message}
	if m := retrying.FindStringSubmatch(n.Error.Message); m != nil {
		r.Attempt, _ = strconv.Atoi(m[1]) // can't fail for up to four digits
	}
	t.emitEvent(x, agent.Event{Type: agent.Retrying, Retry: &r})
}

// handleTurnCompleted reads how the turn ended.
func (t *appServer) handleTurnCompleted(x agent.Exchange, n notification) {
	if t.settled {
		return
	}
	if len(t.steered.asked) > 0 { // whether they were in time is in the responses
		t.steered.ended = &n
		return
	}
	if t.continueWithMessages(x) {
		return
	}
	r := agent.Result{Outcome: agent.OK}
	switch {
	case n.Turn.Status == "interrupted":
		r.Outcome = agent.Aborted
	case n.Turn.Status != "completed":
		r.Outcome, r.Code = agent.Failed, "agent"
		if n.Turn.Error != nil {
			r.Message = n.Turn.Error.Message
			r.Code, _ = n.Turn.Error.errorCode()
		}
	}
	t.finishPrompt(x, r)
}
