// Package codex runs OpenAI's Codex CLI: once for each prompt as codex exec,
// which tells what it does in lines of JSON, and with Turn.Ask as codex
// app-server, which asks before it acts.
package codex

import "github.com/atoll-sandbox/atoll/agent"

// Agent is the Codex CLI.
type Agent struct{}

var _ agent.Agent = Agent{}

// Name returns "codex".
func (Agent) Name() string { return "codex" }

// Features says what Codex can do. It tells text as it comes, can be
// interrupted and takes further prompts only in turns with Turn.Ask, or with the argument
// server.
func (Agent) Features() agent.Features {
	return agent.Features{
		Approvals: true,
		Interrupt: true,
		Resume:    true,
		Usage:     true,
		System:    true,
		Skills:    true,
		Tools:     true,
		Images:    true,
		API:       "responses",
		Needs:     []string{"bash"},
		Package: &agent.Package{
			Name:    "@openai/codex",
			Version: "0.169.0-linux-{arch}",
			Program: "vendor/{machine}-unknown-linux-musl/bin/codex",
		},
		Arguments: map[string]string{
			"effort": "how much the model thinks: minimal, low, medium, high",
			"server": "whether it is talked with through its app server, which tells text as it comes, though it does not ask",
			"search": "whether the model may search the web, if its API does that",
		},
	}
}

// Talk reads what codex exec tells, or speaks with the app server.
func (Agent) Talk(t *agent.Turn, at agent.Site) agent.Talk {
	if serves(t) {
		return newServer(t, at)
	}
	return &talk{Deaf: "codex", turn: t}
}

// serves reports that the turn goes through the app server.
func serves(t *agent.Turn) bool {
	on := t.Ask
	return t.Argument("server", &on) == nil && (on || t.Ask)
}
