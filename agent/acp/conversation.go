package acp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonrpc"
)

// The used methods and error codes of the protocol.
const (
	initialize     = "initialize"
	authenticate   = "authenticate"
	sessionNew     = "session/new"
	sessionLoad    = "session/load"
	sessionResume  = "session/resume"
	setMode        = "session/set_mode"
	setModel       = "session/set_model"
	setOption      = "session/set_config_option"
	sessionPrompt  = "session/prompt"
	sessionCancel  = "session/cancel"
	sessionUpdate  = "session/update"
	askPermission  = "session/request_permission"
	authRequired   = -32000 // error code
	resourceAbsent = -32002 // error code
)

// Options are settings of an agent beyond the protocol.
type Options struct {
	Name   string // of the agent
	Auth   string // authentication method to choose; empty: none is needed
	Mode   string // session mode to choose; empty: the agent's default
	Model  string // model to choose for the session; empty: the agent's default
	System string // text sent before the first prompt of a new session
}

// Conversation is a conversation in the Agent Client Protocol. A process accepts
// many prompts, and may not exit when its input ends.
type Conversation struct {
	turn *agent.Turn
	site agent.Environment
	Options

	peer         jsonrpc.Peer
	agent        agentInfo
	capabilities capabilities
	session      string
	isNew        bool // the session is new and has had no prompt
	replaying    bool // the agent replays earlier turns
	prompt       []agent.Content

	current  textBlock
	calls    map[string]*call
	order    []string // ids of calls in the order of their start
	pending  map[string]permissionRequest
	denials  []agent.ToolCall
	lastCost float64 // cost of the session when it was last reported
	settled  bool
	canceled bool
	result   agent.Result
}

var _ agent.Conversation = (*Conversation)(nil)

// NewConversation returns a conversation with an agent.
func NewConversation(t *agent.Turn, at agent.Environment, o Options) *Conversation {
	return &Conversation{turn: t, site: at, Options: o, prompt: t.Prompt, calls: map[string]*call{}, pending: map[string]permissionRequest{}}
}

// Begin sends the initialize request; the prompt follows when there is a session.
func (t *Conversation) Begin(x agent.Exchange) {
	x.Send(t.peer.Call(initialize, map[string]any{
		"protocolVersion": 1,
		"clientCapabilities": map[string]any{
			"fs":       map[string]bool{"readTextFile": false, "writeTextFile": false},
			"terminal": false,
		},
		"clientInfo": map[string]string{"name": "atoll", "version": "1"},
	}))
}

// HandleLine handles a message of the agent.
func (t *Conversation) HandleLine(x agent.Exchange, line []byte) {
	m, kind := t.peer.Parse(line)
	switch kind {
	case jsonrpc.Response:
		t.handleResponse(x, m)
	case jsonrpc.Notification:
		t.handleNotification(x, m, line)
	case jsonrpc.Request:
		if m.Method == askPermission {
			t.requestPermission(x, m)
			return
		}
		x.Send(t.peer.ReplyError(m.ID, jsonrpc.MethodNotFound, "this client has no "+m.Method+": use what is in the sandbox"))
	default:
		t.emitRaw(x, line)
	}
}

// handleResponse handles the response to a call and makes the next call.
func (t *Conversation) handleResponse(x agent.Exchange, m jsonrpc.Message) {
	if m.Error != nil {
		t.handleError(x, m)
		return
	}
	switch m.Method {
	case initialize:
		t.handleInitialized(x, m.Result)
	case authenticate:
		t.openSession(x)
	case sessionNew, sessionLoad, sessionResume:
		t.handleSessionOpened(x, m.Result)
	case sessionPrompt:
		t.handlePromptResult(x, m.Result)
	}
}

// handleError handles an error response: for optional settings it emits a warning,
// all others end the turn.
func (t *Conversation) handleError(x agent.Exchange, m jsonrpc.Message) {
	switch m.Method {
	case setMode, setModel, setOption:
		t.emitEvent(x, agent.Event{Type: agent.Warning, Text: fmt.Sprintf("%s: %s", m.Method, m.Error.Message)})
		return
	case sessionPrompt:
		t.finishPrompt(x, failureResult(m.Error))
		return
	}
	r := failureResult(m.Error)
	if (m.Method == sessionLoad || m.Method == sessionResume) && m.Error.Code != authRequired {
		r.Code = "session_not_found"
	}
	t.finishPrompt(x, r)
	x.Close()
}

