package claude

import (
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

var _ agent.Steerer = (*conversation)(nil)

// maxUnread limits the messages that the agent has not read.
const maxUnread = 64

// Steer sends a message while the agent works. The program adds it to the next request to the model after a tool, or
// answers it after the prompt, with a result of its own.
func (t *conversation) Steer(x agent.Exchange, m agent.Message) error {
	switch {
	case !t.started:
		return fmt.Errorf("%w: the agent has not begun its work", atoll.ErrState)
	case !t.steers:
		return fmt.Errorf("%w: this version of Claude Code does not report which messages it has read", atoll.ErrUnsupported)
	case t.interrupted || t.failure != "":
		return fmt.Errorf("%w: the agent was interrupted", atoll.ErrState)
	case len(t.unread) >= maxUnread:
		return fmt.Errorf("%w: the agent has %d messages to read", atoll.ErrState, len(t.unread))
	}
	t.unread = append(t.unread, m.ID)
	send(x, map[string]any{"type": "user", "uuid": m.ID, "message": map[string]any{"role": "user", "content": t.encodePrompt(m.Prompt)}})
	return nil
}

// handleMessageState handles a change of the state of a message.
func (t *conversation) handleMessageState(x agent.Exchange, b []byte) {
	var v struct {
		ID    string `json:"command_uuid"`
		State string `json:"state"`
	}
	jsonlines.Decode(b, &v)
	i := slices.Index(t.unread, v.ID)
	if i < 0 {
		return
	}
	state := agent.MessageDropped
	switch v.State {
	case "queued":
		return
	case "started", "completed":
		state = agent.MessageRead
		if t.answered { // the prompt has its result: another one follows
			t.running, t.answered = true, v.State == "completed"
		}
		if v.State == "completed" {
			t.running = false
		}
	}
	t.unread = slices.Delete(t.unread, i, i+1)
	t.emitEvent(x, "", agent.Event{Type: agent.MessageChanged, Message: &agent.Message{ID: v.ID, State: state}})
}

// dropUnread asks the program to drop the messages that it has not read: it would answer them after the interrupt.
func (t *conversation) dropUnread(x agent.Exchange) {
	for _, id := range t.unread {
		t.sendControl(x, map[string]any{"subtype": "cancel_async_message", "message_uuid": id})
	}
}
