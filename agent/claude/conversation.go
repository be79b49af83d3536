package claude

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// conversation is a conversation with one process.
type conversation struct {
	turn    *agent.Turn
	options *options

	session string
	model   string
	started bool // the init line has come

	running     bool            // the agent works at something
	answered    bool            // the prompt has a result
	taskEnded   bool            // a background task has ended, and the agent will report on it
	queued      bool            // the agent has queued turns
	tasks       map[string]bool // background tasks by id
	interrupted bool            // the agent was asked to stop

	calls       map[string]*agent.ToolCall    // running calls
	known       map[string]bool               // calls that have started
	denied      map[string]bool               // calls that were not permitted
	pending     map[string]*permissionRequest // unanswered requests
	streams     map[string]*textStream        // by the call that started the subagent
	lastMessage map[string]string             // likewise: id of the last message

	steers bool     // the program reports when it reads a message
	unread []string // ids of messages that it has not read

	sent     int // control requests of the host
	cost     float64
	failure  string // code of the failure for which the host has stopped it
	apiError string // cause of a failed request to the model, in the program's words
	result   agent.Result
}

var _ agent.Conversation = (*conversation)(nil)

func newConversation(t *agent.Turn, o *options) *conversation {
	return &conversation{
		turn: t, options: o, session: t.Session,
		tasks: map[string]bool{}, calls: map[string]*agent.ToolCall{}, known: map[string]bool{}, denied: map[string]bool{},
		pending: map[string]*permissionRequest{}, streams: map[string]*textStream{}, lastMessage: map[string]string{},
	}
}

// Begin sends the first prompt.
func (t *conversation) Begin(x agent.Exchange) { t.sendPrompt(x, t.turn.Prompt) }

// Prompt sends the next prompt to the same process.
func (t *conversation) Prompt(x agent.Exchange, p []agent.Content) error {
	if !t.answered {
		return fmt.Errorf("%w: a prompt is under way", atoll.ErrState)
	}
	t.answered, t.taskEnded, t.queued, t.interrupted, t.running = false, false, false, false, false
	t.failure, t.apiError, t.result = "", "", agent.Result{}
	clear(t.tasks)
	clear(t.lastMessage)
	t.sendPrompt(x, p)
	return nil
}

// sendPrompt sends a prompt.
func (t *conversation) sendPrompt(x agent.Exchange, p []agent.Content) {
	send(x, map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": t.encodePrompt(p)}})
}

// send sends a line.
func send(x agent.Exchange, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return // can't happen for maps of strings and JSON
	}
	x.Send(append(b, '\n'))
}

// HandleLine handles a line of the program.
func (t *conversation) HandleLine(x agent.Exchange, b []byte) {
	var l line
	if !jsonlines.Decode(b, &l) || l.Type == "" {
		t.emitRaw(x, b)
		return
	}
	if isUsableID(l.Session) {
		t.session = l.Session
	}
	if !isUsableID(l.Parent) {
		l.Parent = ""
	}
	switch l.Type {
	case "system":
		t.handleSystem(x, l, b)
	case "assistant":
		t.handleAssistant(x, l, b)
	case "user":
		t.handleUser(x, l, b)
	case "stream_event":
		t.handleStreamEvent(x, l, b)
	case "control_request":
		t.requestPermission(x, l, b)
	case "control_cancel_request":
		t.withdrawRequest(x, l)
	case "control_response", "keep_alive":
	case "command_lifecycle":
		t.handleMessageState(x, b)
	case "result":
		t.handleResult(x, b)
	default:
		t.emitRaw(x, b)
	}
}

// emitEvent emits an event of this session.
func (t *conversation) emitEvent(x agent.Exchange, parent string, e agent.Event) {
	e.Session, e.Parent = t.session, parent
	x.Emit(e)
}

func (t *conversation) emitRaw(x agent.Exchange, b []byte) {
	t.emitEvent(x, "", agent.Event{Type: agent.Raw, Raw: rawJSON(b)})
}

// ignoredSubtypes are system messages without information that other lines lack.
var ignoredSubtypes = []string{"thinking_tokens", "task_progress", "task_updated", "ui_invalidate"}

// handleSystem handles a message about the program itself.
func (t *conversation) handleSystem(x agent.Exchange, l line, b []byte) {
	var n systemMessage
	jsonlines.Decode(b, &n)
	switch l.Subtype {
	case "init":
		t.running, t.taskEnded = true, false
		t.emitStarted(x, b)
	case "status":
		if stringValue(n.Status) == "requesting" {
			t.running, t.taskEnded = true, false // this request reports the ended tasks
		}
	case "api_retry":
		t.emitRetry(x, n)
	case "permission_denied":
		call := agent.ToolCall{ID: n.ToolID, Name: n.Tool, Kind: toolKind(n.Tool), Status: agent.Denied, Reason: n.Message}
		if c := t.calls[n.ToolID]; c != nil {
			call.Title, call.Input = c.Title, c.Input
		}
		t.recordDenial(call)
		t.emitEvent(x, l.Parent, agent.Event{Type: agent.PermissionDenied, Tool: &call})
	case "background_tasks_changed":
		t.listTasks(n.Tasks)
	case "task_started":
		if n.Behind && isUsableID(n.TaskID) && len(t.tasks) < maxTasks {
			t.tasks[n.TaskID] = true
		}
	case "task_notification":
		t.taskEnded = t.taskEnded || t.tasks[n.TaskID]
		delete(t.tasks, n.TaskID)
		t.emitRaw(x, b)
	case "informational":
		if n.Content == "" {
			t.emitRaw(x, b)
			return
		}
		t.emitEvent(x, "", agent.Event{Type: agent.Warning, Text: n.Content})
	default:
		if !slices.Contains(ignoredSubtypes, l.Subtype) {
			t.emitRaw(x, b)
		}
	}
}

