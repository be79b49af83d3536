package api_test

import (
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

// bearer shows a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (w *town) mcp(token string) *sdk.ClientSession {
	w.Helper()
	t := &sdk.StreamableClientTransport{Endpoint: w.url + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(w.Context(), t, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = cs.Close() }) // the server may be gone first
	return cs
}

func (w *town) tool(cs *sdk.ClientSession, name string, args map[string]any) (string, bool) {
	w.Helper()
	r, err := cs.CallTool(w.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		w.Fatal(err)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

// TestMCP has two owners use the tools: each sees only what is his.
func TestMCP(t *testing.T) {
	w := newTown(t)
	mallory := w.mcp(w.mallory)
	if text, failed := w.tool(mallory, "exec", map[string]any{"command": "echo hi"}); failed || text != "hi\n" {
		t.Errorf("exec: %s", text)
	}
	if text, _ := w.tool(mallory, "list_sandboxes", nil); !strings.Contains(text, "mcp: running") || strings.Contains(text, "secretbox") {
		t.Errorf("list_sandboxes: %s", text)
	}
	for _, key := range []string{w.box, "secretbox"} {
		for tool, args := range map[string]map[string]any{
			"exec":            {"command": "cat /secret.txt"},
			"read_file":       {"path": "/secret.txt"},
			"write_file":      {"path": "/secret.txt", "content": "x"},
			"snapshot":        {},
			"list_snapshots":  {},
			"restore":         {"snapshot": "secretpoint"},
			"fork":            {},
			"destroy_sandbox": {},
		} {
			args["sandbox"] = key
			got, failed := w.tool(mallory, tool, args)
			args["sandbox"] = "s000000000000"
			want, _ := w.tool(mallory, tool, args)
			if !failed || strings.ReplaceAll(got, key, "X") != strings.ReplaceAll(want, "s000000000000", "X") {
				t.Errorf("%s of another's sandbox answers %q, of none %q", tool, got, want)
			}
		}
	}
	w.unharmed()
}

// TestMCPSessionBelongsToItsToken has somebody with another token, though of the
// same owner, show the id of a session.
func TestMCPSessionBelongsToItsToken(t *testing.T) {
	w := newTown(t)
	session := ""
	ask := func(token, session, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := bearer(token).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() }) // nothing more of it is read
		return resp
	}
	owner := atoll.Owner{App: "app", User: "mallory"}
	weak, err := w.admin.CreateToken(t.Context(), atoll.Token{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	session = ask(w.mallory, "", hello).Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatal("there is no session")
	}
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if got := ask(w.mallory, session, list).StatusCode; got != http.StatusOK {
		t.Errorf("its own token: %d", got)
	}
	for what, token := range map[string]string{"a weaker token of the owner": weak.Secret, "no good token": "atoll_x"} {
		if got := ask(token, session, list).StatusCode; got != http.StatusForbidden && got != http.StatusUnauthorized && got != http.StatusNotFound {
			t.Errorf("%s: %d", what, got)
		}
	}
}
