package claude_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

func TestTranscripts(t *testing.T) { agenttest.ReplayAll(t, claude.Agent{}, "testdata") }

func FuzzConversation(f *testing.F) { agenttest.Fuzz(f, claude.Agent{}, "testdata") }
