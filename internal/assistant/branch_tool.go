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
	"github.com/atoll-sandbox/atoll/internal/skill"
	"github.com/atoll-sandbox/atoll/internal/tool"
)

// offer is what this turn may call: the assistant's tools, and whatever else.
func (r *run) offer(ctx context.Context, more ...tool.Tool) *tool.Offer {
	who := tool.Who{Owner: r.chat.Owner, Chat: r.chat.ID, Assistant: r.who(), Turn: r.id}
	return &tool.Offer{Who: who, Tools: append(r.serverTools(ctx), more...), Log: r.called}
}

// called notes a call of a tool.
func (r *run) called(e tool.Event) {
	var err error
	if e.Err != "" {
		err = fmt.Errorf("tool: %s", e.Err)
	}
	r.ask.Account.Note("tool", e.Server+"."+e.Tool, "turn "+r.id)(err)
	r.p.log.Debug("tool called", "turn", r.id, "server", e.Server, "tool", e.Tool, "millis", e.Millis, "err", e.Err)
}

// serverTools returns the tools of the host that the assistant may call. A
// server that can't be reached is told, and the turn goes on without it.
func (r *run) serverTools(ctx context.Context) []tool.Tool {
	var list []tool.Tool
	for _, s := range r.made.Tools {
		from := r.made.Servers
		if !from.Has(s.Server) {
			from = r.app.Tools
		}
		tools, err := from.Tools(ctx, s.Server, s.Tools)
		if err != nil {
			r.p.log.Warn("tools left out", "turn", r.id, "server", s.Server, "err", err)
			r.emit(agent.Event{Type: agent.Warning, Text: "the tools of " + s.Server + " can't be had"})
		}
		list = append(list, tools...)
	}
	return list
}

// clientTools returns the tools that the client calls itself: a call is told to
// it, and waits for what it says came of it.
func (r *run) clientTools() []tool.Tool {
	var list []tool.Tool
	var n atomic.Int64
	for _, t := range r.ask.Tools {
		list = append(list, tool.Tool{
			Server: "client", Name: t.Name, Description: t.Description, Schema: t.Schema, Foreign: true,
			Call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
				id := fmt.Sprintf("call_%s_%d", r.id, n.Add(1))
				text, failed, err := r.desk.Want(ctx, agent.ToolCall{ID: id, Name: t.Name, Kind: agent.Other, Input: c.Input})
				return tool.Result{Text: text, Failed: failed}, err
			},
		})
	}
	return list
}

// skillTool is the tool by which a model that is asked directly reads skills:
// it is told their names, and reads of them what it needs.
func skillTool(skills []skill.Skill) tool.Tool {
	byName := make(map[string]skill.Skill)
	var names []string
	for _, s := range skills {
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	schema, _ := json.Marshal(map[string]any{ // plain values
		"type": "object", "required": []string{"name"},
		"properties": map[string]any{
			"name": map[string]any{"type": "string", "enum": names, "description": "of the skill"},
			"file": map[string]any{"type": "string", "description": "of the skill, as its instructions name it; without it: the instructions"},
		},
	})
	return tool.Tool{Server: "atoll", Name: "skill", Description: skill.Catalogue(skills, "Read a skill: instructions for a kind of task. Read one before you do what it is for.", nil), Schema: schema, Call: func(_ context.Context, c tool.Call) (tool.Result, error) {
		var in struct{ Name, File string }
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return tool.Result{}, &tool.Error{Text: "the input must be an object with name"}
		}
		s, ok := byName[in.Name]
		if !ok {
			return tool.Result{}, &tool.Error{Text: fmt.Sprintf("there is no skill %q", short(in.Name))}
		}
		return readSkill(&s, in.File)
	}}
}

// maxSkillFile is how much of a skill's file a model reads at once.
const maxSkillFile = 256 << 10

// readSkill returns a skill's instructions, or a file of it.
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
