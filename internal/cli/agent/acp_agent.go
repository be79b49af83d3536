package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/coder/acp-go-sdk"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/transfer"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
)

// acpAgent is the agent's side of the protocol: sessions are chats, prompts
// are turns.
type acpAgent struct {
	a           commands
	c           *client.Client
	conn        *acp.AgentSideConnection
	name        string
	model       string        // of the assistant; empty: unknown
	like        agent.Request // of every turn
	mount       bool
	alone, asks bool
	life        <-chan struct{} // of the connection

	mu       sync.Mutex
	sessions map[string]*acpSession // guarded by mu, and what is in them
}

// acpSession is a session of the editor.
type acpSession struct {
	id    string
	cwd   string // of the editor; it is the workspace in the sandbox
	ask   bool
	model string // of its turns; empty: that of the command
	busy  bool   // a prompt is under way
	turn  string // that is under way; empty: none

	tools   *editorTools // of the editor's MCP servers
	warning string       // of the last prompt: it is repeated only if it changes
}

var (
	_ acp.Agent       = (*acpAgent)(nil)
	_ acp.AgentLoader = (*acpAgent)(nil)
)

// acpPrefix begins the ids of the chats of editors.
const acpPrefix = "acp-"

// The modes of a session.
const (
	modeAsk   = "ask"
	modeAlone = "alone"
)

// Initialize returns the capabilities of the agent.
func (s *acpAgent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "atoll-" + s.name, Title: acp.Ptr(s.name + " in a sandbox"), Version: version.Build().Version},
		AgentCapabilities: acp.AgentCapabilities{
			McpCapabilities:     acp.McpCapabilities{Http: true, Sse: true},
			LoadSession:         true,
			PromptCapabilities:  acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{List: &acp.SessionListCapabilities{}, Resume: &acp.SessionResumeCapabilities{}, Close: &acp.SessionCloseCapabilities{}},
		},
		AuthMethods: []acp.AuthMethod{},
	}, nil
}

