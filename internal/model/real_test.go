package model_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// agentCLI is an agent that asks an endpoint, as its people ship it.
type agentCLI struct {
	name  string // the variable ATOLL_NAME names its program
	shell string // the tool that runs commands
	input string
	args  func(t *testing.T, home, url string) []string // without the program
	env   func(home, url string) []string
}

var clis = []agentCLI{
	{
		name: "claude", shell: "Bash", input: `{"command":"echo o''k > made"}`,
		args: func(*testing.T, string, string) []string {
			return []string{"-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions", "--", "make a file"}
		},
		env: func(home, url string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CONFIG_DIR=" + home, "IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=1"}
		},
	},
	{
		name: "codex", shell: "exec_command", input: `{"cmd":"echo o''k > made"}`,
		args: func(_ *testing.T, _, url string) []string {
			return []string{
				"exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--disable", "plugins", "-c", `model="m"`, "-c", `model_provider="atoll"`,
				"-c", `model_providers.atoll={name="atoll",base_url="` + url + `/v1",wire_api="responses",env_key="CODEX_KEY"}`, "make a file",
			}
		},
		env: func(home, _ string) []string { return []string{"CODEX_KEY=dummy", "CODEX_HOME=" + home} },
	},
	{
		name: "gemini", shell: "run_shell_command", input: `{"command":"echo o''k > made"}`,
		args: func(t *testing.T, home, _ string) []string {
			dir := filepath.Join(home, ".gemini")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			settings := `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"disableAutoUpdate":true,"disableUpdateNag":true}}`
			if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(settings), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"-p", "make a file", "-o", "stream-json", "-y", "--skip-trust", "-m", "gemini-2.5-pro"}
		},
		env: func(home, url string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=dummy", "GEMINI_CLI_HOME=" + home}
		},
	},
}

func (c agentCLI) command(t *testing.T, url, work string) *exec.Cmd {
	t.Helper()
	v := "ATOLL_" + strings.ToUpper(c.name)
	file := testenv.Program(t, c.name, v)
	home, err := os.MkdirTemp(".", "home-") // codex wants none below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if home, err = filepath.Abs(home); err != nil {
		t.Fatal(err)
	}
	args := append([]string{file}, c.args(t, home, url)...)
	if strings.HasSuffix(file, ".js") {
		args = append([]string{"node"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = work
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, c.env(home, url)...)
	return cmd
}

// TestAgentsWorkWithEveryAPI: an agent's requests are translated so that it calls its tools
// and continues with their results in every other dialect.
func TestAgentsWorkWithEveryAPI(t *testing.T) {
	for _, c := range clis {
		for _, api := range []dialect.Name{dialect.Anthropic, dialect.OpenAI, dialect.Responses, dialect.Gemini} {
			if c.name == "gemini" && api != dialect.Anthropic && testing.Short() {
				continue // it takes long to begin
			}
			t.Run(c.name+" "+string(api), func(t *testing.T) {
				work := t.TempDir()
				s := open(t, api, modeltest.Script{Aux: "a title", Turns: []modeltest.Turn{
					{Text: "I make it.", Thinking: "how?", Tools: []modeltest.Use{{Name: c.shell, Input: json.RawMessage(c.input)}}},
					{Text: "Made."},
				}}, func(a *model.Access) { a.Connector.Model = "gemini-3-pro" })
				cmd := c.command(t, s.url, work)
				var out, errs bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &errs
				err := cmd.Run()
				made, rerr := os.ReadFile(filepath.Join(work, "made"))
				if err != nil || rerr != nil || string(made) != "ok\n" || !strings.Contains(out.String(), "Made.") {
					t.Errorf("%v, %v, %q: %s\n%s", err, rerr, made, tail(out.String()), tail(errs.String()))
					for _, r := range s.api.Requests() {
						t.Logf("%s %d: %s", r.Path, r.Turn, tail(string(r.Body)))
					}
				}
				s.keySeen(t)
				if u := s.Usage(); u.Requests < 2 || u.Input < 200 || u.Output < 50 {
					t.Errorf("spent %+v", u)
				}
			})
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-1500):] }