// handleInitialized stores the agent's capabilities and opens a session.
func (t *Conversation) handleInitialized(x agent.Exchange, result json.RawMessage) {
	var v struct {
		Protocol     int          `json:"protocolVersion"`
		Capabilities capabilities `json:"agentCapabilities"`
		Info         agentInfo    `json:"agentInfo"`
	}
	jsonlines.Decode(result, &v)
	t.capabilities, t.agent = v.Capabilities, v.Info
	switch {
	case v.Protocol != 1:
		t.finishPrompt(x, agent.Result{Outcome: agent.Failed, Code: "protocol", Message: fmt.Sprintf("the agent speaks version %d of the protocol, want 1", v.Protocol)})
		x.Close()
	case t.Auth != "":
		x.Send(t.peer.Call(authenticate, map[string]string{"methodId": t.Auth}))
	default:
		t.openSession(x)
	}
}

// openSession asks for the session that the turn belongs to.
func (t *Conversation) openSession(x agent.Exchange) {
	params := map[string]any{"cwd": t.site.Dir, "mcpServers": t.mcpServers()}
	method := sessionNew
	if t.turn.Session != "" {
		params["sessionId"] = t.turn.Session
		switch {
		case t.capabilities.Session.Resume != nil:
			method = sessionResume
		case t.capabilities.Load:
			method, t.replaying = sessionLoad, true
		default:
			t.finishPrompt(x, agent.Result{Outcome: agent.Failed, Code: "session_not_found", Message: "the agent can't resume sessions of earlier processes"})
			x.Close()
			return
		}
	}
	x.Send(t.peer.Call(method, params))
}

// mcpServers returns Environment.Tools in the protocol's format.
func (t *Conversation) mcpServers() []any {
	if len(t.site.Tools) == 0 {
		return []any{}
	}
	return []any{map[string]any{
		"name":    "atoll",
		"command": t.site.Tools[0],
		"args":    append([]string{}, t.site.Tools[1:]...),
		"env":     []any{},
	}}
}

// handleSessionOpened chooses mode and model of a session and sends the prompt.
func (t *Conversation) handleSessionOpened(x agent.Exchange, result json.RawMessage) {
	var v sessionInfo
	jsonlines.Decode(result, &v)
	t.session, t.isNew, t.replaying = v.Session, t.turn.Session == "", false
	if !t.isNew {
		t.session = t.turn.Session
	}
	if t.session == "" {
		t.finishPrompt(x, agent.Result{Outcome: agent.Failed, Code: "protocol", Message: "the agent opened a session without an id"})
		x.Close()
		return
	}
	model := v.currentModel()
	if t.Model != "" {
		model = t.Model
	}
	t.emitEvent(x, agent.Event{Type: agent.Started, Started: &agent.Start{Agent: t.agentName(), Version: t.agent.Version, Model: model}})
	t.applyModeAndModel(x, v)
	t.sendPrompt(x)
}

func (t *Conversation) agentName() string {
	if t.Name == "acp" && t.agent.Name != "" {
		return t.agent.Name
	}
	return t.Name
}

// applyModeAndModel sets the mode and model that differ from the agent's defaults.
func (t *Conversation) applyModeAndModel(x agent.Exchange, v sessionInfo) {
	if t.Mode != "" && t.Mode != v.Modes.Current {
		x.Send(t.peer.Call(setMode, map[string]string{"sessionId": t.session, "modeId": t.Mode}))
	}
	if t.Model == "" || t.Model == v.currentModel() {
		return
	}
	option, has := v.modelOption()
	switch {
	case len(v.Models.Available) > 0:
		x.Send(t.peer.Call(setModel, map[string]string{"sessionId": t.session, "modelId": t.Model}))
	case has:
		x.Send(t.peer.Call(setOption, map[string]string{"sessionId": t.session, "configId": option, "value": t.Model}))
	default:
		t.emitEvent(x, agent.Event{Type: agent.Warning, Text: "the agent has no model setting; " + t.Model + " was requested"})
	}
}

