package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sync/atomic"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/skill"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
)

// toolOffer returns the tools of this turn: the assistant's, and more.
func (r *turnRun) toolOffer(ctx context.Context, more ...tool.Tool) *tool.Toolset {
	return &tool.Toolset{Caller: r.toolCaller(), Tools: append(r.serverTools(ctx), more...), Log: r.logToolCall}
}

// toolCaller returns the turn as the caller of tools.
func (r *turnRun) toolCaller() tool.Caller {
	return tool.Caller{Owner: r.chat.Owner, Chat: r.chat.ID, Assistant: r.targetName(), Turn: r.id}
}

// logToolCall logs a tool call and records it in the audit log.
func (r *turnRun) logToolCall(e tool.Event) {
	var err error
	if e.Err != "" {
		err = fmt.Errorf("tool: %s", e.Err)
	}
	r.request.Account.BeginAudit("tool", e.Server+"."+e.Tool, "turn "+r.id)(err)
	r.pipeline.log.Debug("tool called", "turn", r.id, "server", e.Server, "tool", e.Tool, "millis", e.Millis, "err", e.Err)
}

// serverTools returns the host's tools that the assistant may call. It emits a warning
// for a server that is not available, and leaves it out.
func (r *turnRun) serverTools(ctx context.Context) []tool.Tool {
	var list []tool.Tool
	for _, s := range r.assistant.Tools {
		from := r.assistant.Servers
		if !from.Has(s.Server) {
			from = r.app.Tools
		}
		tools, err := from.Tools(ctx, s.Server, s.Tools)
		if err != nil {
			r.pipeline.log.Warn("tools left out", "turn", r.id, "server", s.Server, "err", err)
			r.emitEvent(agent.Event{Type: agent.Warning, Text: "the tools of " + s.Server + " are not available: " + tool.Reason(err)})
		}
		list = append(list, tools...)
	}
	return list
}

// clientTools returns the client's own tools: a call is emitted to the client, and
// waits for the client's result.
func (r *turnRun) clientTools() []tool.Tool {
	var list []tool.Tool
	var n atomic.Int64
	for _, t := range r.request.Tools {
		list = append(list, tool.Tool{
			Server: "client", Name: t.Name, Description: t.Description, Schema: t.Schema, ServerValidates: true,
			Call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
				id := fmt.Sprintf("call_%s_%d", r.id, n.Add(1))
				text, failed, err := r.handle.CallClientTool(ctx, agent.ToolCall{ID: id, Name: t.Name, Kind: agent.Other, Input: c.Input})
				return tool.Result{Text: text, Failed: failed}, err
			},
		})
	}
	return list
}

// skillTool returns the tool with which a model that is called directly reads skills:
// the description lists them, and the model reads those that it needs.
func skillTool(skills []skill.Skill) tool.Tool {
	byName := make(map[string]skill.Skill)
	var names []string
	for _, s := range skills {
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	schema, _ := json.Marshal(map[string]any{ // can't fail for plain values
		"type": "object", "required": []string{"name"},
		"properties": map[string]any{
			"name": map[string]any{"type": "string", "enum": names, "description": "of the skill"},
			"file": map[string]any{"type": "string", "description": "of the skill, as its instructions name it; without it: the instructions"},
		},
	})
	return tool.Tool{Server: "atoll", Name: "skill", Description: skill.FormatCatalogue(skills, "Read a skill: instructions for a kind of task. Read one before you do what it is for.", nil), Schema: schema, Call: func(_ context.Context, c tool.Call) (tool.Result, error) {
		var in struct{ Name, File string }
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return tool.Result{}, &tool.Error{Text: "the input must be an object with name"}
		}
		s, ok := byName[in.Name]
		if !ok {
			return tool.Result{}, &tool.Error{Text: fmt.Sprintf("there is no skill %q", truncateName(in.Name))}
		}
		return readSkill(&s, in.File)
	}}
}

// maxSkillFile limits the bytes of a skill's file that a model reads at once.
const maxSkillFile = 256 << 10

// readSkill returns a skill's instructions, or one of its files.
func readSkill(s *skill.Skill, name string) (tool.Result, error) {
	name = path.Clean(name)
	if name == "." || name == "SKILL.md" {
		text, err := s.Activate("")
		return tool.Result{Text: text}, err
	}
	text, err := s.Read(name, maxSkillFile)
	if errors.Is(err, atoll.ErrNotFound) || errors.Is(err, atoll.ErrInvalid) {
		return tool.Result{}, &tool.Error{Text: "the skill has no such file that could be read"}
	}
	return tool.Result{Text: text}, err
}
