package codex

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/jsonrpc"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// The methods by which the app server asks for an approval.
const (
	approveCommand = "item/commandExecution/requestApproval"
	approveChange  = "item/fileChange/requestApproval"
	elicit         = "mcpServer/elicitation/request"
)

// asks takes a request of the app server: those for approval wait for a
// decision, all others are refused.
func (t *server) asks(x agent.Exchange, m jsonrpc.Message) {
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
	lenient.Decode(m.Params, &v)
	tool := agent.ToolCall{ID: v.Item, Kind: agent.Other, Reason: v.Reason}
	if c, ok := t.calls[v.Item]; ok {
		tool = c.ToolCall
	}
	tool.Status = ""
	switch m.Method {
	case approveCommand:
		tool.Name, tool.Kind = "shell", agent.Execute
		if v.Command != "" {
			tool.Title, tool.Input = command(v.Command), object("command", v.Command)
		}
	case approveChange:
		tool.Name, tool.Kind = "apply_patch", agent.Edit
	case elicit:
		if v.Meta.Kind != "mcp_tool_call" {
			x.Send(t.peer.Answer(m.ID, map[string]string{"action": "decline"}))
			return
		}
		tool.Kind, tool.Title, tool.Input = agent.MCP, v.Message, v.Meta.Input
		tool.Name = "mcp__" + v.Server + "__" + v.Meta.Tool
	default:
		x.Send(t.peer.Refuse(m.ID, jsonrpc.MethodNotFound, "there is nobody to answer "+m.Method))
		return
	}
	id := strings.Trim(string(m.ID), `"`)
	if _, twice := t.asked[id]; twice || t.settled || t.halted || !t.turn.Ask || len(t.asked) == maxAsked {
		x.Send(t.peer.Answer(m.ID, verdict(m.Method, agent.Decision{Allow: !t.turn.Ask && !t.settled && !t.halted})))
		return
	}
	t.asked[id] = request{id: m.ID, method: m.Method, call: v.Item}
	t.emit(x, agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: id, Tool: tool}})
}

// maxAsked is how many requests may wait for their answers.
const maxAsked = 100

// verdict is a decision as a request wants it.
func verdict(method string, d agent.Decision) map[string]any {
	if method == elicit {
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

// Decide answers a request for approval. What a tool is called with can't be
// changed.
func (t *server) Decide(x agent.Exchange, id string, d agent.Decision) error {
	r, ok := t.asked[id]
	if !ok {
		return fmt.Errorf("codex: permission %s: %w", id, atoll.ErrNotFound)
	}
	if d.Allow && d.Input != nil {
		return fmt.Errorf("codex: permission %s: %w: another input of a tool", id, atoll.ErrUnsupported)
	}
	delete(t.asked, id)
	x.Send(t.peer.Answer(r.id, verdict(r.method, d)))
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

// failure is an error of a turn.
type failure struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// codes are the words for what Codex says went wrong.
var codes = map[string]string{
	"contextWindowExceeded": "max_input", "sessionBudgetExceeded": "budget", "usageLimitExceeded": "billing",
	"rateLimitExceeded": "rate_limit", "serverOverloaded": "overloaded", "modelNotFound": "not_found",
	"internalServerError": "server_error", "unauthorized": "authentication", "badRequest": "invalid_request",
}

// reason returns the word for a failure, and the status of HTTP if it is told.
func (f *failure) reason() (code string, status int) {
	var word string
	if json.Unmarshal(f.Info, &word) == nil {
		code = codes[word]
	}
	var kinds map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	lenient.Decode(f.Info, &kinds)
	for _, k := range kinds {
		if k.Status > 0 {
			code, status = agent.Code(k.Status), k.Status
		}
	}
	if m := lastStatus.FindStringSubmatch(f.Message + f.Details); status == 0 && m != nil {
		status, _ = strconv.Atoi(m[1]) // three digits
		code = agent.Code(status)
	}
	if code == "" {
		code = "agent"
	}
	return code, status
}

// stumble takes an error of a turn that goes on, or that is told again when it
// ends.
func (t *server) stumble(x agent.Exchange, n notice) {
	if n.Error == nil || !n.Retry {
		return
	}
	_, status := n.Error.reason()
	r := agent.Retry{Attempt: 1, Status: status, Message: n.Error.Message}
	if m := retrying.FindStringSubmatch(n.Error.Message); m != nil {
		r.Attempt, _ = strconv.Atoi(m[1]) // digits
	}
	t.emit(x, agent.Event{Type: agent.Retrying, Retry: &r})
}

// completed reads how the turn ended.
func (t *server) completed(x agent.Exchange, n notice) {
	if t.settled {
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
			r.Code, _ = n.Turn.Error.reason()
		}
	}
	t.finish(x, r)
}
