package acp

import (
	"encoding/json"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/jsonrpc"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// The methods of the protocol that are used.
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
	authRequired   = -32000 // the protocol's code of an error
	resourceAbsent = -32002 // likewise
)

// Options are what is known of an agent besides the protocol.
type Options struct {
	Name   string // of the agent
	Auth   string // its method of authentication to choose; empty: it needs none
	Mode   string // the session mode to choose; empty: its own
	Model  string // to choose for the session; empty: its own
	System string // said before the first prompt of a new session
}

// Talk is a conversation in the Agent Client Protocol. A process takes many
// prompts, and may not end when its input does.
type Talk struct {
	turn *agent.Turn
	site agent.Site
	Options

	peer    jsonrpc.Peer
	agent   agentInfo
	can     capabilities
	session string
	made    bool // the session is new: nothing was said in it yet
	replay  bool // what comes is of turns long ago
	prompt  []agent.Content

	speech   speech
	calls    map[string]*call
	order    []string // of calls, as they came
	asked    map[string]request
	denials  []agent.ToolCall
	spent    float64 // what the session had cost when it was last told
	settled  bool
	canceled bool
	result   agent.Result
}

var _ agent.Talk = (*Talk)(nil)

// NewTalk returns a conversation with an agent.
func NewTalk(t *agent.Turn, at agent.Site, o Options) *Talk {
	return &Talk{turn: t, site: at, Options: o, prompt: t.Prompt, calls: map[string]*call{}, asked: map[string]request{}}
}

// Begin introduces this side; the prompt follows when there is a session.
func (t *Talk) Begin(x agent.Exchange) {
	x.Send(t.peer.Call(initialize, map[string]any{
		"protocolVersion": 1,
		"clientCapabilities": map[string]any{
			"fs":       map[string]bool{"readTextFile": false, "writeTextFile": false},
			"terminal": false,
		},
		"clientInfo": map[string]string{"name": "atoll", "version": "1"},
	}))
}

// Line takes a message of the agent.
func (t *Talk) Line(x agent.Exchange, line []byte) {
	m, kind := t.peer.Take(line)
	switch kind {
	case jsonrpc.Response:
		t.answered(x, m)
	case jsonrpc.Notice:
		t.noticed(x, m, line)
	case jsonrpc.Request:
		if m.Method == askPermission {
			t.asks(x, m)
			return
		}
		x.Send(t.peer.Refuse(m.ID, jsonrpc.MethodNotFound, "this client has no "+m.Method+": use what is in the sandbox"))
	default:
		t.raw(x, line)
	}
}

// answered goes on with what follows the answer to a call.
func (t *Talk) answered(x agent.Exchange, m jsonrpc.Message) {
	if m.Error != nil {
		t.refused(x, m)
		return
	}
	switch m.Method {
	case initialize:
		t.initialized(x, m.Result)
	case authenticate:
		t.open(x)
	case sessionNew, sessionLoad, sessionResume:
		t.opened(x, m.Result)
	case sessionPrompt:
		t.prompted(x, m.Result)
	}
}

// refused handles an error in place of an answer: what was only a wish is told
// as a warning, all else ends the turn.
func (t *Talk) refused(x agent.Exchange, m jsonrpc.Message) {
	switch m.Method {
	case setMode, setModel, setOption:
		t.emit(x, agent.Event{Type: agent.Warning, Text: fmt.Sprintf("%s: %s", m.Method, m.Error.Message)})
		return
	case sessionPrompt:
		t.finish(x, failure(m.Error))
		return
	}
	r := failure(m.Error)
	if (m.Method == sessionLoad || m.Method == sessionResume) && m.Error.Code != authRequired {
		r.Code = "session_not_found"
	}
	t.finish(x, r)
	x.Close()
}

// initialized reads what the agent is, and asks for a session.
func (t *Talk) initialized(x agent.Exchange, result json.RawMessage) {
	var v struct {
		Protocol     int          `json:"protocolVersion"`
		Capabilities capabilities `json:"agentCapabilities"`
		Info         agentInfo    `json:"agentInfo"`
	}
	lenient.Decode(result, &v)
	t.can, t.agent = v.Capabilities, v.Info
	switch {
	case v.Protocol != 1:
		t.finish(x, agent.Result{Outcome: agent.Failed, Code: "protocol", Message: fmt.Sprintf("the agent speaks version %d of the protocol, not 1", v.Protocol)})
		x.Close()
	case t.Auth != "":
		x.Send(t.peer.Call(authenticate, map[string]string{"methodId": t.Auth}))
	default:
		t.open(x)
	}
}

// open asks for the session that the turn belongs to.
func (t *Talk) open(x agent.Exchange) {
	params := map[string]any{"cwd": t.site.Dir, "mcpServers": t.servers()}
	method := sessionNew
	if t.turn.Session != "" {
		params["sessionId"] = t.turn.Session
		switch {
		case t.can.Session.Resume != nil:
			method = sessionResume
		case t.can.Load:
			method, t.replay = sessionLoad, true
		default:
			t.finish(x, agent.Result{Outcome: agent.Failed, Code: "session_not_found", Message: "the agent can't go on with sessions of earlier processes"})
			x.Close()
			return
		}
	}
	x.Send(t.peer.Call(method, params))
}

