package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api/mcp"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// serveStdio, set in the environment, makes the test binary a server on its
// standard streams, for clients that start one.
const serveStdio = "ATOLL_TEST_SERVE_STDIO"

func TestMain(m *testing.M) {
	if os.Getenv(serveStdio) != "" {
		err := mcp.New(&fleet{d: virtual.New()}, mcp.Options{Version: "test"}).Run(context.Background(), &sdk.StdioTransport{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// inspect runs the official inspector against our server on stdio.
func inspect(t *testing.T, inspector string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, inspector, append([]string{"--cli", "-e", serveStdio + "=1", self}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("inspector %v: %v\n%s%s", args, err, out, stderr.Bytes())
	}
	return string(out)
}

func TestInspector(t *testing.T) {
	inspector := testenv.Program(t, "inspector", "ATOLL_INSPECTOR")
	var list struct {
		Tools []struct{ Name string }
	}
	out := inspect(t, inspector, "--method", "tools/list")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Tools) != 12 {
		t.Fatalf("tools/list: %d tools, %v\n%s", len(list.Tools), err, out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--tool-name", "exec", "--tool-arg", "command=echo $((6*7))"}, `"text": "42\n"`},
		{[]string{"--tool-name", "write_file", "--tool-arg", "path=/a/b", "--tool-arg", "content=hello"}, "Wrote 5 bytes to /a/b."},
		{[]string{"--tool-name", "read_file", "--tool-arg", "path=/etc/os-release"}, "NAME="},
		{[]string{"--tool-name", "read_file", "--tool-arg", "path=/nope"}, `"isError": true`},
		{[]string{"--tool-name", "list_files", "--tool-arg", "path=/"}, "etc"},
		{[]string{"--tool-name", "snapshot", "--tool-arg", "name=point"}, "Snapshot point"},
		{[]string{"--tool-name", "fork", "--tool-arg", "name=twin"}, "Sandbox twin is running."},
	} {
		if out := inspect(t, inspector, append([]string{"--method", "tools/call"}, c.args...)...); !strings.Contains(out, c.want) {
			t.Errorf("%v: no %q in\n%s", c.args, c.want, out)
		}
	}
}

// model plays a model that uses one tool and then says what it answered.
type model struct {
	mu     sync.Mutex
	offers []string // guarded by mu; names of tools that it was offered
	result string   // guarded by mu; what the tool answered
	turns  int      // guarded by mu
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req struct {
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages") || err != nil || json.Unmarshal(body, &req) != nil || len(req.Messages) == 0 {
		http.NotFound(w, r)
		return
	}
	var last []struct {
		Type    string
		Content json.RawMessage
	}
	_ = json.Unmarshal(req.Messages[len(req.Messages)-1].Content, &last) // a plain string is no list
	answer := `{"type":"tool_use","id":"toolu_1","name":"mcp__atoll__exec","input":{}}`
	delta := `{"type":"input_json_delta","partial_json":"{\"command\":\"echo from the sandbox: $((6*7))\"}"}`
	reason := "tool_use"
	m.mu.Lock()
	m.turns++
	for _, t := range req.Tools {
		m.offers = append(m.offers, t.Name)
	}
	for _, b := range last {
		if b.Type == "tool_result" {
			m.result = string(b.Content)
			answer, delta, reason = `{"type":"text","text":""}`, `{"type":"text_delta","text":"done"}`, "end_turn"
		}
	}
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":` + answer + `}`,
		`{"type":"content_block_delta","index":0,"delta":` + delta + `}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":5}}`,
		`{"type":"message_stop"}`,
	} {
		var kind struct{ Type string }
		_ = json.Unmarshal([]byte(e), &kind) // it is our own
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind.Type, e)
	}
}

func TestClaude(t *testing.T) {
	claude := testenv.Program(t, "claude", "ATOLL_CLAUDE")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &model{}
	api := httptest.NewServer(m)
	defer api.Close()
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"atoll": map[string]any{"command": self, "env": map[string]string{serveStdio: "1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mcp.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, claude, "-p", "--model", "claude-test", "--output-format", "stream-json", "--verbose", "--setting-sources", "user",
		"--strict-mcp-config", "--mcp-config", filepath.Join(dir, "mcp.json"), "--allowedTools", "mcp__atoll__exec")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader("Use the sandbox.")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "CLAUDE_CONFIG_DIR=" + filepath.Join(dir, "claude"), "ANTHROPIC_BASE_URL=" + api.URL, "ANTHROPIC_API_KEY=test",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "ENABLE_TOOL_SEARCH=false", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1",
	}
	out, err := cmd.CombinedOutput()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || !strings.Contains(m.result, "from the sandbox: 42") {
		t.Errorf("claude: %v, %d turns, the tool answered %q, offered %q\n%.4000s", err, m.turns, m.result, m.offers, out)
	}
	for _, tool := range []string{"exec", "read_file", "write_file", "edit_file", "list_files", "snapshot", "restore", "fork"} {
		if !slices.Contains(m.offers, "mcp__atoll__"+tool) {
			t.Errorf("claude was not offered %s", tool)
		}
	}
}
