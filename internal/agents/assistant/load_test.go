package assistant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// fakeAgent is an agent that knows two arguments.
type fakeAgent struct{}

func (fakeAgent) Name() string { return "claude" }
func (fakeAgent) Features() agent.Features {
	return agent.Features{Arguments: map[string]string{"permission_mode": "how much is asked", "allowed_tools": "what is"}}
}
func (fakeAgent) NewConversation(*agent.Turn, agent.Environment) agent.Conversation { return nil }
func (fakeAgent) Plan(t *agent.Turn, _ agent.Environment) (*agent.Plan, error) {
	if v, ok := t.Arguments["permission_mode"]; ok && v != "acceptEdits" {
		return nil, &atoll.FieldError{Field: "arguments.permission_mode", Err: atoll.ErrInvalid}
	}
	return &agent.Plan{}, nil
}

func loadAll(dir string) (map[string]*Assistant, error) {
	all, err := Load(dir, testOptions(), nil)
	return all.Assistants, err
}

func testOptions() LoadOptions {
	return LoadOptions{
		Agents:     map[string]agent.Agent{"claude": fakeAgent{}, "acp": fakeAgent{}},
		Connectors: map[string]model.Connector{"deepseek.v3": {}, "local": {}},
		Servers:    tool.NewServers(map[string][]tool.Tool{"filesystem": {{Name: "read_file"}, {Name: "write_file"}, {Name: "list_directory"}}}),
		Env: func(name string) (string, bool) {
			return "value of " + name, name == "TOKEN"
		},
	}
}

// write makes files beneath a new directory, which it returns.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// seed is the package.yao of the design, with its comments.
const seed = `// assistants/coder/package.yao
{
  "name": "Coder Assistant",
  "connector": "deepseek.v3",

  // Sandbox configuration
  "sandbox": {
    "command": "claude",                         // claude | cursor (future)
    "image": "yaoapp/sandbox-claude:latest",     // Optional, auto-selected by agent
    "max_memory": "4g",                          // Optional
    "max_cpu": 2.0,                              // Optional
    "timeout": "10m",                            // Optional, execution timeout
    "arguments": {
      // Command-specific arguments (passed to Claude CLI)
      "max_turns": 20,
      "permission_mode": "acceptEdits"
      // Different commands may have different arguments
    }
  },

  // MCP servers
  "mcp": {
    "servers": [
      {
        "server_id": "filesystem",
        "tools": ["read_file", "write_file", "list_directory"]
      }
    ]
  }
}
`

func TestLoadSeed(t *testing.T) {
	dir := write(t, map[string]string{
		"coder/package.yao":            seed,
		"coder/prompts.yml":            "- role: system\n  content: |\n    You write code.\n",
		"coder/src/index.ts":           "function Create(ctx, messages) { return { messages } }\n",
		"coder/skills/deploy/SKILL.md": "---\nname: deploy\ndescription: Deploys things. Use it when asked to deploy.\n---\nDo it.\n",
		"team/qa/atoll.yaml":           "name: QA\nconnector: deepseek/v3\n",
		"team/qa/skills/x/package.yao": "{not an assistant",
	})
	all, err := loadAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all["team.qa"] == nil || all["team.qa"].Name != "QA" || all["team.qa"].Connector != "deepseek.v3" || all["team.qa"].Sandbox != nil {
		t.Fatalf("loaded %v", all)
	}
	a := all["coder"]
	want := &Sandbox{
		Command: "claude", Timeout: 10 * time.Minute, MaxTurns: 20,
		Arguments: map[string]any{"permission_mode": "acceptEdits"},
		Config:    atoll.Config{Spec: atoll.Spec{Image: "yaoapp/sandbox-claude:latest", Limits: atoll.Resources{Memory: 4 << 30, CPU: 2}}},
	}
	if diff := cmp.Diff(want, a.Sandbox); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]ServerTools{{"filesystem", []string{"read_file", "write_file", "list_directory"}}}, a.Tools); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]dialect.Message{{Role: "system", Parts: []dialect.Part{{Type: "text", Text: "You write code.\n"}}}}, a.Prompts); diff != "" {
		t.Error(diff)
	}
	if a.Connector != "deepseek.v3" || !a.Hooks.HasFunction("Create") || a.Hooks.HasFunction("Next") || len(a.Skills) != 1 || a.Skills[0].Name != "deploy" {
		t.Errorf("loaded %+v", a)
	}
}

