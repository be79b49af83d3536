package codex

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonrpc"
)

// appServer speaks with codex app-server: JSON-RPC over lines, in which threads are
// sessions.
type appServer struct {
	items

	turn *agent.Turn
	site agent.Environment
	peer jsonrpc.Peer

	prompt      []agent.Content
	turnID      string // id of the running turn; empty: none runs
	texts       map[string]*strings.Builder
	pending     map[string]approvalRequest
	denials     []agent.ToolCall
	used        agent.Usage
	interrupted bool
	steered     steered
	readEarly   map[string]bool // messages that were read before turn/steer had its response
	settled     bool
	result      agent.Result
}

// approvalRequest is an unanswered approval request.
type approvalRequest struct {
	id     json.RawMessage
	method string
	call   string
}

func newAppServer(t *agent.Turn, at agent.Environment) *appServer {
	return &appServer{
		turn: t, site: at, peer: jsonrpc.Peer{OmitVersion: true}, prompt: t.Prompt,
		texts: map[string]*strings.Builder{}, pending: map[string]approvalRequest{}, readEarly: map[string]bool{},
	}
}

// Begin sends the initialize request.
func (t *appServer) Begin(x agent.Exchange) {
	x.Send(t.peer.Call("initialize", map[string]any{"clientInfo": map[string]string{"name": "atoll", "title": "atoll", "version": "1"}}))
}

// HandleLine handles a message.
func (t *appServer) HandleLine(x agent.Exchange, text []byte) {
	m, kind := t.peer.Parse(text)
	switch kind {
	case jsonrpc.Response:
		t.handleResponse(x, m)
	case jsonrpc.Notification:
		if !t.handleNotification(x, m) {
			t.emitRaw(x, text)
		}
	case jsonrpc.Request:
		t.requestApproval(x, m)
	default:
		t.emitRaw(x, text)
	}
}

