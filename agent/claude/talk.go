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
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// talk is a conversation with one process.
type talk struct {
	turn    *agent.Turn
	options *options

	session string
	model   string
	begun   bool // it has said of itself what it is

	running  bool            // it works at something
	answered bool            // the prompt has a result
	told     bool            // a task behind its back has ended, and it will say something to that
	queued   bool            // it has more to do
	tasks    map[string]bool // behind its back, by id
	halted   bool            // it was asked to stop

	calls  map[string]*agent.ToolCall // that have begun and not ended
	known  map[string]bool            // calls that have begun
	denied map[string]bool            // calls that were not permitted
	asked  map[string]*question       // that nobody has answered
	speech map[string]*speech         // by the call whose subagent it is of
	last   map[string]string          // likewise: the id of the last message

	sent    int // requests of our own
	cost    float64
	failure string // why this side has stopped it: a word
	reason  string // why a request to the model failed, in the program's word
	result  agent.Result
}

var _ agent.Talk = (*talk)(nil)

func newTalk(t *agent.Turn, o *options) *talk {
	return &talk{
		turn: t, options: o, session: t.Session,
		tasks: map[string]bool{}, calls: map[string]*agent.ToolCall{}, known: map[string]bool{}, denied: map[string]bool{},
		asked: map[string]*question{}, speech: map[string]*speech{}, last: map[string]string{},
	}
}

// Begin says the first prompt.
func (t *talk) Begin(x agent.Exchange) { t.say(x, t.turn.Prompt) }

// Prompt says the next prompt to the same process.
func (t *talk) Prompt(x agent.Exchange, p []agent.Content) error {
	if !t.answered {
		return fmt.Errorf("%w: a prompt is under way", atoll.ErrState)
	}
	t.answered, t.told, t.queued, t.halted, t.running = false, false, false, false, false
	t.failure, t.reason, t.result = "", "", agent.Result{}
	clear(t.tasks)
	clear(t.last)
	t.say(x, p)
	return nil
}

// say sends a prompt.
func (t *talk) say(x agent.Exchange, p []agent.Content) {
	send(x, map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": t.content(p)}})
}

// send sends a line.
func send(x agent.Exchange, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return // only maps of JSON and strings
	}
	x.Send(append(b, '\n'))
}

// Line takes a line of the program.
func (t *talk) Line(x agent.Exchange, b []byte) {
	var l line
	if !lenient.Decode(b, &l) || l.Type == "" {
		t.raw(x, b)
		return
	}
	if named(l.Session) {
		t.session = l.Session
	}
	if !named(l.Parent) {
		l.Parent = ""
	}
	switch l.Type {
	case "system":
		t.notice(x, l, b)
	case "assistant":
		t.assistant(x, l, b)
	case "user":
		t.user(x, l, b)
	case "stream_event":
		t.piece(x, l, b)
	case "control_request":
		t.asks(x, l, b)
	case "control_cancel_request":
		t.withdraws(x, l)
	case "control_response", "keep_alive":
	case "result":
		t.ends(x, b)
	default:
		t.raw(x, b)
	}
}

// emit tells an event of this session.
func (t *talk) emit(x agent.Exchange, parent string, e agent.Event) {
	e.Session, e.Parent = t.session, parent
	x.Emit(e)
}

func (t *talk) raw(x agent.Exchange, b []byte) {
	t.emit(x, "", agent.Event{Type: agent.Raw, Raw: raw(b)})
}

// quiet are notices that say nothing that is not told otherwise.
var quiet = []string{"thinking_tokens", "task_progress", "task_updated", "ui_invalidate"}

// notice takes a line about the program itself.
func (t *talk) notice(x agent.Exchange, l line, b []byte) {
	var n notice
	lenient.Decode(b, &n)
	switch l.Subtype {
	case "init":
		t.running, t.told = true, false
		t.opens(x, b)
	case "status":
		if word(n.Status) == "requesting" {
			t.running, t.told = true, false // what it was told goes with this request
		}
	case "api_retry":
		t.retries(x, n)
	case "permission_denied":
		call := agent.ToolCall{ID: n.ToolID, Name: n.Tool, Kind: kind(n.Tool), Status: agent.Denied, Reason: n.Message}
		if c := t.calls[n.ToolID]; c != nil {
			call.Title, call.Input = c.Title, c.Input
		}
		t.denies(call)
		t.emit(x, l.Parent, agent.Event{Type: agent.PermissionDenied, Tool: &call})
	case "background_tasks_changed":
		t.listTasks(n.Tasks)
	case "task_started":
		if n.Behind && named(n.TaskID) && len(t.tasks) < maxTasks {
			t.tasks[n.TaskID] = true
		}
	case "task_notification":
		t.told = t.told || t.tasks[n.TaskID]
		delete(t.tasks, n.TaskID)
		t.raw(x, b)
	case "informational":
		if n.Content == "" {
			t.raw(x, b)
			return
		}
		t.emit(x, "", agent.Event{Type: agent.Warning, Text: n.Content})
	default:
		if !slices.Contains(quiet, l.Subtype) {
			t.raw(x, b)
		}
	}
}

