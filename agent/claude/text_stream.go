package claude

import (
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// textStream is the streamed text of the agent, or of a subagent, in a message.
type textStream struct {
	kind    agent.Type      // type of the current block; empty: there is none
	text    strings.Builder // the current block so far
	emitted []textBlock     // blocks that were emitted when their deltas ended
}

// textBlock is a block of text or thought.
type textBlock struct {
	kind agent.Type // TextDone or ThoughtDone
	text string
}

// deltaTypes maps the types of blocks to those of their deltas.
var deltaTypes = map[agent.Type]agent.Type{agent.TextDone: agent.TextDelta, agent.ThoughtDone: agent.ThoughtDelta}

// maxEmitted limits the remembered blocks of a message.
const maxEmitted = 100

// maxStreams limits the concurrent streams of subagents.
const maxStreams = 1000

// streamOf returns the stream of the agent, or of the subagent that parent started.
func (t *conversation) streamOf(parent string) *textStream {
	s := t.streams[parent]
	if s == nil {
		if len(t.streams) >= maxStreams {
			clear(t.streams)
		}
		s = &textStream{}
		t.streams[parent] = s
	}
	return s
}

// handleStreamEvent handles an event of the model's stream.
func (t *conversation) handleStreamEvent(x agent.Exchange, l line, b []byte) {
	var p streamEvent
	jsonlines.Decode(b, &p)
	d := p.Event.Delta
	switch p.Event.Type {
	case "message_start":
		t.endBlock(x, l.Parent)
		t.streamOf(l.Parent).emitted = nil
		t.countRequest(l.Parent, p.Event.Message.ID)
	case "content_block_delta":
		switch d.Type {
		case "text_delta":
			t.appendDelta(x, l.Parent, agent.TextDone, d.Text)
		case "thinking_delta":
			t.appendDelta(x, l.Parent, agent.ThoughtDone, d.Thinking)
		}
	case "content_block_start", "content_block_stop":
		t.endBlock(x, l.Parent)
	case "message_delta", "message_stop", "ping":
	default:
		t.emitRaw(x, b)
	}
}

// appendDelta emits a delta and appends it to the current block.
func (t *conversation) appendDelta(x agent.Exchange, parent string, kind agent.Type, text string) {
	if text == "" {
		return
	}
	s := t.streamOf(parent)
	if s.kind != kind {
		t.endBlock(x, parent)
		s.kind = kind
	}
	s.text.WriteString(text)
	t.emitEvent(x, parent, agent.Event{Type: deltaTypes[kind], Text: text})
}

// endBlock ends the current block and emits its whole text. A message whose
// connection broke ends this way, too.
func (t *conversation) endBlock(x agent.Exchange, parent string) {
	s := t.streamOf(parent)
	if s.kind == "" {
		return
	}
	u := textBlock{s.kind, s.text.String()}
	t.emitEvent(x, parent, agent.Event{Type: u.kind, Text: u.text})
	if len(s.emitted) == maxEmitted {
		s.emitted = slices.Delete(s.emitted, 0, 1)
	}
	s.emitted = append(s.emitted, u)
	s.clearBlock()
}

// clearBlock clears the current block.
func (s *textStream) clearBlock() {
	s.kind = ""
	s.text.Reset()
}

// emitBlock emits a whole block that was not emitted yet. If its deltas came, it
// emits the rest as a delta first.
func (t *conversation) emitBlock(x agent.Exchange, parent string, u textBlock) {
	if u.text == "" {
		return
	}
	s := t.streamOf(parent)
	if i := slices.Index(s.emitted, u); i >= 0 {
		s.emitted = slices.Delete(s.emitted, i, i+1)
		return
	}
	if rest, ok := strings.CutPrefix(u.text, s.text.String()); ok && s.kind == u.kind {
		if rest != "" {
			t.emitEvent(x, parent, agent.Event{Type: deltaTypes[u.kind], Text: rest})
		}
		s.clearBlock()
	}
	t.endBlock(x, parent)
	t.emitEvent(x, parent, agent.Event{Type: u.kind, Text: u.text})
}
