package codex_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/agent/codex"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

func TestTranscripts(t *testing.T) { agenttest.ReplayAll(t, codex.Agent{}, "testdata") }

func TestPlans(t *testing.T) { agenttest.Plans(t, codex.Agent{}, "testdata") }

func FuzzConversation(f *testing.F) { agenttest.Fuzz(f, codex.Agent{}, "testdata") }