// sendPrompt sends the prompt.
func (t *Conversation) sendPrompt(x agent.Exchange) {
	system := ""
	if t.isNew {
		system, t.isNew = t.System, false
	}
	x.Send(t.peer.Call(sessionPrompt, map[string]any{
		"sessionId": t.session,
		"prompt":    t.capabilities.Prompt.encodePrompt(system, t.prompt),
	}))
}

// Prompt sends a further prompt in the same session.
func (t *Conversation) Prompt(x agent.Exchange, p []agent.Content) error {
	if !t.settled || t.session == "" {
		return fmt.Errorf("%s: %w: the last prompt has no result yet", t.Name, atoll.ErrState)
	}
	t.prompt, t.settled, t.canceled, t.result = p, false, false, agent.Result{}
	t.denials, t.order = nil, nil
	t.sendPrompt(x)
	return nil
}

// Interrupt cancels the prompt, and answers its pending permission requests.
func (t *Conversation) Interrupt(x agent.Exchange) bool {
	if t.settled || !t.peer.IsPending(sessionPrompt) {
		return false
	}
	t.canceled = true
	x.Send(t.peer.Notify(sessionCancel, map[string]string{"sessionId": t.session}))
	for _, id := range slices.Sorted(maps.Keys(t.pending)) {
		x.Send(t.peer.Reply(t.pending[id].id, cancelled))
	}
	clear(t.pending)
	return true
}

// IsFinished reports whether the prompt has its result.
func (t *Conversation) IsFinished() bool { return t.settled }

// Result returns the outcome of the prompt.
func (t *Conversation) Result(*agent.Exit) agent.Result {
	r := t.result
	r.Session = t.session
	r.Denials = t.denials
	return r
}

// handlePromptResult reads how the prompt ended.
func (t *Conversation) handlePromptResult(x agent.Exchange, result json.RawMessage) {
	var v promptResult
	jsonlines.Decode(result, &v)
	r := agent.Result{Outcome: agent.OK, Usage: v.tokenUsage()}
	switch v.Reason {
	case "end_turn":
	case "max_tokens":
		r.Outcome, r.Code, r.Message = agent.Failed, "max_output", "the model's answer reached its maximum length and was cut"
	case "max_turn_requests":
		r.Outcome = agent.MaxTurns
	case "refusal":
		r.Outcome = agent.Refused
	case "cancelled":
		r.Outcome = agent.Aborted
	default:
		r.Outcome, r.Code, r.Message = agent.Failed, "protocol", fmt.Sprintf("the agent stopped for an unknown reason: %q", v.Reason)
	}
	t.finishPrompt(x, r)
}

// finishPrompt ends the text block and the running calls, and sets the result.
func (t *Conversation) finishPrompt(x agent.Exchange, r agent.Result) {
	t.endBlock(x)
	for _, id := range t.order {
		if c := t.calls[id]; !c.ended {
			c.ended, c.Status, c.Reason = true, agent.ToolFailed, "the turn ended before the call"
			ended := c.ToolCall
			t.emitEvent(x, agent.Event{Type: agent.ToolFinished, Tool: &ended})
		}
	}
	clear(t.pending)
	if t.canceled {
		r.Outcome = agent.Aborted
	}
	if r.Usage != (agent.Usage{}) {
		u := r.Usage
		t.emitEvent(x, agent.Event{Type: agent.UsageReported, Usage: &u})
	}
	r.Usage = r.Usage.Add(agent.Usage{Cost: t.result.Usage.Cost})
	r.Text = t.current.last
	t.result, t.settled = r, true
}

func (t *Conversation) emitEvent(x agent.Exchange, e agent.Event) {
	e.Session = t.session
	x.Emit(e)
}

// emitRaw emits a line that was not understood; an empty line is dropped.
func (t *Conversation) emitRaw(x agent.Exchange, line []byte) {
	if len(line) == 0 {
		return
	}
	t.emitEvent(x, agent.Event{Type: agent.Raw, Raw: jsonlines.Raw(line)})
}
