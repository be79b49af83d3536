// Package oneshot is the shared part of conversations with agents that run once
// for each prompt: they report their work in lines of JSON and accept no input
// besides the prompt.
package oneshot

import (
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// StdinPrompt implements the input methods of an [agent.Conversation] for an agent
// of this name, which reads its only prompt from its standard input.
type StdinPrompt string

// Begin closes the input after the prompt, which is in Plan.Stdin.
func (StdinPrompt) Begin(x agent.Exchange) { x.Close() }

// Prompt returns ErrUnsupported: one process has one prompt.
func (d StdinPrompt) Prompt(agent.Exchange, []agent.Content) error {
	return fmt.Errorf("%s: %w: a further prompt", string(d), atoll.ErrUnsupported)
}

// Decide returns ErrNotFound: such an agent requests no permissions.
func (d StdinPrompt) Decide(_ agent.Exchange, id string, _ agent.Decision) error {
	return fmt.Errorf("%s: permission %s: %w", string(d), id, atoll.ErrNotFound)
}

// Interrupt returns false: such an agent can't be asked to stop.
func (StdinPrompt) Interrupt(agent.Exchange) bool { return false }

// Memory is bounded: a longer text is emitted in several blocks, and lines about
// more calls than this become Raw events.
const (
	maxTextBlock = 4 << 20
	maxCalls     = 20_000
)

// Conversation is a conversation without the decoder of its lines: a type that
// embeds it adds HandleLine and Result.
type Conversation struct {
	StdinPrompt

	Session  string // session id of the emitted events
	LastText string // last finished text block of the agent
	Done     bool   // the prompt has its result

	text  strings.Builder // the current text block
	calls map[string]*agent.ToolCall
	seen  map[string]bool
	order []string
}

// IsFinished reports whether the prompt has its result.
func (t *Conversation) IsFinished() bool { return t.Done }

// Emit emits an event with the session's id.
func (t *Conversation) Emit(x agent.Exchange, e agent.Event) {
	e.Session = t.Session
	x.Emit(e)
}

// EmitRaw emits a line that was not understood; an empty line is dropped.
func (t *Conversation) EmitRaw(x agent.Exchange, text []byte) {
	if len(text) > 0 {
		t.Emit(x, agent.Event{Type: agent.Raw, Raw: jsonlines.Raw(text)})
	}
}

// EmitStarted emits that the agent has started.
func (t *Conversation) EmitStarted(x agent.Exchange, model string) {
	t.Emit(x, agent.Event{Type: agent.Started, Started: &agent.Start{Agent: string(t.StdinPrompt), Model: model}})
}

// EmitTextDelta emits a part of a text block, which EndText ends.
func (t *Conversation) EmitTextDelta(x agent.Exchange, text string) {
	t.text.WriteString(text)
	t.Emit(x, agent.Event{Type: agent.TextDelta, Text: text})
	if t.text.Len() > maxTextBlock {
		t.EndText(x)
	}
}

// InText reports whether a text block has begun and not ended.
func (t *Conversation) InText() bool { return t.text.Len() > 0 }

// EndText ends the current text block, if there is one, and emits its whole text.
func (t *Conversation) EndText(x agent.Exchange) {
	text := t.text.String()
	t.text.Reset()
	if text != "" {
		t.EmitText(x, text)
	}
}

// EmitText emits a whole text block.
func (t *Conversation) EmitText(x agent.Exchange, text string) {
	t.LastText = text
	t.Emit(x, agent.Event{Type: agent.TextDone, Text: text})
}

// IsNewCall reports whether a call with this id is new and can be remembered.
func (t *Conversation) IsNewCall(id string) bool {
	return id != "" && !t.seen[id] && len(t.seen) < maxCalls
}

// StartCall emits the start of a tool call that is new ([Conversation.IsNewCall]).
// It ends the current text block first.
func (t *Conversation) StartCall(x agent.Exchange, c *agent.ToolCall) {
	t.EndText(x)
	if t.calls == nil {
		t.calls, t.seen = map[string]*agent.ToolCall{}, map[string]bool{}
	}
	t.calls[c.ID], t.seen[c.ID] = c, true
	t.order = append(t.order, c.ID)
	begun := *c
	t.Emit(x, agent.Event{Type: agent.ToolStarted, Tool: &begun})
}

// IsRunning reports whether a call has started and not finished.
func (t *Conversation) IsRunning(id string) bool { return t.calls[id] != nil }

// FinishCall emits the end of a running call; f fills in its result.
func (t *Conversation) FinishCall(x agent.Exchange, id string, f func(c *agent.ToolCall)) {
	c := t.calls[id]
	delete(t.calls, id)
	f(c)
	t.Emit(x, agent.Event{Type: agent.ToolFinished, Tool: c})
}

// EndAll ends the text block and the running calls.
func (t *Conversation) EndAll(x agent.Exchange) {
	t.EndText(x)
	for _, id := range t.order {
		if t.IsRunning(id) {
			t.FinishCall(x, id, func(c *agent.ToolCall) {
				c.Status, c.Reason = agent.ToolFailed, "the turn ended before the call"
			})
		}
	}
	t.order = nil
}
