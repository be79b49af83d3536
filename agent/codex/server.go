package codex

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/jsonrpc"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// server speaks with codex app-server: JSON-RPC over lines, in which threads
// are sessions.
type server struct {
	items

	turn *agent.Turn
	site agent.Site
	peer jsonrpc.Peer

	prompt  []agent.Content
	under   string // id of the turn that is under way
	texts   map[string]*strings.Builder
	asked   map[string]request
	denials []agent.ToolCall
	used    agent.Usage
	halted  bool
	settled bool
	result  agent.Result
}

// request is one for an approval that was not answered yet.
type request struct {
	id     json.RawMessage
	method string
	call   string
}

func newServer(t *agent.Turn, at agent.Site) *server {
	return &server{
		turn: t, site: at, peer: jsonrpc.Peer{Bare: true}, prompt: t.Prompt,
		texts: map[string]*strings.Builder{}, asked: map[string]request{},
	}
}

// Begin introduces this side.
func (t *server) Begin(x agent.Exchange) {
	x.Send(t.peer.Call("initialize", map[string]any{"clientInfo": map[string]string{"name": "atoll", "title": "atoll", "version": "1"}}))
}

// Line takes a message.
func (t *server) Line(x agent.Exchange, text []byte) {
	m, kind := t.peer.Take(text)
	switch kind {
	case jsonrpc.Response:
		t.answered(x, m)
	case jsonrpc.Notice:
		if !t.noticed(x, m) {
			t.raw(x, text)
		}
	case jsonrpc.Request:
		t.asks(x, m)
	default:
		t.raw(x, text)
	}
}

