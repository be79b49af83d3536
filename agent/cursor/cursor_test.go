package cursor_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/agent/cursor"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

func TestDocumented(t *testing.T) { agenttest.ReplayAll(t, cursor.Agent{}, "testdata") }

func TestPlans(t *testing.T) { agenttest.Plans(t, cursor.Agent{}, "testdata") }

func FuzzConversation(f *testing.F) { agenttest.Fuzz(f, cursor.Agent{}, "testdata") }
