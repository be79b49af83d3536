package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
)

// cwdLabel is the label of a session with the editor's directory.
const cwdLabel = "atoll.acp.cwd"

// mostSessions is the number of sessions in an answer to an editor.
const mostSessions = 1000

// ListSessions lists the sessions of editors with this agent, the latest first.
func (s *acpAgent) ListSessions(ctx context.Context, p acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	r := acp.ListSessionsResponse{Sessions: []acp.SessionInfo{}}
	all, err := s.c.Sessions(ctx, client.SessionFilter{Limit: mostSessions})
	if err != nil {
		return r, acpError(err)
	}
	for _, rec := range slices.Backward(all) {
		cwd := rec.Labels[cwdLabel]
		if !s.isOwn(rec) || p.Cwd != nil && filepath.Clean(*p.Cwd) != cwd {
			continue
		}
		i := acp.SessionInfo{SessionId: acp.SessionId(rec.ID), Cwd: cwd, UpdatedAt: acp.Ptr(rec.Updated.UTC().Format(time.RFC3339))}
		if title := abbreviate(strings.TrimSpace(rec.Text), 80); title != "" {
			i.Title = &title
		}
		r.Sessions = append(r.Sessions, i)
	}
	return r, nil
}

// isOwn reports whether a session was begun by an editor with this agent.
func (s *acpAgent) isOwn(rec agent.SessionRecord) bool {
	return strings.HasPrefix(rec.ID, acpPrefix) && rec.Labels[cwdLabel] != "" && rec.Assistant == s.like.Assistant && (s.like.Agent == "" || rec.Agent == s.like.Agent)
}

// ResumeSession goes on with a session of an earlier connection. Its files are as the agent left them.
func (s *acpAgent) ResumeSession(ctx context.Context, p acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	session, err := s.openSession(ctx, p.SessionId, p.Cwd, p.McpServers)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return acp.ResumeSessionResponse{Modes: s.modes(session), Models: s.models(session)}, nil
}

// LoadSession goes on with a session as ResumeSession does, and sends the editor what was said in it before.
func (s *acpAgent) LoadSession(ctx context.Context, p acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	session, err := s.openSession(ctx, p.SessionId, p.Cwd, p.McpServers)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	said, err := s.c.SessionMessages(ctx, session.id)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) { // without a finished turn, there is nothing to send
		return acp.LoadSessionResponse{}, acpError(err)
	}
	for _, m := range said {
		update := acp.UpdateAgentMessageText(m.Text)
		if m.Role == "user" {
			update = acp.UpdateUserMessageText(m.Text)
		}
		if err := s.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: p.SessionId, Update: update}); err != nil {
			return acp.LoadSessionResponse{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return acp.LoadSessionResponse{Modes: s.modes(session), Models: s.models(session)}, nil
}

// openSession returns a session of this connection or an earlier one.
func (s *acpAgent) openSession(ctx context.Context, id acp.SessionId, cwd string, servers []acp.McpServer) (*acpSession, error) {
	rec, err := s.c.Session(ctx, string(id))
	switch {
	case errors.Is(err, atoll.ErrNotFound) || err == nil && !s.isOwn(rec):
		return nil, acp.NewInvalidParams(map[string]any{"error": "there is no such session of this agent"})
	case err != nil:
		return nil, acpError(err)
	case filepath.Clean(cwd) != rec.Labels[cwdLabel]:
		return nil, acp.NewInvalidParams(map[string]any{"error": "the session is one of the directory " + rec.Labels[cwdLabel]})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[rec.ID] == nil {
		s.sessions[rec.ID] = &acpSession{id: rec.ID, cwd: rec.Labels[cwdLabel], ask: s.asks, tools: newEditorTools(servers, rec.Labels[cwdLabel])}
	}
	return s.sessions[rec.ID], nil
}

// modes returns the modes of a session; nil: it has none. The caller holds mu, or has the session for itself.
func (s *acpAgent) modes(session *acpSession) *acp.SessionModeState {
	if !s.asks {
		return nil
	}
	m := &acp.SessionModeState{CurrentModeId: modeAlone, AvailableModes: []acp.SessionMode{
		{Id: modeAsk, Name: "Ask", Description: acp.Ptr("Asks before it uses tools")},
		{Id: modeAlone, Name: "Alone", Description: acp.Ptr("Works without asking; its sandbox isolates it")},
	}}
	if session.ask {
		m.CurrentModeId = modeAsk
	}
	return m
}
