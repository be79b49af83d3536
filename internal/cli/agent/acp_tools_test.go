package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
)

// askedEditor is an editor that is asked for permission.
type askedEditor struct {
	acp.Client // the other methods are not called

	asked  chan acp.RequestPermissionRequest
	answer string // id of the option; empty: cancelled
}

func (e *askedEditor) RequestPermission(_ context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	e.asked <- r
	if e.answer == "" {
		return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}, nil
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(acp.PermissionOptionId(e.answer))}, nil
}

// serveTools serves an MCP server with tools.
func serveTools(t *testing.T, server *mcp.Server) acp.McpServer {
	t.Helper()
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	return acp.McpServer{Http: &acp.McpServerHttpInline{Name: "tickets", Url: web.URL}}
}

// TestEditorToolsNeedPermission calls a tool of the editor as a program in the sandbox does, without the agent's request for permission:
// the user is asked. A call that the agent has asked for is allowed once, and only that call.
func TestEditorToolsNeedPermission(t *testing.T) {
	calls := make(chan string, 10)
	server := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "close"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		N int `json:"n"`
	},
	) (*mcp.CallToolResult, any, error) {
		calls <- fmt.Sprint(in.N)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "closed"}}}, nil, nil
	})
	answers := make(chan agent.ToolAnswer, 10)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a agent.ToolAnswer
		if err := json.NewDecoder(r.Body).Decode(&a); err == nil && strings.HasSuffix(r.URL.Path, "/tool-answers") {
			answers <- a
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer web.Close()
	c, err := client.New(client.Options{Host: web.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	toEditor, fromAgent := io.Pipe()
	toAgent, fromEditor := io.Pipe()
	defer fromAgent.Close()
	defer fromEditor.Close()
	editor := &askedEditor{asked: make(chan acp.RequestPermissionRequest, 10)}
	acp.NewClientSideConnection(editor, fromEditor, toEditor)
	s := &acpAgent{c: c, mount: true, asks: true, sessions: make(map[string]*acpSession)}
	s.conn = acp.NewAgentSideConnection(s, fromAgent, toAgent)
	made, err := s.NewSession(t.Context(), acp.NewSessionRequest{Cwd: t.TempDir(), McpServers: []acp.McpServer{serveTools(t, server)}})
	if err != nil {
		t.Fatal(err)
	}
	session := s.sessions[string(made.SessionId)]
	defer session.tools.close()
	if offers, warning := session.tools.list(t.Context()); len(offers) != 1 || warning != "" {
		t.Fatalf("the tools are %+v, %q", offers, warning)
	}
	turn := &acpTurn{s: s, session: session, id: "t1", decided: make(map[string]context.CancelFunc)}
	n := 0
	call := func(input string) agent.ToolAnswer {
		t.Helper()
		n++
		turn.runTool(t.Context(), agent.ToolCall{ID: fmt.Sprint("c", n), Name: "close", Title: "Read a file", Input: json.RawMessage(input)})
		turn.asking.Wait()
		return <-answers
	}
	if a := call(`{"n":1}`); !a.Failed || len(calls) != 0 {
		t.Errorf("a call that the user does not permit: %+v, %d calls", a, len(calls))
	}
	if len(editor.asked) != 1 {
		t.Fatalf("the user was asked %d times", len(editor.asked))
	}
	if q := <-editor.asked; q.ToolCall.Title == nil || !strings.Contains(*q.ToolCall.Title, "outside of the sandbox") {
		t.Errorf("the user is asked for %+v", q.ToolCall)
	}
	session.tools.allow("close", json.RawMessage(`{ "n": 2 }`), false)
	if a := call(`{"n":2}`); a.Failed || len(editor.asked) != 0 {
		t.Errorf("a call that was allowed: %+v, asked %d times more", a, len(editor.asked))
	}
	for _, input := range []string{`{"n":2}`, `{"n":3}`} {
		if a := call(input); !a.Failed || len(editor.asked) != 1 {
			t.Errorf("the call %s that was not allowed: %+v", input, a)
		}
		<-editor.asked
	}
	editor.answer = "always"
	for range 2 {
		if a := call(`{"n":4}`); a.Failed {
			t.Errorf("a tool that is always allowed: %+v", a)
		}
	}
	if len(editor.asked) != 1 || len(calls) != 3 {
		t.Errorf("always: asked %d times, %d calls", len(editor.asked), len(calls))
	}
	s.asks, s.alone, session.tools.always, editor.answer = false, false, map[string]bool{}, ""
	if a := call(`{"n":5}`); !a.Failed {
		t.Errorf("with an agent that can't ask: %+v", a)
	}
	s.alone = true
	if a := call(`{"n":5}`); a.Failed {
		t.Errorf("alone: %+v", a)
	}
}

// TestHostileServersOfEditor has servers that send too much, have the names of others, or never answer: the tools of the others are
// offered, and results are cut.
func TestHostileServersOfEditor(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "large", Version: "1"}, nil)
	huge := strings.Repeat("x", 40<<20)
	add := func(name, description string, schema any, text string) {
		server.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	object := map[string]any{"type": "object"}
	add("huge", strings.Repeat("d", 1<<20), object, huge)
	add("fine", "Is fine.", object, "fine")
	add("deep", "Is deep.", json.RawMessage(`{"type":"object","properties":`+strings.Repeat(`{"not":`, 200)+"{}"+strings.Repeat("}", 201)), "deep")
	for i := range 100 {
		add(fmt.Sprintf("zz%03d", i), "", map[string]any{"type": "object", "description": strings.Repeat("s", 60_000)}, "")
	}
	end := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	defer silent.Close()
	defer close(end)
	twin := serveTools(t, server)
	twin.Http.Name = "twin"
	tools := newEditorTools([]acp.McpServer{{Http: &acp.McpServerHttpInline{Name: "silent", Url: silent.URL}}, serveTools(t, server), twin}, t.TempDir())
	defer tools.close()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	offers, warning := tools.list(ctx)
	size := 0
	var names []string
	for _, o := range offers {
		size += len(o.Description) + len(o.Schema)
		names = append(names, o.Name)
	}
	slices.Sort(names)
	if !slices.Contains(names, "tickets_fine") || !slices.Contains(names, "twin_fine") || len(slices.Compact(names)) != len(offers) {
		t.Errorf("the tools are %q", names)
	}
	if size > maxOfferBytes || len(warning) > 2*maxFaults {
		t.Errorf("they have %d bytes, the warning %d", size, len(warning))
	}
	for _, want := range []string{"silent", "deep", "its tools have more than"} {
		if !strings.Contains(warning, want) {
			t.Errorf("the warning has no %q: %s", want, warning)
		}
	}
	if text, failed := tools.call(t.Context(), &agent.ToolCall{Name: "tickets_huge"}); failed || len(text) > 1<<20 || !strings.Contains(text, "left out") {
		t.Errorf("a huge result: %d bytes, %v", len(text), failed)
	}
}
