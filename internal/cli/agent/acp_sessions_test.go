package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/acp-go-sdk"

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
	q, err := s.buildRequest(s.sessions["acp-old"], nil)
	if err != nil || q.Chat != "acp-old" || q.Workspace != "acp-old" || q.Labels[cwdLabel] != "/home/ann/shop" {
		t.Errorf("the request of a resumed session is %+v, %v", q, err)
	}
}

// TestServersOfEditor names the MCP servers that the agent does not use.
func TestServersOfEditor(t *testing.T) {
	servers := []acp.McpServer{{Stdio: &acp.McpServerStdio{Name: "files", Command: "/bin/files"}}, {Http: &acp.McpServerHttpInline{Name: "tickets"}}}
	s := &acpAgent{mount: true, sessions: make(map[string]*acpSession)}
	made, err := s.NewSession(t.Context(), acp.NewSessionRequest{Cwd: t.TempDir(), McpServers: servers})
	if err != nil {
		t.Fatal(err)
	}
	if w := s.sessions[string(made.SessionId)].warning; !strings.Contains(w, "not used in the sandbox: files, tickets") {
		t.Errorf("the warning is %q", w)
	}
	if w := warnOfServers(nil); w != "" {
		t.Errorf("without servers: %q", w)
	}
}
