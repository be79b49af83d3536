package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/coder/acp-go-sdk"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
)

// editorTools are the tools of the MCP servers that an editor has named for a session. The servers run on the editor's machine,
// as the editor's own; the agent in its sandbox reaches only their tools.
type editorTools struct {
	servers *tool.Servers // nil: none
	fault   string        // why servers are not used; empty: all are
	byName  map[string]tool.Tool
	offers  []agent.ClientTool
}

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
	e := &editorTools{}
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

// notInName are the characters that names of tools must not have.
var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// maxToolName limits the name of a tool.
const maxToolName = 64

// list connects to the servers and returns their tools, and why some are missing. A server that is not available has no tools
// in this turn; the next one tries it again.
func (e *editorTools) list(ctx context.Context) (offers []agent.ClientTool, warning string) {
	if e.servers == nil {
		return nil, e.fault
	}
	faults := []string{}
	if e.fault != "" {
		faults = append(faults, e.fault)
	}
	e.byName, e.offers = make(map[string]tool.Tool), nil
	for _, server := range e.servers.Names() {
		tools, err := e.servers.Tools(ctx, server, nil)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		for _, t := range tools {
			name := notInName.ReplaceAllString(t.Name, "_")
			if _, used := e.byName[name]; used {
				name = notInName.ReplaceAllString(server+"_"+t.Name, "_")
			}
			if _, used := e.byName[name]; used || len(name) > maxToolName {
				faults = append(faults, fmt.Sprintf("tool %s of %s: its name is used, or too long", t.Name, server))
				continue
			}
			e.byName[name] = t
			e.offers = append(e.offers, agent.ClientTool{Name: name, Description: t.Description, Schema: t.Schema})
		}
	}
	if len(faults) == 0 {
		return e.offers, ""
	}
	return e.offers, "MCP servers of the editor that are not used: " + strings.Join(faults, "; ")
}

// call calls a tool and returns its text for the model.
func (e *editorTools) call(ctx context.Context, c *agent.ToolCall) (text string, failed bool) {
	t, ok := e.byName[c.Name]
	if !ok {
		return "the editor has no tool " + c.Name, true
	}
	res, err := t.Call(ctx, tool.Call{Input: c.Input, Progress: func(float64, float64, string) {}})
	var known *tool.Error
	switch {
	case errors.As(err, &known):
		return known.Text, true
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

// close ends the connections, and the programs that were started.
func (e *editorTools) close() {
	if e != nil {
		_ = e.servers.Close() // never fails
	}
}

// runTool calls a tool of the editor for the agent, in the background, until the end of the turn.
func (t *acpTurn) runTool(ctx context.Context, c agent.ToolCall) {
	ctx, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	t.decided["tool "+c.ID] = cancel
	t.mu.Unlock()
	t.asking.Go(func() {
		defer cancel()
		text, failed := t.session.tools.call(ctx, &c)
		_ = t.s.c.AnswerToolCall(ctx, t.id, agent.ToolAnswer{Call: c.ID, Text: text, Failed: failed}) // the turn may have ended
	})
}
