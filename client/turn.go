package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
)

// TurnFilter says which turns are wanted. The zero TurnFilter means all of the
// caller's that the server remembers.
type TurnFilter struct {
	Chat  string
	State string // "running", "waiting" or "finished"
	Limit int    // the newest; 0: the server's
}

// StartTurn asks for a turn. It goes on by itself when StartTurn has returned:
// TurnEvents tells what happens, CancelTurn ends it.
func (c *Client) StartTurn(ctx context.Context, r agent.Request) (agent.Record, error) {
	var made agent.Record
	err := c.post(ctx, call{op: "start turn", id: r.ID, path: "/v1/turns"}, r, &made)
	return made, err
}

// Turns returns turns, oldest first.
func (c *Client) Turns(ctx context.Context, f TurnFilter) ([]agent.Record, error) {
	q := make(url.Values)
	text(q, "chat", f.Chat)
	text(q, "state", f.State)
	number(q, "limit", int64(f.Limit))
	return list[agent.Record](ctx, c, call{op: "list turns", path: "/v1/turns", query: q})
}

// Turn returns all about a turn.
func (c *Client) Turn(ctx context.Context, id string) (agent.Record, error) {
	var r agent.Record
	err := c.get(ctx, call{op: "turn", id: id, path: "/v1/turns/" + seg(id)}, &r)
	return r, err
}

// turnPatience is how long a server may be gone while a turn is followed.
const turnPatience = 2 * time.Minute

// TurnEvents calls f for each event of a turn whose Seq is higher than after,
// in order, until that of type Finished, whereupon it returns nil, or until ctx
// is done or f returns an error, which it returns. When the connection breaks it
// goes on where it was; the first connection must succeed, later ones within two
// minutes.
func (c *Client) TurnEvents(ctx context.Context, id string, after int64, f func(agent.Event) error) error {
	k := call{op: "turn events", id: id, path: "/v1/turns/" + seg(id) + "/events"}
	err := follow(ctx, c, k, after, turnPatience, func(e agent.Event) int64 { return e.Seq }, func(e agent.Event) error {
		err := f(e)
		if err == nil && e.Type == agent.Finished {
			err = errOver
		}
		return err
	})
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// errOver ends the reading of a turn's events after the last of them.
var errOver = errors.New("over")

// DecideTurn answers a request for permission of a turn. One that nobody asks
// (any more) is ErrNotFound.
func (c *Client) DecideTurn(ctx context.Context, id, permission string, d agent.Decision) error {
	return c.post(ctx, call{op: "decide", id: id, path: "/v1/turns/" + seg(id) + "/decisions"}, agent.Answer{Permission: permission, Decision: d}, nil)
}

// InterruptTurn ends what the agent does for the turn; its outcome is Aborted.
// One that has ended is ErrState.
func (c *Client) InterruptTurn(ctx context.Context, id string) error {
	return c.get(ctx, call{op: "interrupt", id: id, method: http.MethodPost, path: "/v1/turns/" + seg(id) + "/interrupt"}, nil)
}

// CancelTurn ends a turn and all its processes; one that has ended is
// forgotten.
func (c *Client) CancelTurn(ctx context.Context, id string) error {
	return c.get(ctx, call{op: "cancel turn", id: id, method: http.MethodDelete, path: "/v1/turns/" + seg(id)}, nil)
}

// Agents returns the agents that the server has.
func (c *Client) Agents(ctx context.Context) ([]agent.Info, error) {
	return list[agent.Info](ctx, c, call{op: "list agents", path: "/v1/agents"})
}

// Assistants returns the assistants that the server has.
func (c *Client) Assistants(ctx context.Context) ([]agent.AssistantInfo, error) {
	return list[agent.AssistantInfo](ctx, c, call{op: "list assistants", path: "/v1/assistants"})
}
