package assistant

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// TestDefaultImage gives an agent's sandbox the image of the agent, unless the request or the assistant names one, or a pool.
func TestDefaultImage(t *testing.T) {
	owner := fleet.Caller{Owner: atoll.Owner{App: "app", User: "ann"}}
	image := func(s string) atoll.Config { return atoll.Config{Spec: atoll.Spec{Image: s}} }
	asked := image("asked")
	for name, c := range map[string]struct {
		command string
		made    atoll.Config
		request *atoll.Config
		want    string
	}{
		"Agent":     {"claude", atoll.Config{}, nil, "with-claude"},
		"Other":     {"codex", atoll.Config{}, nil, ""},
		"Assistant": {"claude", image("own"), nil, "own"},
		"Request":   {"claude", atoll.Config{}, &asked, "asked"},
		"Pool":      {"claude", atoll.Config{Pool: "warm"}, nil, ""},
	} {
		turn := &Turn{
			pipeline:  &Pipeline{opts: Options{Images: map[string]string{"claude": "with-claude"}}},
			assistant: &Assistant{Sandbox: &Sandbox{Command: c.command, Config: c.made}}, chat: &chat{ID: "talk", Owner: owner.Owner},
			request: &TurnRequest{Request: agent.Request{Config: c.request}, Account: new(fleet.Fleet).Account(owner)},
		}
		at, err := turn.planPlacement()
		if err != nil || at.config.Image != c.want {
			t.Errorf("%s: the image is %q, %v, want %q", name, at.config.Image, err, c.want)
		}
	}
}