func TestLoadEverything(t *testing.T) {
	dir := write(t, map[string]string{"all/atoll.yaml": `
name: All
description: has every field
connector: local
model: fast
options: {temperature: 0, top_p: 0.5, max_tokens: 100, stop: [END], reasoning_effort: low, thinking: 1000, schema: {type: object}}
sandbox:
  command: acp
  program: [my-agent, --acp]
  driver: docker
  image: busybox
  user: "1000"
  dir: /work
  max_memory: 512m
  max_cpu: 0.5
  max_disk: 1GiB
  max_pids: 100
  timeout: 1h30m
  idle: 2m
  max_turns: 3
  arguments: {allowed_tools: [Read, Bash], permission_mode: acceptEdits}
  network: {mode: none, allow: ["example.com:443"], deny: ["*.example.org"]}
  environment: {A: b, N: 3}
  secrets: {KEY: $ENV.TOKEN}
  prepare:
    - {name: one, exec: [npm, ci], once: true, timeout: 5m}
    - {file: {path: /work/x, content: hello, mode: "0755"}, ignore_error: true}
  ask: true
  trust: true
  system: Be brief.
mcp: {servers: [filesystem]}
workspace: {policy: name, name: shared, keep: 30d}
budget: {turn: {tokens: 1000, cost: 0.5, requests: 10, time: 5m}, owner: {input: 5, output: 6}}
hooks: {memory: 16m, time: 1s, total: 1m}
`})
	all, err := loadAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := all["all"]
	zero, half := 0.0, 0.5
	want := &Assistant{
		ID: "all", Name: "All", Description: "has every field", Connector: "local", Source: filepath.Join(dir, "all"),
		Options: dialect.Request{
			Model: "fast", Temperature: &zero, TopP: &half, MaxTokens: 100, Stop: []string{"END"},
			Effort: "low", ThinkTokens: 1000, Schema: []byte(`{"type":"object"}`),
		},
		Tools:     []ServerTools{{Server: "filesystem"}},
		Workspace: Workspace{Policy: "name", Name: "shared", Keep: 30 * 24 * time.Hour},
		Sandbox: &Sandbox{
			Command: "acp", Program: []string{"my-agent", "--acp"}, Timeout: 90 * time.Minute, Idle: 2 * time.Minute, MaxTurns: 3,
			Ask: true, Trust: true, System: "Be brief.",
			Arguments: map[string]any{"allowed_tools": []any{"Read", "Bash"}, "permission_mode": "acceptEdits"},
			Config: atoll.Config{
				Spec: atoll.Spec{
					Image: "busybox", User: "1000", Dir: "/work", Env: []string{"A=b", "N=3"},
					Limits:  atoll.Resources{Memory: 512 << 20, CPU: 0.5, Disk: 1 << 30, PIDs: 100},
					Network: atoll.Network{Mode: "none", Allow: []string{"example.com:443"}, Deny: []string{"*.example.org"}},
				},
				Driver:  "docker",
				Secrets: map[string]string{"KEY": "value of TOKEN"},
				Prepare: []atoll.Step{
					{Name: "one", Exec: []string{"npm", "ci"}, Once: true, Timeout: 5 * time.Minute},
					{File: &atoll.StepFile{Path: "/work/x", Content: "hello", Mode: 0o755}, IgnoreError: true},
				},
			},
		},
		Budget: Budgets{
			Turn:  model.Budget{Tokens: 1000, Cost: 0.5, Requests: 10, Time: 5 * time.Minute},
			Owner: model.Budget{Input: 5, Output: 6},
		},
	}
	want.HookLimits.Memory, want.HookLimits.Time, want.HookLimits.Total = 16<<20, time.Second, time.Minute
	if diff := cmp.Diff(want, a); diff != "" {
		t.Error(diff)
	}
}

