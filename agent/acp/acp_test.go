package acp_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/agent/acp"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

func TestTranscripts(t *testing.T) { agenttest.ReplayAll(t, acp.Agent{}, "testdata") }

func TestPlans(t *testing.T) { agenttest.Plans(t, acp.Agent{}, "testdata") }

func FuzzConversation(f *testing.F) { agenttest.Fuzz(f, acp.Agent{}, "testdata") }
