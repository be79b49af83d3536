package server

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/assistant"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// listAssistants adds the assistants that requests may name.
func (s *Server) listAssistants(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "list-assistants", Method: http.MethodGet, Path: "/v1/assistants", Tags: []string{"agents"}, Summary: "The assistants that the server has",
		Description: "They are also the models of /v1/chat/completions (as OpenAI's API) and /v1/messages (as Anthropic's), also beneath /openai and /anthropic.",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[agent.AssistantInfo]], error) {
		return list(s.assistants(ctx, a))
	})
}

// assistants returns the assistants that there are, by id.
func (s *Server) assistants(ctx context.Context, a *fleet.Account) ([]agent.AssistantInfo, error) {
	if err := a.May("list assistants", atoll.ScopeRead); err != nil {
		return nil, err
	}
	if s.opts.Agents == nil {
		return nil, nil
	}
	has, err := s.agents()
	if err != nil {
		return nil, err
	}
	all, err := has.Pipeline.Assistants(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]agent.AssistantInfo, 0, len(all))
	for _, one := range all {
		infos = append(infos, infoOf(one))
	}
	slices.SortFunc(infos, func(a, b agent.AssistantInfo) int { return strings.Compare(a.ID, b.ID) })
	return infos, nil
}

// infoOf is an assistant as callers see it.
func infoOf(a *assistant.Assistant) agent.AssistantInfo {
	i := agent.AssistantInfo{ID: a.ID, Name: a.Name, Description: a.Description, Connector: a.Connector, Model: a.Options.Model}
	if info, err := os.Stat(a.Source); err == nil {
		i.Created = info.ModTime().Unix()
	}
	if a.Sandbox != nil {
		i.Agent = a.Sandbox.Command
	}
	for _, s := range a.Skills {
		i.Skills = append(i.Skills, s.Name)
	}
	for _, t := range a.Tools {
		if t.Tools == nil {
			i.Tools = append(i.Tools, t.Server)
		}
		for _, name := range t.Tools {
			i.Tools = append(i.Tools, t.Server+"."+name)
		}
	}
	for _, h := range []string{"Create", "Next"} {
		if a.Hooks != nil && a.Hooks.Has(h) {
			i.Hooks = append(i.Hooks, h)
		}
	}
	return i
}