// servers lists what Site.Tools is, as the protocol wants it.
func (t *Talk) servers() []any {
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

// opened has a session: mode and model are chosen, the prompt is said.
func (t *Talk) opened(x agent.Exchange, result json.RawMessage) {
	var v opening
	lenient.Decode(result, &v)
	t.session, t.made, t.replay = v.Session, t.turn.Session == "", false
	if !t.made {
		t.session = t.turn.Session
	}
	if t.session == "" {
		t.finish(x, agent.Result{Outcome: agent.Failed, Code: "protocol", Message: "the agent opened a session without an id"})
		x.Close()
		return
	}
	model := v.model()
	if t.Model != "" {
		model = t.Model
	}
	t.emit(x, agent.Event{Type: agent.Started, Started: &agent.Start{Agent: t.name(), Version: t.agent.Version, Model: model}})
	t.choose(x, v)
	t.say(x)
}

func (t *Talk) name() string {
	if t.Name == "acp" && t.agent.Name != "" {
		return t.agent.Name
	}
	return t.Name
}

// choose sets what the session is to differ in from the agent's defaults.
func (t *Talk) choose(x agent.Exchange, v opening) {
	if t.Mode != "" && t.Mode != v.Modes.Current {
		x.Send(t.peer.Call(setMode, map[string]string{"sessionId": t.session, "modeId": t.Mode}))
	}
	if t.Model == "" || t.Model == v.model() {
		return
	}
	option, has := v.modelOption()
	switch {
	case len(v.Models.Available) > 0:
		x.Send(t.peer.Call(setModel, map[string]string{"sessionId": t.session, "modelId": t.Model}))
	case has:
		x.Send(t.peer.Call(setOption, map[string]string{"sessionId": t.session, "configId": option, "value": t.Model}))
	default:
		t.emit(x, agent.Event{Type: agent.Warning, Text: "the agent lets nobody choose its model; " + t.Model + " was wanted"})
	}
}

// say says the prompt.
func (t *Talk) say(x agent.Exchange) {
	system := ""
	if t.made {
		system, t.made = t.System, false
	}
	x.Send(t.peer.Call(sessionPrompt, map[string]any{
		"sessionId": t.session,
		"prompt":    t.can.Prompt.blocks(system, t.prompt),
	}))
}

// Prompt says a further prompt, in the same session.
func (t *Talk) Prompt(x agent.Exchange, p []agent.Content) error {
	if !t.settled || t.session == "" {
		return fmt.Errorf("%s: %w: the last prompt has no result yet", t.Name, atoll.ErrState)
	}
	t.prompt, t.settled, t.canceled, t.result = p, false, false, agent.Result{}
	t.denials, t.order = nil, nil
	t.say(x)
	return nil
}

// Interrupt cancels the prompt; what the agent waits to be permitted is
// answered with it.
func (t *Talk) Interrupt(x agent.Exchange) bool {
	if t.settled || !t.peer.Waits(sessionPrompt) {
		return false
	}
	t.canceled = true
	x.Send(t.peer.Notify(sessionCancel, map[string]string{"sessionId": t.session}))
	for id, r := range t.asked {
		delete(t.asked, id)
		x.Send(t.peer.Answer(r.id, cancelled))
	}
	return true
}

// Settled reports that the prompt has its result.
func (t *Talk) Settled() bool { return t.settled }

// Result returns what the agent said of the prompt's end.
func (t *Talk) Result(*agent.Exit) agent.Result {
	r := t.result
	r.Session = t.session
	r.Denials = t.denials
	return r
}

// prompted reads how the prompt ended.
func (t *Talk) prompted(x agent.Exchange, result json.RawMessage) {
	var v ending
	lenient.Decode(result, &v)
	r := agent.Result{Outcome: agent.OK, Usage: v.usage()}
	switch v.Reason {
	case "end_turn":
	case "max_tokens":
		r.Outcome, r.Code, r.Message = agent.Failed, "max_output", "the model's answer was cut at its longest"
	case "max_turn_requests":
		r.Outcome = agent.MaxTurns
	case "refusal":
		r.Outcome = agent.Refused
	case "cancelled":
		r.Outcome = agent.Aborted
	default:
		r.Outcome, r.Code, r.Message = agent.Failed, "protocol", fmt.Sprintf("the agent stopped for a reason that is not known: %q", v.Reason)
	}
	t.finish(x, r)
}

// finish is the end of a prompt, or of the attempt to say it.
func (t *Talk) finish(x agent.Exchange, r agent.Result) {
	t.hush(x)
	for _, id := range t.order {
		if c := t.calls[id]; !c.ended {
			c.ended, c.Status, c.Reason = true, agent.ToolFailed, "the turn ended before it did"
			ended := c.ToolCall
			t.emit(x, agent.Event{Type: agent.ToolFinished, Tool: &ended})
		}
	}
	clear(t.asked)
	if t.canceled {
		r.Outcome = agent.Aborted
	}
	if r.Usage != (agent.Usage{}) {
		u := r.Usage
		t.emit(x, agent.Event{Type: agent.UsageTold, Usage: &u})
	}
	r.Usage = r.Usage.Add(agent.Usage{Cost: t.result.Usage.Cost})
	r.Text = t.speech.last
	t.result, t.settled = r, true
}

func (t *Talk) emit(x agent.Exchange, e agent.Event) {
	e.Session = t.session
	x.Emit(e)
}

// raw passes on what was not understood.
func (t *Talk) raw(x agent.Exchange, line []byte) {
	if len(line) == 0 {
		return
	}
	t.emit(x, agent.Event{Type: agent.Raw, Raw: lenient.Raw(line)})
}
