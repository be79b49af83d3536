package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestInspector runs the official inspector against the program as a server.
func TestInspector(t *testing.T) {
	inspector := testenv.Program(t, "inspector", "ATOLL_INSPECTOR")
	addr := serve(t, "tcp", "127.0.0.1:0", echo("echo"), echo("yao.process"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inspect := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, inspector, append([]string{"--cli", "-e", isTool + "=1", self, "mcp", addr}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("inspector %v: %v\n%s%s", args, err, out, stderr.Bytes())
		}
		return string(out)
	}
	var list struct{ Tools []struct{ Name string } }
	if out := inspect("--method", "tools/list"); json.Unmarshal([]byte(out), &list) != nil || len(list.Tools) != 2 || list.Tools[1].Name != "yao_process" {
		t.Errorf("tools/list: %s", out)
	}
	if out := inspect("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "n=7"); !strings.Contains(out, `{\"n\":7}`) {
		t.Errorf("tools/call: %s", out)
	}
	if out := inspect("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "x=7"); !strings.Contains(out, `"isError": true`) || !strings.Contains(out, `there is no field`) {
		t.Errorf("a field that is not there: %s", out)
	}
}

// TestClaudeWaits: Claude Code waits for a call that takes its time.
func TestClaudeWaits(t *testing.T) {
	claude := testenv.Program(t, "claude", "ATOLL_CLAUDE")
	wait := 2 * time.Second
	if d, err := time.ParseDuration(os.Getenv("ATOLL_TEST_WAIT")); err == nil {
		wait = d
	}
	addr := serve(t, "tcp", "127.0.0.1:0", tool.Tool{Name: "slow", Call: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		select {
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		case <-time.After(wait):
			return tool.Result{Text: "after a long time"}, nil
		}
	}})
	m := modeltest.New(t, modeltest.Script{Turns: []modeltest.Turn{{Tools: []modeltest.Use{{Name: "mcp__atoll__slow"}}}, {Text: "done"}}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"atoll": map[string]any{"command": self, "args": []string{"mcp", addr}, "env": map[string]string{isTool: "1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mcp.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, claude, "-p", "--model", "claude-test", "--output-format", "stream-json", "--verbose", "--setting-sources", "user",
		"--strict-mcp-config", "--mcp-config", filepath.Join(dir, "mcp.json"), "--allowedTools", "mcp__atoll__slow")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader("Use the tool.")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "CLAUDE_CONFIG_DIR=" + filepath.Join(dir, "claude"), "ANTHROPIC_BASE_URL=" + m.URL, "ANTHROPIC_API_KEY=test",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "ENABLE_TOOL_SEARCH=false", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", "MCP_TOOL_TIMEOUT=" + os.Getenv("MCP_TOOL_TIMEOUT"),
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("after a long time")) {
		t.Errorf("claude: %v\n%.3000s", err, out)
	}
}
