package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/session"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// sessionKey is the session in a path.
type sessionKey struct {
	ID string `path:"id" doc:"The id of the chat."`
}

// listSessions are the parameters of the session list.
type listSessions struct {
	State string `query:"state" enum:"starting,working,waiting_approval,waiting_input,idle,ended" doc:"Only sessions in this state."`
	Limit int    `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number of the sessions that changed last; 100 by default."`
}

// registerSessions registers sessions: the conversations of chats.
func (s *Server) registerSessions(api huma.API) {
	noun := []string{"agents"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/v1/sessions", Tags: noun, Summary: "List the sessions of chats, the one that changed last at the end",
	}, func(_ context.Context, a *fleet.Account, in *listSessions) (*reply[wire.List[agent.SessionRecord]], error) {
		all, err := s.sessionStore(a, "list sessions")
		if all == nil || err != nil {
			return listReply[agent.SessionRecord](nil, err)
		}
		return listReply(all.List(a.Caller().Owner, session.Filter{State: in.State, Limit: in.Limit}))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: "/v1/sessions/{id}", Tags: noun, Summary: "Get the session of a chat", Errors: []int{404},
	}, func(_ context.Context, a *fleet.Account, in *sessionKey) (*reply[agent.SessionRecord], error) {
		all, err := s.sessionStore(a, "session")
		if err == nil && all == nil {
			err = &atoll.Error{Op: "session", ID: shorten(in.ID), Err: atoll.ErrNotFound}
		}
		if err != nil {
			return nil, err
		}
		return oneReply(all.Get(a.Caller().Owner, assistant.ChatKey(in.ID)))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "session-messages", Method: http.MethodGet, Path: "/v1/sessions/{id}/messages", Tags: noun, Summary: "List the messages of a chat, the oldest first",
		Description: "The text of what users and agents have said; at most the last 400 messages.", Errors: []int{404},
	}, func(_ context.Context, a *fleet.Account, in *sessionKey) (*reply[wire.List[agent.ChatMessage]], error) {
		all, err := s.sessionStore(a, "messages of chat")
		if err == nil && all == nil {
			err = &atoll.Error{Op: "messages of chat", ID: shorten(in.ID), Err: atoll.ErrNotFound}
		}
		if err != nil {
			return nil, err
		}
		has, err := s.agents()
		if err != nil {
			return nil, err
		}
		return listReply(has.Pipeline.Messages(a.Caller().Owner, in.ID))
	})
}

// sessionStore returns the sessions for a caller; nil: the server has no agents.
func (s *Server) sessionStore(a *fleet.Account, op string) (*session.Store, error) {
	if err := a.RequireScope(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	if s.opts.Agents == nil {
		return nil, nil
	}
	has, err := s.agents()
	if err != nil {
		return nil, err
	}
	return has.Pipeline.Sessions(), nil
}
