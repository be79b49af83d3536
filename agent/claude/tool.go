package claude

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// kinds of the program's own tools.
var kinds = map[string]agent.Kind{
	"Read": agent.Read, "NotebookRead": agent.Read, "LS": agent.Read, "ReadMcpResourceTool": agent.Read,
	"Write": agent.Edit, "Edit": agent.Edit, "MultiEdit": agent.Edit, "NotebookEdit": agent.Edit,
	"Grep": agent.Search, "Glob": agent.Search, "ToolSearch": agent.Search, "WebSearch": agent.Search,
	"Bash": agent.Execute, "BashOutput": agent.Execute, "KillShell": agent.Execute, "Monitor": agent.Execute, "PowerShell": agent.Execute,
	"WebFetch": agent.Fetch,
	"Task":     agent.Think, "Agent": agent.Think, "TodoWrite": agent.Think, "EnterPlanMode": agent.Think, "ExitPlanMode": agent.Think,
}

// foreign begins the names of tools of servers.
const foreign = "mcp__"

func kind(name string) agent.Kind {
	if k, ok := kinds[name]; ok {
		return k
	}
	if strings.HasPrefix(name, foreign) {
		return agent.MCP
	}
	return agent.Other
}

// given is what tools are called with, as far as it says something to people.
type given struct {
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

// title returns a line for people.
func title(name string, input json.RawMessage) string {
	var g given
	lenient.Decode(input, &g)
	if rest, ok := strings.CutPrefix(name, foreign); ok {
		return clip(strings.Replace(rest, "__", " ", 1))
	}
	for _, s := range []string{g.Command, g.File, g.Notebook, g.Pattern, g.Query, g.URL, g.Skill, g.Description, g.Path, name} {
		if s != "" {
			return clip(s)
		}
	}
	return ""
}

// clip makes a short line of a text.
func clip(s string) string {
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

// locations are the files that a tool is called with.
func locations(input json.RawMessage) []string {
	var g given
	lenient.Decode(input, &g)
	for _, s := range []string{g.File, g.Notebook, g.Path} {
		if s != "" {
			return []string{s}
		}
	}
	return nil
}

// steps are those of the agent's plan, if a call sets it.
func steps(name string, input json.RawMessage) []agent.PlanEntry {
	if name != "TodoWrite" {
		return nil
	}
	var list struct {
		Todos []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"todos"`
	}
	lenient.Decode(input, &list)
	plan := make([]agent.PlanEntry, 0, len(list.Todos))
	for _, e := range list.Todos {
		plan = append(plan, agent.PlanEntry{Text: e.Content, Status: e.Status})
	}
	return plan
}

// output is what a tool told the model, as text.
func output(content json.RawMessage) string {
	var text strings.Builder
	for i, p := range blocks(content) {
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

// outcome is what a tool gave back in its own form.
type outcome struct {
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

// detail adds what a tool gave back in its own form: changes of files, and the
// status of a command, which is told in the text where it is not 0.
func detail(c *agent.ToolCall, raw json.RawMessage) {
	var o outcome
	if json.Valid(raw) {
		lenient.Decode(raw, &o)
	}
	switch {
	case c.Status == agent.Denied:
	case c.Kind == agent.Edit && o.File != "":
		c.Diffs = diffs(o)
	case c.Name == "Bash" && c.Status == agent.Completed && o.Stdout != nil && o.Background == "" && !o.Cut:
		c.Exit = new(int)
	case c.Name == "Bash" && c.Status == agent.ToolFailed:
		var status int
		if n, _ := fmt.Sscanf(c.Output, "Exit code %d", &status); n == 1 {
			c.Exit = &status
		}
	}
}

// diffs are the changes of a file.
func diffs(o outcome) []agent.Diff {
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