// maxTasks bounds what is remembered of work behind the agent's back.
const maxTasks = 10_000

// listTasks takes the list of work behind the agent's back.
func (t *talk) listTasks(raw json.RawMessage) {
	var list []struct {
		ID string `json:"task_id"`
	}
	if !lenient.Decode(raw, &list) {
		return
	}
	clear(t.tasks)
	for _, task := range list[:min(len(list), maxTasks)] {
		if named(task.ID) {
			t.tasks[task.ID] = true
		}
	}
}

// opens tells what the agent says of itself. It does so for every prompt.
func (t *talk) opens(x agent.Exchange, b []byte) {
	var o opening
	lenient.Decode(b, &o)
	if o.Model != "" {
		t.model = o.Model
	}
	if t.begun {
		return
	}
	t.begun = true
	s := agent.Start{Agent: "claude", Version: o.Version, Model: o.Model, Tools: o.Tools, Skills: o.Skills}
	for _, m := range o.MCP {
		s.MCP = append(s.MCP, agent.MCPServer{Name: m.Name, Status: m.Status})
	}
	t.emit(x, "", agent.Event{Type: agent.Started, Started: &s})
}

// retries tells that a request is made again. One whose key is wrong will not
// get better: the agent is stopped.
func (t *talk) retries(x agent.Exchange, n notice) {
	r := agent.Retry{Attempt: n.Attempt, Status: n.Code, Delay: milliseconds(n.Delay)}
	if n.Error != "unknown" {
		r.Message = n.Error
	}
	t.hush(x, "")
	t.emit(x, "", agent.Event{Type: agent.Retrying, Retry: &r})
	if n.Error == "authentication_failed" && t.failure == "" {
		t.failure = "authentication"
		t.stop(x)
	}
}

// milliseconds returns what is told in them, within reason.
func milliseconds(ms float64) time.Duration {
	const most = float64(24 * time.Hour / time.Millisecond)
	return time.Duration(max(0, min(ms, most)) * float64(time.Millisecond))
}

// Interrupt asks the agent to stop.
func (t *talk) Interrupt(x agent.Exchange) bool {
	t.halted = true
	t.stop(x)
	return true
}

// refused is told of a turn that was stopped for it.
const refused = "the model's API does not take the key"

// stop asks the agent to stop.
func (t *talk) stop(x agent.Exchange) {
	t.sent++
	send(x, map[string]any{
		"type": "control_request", "request_id": "atoll-" + strconv.Itoa(t.sent), "request": map[string]any{"subtype": "interrupt"},
	})
}

// Settled reports that the prompt has its result, that the agent works at
// nothing more, and that nothing which runs behind its back will wake it.
func (t *talk) Settled() bool {
	if !t.answered || t.running {
		return false
	}
	return t.halted || t.failure != "" || !t.told && !t.queued && len(t.tasks) == 0
}

// content is a prompt as the program takes it.
func (t *talk) content(p []agent.Content) []map[string]any {
	var parts []map[string]any
	for i, c := range p {
		text := agent.Plain([]agent.Content{c})
		if i == 0 && strings.HasPrefix(text, "/") && !t.options.Commands {
			text = " " + text
		}
		if text != "" {
			parts = append(parts, map[string]any{"type": "text", "text": text})
		}
		if slices.Contains(pictures, c.Type) && len(c.Data) > 0 && len(c.Data) <= maxPicture {
			parts = append(parts, map[string]any{
				"type": "image", "source": map[string]any{"type": "base64", "media_type": c.Type, "data": c.Data},
			})
		}
	}
	return parts
}

// pictures are those that models can see, in prompts.
var pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// maxPicture is how large a picture in a prompt may be, in bytes: what an API
// takes, before it is written in base64. A larger one is only a file.
const maxPicture = 3 << 20

// Result returns what is known of the prompt's outcome.
func (t *talk) Result(*agent.Exit) agent.Result {
	r := t.result
	r.Session = t.session
	r.Denials = slices.Clone(r.Denials)
	r.Turns = int(r.Usage.Requests)
	if r.Outcome == "" && t.halted {
		r.Outcome = agent.Aborted
	}
	if r.Outcome == "" && t.failure != "" {
		r.Outcome, r.Code, r.Message = agent.Failed, t.failure, refused
	}
	return r
}