// TestProblems gives assistants with mistakes and what is said of each.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		law   string
		file  string
		text  string
		wants []string // lines after the assistant's directory
	}{
		{"UnknownField", "package.yao", "{\n  \"connectr\": \"local\"\n}", []string{`package.yao:2:3: connectr: unknown field (did you mean "connector"?); known are: automated`}},
		{"UnknownFieldInside", "atoll.yaml", "sandbox:\n  command: claude\n  max_mem: 4g\n", []string{`atoll.yaml:3:3: sandbox.max_mem: unknown field; known are: approvals`}},
		{"TwiceTheSame", "package.yao", "{\"name\": \"a\",\n \"name\": \"b\"}", []string{`package.yao:2:2: name: is set already in line 1`}},
		{"WrongType", "package.yao", "{\"name\": 5, \"sandbox\": {\"max_cpu\": true, \"trust\": \"yes\"}}", []string{
			`package.yao:1:10: name: must be text, not a number`,
			`sandbox.max_cpu: must be a number, not true or false`, `sandbox.trust: must be true or false, not text`,
		}},
		{"WrongSize", "atoll.yaml", "sandbox: {max_memory: 4x}", []string{`atoll.yaml:1:23: sandbox.max_memory: must be a size like "4g" or "512m", not "4x"`}},
		{"WrongTime", "atoll.yaml", "sandbox: {timeout: 10}", []string{`sandbox.timeout: must be a time like "10m", "90s" or "7d", not 10`}},
		{"NoSuchConnector", "atoll.yaml", "connector: deepseek.v4", []string{`atoll.yaml:1:12: connector: there is no connector "deepseek.v4" (did you mean "deepseek.v3"?); there is: deepseek.v3, local`}},
		{"NoSuchAgent", "atoll.yaml", "sandbox: claud", []string{`atoll.yaml:1:10: sandbox: there is no agent "claud" (did you mean "claude"?); there is: acp, claude`}},
		{"NoSuchServer", "atoll.yaml", "mcp: {servers: [files]}", []string{`mcp.servers[0]: there is no server "files"; there is: filesystem`}},
		{"NoSuchTool", "atoll.yaml", "mcp: {servers: [{server_id: filesystem, tools: [readfile]}]}", []string{`mcp.servers[0].tools[0]: there is no tool "readfile" (did you mean "read_file"?); there is: list_directory, read_file, write_file`}},
		{"NoSuchArgument", "package.yao", "{\"sandbox\": {\"command\": \"claude\",\n\"arguments\": {\"permision_mode\": \"x\"}}}", []string{`package.yao:2:15: sandbox.arguments.permision_mode: agent claude has no such argument (did you mean "permission_mode"?); it has: allowed_tools, permission_mode`}},
		{"WrongArgument", "package.yao", "{\"sandbox\": {\"command\": \"claude\", \"arguments\": {\"permission_mode\": 7}}}", []string{`sandbox.arguments: agent claude: invalid`}},
		{"ArgumentsOfNobody", "atoll.yaml", "sandbox: {arguments: {a: 1}}", []string{`sandbox.command: is missing`}},
		{"NoSuchVariable", "atoll.yaml", "sandbox: {secrets: {A: $ENV.NONE}}", []string{`atoll.yaml:1:24: sandbox.secrets.A: $ENV.NONE: there is no variable NONE`}},
		{"ConfigIsChecked", "atoll.yaml", "sandbox:\n  dir: work\n  prepare:\n    - {exec: [a], shell: b}\n", []string{
			`atoll.yaml:2:8: sandbox.dir: dir "work": must be absolute`, `atoll.yaml:4:7: sandbox.prepare[0]: prepare[0] has 2 of exec, shell, file and copy`,
		}},
		{"NetworkIsChecked", "atoll.yaml", "sandbox: {network: lan}", []string{`sandbox.network: "lan": must be none, nat, bridge, open`}},
		{"WorkspaceNeedsName", "atoll.yaml", "workspace: name", []string{`atoll.yaml:1:12: workspace.name: goes with the policy "name", and only with it`}},
		{"BadJSON", "package.yao", "{\n \"name\": }", []string{`package.yao:2:10: `}},
		{"BadYAML", "atoll.yaml", "name: [1,\nb: c", []string{`atoll.yaml:`}},
		{"TwoDocuments", "atoll.yaml", "name: a\n---\nname: b\n", []string{`atoll.yaml:2: a second document begins here`}},
		{"TooDeep", "package.yao", strings.Repeat("[", 100_000), []string{`package.yao:1:51: nested more than 50 deep`}},
		{"NotAnObject", "package.yao", "[]", []string{`package.yao:1:1: must be an object, not a list`}},
		{"Prompts", "prompts.yml", "- role: sustem\n  content: a\n- content: b\n- role: user\n- 5\n", []string{
			`prompts.yml:1:9: [0].role: "sustem": must be system, developer, user, assistant (did you mean "system"?)`,
			`prompts.yml:3:3: [1].role: is missing`, `prompts.yml:4:3: [2].content: is missing`, `prompts.yml:5:3: [3]: must be an object, not a number`,
		}},
		{"Hooks", "src/index.ts", "function Create() {\n  retrun 1 2\n}\n", []string{`index.ts:2:10: Expected ";" but found "1"`}},
		{"HooksImport", "src/index.ts", "import fs from 'fs'\nexport function Create() { return fs }\n", []string{`index.ts:1:16: import of "fs": hooks import files beside them`}},
		{"Skills", "skills/bad/SKILL.md", "---\nname: bad\n---\n", []string{"SKILL.md"}},
	} {
		t.Run(c.law, func(t *testing.T) {
			files := map[string]string{"bad/" + c.file: c.text, "good/package.yao": "{}"}
			if !strings.HasPrefix(c.file, "package") && !strings.HasPrefix(c.file, "atoll") {
				files["bad/package.yao"] = "{}"
			}
			dir := write(t, files)
			all, err := loadAll(dir)
			bad := all["bad"]
			if lacking := c.law == "Skills" && bad != nil && bad.Problem != ""; err == nil || all["good"] == nil || bad != nil && !lacking {
				t.Fatalf("loaded %v, %v", all, err)
			}
			text := strings.ReplaceAll(err.Error(), filepath.Join(dir, "bad")+"/", "")
			for _, want := range c.wants {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %s\n in %s", want, text)
				}
			}
			if n := strings.Count(text, "\n") + 1; len(c.wants) > 0 && n != len(c.wants) {
				t.Errorf("%d problems, want %d: %s", n, len(c.wants), text)
			}
		})
	}
}

