package acp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// call is the known state of a tool call.
type call struct {
	agent.ToolCall
	ended  bool
	denied bool
}

// toolUpdate is a tool call in the protocol's format, whole or only its changes.
type toolUpdate struct {
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Kind      agent.Kind      `json:"kind"`
	Status    string          `json:"status"`
	Input     json.RawMessage `json:"rawInput"`
	Output    json.RawMessage `json:"rawOutput"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
	Content []struct {
		Type    string `json:"type"`
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
		Path string  `json:"path"`
		Old  *string `json:"oldText"`
		New  string  `json:"newText"`
		Meta struct {
			Kind string `json:"kind"`
		} `json:"_meta"`
	} `json:"content"`
	Meta map[string]json.RawMessage `json:"_meta"`
}

var kinds = []agent.Kind{
	agent.Read, agent.Edit, agent.Delete, agent.Move, agent.Search, agent.Execute, agent.Think, agent.Fetch, agent.Other,
}

// handleToolUpdate emits the start, progress or end of a call.
func (t *Conversation) handleToolUpdate(x agent.Exchange, v toolUpdate) {
	t.endBlock(x)
	c, fresh := t.findOrAddCall(v)
	if c.ended {
		return
	}
	before := c.ToolCall
	c.merge(v)
	if fresh {
		begun := c.ToolCall
		begun.Status, begun.Output = "", ""
		t.emitEvent(x, agent.Event{Type: agent.ToolStarted, Tool: &begun})
		before.Diffs = begun.Diffs
	}
	switch v.Status {
	case "completed":
		c.Status = agent.Completed
	case "failed":
		c.Status = agent.ToolFailed
	default:
		t.emitProgress(x, before, c, fresh)
		return
	}
	if c.denied {
		c.Status = agent.Denied
	}
	c.ended = true
	ended := c.ToolCall
	t.emitEvent(x, agent.Event{Type: agent.ToolFinished, Tool: &ended})
	c.ToolCall = agent.ToolCall{ID: v.ID}
}

// findOrAddCall returns the call of an id, and whether it is new.
func (t *Conversation) findOrAddCall(v toolUpdate) (c *call, fresh bool) {
	if c, ok := t.calls[v.ID]; ok {
		return c, false
	}
	c = &call{ToolCall: agent.ToolCall{ID: v.ID, Name: v.toolName(), Kind: agent.Other}}
	t.calls[v.ID] = c
	t.order = append(t.order, v.ID)
	return c, true
}

// emitProgress emits the changes of a call since before, if there are any.
func (t *Conversation) emitProgress(x agent.Exchange, before agent.ToolCall, c *call, fresh bool) {
	news := agent.ToolCall{ID: c.ID}
	news.Output = c.Output
	if strings.HasPrefix(c.Output, before.Output) {
		news.Output = c.Output[len(before.Output):]
	}
	if !fresh {
		if string(c.Input) != string(before.Input) {
			news.Input = c.Input
		}
		if c.Title != before.Title {
			news.Title = c.Title
		}
		if !slices.Equal(c.Locations, before.Locations) {
			news.Locations = c.Locations
		}
	}
	if len(c.Diffs) != len(before.Diffs) {
		news.Diffs = c.Diffs
	}
	if news.Output == "" && news.Input == nil && news.Title == "" && news.Locations == nil && news.Diffs == nil {
		return
	}
	t.emitEvent(x, agent.Event{Type: agent.ToolUpdated, Tool: &news})
}

// merge applies an update.
func (c *call) merge(v toolUpdate) {
	if v.Title != "" {
		c.Title = v.Title
	}
	if slices.Contains(kinds, v.Kind) {
		c.Kind = v.Kind
	}
	if in := string(v.Input); in != "" && in != "null" && (in != "{}" || c.Input == nil) {
		c.Input = v.Input
	}
	if len(v.Locations) > 0 {
		c.Locations = nil
		for _, l := range v.Locations {
			c.Locations = append(c.Locations, l.Path)
		}
	}
	c.mergeContent(v)
	c.mergeOutput(v)
}

// mergeContent applies text and diffs, which are always complete. The text of a
// pending call is a description, not output.
func (c *call) mergeContent(v toolUpdate) {
	var text strings.Builder
	var diffs []agent.Diff
	for _, p := range v.Content {
		switch p.Type {
		case "diff":
			d := agent.Diff{Path: p.Path, Old: p.Old, New: p.New}
			if p.Meta.Kind == "add" {
				d.Old = nil
			}
			diffs = append(diffs, d)
		case "content":
			text.WriteString(p.Content.Text)
		}
	}
	if diffs != nil {
		c.Diffs = diffs
	}
	if text.Len() > 0 && v.Status != "pending" {
		c.Output = text.String()
	}
}

// mergeOutput applies the tool's result in its own format.
func (c *call) mergeOutput(v toolUpdate) {
	if len(v.Output) == 0 || string(v.Output) == "null" {
		return
	}
	var o struct {
		Output   *string `json:"output"`
		Exit     *int    `json:"exit_code"`
		ExitCode *int    `json:"exitCode"`
		Metadata struct {
			Exit *int `json:"exit"`
		} `json:"metadata"`
		Error string `json:"error"`
	}
	jsonlines.Decode(v.Output, &o)
	for _, exit := range []*int{o.Exit, o.ExitCode, o.Metadata.Exit} {
		if exit != nil {
			c.Exit = exit
		}
	}
	if o.Error != "" && !c.denied {
		c.Reason = o.Error
	}
	if c.Output != "" {
		return
	}
	var text string
	switch {
	case o.Output != nil:
		c.Output = *o.Output
	case v.Output[0] == '"' && jsonlines.Decode(v.Output, &text):
		c.Output = text
	case o.Error == "":
		c.Output = string(v.Output)
	}
}

// toolName returns the agent's name of the tool, if the agent reports one.
func (v *toolUpdate) toolName() string {
	for _, raw := range v.Meta {
		var m struct {
			Tool string `json:"toolName"`
		}
		if jsonlines.Decode(raw, &m) && m.Tool != "" {
			return m.Tool
		}
	}
	if v.Title != "" && !strings.ContainsAny(v.Title, " \n/`") {
		return v.Title
	}
	if slices.Contains(kinds, v.Kind) {
		return string(v.Kind)
	}
	return string(agent.Other)
}
