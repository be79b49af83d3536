// Package codex runs OpenAI's Codex CLI: once for each prompt as codex exec, which
// reports its work in lines of JSON, and with Turn.Ask as codex app-server, which
// requests permissions.
package codex

import "github.com/atoll-sandbox/atoll/agent"

// Agent is the Codex CLI.
type Agent struct{}

var _ agent.Agent = Agent{}

// Name returns "codex".
func (Agent) Name() string { return "codex" }

// Features returns what Codex can do. It streams text, can be interrupted and
// accepts further prompts only in turns with Turn.Ask, or with the argument
// server.
func (Agent) Features() agent.Features {
	return agent.Features{
		Approvals: true,
		Interrupt: true,
		Resume:    true,
		TurnsBy:   "server",
		Steer:     true,
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
			"server": "whether to use its app server, which streams text, in turns without permission requests",
			"search": "whether the model may search the web, if its API does that",
		},
	}
}

// NewConversation decodes the output of codex exec, or speaks with the app server.
func (Agent) NewConversation(t *agent.Turn, at agent.Environment) agent.Conversation {
	if usesAppServer(t) {
		return newAppServer(t, at)
	}
	return &conversation{StdinPrompt: "codex", turn: t}
}

// usesAppServer reports whether the turn runs through the app server.
func usesAppServer(t *agent.Turn) bool {
	on := t.Ask
	return t.DecodeArgument("server", &on) == nil && (on || t.Ask)
}
