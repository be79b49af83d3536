package turns

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// newClaudeProgram returns Claude Code as it is mounted into sandboxes.
func newClaudeProgram(t *testing.T) assistant.Program {
	t.Helper()
	file := testenv.Program(t, "claude", "ATOLL_CLAUDE")
	const inside = "/opt/atoll/agents/claude"
	return assistant.Program{Mounts: []atoll.Mount{{Source: filepath.Dir(file), Target: inside, ReadOnly: true}}, Path: []string{inside}}
}

func newToolUse(name string, input jsonObject) modeltest.Use {
	b, _ := json.Marshal(input) // plain values
	return modeltest.Use{Name: name, Input: b}
}

// TestClaude checks that Claude Code in a sandbox without a network answers a client of
// OpenAI's API with a model of that API: it writes a file, calls a tool of the host,
// and continues the chat that the client's history selects.
func TestClaude(t *testing.T) {
	s := newTestServer(t, serverOptions{
		agents: map[string]agent.Agent{"claude": claude.Agent{}}, program: newClaudeProgram(t),
		script: modeltest.Script{Aux: "a title", Turns: []modeltest.Turn{
			{Text: "I write it.", Tools: []modeltest.Use{newToolUse("Write", jsonObject{"file_path": "/workspace/hello.txt", "content": "hello\n"})}},
			{Tools: []modeltest.Use{newToolUse("mcp__atoll__time", jsonObject{})}},
			{Text: "It is written."},
			{Text: "As I said."},
		}},
	})
	var called []tool.Caller
	s.app.Tools = tool.NewServers(map[string][]tool.Tool{"clock": {newClockTool(&called)}})
	s.app.Assistants["coder"] = &assistant.Assistant{ID: "coder", Sandbox: &assistant.Sandbox{Command: "claude"}, Tools: []assistant.ServerTools{{Server: "clock"}}}
	messages := []jsonObject{userMessage("Write hello.txt.")}
	c, resp := s.requestCompletion(jsonObject{"model": "coder", "messages": messages})
	if resp.StatusCode != 200 || c.Choices[0].Message.Content != "It is written." {
		t.Fatalf("%d %+v", resp.StatusCode, c)
	}
	rec, events := s.waitForEnd(resp.Header.Get("X-Atoll-Turn"))
	if len(called) != 1 || called[0].Owner.User != "alice" || called[0].Chat != rec.Chat || called[0].Turn != rec.ID {
		t.Errorf("the tool was called by %+v\n%s", called, formatEvents(events))
	}
	if u := rec.Result.Usage; !u.Counted || u.Requests < 3 || u.Input == 0 {
		t.Errorf("usage %+v", u)
	}
	f, err := s.client.Files(rec.Workspace).OpenFile(t.Context(), "/hello.txt")
	s.must(err)
	b, err := io.ReadAll(f)
	if _ = f.Close(); err != nil || string(b) != "hello\n" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if log, err := os.ReadFile(filepath.Join(s.home, "turns", "app", "alice", rec.ID+".jsonl")); err != nil || strings.Contains(string(log), "sk-secret") {
		t.Errorf("the log holds the key, or can't be read: %v", err)
	}
	messages = append(messages, jsonObject{"role": "assistant", "content": "It is written."}, userMessage("And again?"))
	c, resp = s.requestCompletion(jsonObject{"model": "coder", "messages": messages})
	if resp.StatusCode != 200 || c.Choices[0].Message.Content != "As I said." || resp.Header.Get("X-Atoll-Chat") != rec.Chat {
		t.Fatalf("%d %+v", resp.StatusCode, c)
	}
	again, events := s.waitForEnd(resp.Header.Get("X-Atoll-Turn"))
	if again.Result.Session != rec.Result.Session || strings.Contains(formatEvents(events), "conversation.md") {
		t.Errorf("session %s, not %s\n%s", again.Result.Session, rec.Result.Session, formatEvents(events))
	}
	asked := s.model.Requests()
	if last := string(asked[len(asked)-1].Body); !strings.Contains(last, "Write hello.txt.") || !strings.Contains(last, "And again?") {
		t.Errorf("the request to the model does not contain the conversation: %.2000s", last)
	}
	s.checkNoSandboxes()
}