// maxTasks limits the remembered background tasks.
const maxTasks = 10_000

// listTasks replaces the list of background tasks.
func (t *conversation) listTasks(raw json.RawMessage) {
	var list []struct {
		ID string `json:"task_id"`
	}
	if !jsonlines.Decode(raw, &list) {
		return
	}
	clear(t.tasks)
	for _, task := range list[:min(len(list), maxTasks)] {
		if isUsableID(task.ID) {
			t.tasks[task.ID] = true
		}
	}
}

// emitStarted emits the Started event. The program writes an init line for every
// prompt; only the first is emitted.
func (t *conversation) emitStarted(x agent.Exchange, b []byte) {
	var o initMessage
	jsonlines.Decode(b, &o)
	if o.Model != "" {
		t.model = o.Model
	}
	t.steers = slices.Contains(o.Capabilities, "msg_lifecycle_v1")
	if t.started {
		return
	}
	t.started = true
	s := agent.Start{Agent: "claude", Version: o.Version, Model: o.Model, Tools: o.Tools, Skills: o.Skills}
	for _, m := range o.MCP {
		s.MCP = append(s.MCP, agent.MCPServer{Name: m.Name, Status: m.Status})
	}
	t.emitEvent(x, "", agent.Event{Type: agent.Started, Started: &s})
}

// emitRetry emits that a request is repeated. For a wrong key a retry can't help:
// the agent is interrupted.
func (t *conversation) emitRetry(x agent.Exchange, n systemMessage) {
	r := agent.Retry{Attempt: n.Attempt, Status: n.Code, Delay: parseMilliseconds(n.Delay)}
	if n.Error != "unknown" {
		r.Message = n.Error
	}
	t.endBlock(x, "")
	t.emitEvent(x, "", agent.Event{Type: agent.Retrying, Retry: &r})
	if n.Error == "authentication_failed" && t.failure == "" {
		t.failure = "authentication"
		t.dropUnread(x)
		t.sendInterrupt(x)
	}
}

// parseMilliseconds returns a duration between 0 and 24 hours.
func parseMilliseconds(ms float64) time.Duration {
	const most = float64(24 * time.Hour / time.Millisecond)
	return time.Duration(max(0, min(ms, most)) * float64(time.Millisecond))
}

// Interrupt asks the agent to stop.
func (t *conversation) Interrupt(x agent.Exchange) bool {
	t.interrupted = true
	t.dropUnread(x)
	t.sendInterrupt(x)
	return true
}

// badKeyMessage is the message of a turn that was stopped for a wrong key.
const badKeyMessage = "the model's API rejected the key"

// sendInterrupt asks the agent to stop.
func (t *conversation) sendInterrupt(x agent.Exchange) {
	t.sendControl(x, map[string]any{"subtype": "interrupt"})
}

// sendControl sends a control request.
func (t *conversation) sendControl(x agent.Exchange, request map[string]any) {
	t.sent++
	send(x, map[string]any{"type": "control_request", "request_id": "atoll-" + strconv.Itoa(t.sent), "request": request})
}

// IsFinished reports whether the prompt has its result, the agent is idle, and no
// background task will wake it.
func (t *conversation) IsFinished() bool {
	if !t.answered || t.running || len(t.unread) > 0 {
		return false
	}
	return t.interrupted || t.failure != "" || !t.taskEnded && !t.queued && len(t.tasks) == 0
}

// encodePrompt returns a prompt in the program's format.
func (t *conversation) encodePrompt(p []agent.Content) []map[string]any {
	var parts []map[string]any
	for i, c := range p {
		text := agent.PlainText([]agent.Content{c})
		if i == 0 && strings.HasPrefix(text, "/") && !t.options.Commands {
			text = " " + text
		}
		if text != "" {
			parts = append(parts, map[string]any{"type": "text", "text": text})
		}
		if slices.Contains(imageTypes, c.Type) && len(c.Data) > 0 && len(c.Data) <= maxImageBytes {
			parts = append(parts, map[string]any{
				"type": "image", "source": map[string]any{"type": "base64", "media_type": c.Type, "data": c.Data},
			})
		}
	}
	return parts
}

// imageTypes are the media types of images that models accept in prompts.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// maxImageBytes is the largest image in a prompt, in bytes before base64, that the
// API accepts. A larger one is only a file.
const maxImageBytes = 3 << 20

// Result returns the outcome of the prompt as far as it is known.
func (t *conversation) Result(*agent.Exit) agent.Result {
	r := t.result
	r.Session = t.session
	r.Denials = slices.Clone(r.Denials)
	r.Turns = int(r.Usage.Requests)
	if r.Outcome == "" && t.interrupted {
		r.Outcome = agent.Aborted
	}
	if r.Outcome == "" && t.failure != "" {
		r.Outcome, r.Code, r.Message = agent.Failed, t.failure, badKeyMessage
	}
	return r
}
