package claude

import (
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// speech is what an agent, or a subagent, says in a message.
type speech struct {
	kind agent.Type      // of the block that comes in pieces; empty: none does
	part strings.Builder // what came of it
	told []utterance     // that were told in whole when their pieces ended
}

// utterance is a block of text or thought.
type utterance struct {
	kind agent.Type // TextDone or ThoughtDone
	text string
}

// deltas are the types of the pieces.
var deltas = map[agent.Type]agent.Type{agent.TextDone: agent.TextDelta, agent.ThoughtDone: agent.ThoughtDelta}

// maxTold bounds how many blocks of a message are remembered.
const maxTold = 100

// maxSpeakers bounds how many subagents are listened to at once.
const maxSpeakers = 1000

// speaker returns who speaks.
func (t *talk) speaker(parent string) *speech {
	s := t.speech[parent]
	if s == nil {
		if len(t.speech) >= maxSpeakers {
			clear(t.speech)
		}
		s = &speech{}
		t.speech[parent] = s
	}
	return s
}

// piece takes an event of the model's stream.
func (t *talk) piece(x agent.Exchange, l line, b []byte) {
	var p piece
	lenient.Decode(b, &p)
	d := p.Event.Delta
	switch p.Event.Type {
	case "message_start":
		t.hush(x, l.Parent)
		t.speaker(l.Parent).told = nil
		t.counts(l.Parent, p.Event.Message.ID)
	case "content_block_delta":
		switch d.Type {
		case "text_delta":
			t.utters(x, l.Parent, agent.TextDone, d.Text)
		case "thinking_delta":
			t.utters(x, l.Parent, agent.ThoughtDone, d.Thinking)
		}
	case "content_block_start", "content_block_stop":
		t.hush(x, l.Parent)
	case "message_delta", "message_stop", "ping":
	default:
		t.raw(x, b)
	}
}

// utters tells a piece.
func (t *talk) utters(x agent.Exchange, parent string, kind agent.Type, text string) {
	if text == "" {
		return
	}
	s := t.speaker(parent)
	if s.kind != kind {
		t.hush(x, parent)
		s.kind = kind
	}
	s.part.WriteString(text)
	t.emit(x, parent, agent.Event{Type: deltas[kind], Text: text})
}

// hush tells the whole of what came in pieces, if more of it will not come. A
// message whose connection broke ends so, too.
func (t *talk) hush(x agent.Exchange, parent string) {
	s := t.speaker(parent)
	if s.kind == "" {
		return
	}
	u := utterance{s.kind, s.part.String()}
	t.emit(x, parent, agent.Event{Type: u.kind, Text: u.text})
	if len(s.told) == maxTold {
		s.told = slices.Delete(s.told, 0, 1)
	}
	s.told = append(s.told, u)
	s.silent()
}

// silent forgets the block that comes in pieces.
func (s *speech) silent() {
	s.kind = ""
	s.part.Reset()
}

// says tells a block in whole: the rest of one whose pieces came, or one that
// was not told yet.
func (t *talk) says(x agent.Exchange, parent string, u utterance) {
	if u.text == "" {
		return
	}
	s := t.speaker(parent)
	if i := slices.Index(s.told, u); i >= 0 {
		s.told = slices.Delete(s.told, i, i+1)
		return
	}
	if rest, ok := strings.CutPrefix(u.text, s.part.String()); ok && s.kind == u.kind {
		if rest != "" {
			t.emit(x, parent, agent.Event{Type: deltas[u.kind], Text: rest})
		}
		s.silent()
	}
	t.hush(x, parent)
	t.emit(x, parent, agent.Event{Type: u.kind, Text: u.text})
}
