package assistant

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// TestSecretRequests names the requests that are not stored longer than they are queued.
func TestSecretRequests(t *testing.T) {
	config := func(c atoll.Config) agent.Request { return agent.Request{Config: &c} }
	for name, c := range map[string]struct {
		request agent.Request
		want    bool
	}{
		"None":        {agent.Request{}, false},
		"Image":       {config(atoll.Config{Spec: atoll.Spec{Image: "x"}}), false},
		"Environment": {agent.Request{Turn: agent.Turn{Env: []string{"A=b"}}}, true},
		"Config":      {config(atoll.Config{Spec: atoll.Spec{Env: []string{"A=b"}}}), true},
		"Secrets":     {config(atoll.Config{Secrets: map[string]string{"A": "b"}}), true},
		"Headers":     {config(atoll.Config{Spec: atoll.Spec{Network: atoll.Network{Headers: []atoll.Header{{}}}}}), true},
		"Prepare":     {config(atoll.Config{Prepare: []atoll.Step{{Shell: "login --token x"}}}), true},
	} {
		if got := (&TurnRequest{Request: c.request}).IsSecret(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
