package opencode_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/agent/opencode"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

func TestTranscripts(t *testing.T) { agenttest.ReplayAll(t, opencode.Agent{}, "testdata") }

func TestPlans(t *testing.T) { agenttest.Plans(t, opencode.Agent{}, "testdata") }

func FuzzConversation(f *testing.F) { agenttest.Fuzz(f, opencode.Agent{}, "testdata") }
