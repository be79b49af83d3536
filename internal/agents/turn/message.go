package turn

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// Receive sets what receives messages for the turn's agent; nil: nothing does.
func (t *Turn) Receive(f func(context.Context, agent.Message) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.receive = f
}

// Send sends a message to the agent of a running turn. It returns ErrUnsupported for one that reads no messages while it works,
// and ErrState if it reads none now. A message that the turn's agent has is not sent again.
func (d *Registry) Send(ctx context.Context, o atoll.Owner, id string, m agent.Message) error {
	var err error
	if t := d.find(turnKey{o, id}); t != nil {
		err = t.send(ctx, m)
	} else {
		err = d.callOther(ctx, turnKey{o, id}, call{Message: &m})
	}
	return wrapError("send", id, err)
}

// send is Send for a turn of this process.
func (t *Turn) send(ctx context.Context, m agent.Message) error {
	t.mu.Lock()
	f, state := t.receive, t.messages[m.ID]
	t.mu.Unlock()
	switch {
	case state == agent.MessageSent || state == agent.MessageRead: // the request is repeated
		return nil
	case f == nil && t.continued: // an earlier process may have sent it
		return fmt.Errorf("%w: the turn is being continued after a restart; try again", atoll.ErrUnavailable)
	case f == nil:
		return fmt.Errorf("%w: it has no agent at work", atoll.ErrState)
	}
	return f(ctx, m)
}

// noteMessage remembers the state of a message, and the prompt of a dropped one, which events do not have.
func (t *Turn) noteMessage(m agent.Message) *agent.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.messages == nil {
		t.messages = make(map[string]agent.MessageState)
	}
	t.messages[m.ID] = m.State
	if m.State == agent.MessageDropped && len(m.Prompt) > 0 {
		t.dropped = append(t.dropped, m)
	}
	m.Prompt = nil
	return &m
}

// Dropped returns the messages that the turn's agent had and did not read before its work ended, with their prompts.
func (t *Turn) Dropped() []agent.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}