// answered goes on with what follows the answer to a call.
func (t *server) answered(x agent.Exchange, m jsonrpc.Message) {
	if m.Error != nil {
		r := agent.Result{Outcome: agent.Failed, Code: "agent", Message: m.Error.Message}
		if m.Method == "thread/resume" {
			r.Code = "session_not_found"
		}
		if m.Method != "turn/interrupt" {
			t.finish(x, r)
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
	lenient.Decode(m.Result, &v)
	switch m.Method {
	case "initialize":
		x.Send(t.peer.Notify("initialized", nil))
		t.open(x)
	case "thread/start", "thread/resume":
		t.session = v.Thread.ID
		t.emit(x, agent.Event{Type: agent.Started, Started: &agent.Start{Agent: "codex", Version: v.Thread.Version, Model: v.Model}})
		t.say(x)
	case "turn/start":
		if t.under == "" && !t.settled {
			t.under = v.Turn.ID
		}
	}
}

// policy says when Codex asks: before every command that does more than look,
// or never. As an approval policy of a thread it is followed, in its
// configuration it is not.
func (t *server) policy() string {
	if t.turn.Ask {
		return "untrusted"
	}
	return "never"
}

// open asks for the thread that the turn belongs to. What it may do is in its
// configuration.
func (t *server) open(x agent.Exchange) {
	if t.turn.Session != "" {
		x.Send(t.peer.Call("thread/resume", map[string]any{"threadId": t.turn.Session, "cwd": t.site.Dir, "approvalPolicy": t.policy(), "excludeTurns": true}))
		return
	}
	x.Send(t.peer.Call("thread/start", map[string]any{"cwd": t.site.Dir, "approvalPolicy": t.policy()}))
}

// say starts a turn.
func (t *server) say(x agent.Exchange) {
	input := []any{map[string]any{"type": "text", "text": agent.Plain(t.prompt)}}
	for _, c := range t.prompt {
		if c.Path != "" && isImage(c) {
			input = append(input, map[string]any{"type": "localImage", "path": c.Path})
		}
	}
	x.Send(t.peer.Call("turn/start", map[string]any{"threadId": t.session, "input": input}))
}

// notice is what the app server tells; its members depend on the method.
type notice struct {
	Thread string          `json:"threadId"`
	Item   json.RawMessage `json:"item"`
	ItemID string          `json:"itemId"`
	Delta  string          `json:"delta"`
	Turn   struct {
		ID     string   `json:"id"`
		Status string   `json:"status"`
		Error  *failure `json:"error"`
	} `json:"turn"`
	Error   *failure `json:"error"`
	Retry   bool     `json:"willRetry"`
	Message string   `json:"message"`
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

// noticed takes a notification; false: it is passed on as it is.
func (t *server) noticed(x agent.Exchange, m jsonrpc.Message) bool {
	var n notice
	if !lenient.Decode(m.Params, &n) || n.Thread != "" && t.session != "" && n.Thread != t.session {
		return false
	}
	switch m.Method {
	case "thread/started", "thread/status/changed", "thread/goal/cleared", "serverRequest/resolved",
		"item/commandExecution/terminalInteraction", "account/rateLimits/updated", "remoteControl/status/changed":
	case "turn/started":
		t.under = n.Turn.ID
	case "item/started", "item/completed":
		return t.step(x, n.Item, m.Method == "item/completed")
	case "item/agentMessage/delta":
		t.piece(x, agent.TextDelta, n)
	case "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		t.piece(x, agent.ThoughtDelta, n)
	case "item/commandExecution/outputDelta":
		return t.output(x, n)
	case "turn/plan/updated":
		plan := make([]agent.PlanEntry, len(n.Plan))
		for i, p := range n.Plan {
			plan[i] = agent.PlanEntry{Text: p.Step, Status: strings.Replace(p.Status, "inProgress", "in_progress", 1)}
		}
		t.emit(x, agent.Event{Type: agent.PlanChanged, Plan: plan})
	case "thread/tokenUsage/updated":
		if t.under != "" { // else it is of a turn long ago
			t.usage(x, n)
		}
	case "warning", "configWarning", "guardianWarning":
		return t.warn(x, n.Message)
	case "error":
		t.stumble(x, n)
	case "turn/completed":
		t.completed(x, n)
	default:
		return false
	}
	return true
}

func (t *server) warn(x agent.Exchange, text string) bool {
	if text != "" {
		t.emit(x, agent.Event{Type: agent.Warning, Text: text})
	}
	return text != ""
}

// piece takes a part of a text. Pieces of an item are told until it is told in
// whole.
func (t *server) piece(x agent.Exchange, kind agent.Type, n notice) {
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
	t.emit(x, agent.Event{Type: kind, Text: n.Delta})
}

// step takes an item. Thoughts whose pieces were told are told in whole as
// those pieces, as an item has them divided otherwise.
func (t *server) step(x agent.Exchange, raw json.RawMessage, ended bool) bool {
	var v item
	lenient.Decode(raw, &v)
	b, told := t.texts[v.ID]
	if v.Type == "reasoning" && ended && told {
		delete(t.texts, v.ID)
		t.emit(x, agent.Event{Type: agent.ThoughtDone, Text: b.String()})
		return true
	}
	if ended {
		delete(t.texts, v.ID)
	}
	return t.item(x, raw, ended)
}

// maxOutput is how much of what a command writes is remembered until it ends,
// when all of it is told.
const maxOutput = 1 << 20

// output takes a part of what a command writes.
func (t *server) output(x agent.Exchange, n notice) bool {
	c, ok := t.calls[n.ItemID]
	if !ok || c.ended || n.Delta == "" {
		return false
	}
	if len(c.Output) < maxOutput {
		c.Output += n.Delta
	}
	t.emit(x, agent.Event{Type: agent.ToolUpdated, Tool: &agent.ToolCall{ID: n.ItemID, Output: n.Delta}})
	return true
}

// usage takes what the last request to the model used.
func (t *server) usage(x agent.Exchange, n notice) {
	last := n.Usage.Last
	u := agent.Usage{Input: max(0, last.Input-last.CacheRead), CacheRead: last.CacheRead, Output: last.Output, Requests: 1}
	t.used = t.used.Add(u)
	t.emit(x, agent.Event{Type: agent.UsageTold, Usage: &u})
}

// finish is the end of a prompt.
func (t *server) finish(x agent.Exchange, r agent.Result) {
	t.items.finish(x)
	clear(t.asked)
	r.Text, r.Usage, r.Turns = t.last, t.used, int(t.used.Requests)
	if t.halted {
		r.Outcome = agent.Aborted
	}
	t.result, t.settled, t.under = r, true, ""
}

// Prompt says a further prompt, in the same thread.
func (t *server) Prompt(x agent.Exchange, p []agent.Content) error {
	if !t.settled || t.session == "" {
		return fmt.Errorf("codex: %w: the last prompt has no result yet", atoll.ErrState)
	}
	t.prompt, t.settled, t.halted, t.result = p, false, false, agent.Result{}
	t.denials, t.used, t.last = nil, agent.Usage{}, ""
	t.say(x)
	return nil
}

// Interrupt ends the turn that is under way.
func (t *server) Interrupt(x agent.Exchange) bool {
	if t.settled || t.under == "" {
		return false
	}
	t.halted = true
	x.Send(t.peer.Call("turn/interrupt", map[string]string{"threadId": t.session, "turnId": t.under}))
	return true
}

// Settled reports that the prompt has its result.
func (t *server) Settled() bool { return t.settled }

// Result returns how the prompt ended.
func (t *server) Result(*agent.Exit) agent.Result {
	r := t.result
	r.Session, r.Denials = t.session, t.denials
	return r
}
