package api

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// registerAssistants registers the list of assistants.
func (s *Server) registerAssistants(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "list-assistants", Method: http.MethodGet, Path: "/v1/assistants", Tags: []string{"agents"}, Summary: "List the assistants of the server",
		Description: "They are also the models of /v1/chat/completions (OpenAI's API) and /v1/messages (Anthropic's API), which are available below /openai and /anthropic as well.",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[agent.AssistantInfo]], error) {
		return listReply(s.listAssistants(ctx, a))
	})
}

// listAssistants returns all assistants, sorted by id.
func (s *Server) listAssistants(ctx context.Context, a *fleet.Account) ([]agent.AssistantInfo, error) {
	if err := a.RequireScope("list assistants", atoll.ScopeRead); err != nil {
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

// infoOf returns the public description of an assistant.
func infoOf(a *assistant.Assistant) agent.AssistantInfo {
	i := agent.AssistantInfo{ID: a.ID, Name: a.Name, Description: a.Description, Connector: a.Connector, Model: a.Options.Model, Problem: a.Problem}
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
		if a.Hooks != nil && a.Hooks.HasFunction(h) {
			i.Hooks = append(i.Hooks, h)
		}
	}
	return i
}
