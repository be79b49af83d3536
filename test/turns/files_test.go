package turns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// TestAssistantDirectory checks that the settings in an assistant's directory apply to
// its sandbox: limits, timeout, workspace files and prompts, and that the audit log has
// each request once.
func TestAssistantDirectory(t *testing.T) {
	s := newTestServer(t, serverOptions{})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"coder/package.yao": `{
  // as people write it
  "name": "Coder Assistant",
  "connector": "test",
  "sandbox": {
    "command": "command", "program": ["sh", "-c", "cat; echo; echo I am $WHO; sleep 100"],
    "max_memory": "256m", "max_cpu": 0.5, "max_pids": 50, "timeout": "2s",
    "environment": {"WHO": "coder"}
  },
  "workspace": "user"
}`,
		"coder/prompts.yml": "- role: system\n  content: You write code.\n",
	} {
		at := filepath.Join(dir, name)
		s.must(os.MkdirAll(filepath.Dir(at), 0o755))
		s.must(os.WriteFile(at, []byte(text), 0o600))
	}
	all, err := assistant.Load(dir, assistant.LoadOptions{Connectors: s.app.Connectors}, nil)
	s.must(err)
	s.app.Assistants = all.Assistants
	rec, err := s.client.StartTurn(t.Context(), agent.Request{Assistant: "coder", Turn: agent.Turn{Prompt: agent.Text("hello")}})
	s.must(err)
	s.waitForEvent(rec.ID, agent.TextDelta)
	rec, err = s.client.Turn(t.Context(), rec.ID)
	s.must(err)
	sb, err := s.adminAccount().Open(t.Context(), rec.Sandbox)
	s.must(err)
	info, err := sb.Info(t.Context())
	s.must(err)
	if l := info.Config.Limits; l.Memory != 256<<20 || l.CPU != 0.5 || l.PIDs != 50 {
		t.Errorf("the limits: %+v", l)
	}
	if rec.Workspace != "user" {
		t.Errorf("the workspace is %q", rec.Workspace)
	}
	rec, events := s.waitForEnd(rec.ID)
	if rec.Result.Outcome != agent.Timeout {
		t.Errorf("%+v", rec.Result)
	}
	for _, want := range []string{"You write code.", "hello", "I am coder"} {
		if !strings.Contains(formatEvents(events), want) {
			t.Errorf("the agent's prompt does not contain %q: %s", want, formatEvents(events))
		}
	}
	s.checkNoSandboxes()
	list, err := s.adminAccount().Audit(t.Context(), fleet.AuditFilter{Action: "turn", AllOwners: true})
	s.must(err)
	if len(list) != 1 || list[0].Object != rec.ID || list[0].Detail != "coder" || list[0].Outcome != "timeout" || list[0].Owner.User != "alice" {
		t.Errorf("the audit: %+v", list)
	}
}
