// Package once is what conversations have in common with agents that run once
// for each prompt: they tell what they do in lines, and nothing can be said to
// them.
package once

import (
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// Deaf is the part of an [agent.Talk] that speaks, of an agent of this name: it
// has its prompt on its input, and no other.
type Deaf string

// Begin has nothing to say.
func (Deaf) Begin(x agent.Exchange) { x.Close() }

// Prompt is not possible: one process has one prompt.
func (d Deaf) Prompt(agent.Exchange, []agent.Content) error {
	return fmt.Errorf("%s: %w: a further prompt", string(d), atoll.ErrUnsupported)
}

// Decide has nothing to decide.
func (d Deaf) Decide(_ agent.Exchange, id string, _ agent.Decision) error {
	return fmt.Errorf("%s: permission %s: %w", string(d), id, atoll.ErrNotFound)
}

// Interrupt can't be asked for.
func (Deaf) Interrupt(agent.Exchange) bool { return false }

// What is remembered is bounded: a longer text is told in several blocks, and
// what is told of more calls than this is passed on as it is.
const (
	maxBlock = 4 << 20
	maxCalls = 20_000
)

// Talk is a conversation but for what its lines mean: who embeds it adds Line
// and Result.
type Talk struct {
	Deaf

	Session string // that events are of
	Last    string // text of the agent, whose block has ended
	Over    bool   // the prompt has its result

	text  strings.Builder // of the block that is being told in pieces
	calls map[string]*agent.ToolCall
	known map[string]bool
	order []string
}

// Settled reports that the prompt has its result.
func (t *Talk) Settled() bool { return t.Over }

// Emit tells an event of the session.
func (t *Talk) Emit(x agent.Exchange, e agent.Event) {
	e.Session = t.Session
	x.Emit(e)
}

// Raw passes on what was not understood.
func (t *Talk) Raw(x agent.Exchange, text []byte) {
	if len(text) > 0 {
		t.Emit(x, agent.Event{Type: agent.Raw, Raw: lenient.Raw(text)})
	}
}

// Start tells that the agent has begun.
func (t *Talk) Start(x agent.Exchange, model string) {
	t.Emit(x, agent.Event{Type: agent.Started, Started: &agent.Start{Agent: string(t.Deaf), Model: model}})
}

// Piece tells a piece of a block of text, which Hush ends.
func (t *Talk) Piece(x agent.Exchange, text string) {
	t.text.WriteString(text)
	t.Emit(x, agent.Event{Type: agent.TextDelta, Text: text})
	if t.text.Len() > maxBlock {
		t.Hush(x)
	}
}

// Telling reports that a block of text has begun and not ended.
func (t *Talk) Telling() bool { return t.text.Len() > 0 }

// Hush ends the block of text that is being told, if there is one.
func (t *Talk) Hush(x agent.Exchange) {
	text := t.text.String()
	t.text.Reset()
	if text != "" {
		t.Block(x, text)
	}
}

// Block tells a block of text in whole.
func (t *Talk) Block(x agent.Exchange, text string) {
	t.Last = text
	t.Emit(x, agent.Event{Type: agent.TextDone, Text: text})
}

// Fresh reports that a call of this id has not been told of, and can be
// remembered.
func (t *Talk) Fresh(id string) bool {
	return id != "" && !t.known[id] && len(t.known) < maxCalls
}

// Call tells that a tool is used, by a call that is [Talk.Fresh]. Text that came
// before it is a block of its own.
func (t *Talk) Call(x agent.Exchange, c *agent.ToolCall) {
	t.Hush(x)
	if t.calls == nil {
		t.calls, t.known = map[string]*agent.ToolCall{}, map[string]bool{}
	}
	t.calls[c.ID], t.known[c.ID] = c, true
	t.order = append(t.order, c.ID)
	begun := *c
	t.Emit(x, agent.Event{Type: agent.ToolStarted, Tool: &begun})
}

// Under reports that a call has begun and not ended.
func (t *Talk) Under(id string) bool { return t.calls[id] != nil }

// Ended tells what came of a call that is under way: what f writes into it.
func (t *Talk) Ended(x agent.Exchange, id string, f func(c *agent.ToolCall)) {
	c := t.calls[id]
	delete(t.calls, id)
	f(c)
	t.Emit(x, agent.Event{Type: agent.ToolFinished, Tool: c})
}

// Close ends the block of text and the calls that have not ended.
func (t *Talk) Close(x agent.Exchange) {
	t.Hush(x)
	for _, id := range t.order {
		if t.Under(id) {
			t.Ended(x, id, func(c *agent.ToolCall) {
				c.Status, c.Reason = agent.ToolFailed, "the turn ended before it did"
			})
		}
	}
	t.order = nil
}