// handleResponse handles the response to a call and makes the next call.
func (t *appServer) handleResponse(x agent.Exchange, m jsonrpc.Message) {
	if m.Method == turnSteer {
		t.handleSteered(x, m)
		return
	}
	if m.Error != nil {
		r := agent.Result{Outcome: agent.Failed, Code: "agent", Message: m.Error.Message}
		if m.Method == "thread/resume" {
			r.Code = "session_not_found"
		}
		if m.Method != "turn/interrupt" {
			t.finishPrompt(x, r)
		}
		return
	}
	var v struct {
		Thread struct {
			ID      string `json:"id"`
			Version string `json:"cliVersion"`
		} `json:"thread"`
		Model string `json:"model"`
		Turn  struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	jsonlines.Decode(m.Result, &v)
	switch m.Method {
	case "initialize":
		x.Send(t.peer.Notify("initialized", nil))
		t.openThread(x)
	case "thread/start", "thread/resume":
		t.session = v.Thread.ID
		t.emitEvent(x, agent.Event{Type: agent.Started, Started: &agent.Start{Agent: "codex", Version: v.Thread.Version, Model: v.Model}})
		t.startTurn(x)
	case "turn/start":
		if t.turnID == "" && !t.settled {
			t.turnID = v.Turn.ID
		}
	}
}

// approvalPolicy returns when Codex requests approval: before every command that
// does more than read, or never. Codex follows it as a parameter of a thread, but
// not in its configuration file.
func (t *appServer) approvalPolicy() string {
	if t.turn.Ask {
		return "untrusted"
	}
	return "never"
}

// openThread starts or resumes the thread that the turn belongs to.
func (t *appServer) openThread(x agent.Exchange) {
	if t.turn.Session != "" {
		x.Send(t.peer.Call("thread/resume", map[string]any{"threadId": t.turn.Session, "cwd": t.site.Dir, "approvalPolicy": t.approvalPolicy(), "excludeTurns": true}))
		return
	}
	x.Send(t.peer.Call("thread/start", map[string]any{"cwd": t.site.Dir, "approvalPolicy": t.approvalPolicy()}))
}

// startTurn sends the prompt.
func (t *appServer) startTurn(x agent.Exchange) {
	x.Send(t.peer.Call("turn/start", map[string]any{"threadId": t.session, "input": userInput(t.prompt)}))
}

// notification is a notification of the app server; its members depend on the method.
type notification struct {
	Thread string          `json:"threadId"`
	Item   json.RawMessage `json:"item"`
	ItemID string          `json:"itemId"`
	Delta  string          `json:"delta"`
	Turn   struct {
		ID     string     `json:"id"`
		Status string     `json:"status"`
		Error  *turnError `json:"error"`
	} `json:"turn"`
	Error   *turnError `json:"error"`
	Retry   bool       `json:"willRetry"`
	Message string     `json:"message"`
	Plan    []struct {
		Step   string `json:"step"`
		Status string `json:"status"`
	} `json:"plan"`
	Usage struct {
		Last struct {
			Input     int64 `json:"inputTokens"`
			CacheRead int64 `json:"cachedInputTokens"`
			Output    int64 `json:"outputTokens"`
		} `json:"last"`
	} `json:"tokenUsage"`
}

// handleNotification handles a notification; false: it is emitted as Raw.
func (t *appServer) handleNotification(x agent.Exchange, m jsonrpc.Message) bool {
	var n notification
	if !jsonlines.Decode(m.Params, &n) || n.Thread != "" && t.session != "" && n.Thread != t.session {
		return false
	}
	switch m.Method {
	case "thread/started", "thread/status/changed", "thread/goal/cleared", "serverRequest/resolved",
		"item/commandExecution/terminalInteraction", "account/rateLimits/updated", "remoteControl/status/changed":
	case "turn/started":
		t.turnID = n.Turn.ID
	case "item/started", "item/completed":
		t.noteUserMessage(x, n.Item)
		return t.handleStep(x, n.Item, m.Method == "item/completed")
	case "item/agentMessage/delta":
		t.appendDelta(x, agent.TextDelta, n)
	case "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		t.appendDelta(x, agent.ThoughtDelta, n)
	case "item/commandExecution/outputDelta":
		return t.appendOutput(x, n)
	case "turn/plan/updated":
		plan := make([]agent.PlanEntry, len(n.Plan))
		for i, p := range n.Plan {
			plan[i] = agent.PlanEntry{Text: p.Step, Status: strings.Replace(p.Status, "inProgress", "in_progress", 1)}
		}
		t.emitEvent(x, agent.Event{Type: agent.PlanChanged, Plan: plan})
	case "thread/tokenUsage/updated":
		if t.turnID != "" { // else it is about an earlier turn
			t.addUsage(x, n)
		}
	case "warning", "configWarning", "guardianWarning":
		return t.emitWarning(x, n.Message)
	case "error":
		t.handleError(x, n)
	case "turn/completed":
		t.handleTurnCompleted(x, n)
	default:
		return false
	}
	return true
}

func (t *appServer) emitWarning(x agent.Exchange, text string) bool {
	if text != "" {
		t.emitEvent(x, agent.Event{Type: agent.Warning, Text: text})
	}
	return text != ""
}

// appendDelta emits a part of a text and keeps it until the item ends.
func (t *appServer) appendDelta(x agent.Exchange, kind agent.Type, n notification) {
	if n.Delta == "" {
		return
	}
	b, ok := t.texts[n.ItemID]
	if !ok {
		if len(t.texts) == maxCalls {
			clear(t.texts)
		}
		b = &strings.Builder{}
		t.texts[n.ItemID] = b
	}
	b.WriteString(n.Delta)
	t.emitEvent(x, agent.Event{Type: kind, Text: n.Delta})
}

// handleStep handles an item. Thoughts whose deltas were emitted are emitted whole
// from those deltas, since the item divides them differently.
func (t *appServer) handleStep(x agent.Exchange, raw json.RawMessage, ended bool) bool {
	var v item
	jsonlines.Decode(raw, &v)
	b, told := t.texts[v.ID]
	if v.Type == "reasoning" && ended && told {
		delete(t.texts, v.ID)
		t.emitEvent(x, agent.Event{Type: agent.ThoughtDone, Text: b.String()})
		return true
	}
	if ended {
		delete(t.texts, v.ID)
	}
	return t.handleItem(x, raw, ended)
}

// maxOutput limits the remembered output of a running command.
const maxOutput = 1 << 20

// appendOutput emits a part of a command's output.
func (t *appServer) appendOutput(x agent.Exchange, n notification) bool {
	c, ok := t.calls[n.ItemID]
	if !ok || c.ended || n.Delta == "" {
		return false
	}
	if len(c.Output) < maxOutput {
		c.Output += n.Delta
	}
	t.emitEvent(x, agent.Event{Type: agent.ToolUpdated, Tool: &agent.ToolCall{ID: n.ItemID, Output: n.Delta}})
	return true
}

// addUsage adds the usage of the last request to the model.
func (t *appServer) addUsage(x agent.Exchange, n notification) {
	last := n.Usage.Last
	u := agent.Usage{Input: max(0, last.Input-last.CacheRead), CacheRead: last.CacheRead, Output: last.Output, Requests: 1}
	t.used = t.used.Add(u)
	t.emitEvent(x, agent.Event{Type: agent.UsageReported, Usage: &u})
}

// finishPrompt sets the result of a prompt.
func (t *appServer) finishPrompt(x agent.Exchange, r agent.Result) {
	t.items.endCalls(x)
	t.dropMessages(x)
	clear(t.pending)
	r.Text, r.Usage, r.Turns = t.lastText, t.used, int(t.used.Requests)
	if t.interrupted {
		r.Outcome = agent.Aborted
	}
	t.result, t.settled, t.turnID = r, true, ""
}

// Prompt sends a further prompt in the same thread.
func (t *appServer) Prompt(x agent.Exchange, p []agent.Content) error {
	if !t.settled || t.session == "" {
		return fmt.Errorf("codex: %w: the last prompt has no result yet", atoll.ErrState)
	}
	t.prompt, t.settled, t.interrupted, t.result = p, false, false, agent.Result{}
	t.denials, t.used, t.lastText = nil, agent.Usage{}, ""
	t.startTurn(x)
	return nil
}

// Interrupt interrupts the running turn.
func (t *appServer) Interrupt(x agent.Exchange) bool {
	if t.settled || t.turnID == "" {
		return false
	}
	t.interrupted = true
	x.Send(t.peer.Call("turn/interrupt", map[string]string{"threadId": t.session, "turnId": t.turnID}))
	return true
}

// IsFinished reports whether the prompt has its result.
func (t *appServer) IsFinished() bool { return t.settled }

// Result returns the outcome of the prompt.
func (t *appServer) Result(*agent.Exit) agent.Result {
	r := t.result
	r.Session, r.Denials = t.session, t.denials
	return r
}
