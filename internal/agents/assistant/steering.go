package assistant

import (
	"slices"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// steeredMessage is a message that the agent was sent while it worked.
type steeredMessage struct{ id, text string }

// noteMessage remembers the messages that the agent was sent and has not dropped, for the chat.
func (r *turnRun) noteMessage(e agent.Event) {
	switch e.Message.State {
	case agent.MessageSent:
		r.steered = append(r.steered, steeredMessage{e.Message.ID, r.handle.lockedRedactor().RedactText(e.Text)})
	case agent.MessageDropped:
		r.steered = slices.DeleteFunc(r.steered, func(m steeredMessage) bool { return m.id == e.Message.ID })
	case agent.MessageRead:
	}
}

// steeredMessages returns them as messages of the conversation.
func (r *turnRun) steeredMessages() []dialect.Message {
	var list []dialect.Message
	for _, m := range r.steered {
		list = append(list, dialect.Message{Role: dialect.User, Parts: textParts(m.text)})
	}
	return list
}