// TestAliasBomb is answered at once.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for _, l := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		prev := string(l[0] - 1)
		b.WriteString("a" + l + ": &a" + l + " [" + strings.TrimSuffix(strings.Repeat("*a"+prev+",", 10), ",") + "]\n")
	}
	if _, err := parseDocument([]byte(b.String()), "atoll.yaml", "atoll.yaml"); err == nil {
		t.Error("a bomb is read")
	}
}

// TestLinksLeadNowhere: what an assistant's files link to outside is not read.
func TestLinksLeadNowhere(t *testing.T) {
	dir := write(t, map[string]string{"secret.ts": "export const secret = 1", "a/package.yao": "{}", "a/src/index.ts": "import { secret } from './s'\nfunction Create() { return secret }"})
	if err := os.Symlink(filepath.Join(dir, "secret.ts"), filepath.Join(dir, "a/src/s.ts")); err != nil {
		t.Fatal(err)
	}
	if _, err := loadAll(dir); err == nil {
		t.Error("a file outside of the assistant is read")
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(seed), true)
	f.Add([]byte("name: a\nsandbox: {command: claude, max_memory: 4g}\n"), false)
	f.Add([]byte("- role: system\n  content: x\n"), false)
	f.Add([]byte("a: &a [*a]"), false)
	f.Fuzz(func(t *testing.T, b []byte, asJSON bool) {
		name := "atoll.yaml"
		if asJSON {
			name = "package.yao"
		}
		doc, err := parseDocument(b, name, name)
		if err != nil {
			return
		}
		opts := testOptions()
		m := &manifest{fieldReader: fieldReader{file: name, env: opts.Env}, opts: &opts, a: &Assistant{}}
		m.readManifest(doc)
		r := &fieldReader{file: name}
		r.readPrompts(doc, "")
		for _, p := range append(m.problems, r.problems...) {
			if p.Line < 1 || p.Text == "" {
				t.Errorf("a problem without a place: %v", p)
			}
		}
	})
}
