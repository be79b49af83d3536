package assistant

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// hookOutput receives the messages of hooks. It emits each step as an event of type
// Raw, and a finished message also as text or thought, for clients that do not know
// messages.
type hookOutput struct {
	emit func(agent.Event)

	mu   sync.Mutex
	n    int                 // messages made; guarded by mu
	open map[string]*message // begun and not ended; guarded by mu
}

// message is a message of a hook.
type message struct {
	Type  string         `json:"type"`
	Props map[string]any `json:"props,omitempty"`
}

// outputStep is a step of a message in an event.
type outputStep struct {
	Message struct {
		Op      string          `json:"op"`
		ID      string          `json:"id"`
		Message json.RawMessage `json:"message,omitempty"`
	} `json:"message"`
}

// maxMessages limits the open messages of a turn's hooks, maxSteps the steps.
const (
	maxMessages = 64
	maxSteps    = 4096
)

// Message handles a step of a message.
func (o *hookOutput) Message(_ context.Context, op, id string, raw json.RawMessage) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n++; o.n > maxSteps || len(o.open) > maxMessages {
		return "", fmt.Errorf("%w: too many messages", atoll.ErrQuota)
	}
	if id == "" {
		id = fmt.Sprintf("M%d", o.n)
	}
	var m message
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &m); err != nil {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				return "", fmt.Errorf("%w: a message is {type, props} or a text", atoll.ErrInvalid)
			}
			m = message{Type: "text", Props: map[string]any{"content": text}}
		}
	}
	var s outputStep
	s.Message.Op, s.Message.ID, s.Message.Message = op, id, raw
	if b, err := json.Marshal(s); err == nil {
		o.emit(agent.Event{Type: agent.Raw, Raw: b})
	}
	switch op {
	case "send":
		o.emitMessage(&m)
	case "stream":
		o.open[id] = &m
	case "replace":
		o.open[id] = &m
	case "append", "merge":
		o.mergeMessage(id, &m, op == "append")
	case "end":
		if last := o.open[id]; last != nil {
			o.emitMessage(last)
		}
		delete(o.open, id)
	default:
		return "", fmt.Errorf("%w: operation %q on a message", atoll.ErrInvalid, op)
	}
	return id, nil
}

// mergeMessage merges into an open message. The caller holds mu.
func (o *hookOutput) mergeMessage(id string, m *message, more bool) {
	at := o.open[id]
	if at == nil {
		o.open[id] = m
		return
	}
	if at.Props == nil {
		at.Props = make(map[string]any)
	}
	for k, v := range m.Props {
		old, isText := at.Props[k].(string)
		text, alsoText := v.(string)
		if more && isText && alsoText {
			v = old + text
		}
		at.Props[k] = v
	}
	if m.Type != "" {
		at.Type = m.Type
	}
}

// emitMessage emits a whole message as text or thought.
func (o *hookOutput) emitMessage(m *message) {
	text := func(key string) string {
		s, _ := m.Props[key].(string)
		return s
	}
	switch m.Type {
	case "text":
		if s := text("content"); s != "" {
			o.emit(agent.Event{Type: agent.TextDone, Text: s})
		}
	case "loading", "thinking":
		s := text("message")
		if s == "" {
			s = text("content")
		}
		if s != "" {
			o.emit(agent.Event{Type: agent.ThoughtDone, Text: s})
		}
	case "error":
		if s := text("message"); s != "" {
			o.emit(agent.Event{Type: agent.Warning, Text: s})
		}
	}
}

// closeOpen ends the messages that hooks have left open.
func (o *hookOutput) closeOpen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, m := range o.open {
		if m.Type == "text" {
			o.emitMessage(m)
		}
		delete(o.open, id)
	}
}
