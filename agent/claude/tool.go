package claude

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// toolKinds are the kinds of the program's own tools.
var toolKinds = map[string]agent.Kind{
	"Read": agent.Read, "NotebookRead": agent.Read, "LS": agent.Read, "ReadMcpResourceTool": agent.Read,
	"Write": agent.Edit, "Edit": agent.Edit, "MultiEdit": agent.Edit, "NotebookEdit": agent.Edit,
	"Grep": agent.Search, "Glob": agent.Search, "ToolSearch": agent.Search, "WebSearch": agent.Search,
	"Bash": agent.Execute, "BashOutput": agent.Execute, "KillShell": agent.Execute, "Monitor": agent.Execute, "PowerShell": agent.Execute,
	"WebFetch": agent.Fetch,
	"Task":     agent.Think, "Agent": agent.Think, "TodoWrite": agent.Think, "EnterPlanMode": agent.Think, "ExitPlanMode": agent.Think,
}

// mcpPrefix is the prefix of names of MCP tools.
const mcpPrefix = "mcp__"

func toolKind(name string) agent.Kind {
	if k, ok := toolKinds[name]; ok {
		return k
	}
	if strings.HasPrefix(name, mcpPrefix) {
		return agent.MCP
	}
	return agent.Other
}

// inputFields are the members of tool inputs that are useful for display.
type inputFields struct {
	Command     string `json:"command"`
	File        string `json:"file_path"`
	Notebook    string `json:"notebook_path"`
	Path        string `json:"path"`
	Pattern     string `json:"pattern"`
	Query       string `json:"query"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Skill       string `json:"skill"`
}

// toolTitle returns one line for display about a call.
func toolTitle(name string, input json.RawMessage) string {
	var g inputFields
	jsonlines.Decode(input, &g)
	if rest, ok := strings.CutPrefix(name, mcpPrefix); ok {
		return firstLine(strings.Replace(rest, "__", " ", 1))
	}
	for _, s := range []string{g.Command, g.File, g.Notebook, g.Pattern, g.Query, g.URL, g.Skill, g.Description, g.Path, name} {
		if s != "" {
			return firstLine(s)
		}
	}
	return ""
}

// firstLine returns the first line of a text, cut to 200 bytes.
func firstLine(s string) string {
	const most = 200
	s, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) > most {
		cut := most
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s, more = s[:cut], true
	}
	if more {
		s += "…"
	}
	return s
}

// inputLocations returns the file that a tool's input names.
func inputLocations(input json.RawMessage) []string {
	var g inputFields
	jsonlines.Decode(input, &g)
	for _, s := range []string{g.File, g.Notebook, g.Path} {
		if s != "" {
			return []string{s}
		}
	}
	return nil
}

// planEntries returns the agent's plan, if the call sets it.
func planEntries(name string, input json.RawMessage) []agent.PlanEntry {
	if name != "TodoWrite" {
		return nil
	}
	var list struct {
		Todos []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"todos"`
	}
	jsonlines.Decode(input, &list)
	plan := make([]agent.PlanEntry, 0, len(list.Todos))
	for _, e := range list.Todos {
		plan = append(plan, agent.PlanEntry{Text: e.Content, Status: e.Status})
	}
	return plan
}

// outputText returns a tool's output to the model as text.
func outputText(content json.RawMessage) string {
	var text strings.Builder
	for i, p := range parseBlocks(content) {
		if i > 0 {
			text.WriteByte('\n')
		}
		if p.Type == "text" {
			text.WriteString(p.Text)
		} else {
			fmt.Fprintf(&text, "[%s]", p.Type)
		}
	}
	return text.String()
}

// toolResult is the result of a tool in its own format.
type toolResult struct {
	Type     string  `json:"type"`
	File     string  `json:"filePath"`
	Content  *string `json:"content"`
	Original *string `json:"originalFile"`
	Old      *string `json:"oldString"`
	New      *string `json:"newString"`
	Edits    []struct {
		Old string `json:"old_string"`
		New string `json:"new_string"`
	} `json:"edits"`
	Stdout     *string `json:"stdout"`
	Background string  `json:"backgroundTaskId"`
	Cut        bool    `json:"interrupted"`
}

// addDetails adds the changes of files and the exit status of a command from a
// tool's own result. A status other than 0 is only in the output text.
func addDetails(c *agent.ToolCall, raw json.RawMessage) {
	var o toolResult
	if json.Valid(raw) {
		jsonlines.Decode(raw, &o)
	}
	switch {
	case c.Status == agent.Denied:
	case c.Kind == agent.Edit && o.File != "":
		c.Diffs = fileDiffs(o)
	case c.Name == "Bash" && c.Status == agent.Completed && o.Stdout != nil && o.Background == "" && !o.Cut:
		c.Exit = new(int)
	case c.Name == "Bash" && c.Status == agent.ToolFailed:
		var status int
		if n, _ := fmt.Sscanf(c.Output, "Exit code %d", &status); n == 1 {
			c.Exit = &status
		}
	}
}

// fileDiffs returns the changes of a file.
func fileDiffs(o toolResult) []agent.Diff {
	switch {
	case o.Content != nil:
		return []agent.Diff{{Path: o.File, Old: o.Original, New: *o.Content}}
	case o.Old != nil && o.New != nil:
		return []agent.Diff{{Path: o.File, Old: o.Old, New: *o.New}}
	}
	list := make([]agent.Diff, 0, len(o.Edits))
	for _, e := range o.Edits {
		list = append(list, agent.Diff{Path: o.File, Old: &e.Old, New: e.New})
	}
	return list
}
