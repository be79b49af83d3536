package turns

import (
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

// TestHookChoosesTheModel checks that a hook can select another model by the name of
// its connector.
func TestHookChoosesTheModel(t *testing.T) {
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{{Text: "Hello."}}}})
	other := s.app.Connectors["test"]
	other.Key = "sk-other"
	s.app.Connectors["deepseek.r1"] = other
	s.app.Assistants["greeter"] = &assistant.Assistant{
		ID: "greeter", Connector: "test", Hooks: compileHook(t, `function Create(ctx, messages) { return {messages, connector: "deepseek/r1"} }`),
	}
	rec, _ := s.runTurn(agent.Request{Assistant: "greeter", Turn: agent.Turn{Prompt: agent.Text("hi")}})
	if rec.Result.Outcome != agent.OK {
		t.Fatalf("%+v", rec.Result)
	}
	asked := s.model.Requests()
	if got := asked[len(asked)-1].Header.Get("Authorization"); got != "Bearer sk-other" {
		t.Errorf("the model was asked with %q", got)
	}
}
