package client

import (
	"context"
	"net/url"

	"github.com/atoll-sandbox/atoll/agent"
)

// SessionFilter selects sessions. The zero SessionFilter selects all of the caller's sessions.
type SessionFilter struct {
	State string // one of agent.SessionStates
	Limit int    // those that changed last; 0: the server's
}

// Sessions returns the sessions of chats, the one that changed last at the end.
func (c *Client) Sessions(ctx context.Context, f SessionFilter) ([]agent.SessionRecord, error) {
	q := make(url.Values)
	setText(q, "state", f.State)
	setNumber(q, "limit", int64(f.Limit))
	return getList[agent.SessionRecord](ctx, c, call{op: "list sessions", path: "/v1/sessions", query: q})
}

// Session returns the session of a chat.
func (c *Client) Session(ctx context.Context, chat string) (agent.SessionRecord, error) {
	var r agent.SessionRecord
	err := c.getJSON(ctx, call{op: "session", id: chat, path: "/v1/sessions/" + escapeSegment(chat)}, &r)
	return r, err
}

// SessionMessages returns the messages of a chat, the oldest first: at most the last 400.
func (c *Client) SessionMessages(ctx context.Context, chat string) ([]agent.ChatMessage, error) {
	return getList[agent.ChatMessage](ctx, c, call{op: "messages of chat", id: chat, path: "/v1/sessions/" + escapeSegment(chat) + "/messages"})
}
