package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
)

// editorTools are the tools of the MCP servers that an editor has named for a session. The servers run on the editor's machine,
// as the editor's own; the agent in its sandbox reaches only their tools.
type editorTools struct {
	servers *tool.Servers // nil: none
	fault   string        // why servers are not used; empty: all are

	mu      sync.Mutex
	offered *tool.Toolset   // in the last turn; guarded by mu, as all below
	always  map[string]bool // names that the user always allows
	allowed []allowedCall   // calls for which the agent has asked, and that it has not made yet
}

// allowedCall is a call that the user has allowed.
type allowedCall struct{ name, input string }

// newEditorTools returns the servers of an editor, which are connected to by list.
func newEditorTools(servers []acp.McpServer, dir string) *editorTools {
	var list []tool.Remote
	var faults []string
	for _, m := range servers {
		switch {
		case m.Stdio != nil:
			r := tool.Remote{Name: m.Stdio.Name, Command: append([]string{m.Stdio.Command}, m.Stdio.Args...), Dir: dir, Env: make(map[string]string)}
			for _, v := range m.Stdio.Env {
				r.Env[v.Name] = v.Value
			}
			list = append(list, r)
		case m.Http != nil:
			list = append(list, tool.Remote{Name: m.Http.Name, URL: m.Http.Url, Headers: headerMap(m.Http.Headers)})
		case m.Sse != nil:
			list = append(list, tool.Remote{Name: m.Sse.Name, URL: m.Sse.Url, Headers: headerMap(m.Sse.Headers), SSE: true})
		default:
			faults = append(faults, "a server of an unknown transport")
		}
	}
	e := &editorTools{always: make(map[string]bool)}
	var err error
	if len(list) > 0 {
		if e.servers, err = tool.NewRemotes(list); err != nil {
			faults = append(faults, err.Error())
		}
	}
	e.fault = strings.Join(faults, "; ")
	return e
}

func headerMap(list []acp.HttpHeader) map[string]string {
	m := make(map[string]string)
	for _, h := range list {
		m[h.Name] = h.Value
	}
	return m
}

// Limits of the tools of an editor. A server that exceeds them must not take the others, or the turn, with it.
const (
	maxOfferBytes = 4 << 20          // of the descriptions and schemas of all tools
	listTime      = 15 * time.Second // for all servers to list their tools
	maxAllowed    = 256              // allowed calls that were not made
)

// list connects to the servers and returns their tools, and why some are missing. A server that is not available, or does not answer in
// time, has no tools in this turn; the next one tries it again.
func (e *editorTools) list(ctx context.Context) (offers []agent.ClientTool, warning string) {
	if e.servers == nil {
		return nil, e.fault
	}
	var faults []string
	if e.fault != "" {
		faults = append(faults, e.fault)
	}
	names := e.servers.Names()
	tools, errs := make([][]tool.Tool, len(names)), make([]error, len(names))
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { tools[i], errs[i] = e.servers.Tools(ctx, name, nil) })
	}
	asking.Wait()
	set := &tool.Toolset{}
	for i := range names {
		if errs[i] != nil {
			faults = append(faults, errs[i].Error())
		}
		for _, t := range tools[i] {
			set.Tools = append(set.Tools, explainFailures(t))
		}
	}
	set.Log = func(ev tool.Event) { // during List: why a tool is not offered
		if strings.HasPrefix(ev.Err, "it is not offered") {
			faults = append(faults, fmt.Sprintf("tool %s of %s: %s", ev.Tool, ev.Server, ev.Err))
		}
	}
	size, share := make(map[string]int), maxOfferBytes/len(names)
	for _, t := range set.List() {
		n := len(t.Name) + len(t.Description) + len(t.Schema)
		if size[t.Server]+n > share {
			faults = append(faults, fmt.Sprintf("tool %s of %s: its tools have more than %d bytes", t.Tool, t.Server, share))
			continue
		}
		size[t.Server] += n
		offers = append(offers, agent.ClientTool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	set.Log = nil
	e.mu.Lock()
	e.offered = set
	e.mu.Unlock()
	if len(faults) == 0 {
		return offers, ""
	}
	return offers, "MCP servers of the editor that are not used: " + abbreviate(strings.Join(faults, "; "), maxFaults)
}

// maxFaults limits the text of a warning, which has names that servers chose.
const maxFaults = 2000

// explainFailures returns a tool whose failures reach the model with their reason: the server is the user's own.
func explainFailures(t tool.Tool) tool.Tool {
	call := t.Call
	t.Call = func(ctx context.Context, c tool.Call) (tool.Result, error) {
		res, err := call(ctx, c)
		var known *tool.Error
		if err != nil && ctx.Err() == nil && !errors.As(err, &known) {
			err = &tool.Error{Text: "the tool of the editor failed: " + abbreviate(err.Error(), maxFaults)}
		}
		return res, err
	}
	return t
}

// call calls a tool and returns its text for the model, within the limits of results.
func (e *editorTools) call(ctx context.Context, c *agent.ToolCall) (text string, failed bool) {
	e.mu.Lock()
	set := e.offered
	e.mu.Unlock()
	if set == nil {
		return "the editor has no tool " + c.Name, true
	}
	res, err := set.Call(ctx, c.Name, c.Input, nil)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return "the editor has no tool " + c.Name, true
	case err != nil:
		return "the tool of the editor failed: " + err.Error(), true
	}
	text = res.Text
	if text == "" && res.Structured != nil {
		if b, err := json.Marshal(res.Structured); err == nil {
			text = string(b)
		}
	}
	if n := len(res.Images); n > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s\n(%d images are not passed on)", text, n))
	}
	return cmp.Or(text, "(no output)"), res.Failed
}

