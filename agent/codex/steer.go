package codex

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonrpc"
)

var _ agent.Steerer = (*appServer)(nil)

const turnSteer = "turn/steer"

// maxUnread limits the messages that the agent has not read.
const maxUnread = 64

// steered are the messages to a running turn.
type steered struct {
	asked  []agent.Message // turn/steer has no response yet; the program responds in order
	held   []agent.Message // refused, since the turn was ending: they are the input of another turn
	unread []string        // ids of accepted messages without an item
	ended  *notification   // the completed turn, while asked is not empty
}

// Steer sends a message to the running turn. Codex adds it to the next request to the model.
func (t *appServer) Steer(x agent.Exchange, m agent.Message) error {
	s := &t.steered
	switch {
	case t.settled || t.turnID == "" || s.ended != nil || t.interrupted:
		return fmt.Errorf("%w: no turn of the agent is under way", atoll.ErrState)
	case len(s.asked)+len(s.held)+len(s.unread) >= maxUnread:
		return fmt.Errorf("%w: the agent has not read earlier messages", atoll.ErrState)
	}
	s.asked = append(s.asked, m)
	x.Send(t.peer.Call(turnSteer, map[string]any{
		"threadId": t.session, "expectedTurnId": t.turnID, "input": userInput(m.Prompt), "clientUserMessageId": m.ID,
	}))
	return nil
}

// userInput returns a prompt in the program's format.
func userInput(p []agent.Content) []any {
	input := []any{map[string]any{"type": "text", "text": agent.PlainText(p)}}
	for _, c := range p {
		if c.Path != "" && isImage(c) {
			input = append(input, map[string]any{"type": "localImage", "path": c.Path})
		}
	}
	return input
}

// handleSteered handles the response to turn/steer.
func (t *appServer) handleSteered(x agent.Exchange, m jsonrpc.Message) {
	s := &t.steered
	if len(s.asked) == 0 {
		return // the prompt has ended
	}
	first := s.asked[0]
	s.asked = s.asked[1:]
	switch {
	case t.readEarly[first.ID]:
	case m.Error != nil:
		s.held = append(s.held, first)
	default:
		s.unread = append(s.unread, first.ID)
	}
	if ended := s.ended; ended != nil && len(s.asked) == 0 {
		s.ended = nil
		t.handleTurnCompleted(x, *ended)
	}
}

// noteUserMessage emits that the agent has read a message.
func (t *appServer) noteUserMessage(x agent.Exchange, raw json.RawMessage) {
	var v struct {
		Type   string `json:"type"`
		Client string `json:"clientId"`
	}
	jsonlines.Decode(raw, &v)
	if v.Type != "userMessage" || v.Client == "" {
		return
	}
	s := &t.steered
	if i := slices.Index(s.unread, v.Client); i >= 0 {
		s.unread = slices.Delete(s.unread, i, i+1)
	} else if i := slices.IndexFunc(s.asked, func(m agent.Message) bool { return m.ID == v.Client }); i >= 0 { // before its response
		t.readEarly[v.Client] = true
	} else {
		return
	}
	t.emitMessage(x, v.Client, agent.MessageRead)
}

func (t *appServer) emitMessage(x agent.Exchange, id string, state agent.MessageState) {
	t.emitEvent(x, agent.Event{Type: agent.MessageChanged, Message: &agent.Message{ID: id, State: state}})
}

// continueWithMessages begins another turn of the agent for the messages that came too late for the completed one.
func (t *appServer) continueWithMessages(x agent.Exchange) bool {
	s := &t.steered
	if len(s.held) == 0 || t.interrupted {
		return false
	}
	t.prompt, t.turnID = nil, ""
	for _, m := range s.held {
		t.prompt = append(t.prompt, m.Prompt...)
		t.emitMessage(x, m.ID, agent.MessageRead)
	}
	s.held = nil
	t.startTurn(x)
	return true
}

// dropMessages emits that the agent will not read the messages that it has not read.
func (t *appServer) dropMessages(x agent.Exchange) {
	s := &t.steered
	for _, m := range slices.Concat(s.asked, s.held) {
		if !t.readEarly[m.ID] {
			t.emitMessage(x, m.ID, agent.MessageDropped)
		}
	}
	for _, id := range s.unread {
		t.emitMessage(x, id, agent.MessageDropped)
	}
	t.steered = steered{}
	clear(t.readEarly)
}
