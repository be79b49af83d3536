package assistant

import (
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// A turn takes no longer than the limits of the server and its assistant; only a caller
// with the scope of the host may request more.
func TestTimeout(t *testing.T) {
	run, host := []atoll.Scope{atoll.ScopeRun}, []atoll.Scope{atoll.ScopeRun, atoll.ScopeHost}
	for name, c := range map[string]struct {
		assistant string
		asked     time.Duration
		scopes    []atoll.Scope
		want      time.Duration
	}{
		"None":          {"", 0, run, time.Hour},
		"Less":          {"", time.Minute, run, time.Minute},
		"More":          {"", 1000 * time.Hour, run, time.Hour},
		"MoreByHost":    {"", 1000 * time.Hour, host, 1000 * time.Hour},
		"AssistantLess": {"w", time.Minute, host, time.Minute},
		"AssistantMore": {"w", 3 * time.Hour, host, 2 * time.Hour},
	} {
		made := &Assistant{ID: c.assistant}
		if c.assistant != "" {
			made.Sandbox = &Sandbox{Timeout: 2 * time.Hour}
		}
		turn := &Turn{
			pipeline: &Pipeline{opts: Options{Timeout: time.Hour}}, assistant: made,
			request: &TurnRequest{Request: agent.Request{Timeout: c.asked}, Account: new(fleet.Fleet).Account(fleet.Caller{Scopes: c.scopes})},
		}
		if got := turn.timeLimit(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
