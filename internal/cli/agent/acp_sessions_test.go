package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/acp-go-sdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
)

// TestACPSessions lists the sessions that editors had with an agent, and resumes one of them: not those of other agents, chats and
// directories.
func TestACPSessions(t *testing.T) {
	record := func(id, agentName, cwd string) agent.SessionRecord {
		r := agent.SessionRecord{ID: id, Agent: agentName, Text: "done: " + id}
		if cwd != "" {
			r.Labels = map[string]string{cwdLabel: cwd}
		}
		return r
	}
	all := []agent.SessionRecord{
		record("acp-old", "claude", "/home/ann/shop"), record("acp-other", "codex", "/home/ann/shop"), record("chat", "claude", "/home/ann/shop"),
		record("acp-unknown", "claude", ""), record("acp-blog", "claude", "/home/ann/blog"), record("acp-new", "claude", "/home/ann/shop"),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, one := strings.CutPrefix(r.URL.Path, "/v1/sessions/")
		w.Header().Set("Content-Type", "application/json")
		if id == "acp-old/messages" {
			_ = json.NewEncoder(w).Encode(map[string]any{"items": []agent.ChatMessage{{Role: "user", Text: "count them"}, {Role: "assistant", Text: "there are 7"}}})
			return
		}
		if !one {
			_ = json.NewEncoder(w).Encode(map[string]any{"items": all}) // the client sees it
			return
		}
		i := slices.IndexFunc(all, func(r agent.SessionRecord) bool { return r.ID == id })
		if i < 0 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"title":"Not Found","status":404,"kind":"not_found"}`))
			return
		}
		_ = json.NewEncoder(w).Encode(all[i])
	}))
	defer server.Close()
	c, err := client.New(client.Options{Host: server.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := &acpAgent{c: c, name: "claude", like: agent.Request{Agent: "claude"}, asks: true, sessions: make(map[string]*acpSession)}
	list := func(cwd *string) (ids []string) {
		t.Helper()
		r, err := s.ListSessions(t.Context(), acp.ListSessionsRequest{Cwd: cwd})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range r.Sessions {
			ids = append(ids, string(i.SessionId))
		}
		return ids
	}
	if got := list(nil); !slices.Equal(got, []string{"acp-new", "acp-blog", "acp-old"}) {
		t.Errorf("all sessions: %q", got)
	}
	if got := list(acp.Ptr("/home/ann/shop/")); !slices.Equal(got, []string{"acp-new", "acp-old"}) {
		t.Errorf("those of a directory: %q", got)
	}
	for _, c := range []struct{ id, cwd, want string }{
		{"acp-old", "/home/ann/shop", ""},
		{"acp-old", "/home/ann/blog", "/home/ann/shop"},
		{"acp-other", "/home/ann/shop", "no such session"},
		{"chat", "/home/ann/shop", "no such session"},
		{"acp-missing", "/home/ann/shop", "no such session"},
	} {
		r, err := s.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: acp.SessionId(c.id), Cwd: c.cwd})
		text, _ := json.Marshal(err)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(string(text), c.want) {
			t.Errorf("%s in %s: %s, want %q", c.id, c.cwd, text, c.want)
		}
		if err == nil && (r.Modes == nil || r.Modes.CurrentModeId != modeAsk) {
			t.Errorf("its modes are %+v", r.Modes)
		}
	}
	var sent bytes.Buffer
	never, end := io.Pipe()
	defer end.Close()
	s.conn = acp.NewAgentSideConnection(s, &sent, never)
	loaded, err := s.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: "acp-old", Cwd: "/home/ann/shop"})
	if err != nil || loaded.Modes == nil {
		t.Errorf("the loaded session: %+v, %v", loaded, err)
	}
	user, assistant := strings.Index(sent.String(), "count them"), strings.Index(sent.String(), "there are 7")
	if !strings.Contains(sent.String(), "user_message_chunk") || user < 0 || assistant < user {
		t.Errorf("the editor was sent %s", sent.String())
	}
	if _, err := s.UnstableSetSessionModel(t.Context(), acp.UnstableSetSessionModelRequest{SessionId: "acp-old", ModelId: "small"}); err != nil {
		t.Error(err)
	}
	if m := s.models(s.sessions["acp-old"]); m == nil || m.CurrentModelId != "small" {
		t.Errorf("its models are %+v", m)
	}
	for _, bad := range []acp.UnstableSetSessionModelRequest{{SessionId: "acp-missing", ModelId: "small"}, {SessionId: "acp-old"}, {SessionId: "acp-old", ModelId: acp.UnstableModelId(strings.Repeat("x", 1000))}} {
		if _, err := s.UnstableSetSessionModel(t.Context(), bad); err == nil {
			t.Errorf("the model of %s was set to %.20s", bad.SessionId, bad.ModelId)
		}
	}
	q, err := s.buildRequest(s.sessions["acp-old"], nil)
	if err != nil || q.Chat != "acp-old" || q.Model != "small" || q.Workspace != "acp-old" || q.Labels[cwdLabel] != "/home/ann/shop" {
		t.Errorf("the request of a resumed session is %+v, %v", q, err)
	}
}

// TestServersOfEditor offers the tools of an editor's MCP servers, calls them, and names servers that are not available.
func TestServersOfEditor(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "find.ticket", Description: "Finds a ticket."}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		N int `json:"n"`
	},
	) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("ticket ", in.N)}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if r.Header.Get("Authorization") != "Bearer secret" {
			return nil
		}
		return server
	}, nil))
	defer web.Close()
	s := &acpAgent{mount: true, sessions: make(map[string]*acpSession)}
	made, err := s.NewSession(t.Context(), acp.NewSessionRequest{Cwd: t.TempDir(), McpServers: []acp.McpServer{
		{Stdio: &acp.McpServerStdio{Name: "files", Command: "/missing/files"}},
		{Http: &acp.McpServerHttpInline{Name: "tickets", Url: web.URL, Headers: []acp.HttpHeader{{Name: "Authorization", Value: "Bearer secret"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	tools := s.sessions[string(made.SessionId)].tools
	defer tools.close()
	offers, warning := tools.list(t.Context())
	if len(offers) != 1 || offers[0].Name != "find_ticket" || !strings.Contains(warning, "tools of files") {
		t.Errorf("the tools are %+v, the warning is %q", offers, warning)
	}
	if text, failed := tools.call(t.Context(), &agent.ToolCall{Name: "find_ticket", Input: []byte(`{"n":7}`)}); failed || text != "ticket 7" {
		t.Errorf("the call: %q, %v", text, failed)
	}
	if text, failed := tools.call(t.Context(), &agent.ToolCall{Name: "missing"}); !failed || !strings.Contains(text, "no tool missing") {
		t.Errorf("a missing tool: %q, %v", text, failed)
	}
	if offers, warning := newEditorTools(nil, "/").list(t.Context()); offers != nil || warning != "" {
		t.Errorf("without servers: %v, %q", offers, warning)
	}
}