// editorPrefix begins the names of the editor's tools in agents' requests for permission.
const editorPrefix = "mcp__atoll__"

// nameOf returns the name of the editor's tool in a request for permission of an agent; false: it is no tool of the editor.
func (e *editorTools) nameOf(c *agent.ToolCall) (string, bool) {
	name, ok := strings.CutPrefix(c.Name, editorPrefix)
	return name, ok && e != nil && e.servers != nil
}

// allow records that the user allows a call: once, or all calls of the tool.
func (e *editorTools) allow(name string, input json.RawMessage, always bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if always {
		e.always[name] = true
		return
	}
	e.allowed = append(e.allowed, allowedCall{name, plainJSON(input)})
	if n := len(e.allowed) - maxAllowed; n > 0 {
		e.allowed = e.allowed[n:]
	}
}

// useAllowed reports whether the user has allowed a call. A call that was allowed once is allowed no more after that.
func (e *editorTools) useAllowed(c *agent.ToolCall) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.always[c.Name] {
		return true
	}
	i := slices.Index(e.allowed, allowedCall{c.Name, plainJSON(c.Input)})
	if i >= 0 {
		e.allowed = slices.Delete(e.allowed, i, i+1)
	}
	return i >= 0
}

// plainJSON returns JSON in one form for equal values.
func plainJSON(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}

// close ends the connections, and the programs that were started.
func (e *editorTools) close() {
	if e != nil {
		_ = e.servers.Close() // never fails
	}
}

// runTool calls a tool of the editor for the agent, in the background, until the end of the turn. The tool works outside of the sandbox
// with the user's rights, and any program inside can request a call: the user is asked here, unless the agent has asked for this call.
func (t *acpTurn) runTool(ctx context.Context, c agent.ToolCall) {
	ctx, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	t.decided["tool "+c.ID] = cancel
	t.mu.Unlock()
	t.asking.Go(func() {
		defer cancel()
		text, failed := "the user does not permit this", true
		if !t.asksForTools() || t.session.tools.useAllowed(&c) || t.askTool(ctx, c) {
			text, failed = t.session.tools.call(ctx, &c)
		}
		_ = t.s.c.AnswerToolCall(ctx, t.id, agent.ToolAnswer{Call: c.ID, Text: text, Failed: failed}) // the turn may have ended
	})
}

// asksForTools reports whether the user is asked before a call of the editor's tools: also if the agent can't ask for its own.
func (t *acpTurn) asksForTools() bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return !t.s.alone && (t.session.ask || !t.s.asks)
}

// askTool asks the editor whether a tool of it may be called.
func (t *acpTurn) askTool(ctx context.Context, c agent.ToolCall) bool {
	c.Title = editorToolTitle(c.Name)
	answer, err := t.s.conn.RequestPermission(ctx, t.permissionRequest(agent.Permission{ID: c.ID, Tool: c}))
	if err != nil || answer.Outcome.Selected == nil {
		return false
	}
	switch string(answer.Outcome.Selected.OptionId) {
	case "always":
		t.session.tools.allow(c.Name, nil, true)
		return true
	case "allow":
		return true
	}
	return false
}

// editorToolTitle returns the title of a request for permission to use a tool of the editor. The agent has no part in it.
func editorToolTitle(name string) string {
	return name + " (a tool of the editor, outside of the sandbox)"
}
