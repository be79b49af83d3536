package gemini_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/agent/gemini"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

func TestTranscripts(t *testing.T) { agenttest.ReplayAll(t, gemini.Agent{}, "testdata") }

func TestPlans(t *testing.T) { agenttest.Plans(t, gemini.Agent{}, "testdata") }

func FuzzConversation(f *testing.F) { agenttest.Fuzz(f, gemini.Agent{}, "testdata") }