// Authenticate is not needed: who runs the command may do what his token says.
func (s *acpAgent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

// NewSession begins a chat, and brings the editor's directory to it.
func (s *acpAgent) NewSession(ctx context.Context, p acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	if !filepath.IsAbs(p.Cwd) {
		return acp.NewSessionResponse{}, acp.NewInvalidParams(map[string]any{"error": "cwd is not absolute"})
	}
	cwd := filepath.Clean(p.Cwd)
	session := &acpSession{id: acpPrefix + strings.ToLower(atoll.NewID()), cwd: cwd, ask: s.asks, tools: newEditorTools(p.McpServers, cwd)}
	if filepath.Dir(cwd) == cwd {
		return acp.NewSessionResponse{}, acp.NewInvalidParams(map[string]any{"error": "the root of this machine is no project"})
	}
	if !s.mount {
		if err := s.copyProject(ctx, session); err != nil {
			return acp.NewSessionResponse{}, acpError(err)
		}
	}
	s.mu.Lock()
	s.sessions[session.id] = session
	s.mu.Unlock()
	return acp.NewSessionResponse{SessionId: acp.SessionId(session.id), Modes: s.modes(session), Models: s.models(session)}, nil
}

// copyProject copies the editor's directory into a workspace of the session.
func (s *acpAgent) copyProject(ctx context.Context, session *acpSession) error {
	if info, err := os.Stat(session.cwd); err != nil || !info.IsDir() {
		return errors.Join(err, fmt.Errorf("%w: %s is no directory", atoll.ErrInvalid, session.cwd))
	}
	if _, err := s.c.CreateWorkspace(ctx, atoll.Workspace{Name: session.id, Labels: map[string]string{"atoll.acp": filepath.Base(session.cwd)}}); err != nil {
		return err
	}
	stream, err := transfer.Pack(ctx, session.cwd)
	if err != nil {
		return err
	}
	named := transfer.RenameRoot(stream, ".")
	err = output.CloseAfter(s.c.Files(session.id).Import(ctx, "/", named), named)
	return output.CloseAfter(err, stream)
}

// SetSessionMode sets whether the agent asks for permissions.
func (s *acpAgent) SetSessionMode(_ context.Context, p acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.sessions[string(p.SessionId)]
	mode := string(p.ModeId)
	if !ok || !s.asks || mode != modeAsk && mode != modeAlone {
		return acp.SetSessionModeResponse{}, acp.NewInvalidParams(map[string]any{"error": "there is no such session or mode"})
	}
	session.ask = mode == modeAsk
	return acp.SetSessionModeResponse{}, nil
}

// maxModelName limits the name of a model that an editor sets.
const maxModelName = 200

// UnstableSetSessionModel sets the model of a session's next prompts. Its connector must allow the model.
func (s *acpAgent) UnstableSetSessionModel(_ context.Context, p acp.UnstableSetSessionModelRequest) (acp.UnstableSetSessionModelResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.sessions[string(p.SessionId)]
	if !ok || p.ModelId == "" || len(p.ModelId) > maxModelName {
		return acp.UnstableSetSessionModelResponse{}, acp.NewInvalidParams(map[string]any{"error": "there is no such session or model"})
	}
	session.model = string(p.ModelId)
	return acp.UnstableSetSessionModelResponse{}, nil
}

// models returns the models of a session; nil: its model is not known here. The caller holds mu, or has the session for itself.
func (s *acpAgent) models(session *acpSession) *acp.SessionModelState {
	current := cmp.Or(session.model, s.like.Model, s.model)
	if current == "" {
		return nil
	}
	m := &acp.SessionModelState{CurrentModelId: acp.ModelId(current)}
	for _, name := range []string{current, cmp.Or(s.like.Model, s.model)} {
		if info := (acp.ModelInfo{ModelId: acp.ModelId(name), Name: name}); name != "" && !slices.ContainsFunc(m.AvailableModels, func(o acp.ModelInfo) bool { return o.ModelId == info.ModelId }) {
			m.AvailableModels = append(m.AvailableModels, info)
		}
	}
	return m
}

// Cancel ends what the agent does for a session's prompt; the SDK has ended
// the context of the prompt before.
func (s *acpAgent) Cancel(context.Context, acp.CancelNotification) error { return nil }

// CloseSession forgets a session and ends its turn. Its chat and workspace stay.
func (s *acpAgent) CloseSession(ctx context.Context, p acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	s.mu.Lock()
	session, ok := s.sessions[string(p.SessionId)]
	delete(s.sessions, string(p.SessionId))
	turn := ""
	if ok {
		turn = session.turn
	}
	s.mu.Unlock()
	if turn != "" {
		_ = s.c.CancelTurn(ctx, turn) // it may have ended
	}
	if ok {
		session.tools.close()
	}
	return acp.CloseSessionResponse{}, nil
}

// SetSessionConfigOption is not offered.
func (s *acpAgent) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

// buildRequest is a prompt as a turn.
func (s *acpAgent) buildRequest(session *acpSession, prompt []acp.ContentBlock) (agent.Request, error) {
	r := s.like
	s.mu.Lock()
	r.Chat, r.Ask, r.Model, r.Labels = session.id, session.ask, cmp.Or(session.model, r.Model), maps.Clone(r.Labels)
	s.mu.Unlock()
	if r.Labels == nil {
		r.Labels = make(map[string]string)
	}
	r.Labels[cwdLabel] = session.cwd
	if r.Config != nil {
		cfg := *r.Config
		if s.mount {
			cfg.Mounts = append(cfg.Mounts[:len(cfg.Mounts):len(cfg.Mounts)], atoll.Mount{Source: session.cwd, Target: atoll.DefaultDir})
		}
		r.Config = &cfg
	}
	if !s.mount {
		r.Workspace = session.id
	}
	for _, b := range prompt {
		c, err := session.convertContent(b)
		if err != nil {
			return r, err
		}
		r.Prompt = append(r.Prompt, c)
	}
	return r, nil
}

// convertContent is a part of a prompt as agents take it.
func (session *acpSession) convertContent(b acp.ContentBlock) (agent.Content, error) {
	switch {
	case b.Text != nil && b.Text.Text == "":
		return agent.Content{Text: "\n"}, nil // a part must not be empty
	case b.Text != nil:
		return agent.Content{Text: b.Text.Text}, nil
	case b.Image != nil:
		return decodeBinary("picture", b.Image.MimeType, b.Image.Data)
	case b.Audio != nil:
		return decodeBinary("recording", b.Audio.MimeType, b.Audio.Data)
	case b.ResourceLink != nil:
		return agent.Content{Text: "[" + session.resolveLink(b.ResourceLink.Uri) + "]"}, nil
	case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
		t := b.Resource.Resource.TextResourceContents
		return agent.Content{Text: session.resolveLink(t.Uri) + ":\n\n" + t.Text}, nil
	case b.Resource != nil && b.Resource.Resource.BlobResourceContents != nil:
		blob := b.Resource.Resource.BlobResourceContents
		kind := "application/octet-stream"
		if blob.MimeType != nil {
			kind = *blob.MimeType
		}
		return decodeBinary(path.Base(blob.Uri), kind, blob.Blob)
	}
	return agent.Content{}, acp.NewInvalidParams(map[string]any{"error": "a part of the prompt is of no kind that is known"})
}

func decodeBinary(name, kind, data string) (agent.Content, error) {
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return agent.Content{}, acp.NewInvalidParams(map[string]any{"error": "data that is not base64"})
	}
	if ext, err := mime.ExtensionsByType(kind); err == nil && len(ext) > 0 && path.Ext(name) == "" {
		name += ext[0]
	}
	return agent.Content{Name: name, Type: kind, Data: b}, nil
}

// resolveLink is the address of a file of the editor as it is inside.
func (session *acpSession) resolveLink(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	rel, err := filepath.Rel(session.cwd, filepath.FromSlash(u.Path))
	if err != nil || !filepath.IsLocal(rel) {
		return u.Path + " (it is outside of the sandbox)"
	}
	return path.Join(atoll.DefaultDir, filepath.ToSlash(rel))
}

// sandboxPath is a path of the sandbox as it is for the editor.
func (session *acpSession) sandboxPath(name string) string {
	if !path.IsAbs(name) {
		return filepath.Join(session.cwd, filepath.FromSlash(name))
	}
	if rest, ok := strings.CutPrefix(name, atoll.DefaultDir); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(session.cwd, filepath.FromSlash(rest))
	}
	return name
}

// acpError is an error as the protocol has it.
func acpError(err error) error {
	return &acp.RequestError{Code: -32603, Message: err.Error()}
}
