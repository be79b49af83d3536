package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// Steerer is a Conversation whose agent accepts messages while it works.
type Steerer interface {
	Conversation

	// Steer sends a message for the running prompt, whose result then answers the message too. It
	// returns ErrState if the agent does not accept one now; nothing was sent then. The Conversation
	// emits an event of type MessageChanged when the agent has read the message, or will not.
	Steer(x Exchange, m Message) error
}

// Message is a message to an agent that works.
type Message struct {
	ID     string       `json:"id"`               // a UUID
	State  MessageState `json:"state,omitempty"`  // in events
	Prompt []Content    `json:"prompt,omitempty"` // in events only if State is MessageDropped; the others have Event.Text
	Turn   string       `json:"turn,omitempty"`   // if State is MessageQueued: the queued turn
}

// MessageState is the state of a message to an agent that works.
type MessageState string

// The states of a message.
const (
	MessageSent    MessageState = "sent"    // the agent has it, and reads it after its current step
	MessageRead    MessageState = "read"    // it is part of the conversation with the model
	MessageDropped MessageState = "dropped" // the prompt was interrupted, or has ended, before the agent read it
	MessageQueued  MessageState = "queued"  // of a server: it was dropped, and is the prompt of a queued turn now
)

// Limits of the messages of one process of an agent. Their journal is on the host's disk.
const (
	maxMessages     = 1000
	maxMessageBytes = 64 << 20
)

// NewMessageID returns a new Message.ID.
func NewMessageID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Steer sends a message to the agent while it works at a prompt. When Steer returns nil, the message is recorded in the
// Job.Journal. A message whose id was sent before is not sent again. It returns ErrUnsupported for an agent that reads messages only between its prompts, and ErrState if it accepts
// none now, since the prompt ends, or its process has not started its work: the message can be the next prompt then.
// While a session is being continued by another process, it returns ErrUnavailable.
func (s *Session) Steer(ctx context.Context, m Message) error {
	if len(m.Prompt) == 0 {
		return fmt.Errorf("%w: the message is empty", atoll.ErrInvalid)
	}
	if m.ID == "" {
		m.ID = NewMessageID()
	}
	m.Prompt = slices.Clone(m.Prompt)
	known := false
	err := s.doInLoop(ctx, func() error {
		known = s.sent[m.ID]
		return s.checkMessage(m)
	})
	if err != nil || known {
		return err
	}
	if err := placeAttachments(ctx, s.job.Sandbox, s.job.Dir, m.Prompt); err != nil {
		return err
	}
	return s.doInLoop(ctx, func() error {
		if s.sent[m.ID] {
			return nil
		}
		if err := s.checkMessage(m); err != nil {
			return err
		}
		if s.resumes { // it may be one of the recorded messages
			return fmt.Errorf("%w: the session is being continued; try again", atoll.ErrUnavailable)
		}
		s.mu.Lock()
		stopped := s.current.stop != nil
		s.mu.Unlock()
		if stopped || s.askedToExit || !s.promptRunning() || s.conversation.IsFinished() {
			return fmt.Errorf("%w: the agent does not work at a prompt any more", atoll.ErrState)
		}
		return s.steerAgent(m)
	})
}

// checkMessage returns ErrState if the agent was sent as many messages as it may get, in the loop.
func (s *Session) checkMessage(m Message) error {
	if !s.sent[m.ID] && (len(s.sent) >= maxMessages || s.sentBytes+promptBytes(m.Prompt) > maxMessageBytes) {
		return fmt.Errorf("%w: the agent was sent %d messages with %d bytes, as many as it may get while it works", atoll.ErrState, len(s.sent), s.sentBytes)
	}
	return nil
}

// promptBytes returns the size of a prompt.
func promptBytes(p []Content) int {
	n := 0
	for _, c := range p {
		n += len(c.Text) + len(c.Data) + len(c.Name) + len(c.Type)
	}
	return n
}

// steerAgent passes a message to the Conversation, in the loop. It is recorded first: what the agent was sent can be
// repeated for the process exactly.
func (s *Session) steerAgent(m Message) error {
	c, ok := s.conversation.(Steerer)
	if !ok {
		return fmt.Errorf("%w: %s reads messages only between its prompts", atoll.ErrUnsupported, s.job.Agent.Name())
	}
	probe := &heldExchange{}
	if err := c.Steer(probe, m); err != nil {
		return err
	}
	if err := s.recordInput(sessionInput{Message: &m}); err != nil {
		s.kill(errBroken) // the Conversation counts on an answer to what was not sent
		return fmt.Errorf("the journal of the session: %w", err)
	}
	s.emitSent(m)
	probe.passTo(exchange{s})
	return nil
}

// emitSent emits that a message was sent. Its prompt stays here until the agent has read it.
func (s *Session) emitSent(m Message) {
	s.sentBytes += promptBytes(m.Prompt)
	s.emitEvent(Event{Type: MessageChanged, Text: PlainText(m.Prompt), Message: &Message{ID: m.ID, State: MessageSent}})
	if i := len(s.unread) - 1; i >= 0 && s.unread[i].ID == m.ID {
		s.unread[i].Prompt = m.Prompt
	}
}

// replayMessage passes a recorded message to the Conversation again, in the loop.
func (s *Session) replayMessage(m Message) {
	c, ok := s.conversation.(Steerer)
	probe := &heldExchange{}
	err := errors.New("it accepts none")
	if ok {
		s.callConversation(func() { err = c.Steer(probe, m) })
	}
	if err != nil {
		s.kill(errBroken) // the output is not the recorded one
		return
	}
	s.emitSent(m)
	probe.passTo(exchange{s})
}

// noteMessage remembers the messages that the agent has not read. A dropped one gets its prompt, which can be sent again.
func (s *Session) noteMessage(m *Message) {
	i := slices.IndexFunc(s.unread, func(u Message) bool { return u.ID == m.ID })
	if i >= 0 && m.State == MessageDropped {
		m.Prompt = s.unread[i].Prompt
	}
	s.unread = slices.DeleteFunc(s.unread, func(u Message) bool { return u.ID == m.ID })
	if m.State == MessageSent {
		if s.sent == nil {
			s.sent = make(map[string]bool)
		}
		s.sent[m.ID] = true
		s.unread = append(s.unread, Message{ID: m.ID})
	}
}

// heldExchange holds what a Conversation emits and sends until that is recorded.
type heldExchange struct {
	calls []func(x Exchange)
}

func (h *heldExchange) Emit(e Event) { h.calls = append(h.calls, func(x Exchange) { x.Emit(e) }) }
func (h *heldExchange) Send(b []byte) {
	h.calls = append(h.calls, func(x Exchange) { x.Send(b) })
}
func (h *heldExchange) Close() { h.calls = append(h.calls, func(x Exchange) { x.Close() }) }

// passTo repeats the calls with another exchange.
func (h *heldExchange) passTo(x Exchange) {
	for _, f := range h.calls {
		f(x)
	}
}
