package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
)

// TurnFilter selects turns. The zero TurnFilter selects all of the
// caller's turns that the server stores.
type TurnFilter struct {
	Chat  string
	State string // "running", "waiting" or "finished"
	Limit int    // the newest; 0: the server's
}

// StartTurn starts a turn and returns at once. TurnEvents reads its events, CancelTurn
// ends it.
func (c *Client) StartTurn(ctx context.Context, r agent.Request) (agent.Record, error) {
	var made agent.Record
	err := c.postJSON(ctx, call{op: "start turn", id: r.ID, path: "/v1/turns"}, r, &made)
	return made, err
}

// Turns returns turns, oldest first.
func (c *Client) Turns(ctx context.Context, f TurnFilter) ([]agent.Record, error) {
	q := make(url.Values)
	setText(q, "chat", f.Chat)
	setText(q, "state", f.State)
	setNumber(q, "limit", int64(f.Limit))
	return getList[agent.Record](ctx, c, call{op: "list turns", path: "/v1/turns", query: q})
}

// Turn returns the record of a turn.
func (c *Client) Turn(ctx context.Context, id string) (agent.Record, error) {
	var r agent.Record
	err := c.getJSON(ctx, call{op: "turn", id: id, path: "/v1/turns/" + escapeSegment(id)}, &r)
	return r, err
}

// turnPatience is how long the server may be unavailable while TurnEvents reads.
const turnPatience = 2 * time.Minute

// TurnEvents calls f for each event of a turn whose Seq is higher than after,
// in order. It returns nil after the event of type Finished, and an error when ctx
// is done or f returns one. After a lost connection it continues with the next
// event; the first connection must succeed, later ones within two
// minutes.
func (c *Client) TurnEvents(ctx context.Context, id string, after int64, f func(agent.Event) error) error {
	k := call{op: "turn events", id: id, path: "/v1/turns/" + escapeSegment(id) + "/events"}
	err := followEvents(ctx, c, k, after, turnPatience, func(e agent.Event) int64 { return e.Seq }, func(e agent.Event) error {
		err := f(e)
		if err == nil && e.Type == agent.Finished {
			err = errTurnFinished
		}
		return err
	})
	if errors.Is(err, errTurnFinished) {
		return nil
	}
	return err
}

// errTurnFinished ends reading after the last event of a turn.
var errTurnFinished = errors.New("over")

// DecideTurn answers a permission request of a turn. A request that is not pending
// is ErrNotFound.
func (c *Client) DecideTurn(ctx context.Context, id, permission string, d agent.Decision) error {
	return c.postJSON(ctx, call{op: "decide", id: id, path: "/v1/turns/" + escapeSegment(id) + "/decisions"}, agent.Answer{Permission: permission, Decision: d}, nil)
}

// InterruptTurn interrupts the agent; the outcome of the turn is Aborted.
// A turn that has ended is ErrState.
func (c *Client) InterruptTurn(ctx context.Context, id string) error {
	return c.getJSON(ctx, call{op: "interrupt", id: id, method: http.MethodPost, path: "/v1/turns/" + escapeSegment(id) + "/interrupt"}, nil)
}

// SendMessage sends a message to the agent of a turn. An agent that reads none while it works gets it as the prompt of the next turn of
// the chat, which is queued. id is a UUID: a call that repeats it sends nothing again. Empty: a new one.
func (c *Client) SendMessage(ctx context.Context, turn, id string, prompt []agent.Content) (agent.Delivery, error) {
	var d agent.Delivery
	err := c.postJSON(ctx, call{op: "send", id: turn, path: "/v1/turns/" + escapeSegment(turn) + "/messages"}, map[string]any{"id": cmp.Or(id, agent.NewMessageID()), "prompt": prompt}, &d)
	return d, err
}

// AnswerToolCall sends the result of a tool of the client, for an event of type ClientToolCalled.
func (c *Client) AnswerToolCall(ctx context.Context, turn string, answer agent.ToolAnswer) error {
	return c.postJSON(ctx, call{op: "answer tool call", id: turn, path: "/v1/turns/" + escapeSegment(turn) + "/tool-answers"}, answer, nil)
}

// RetryTurn repeats a turn that has failed: the new turn has its request, and is queued in its chat.
func (c *Client) RetryTurn(ctx context.Context, id string) (agent.Record, error) {
	var r agent.Record
	err := c.getJSON(ctx, call{op: "retry", id: id, method: http.MethodPost, path: "/v1/turns/" + escapeSegment(id) + "/retry"}, &r)
	return r, err
}

// CancelTurn ends a turn and all its processes; a turn that has ended is
// removed.
func (c *Client) CancelTurn(ctx context.Context, id string) error {
	return c.getJSON(ctx, call{op: "cancel turn", id: id, method: http.MethodDelete, path: "/v1/turns/" + escapeSegment(id)}, nil)
}

// Agents returns the agents of the server.
func (c *Client) Agents(ctx context.Context) ([]agent.Info, error) {
	return getList[agent.Info](ctx, c, call{op: "list agents", path: "/v1/agents"})
}

// Assistants returns the assistants of the server.
func (c *Client) Assistants(ctx context.Context) ([]agent.AssistantInfo, error) {
	return getList[agent.AssistantInfo](ctx, c, call{op: "list assistants", path: "/v1/assistants"})
}
