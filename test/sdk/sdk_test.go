// Package sdk tests the APIs of other vendors with their JavaScript SDKs from npm: assistants with those of
// OpenAI and Anthropic, sandboxes with those of E2B.
package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "sdks", helpertest.Main)) }

// skipUnless skips the test unless ok; it fails the test if ATOLL_MUST names the
// missing thing.
func skipUnless(t *testing.T, ok bool, name, what string) {
	t.Helper()
	if !ok {
		testenv.Skip(t, name, "%s", what)
	}
}

// fixture is a server with two assistants and their model.
type fixture struct {
	model *modeltest.Server
	base  string
	token string
	dir   string // with the scripts and the SDKs
}

const weather = `{"city":"Suva"}`

func newHelloScript() modeltest.Script {
	return modeltest.Script{Turns: []modeltest.Turn{{Text: "Hello from the scripted model."}}}
}

// newToolsScript returns a script that calls the client's tool twice.
func newToolsScript(name string) modeltest.Script {
	call := modeltest.Turn{Tools: []modeltest.Use{{Name: name, Input: json.RawMessage(weather)}}}
	done := modeltest.Turn{Text: "It is warm in Suva."}
	return modeltest.Script{Turns: []modeltest.Turn{call, done, call, done}}
}

// TestModelAssistant uses an assistant without a sandbox, whose connector has either
// API dialect.
func TestModelAssistant(t *testing.T) {
	for _, api := range []string{"openai", "anthropic"} {
		t.Run(api, func(t *testing.T) {
			w := newFixture(t, api, false)
			for _, sdk := range []string{"openai", "anthropic"} {
				w.runScenarios(t, sdk, "qa", map[string]modeltest.Script{
					"models": newHelloScript(), "whole": newHelloScript(), "stream": newHelloScript(), "image": newHelloScript(), "errors": newHelloScript(), "tools": newToolsScript("get_weather"),
					"failure": {Turns: []modeltest.Turn{{Status: 500}}},
				})
			}
			w.runScenario(t, "anthropic", "count", "qa", newHelloScript())
			w.runScenario(t, "openai", "abort", "qa", modeltest.Script{Turns: []modeltest.Turn{{Text: strings.Repeat("a long text ", 100), Pause: modeltest.Duration(100 * time.Millisecond)}}})
		})
	}
}

// TestAgentAssistant uses an assistant that is Claude Code in a sandbox, to which the
// client's tools are passed.
func TestAgentAssistant(t *testing.T) {
	skipUnless(t, os.Getenv("ATOLL_CLAUDE") != "", "claude", "no ATOLL_CLAUDE: scripts/agents installs it")
	for _, api := range []string{"openai", "anthropic"} {
		t.Run(api, func(t *testing.T) {
			w := newFixture(t, api, true)
			for _, sdk := range []string{"openai", "anthropic"} {
				w.runScenarios(t, sdk, "coder", map[string]modeltest.Script{
					"whole": newHelloScript(), "stream": newHelloScript(), "image": newHelloScript(), "errors": newHelloScript(), "tools": newToolsScript("mcp__atoll__get_weather"),
					"failure": {Turns: []modeltest.Turn{{Status: 400, Error: "not today"}}},
				})
			}
		})
	}
}

// runScenarios runs scenarios in the order of their names.
func (w *fixture) runScenarios(t *testing.T, sdk, assistant string, scripts map[string]modeltest.Script) {
	t.Helper()
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range scripts {
			if !yield(n) {
				return
			}
		}
	}) {
		w.runScenario(t, sdk, name, assistant, scripts[name])
	}
}

// runScenario runs a scenario, a program that uses an SDK.
func (w *fixture) runScenario(t *testing.T, sdk, scenario, assistant string, script modeltest.Script) {
	t.Helper()
	t.Run(sdk+"/"+scenario, func(t *testing.T) {
		if len(script.Turns) > 0 {
			script.Aux = "aux"
			if assistant == "qa" {
				script.Aux = "" // its requests have no tools of their own
			}
		}
		w.model.Play(script)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", filepath.Join(w.dir, sdk+".mjs"), scenario, assistant)
		cmd.Env = append(os.Environ(), "BASE="+w.base, "TOKEN="+w.token)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
			for _, r := range w.model.Requests()[max(0, len(w.model.Requests())-3):] {
				t.Logf("asked %s: %.2000s", r.Path, r.Body)
			}
		}
	})
}

// newFixture starts a server with the assistant qa and, with agent, the assistant
// coder; both use a scripted model with the dialect api.
func newFixture(t *testing.T, api string, agent bool) *fixture {
	sdks := os.Getenv("ATOLL_SDKS")
	skipUnless(t, sdks != "", "sdks", "no ATOLL_SDKS: scripts/agents installs them")
	_, err := exec.LookPath("node")
	skipUnless(t, err == nil, "sdks", "no node")
	if agent {
		skipUnless(t, os.Geteuid() == 0, "namespace", "no root: the walls of this test need it")
	}
	w := &fixture{model: modeltest.New(t, modeltest.Script{}), dir: t.TempDir()}
	for _, name := range []string{"openai.mjs", "anthropic.mjs"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(w.dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(sdks, "node_modules"), filepath.Join(w.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(w.dir, "app")
	writeFile(t, filepath.Join(app, "connectors", "scripted.conn.yao"), fmt.Sprintf(`{"type":%q,"options":{"host":%q,"key":"real-key","model":"scripted"}}`, api, w.model.URL))
	writeFile(t, filepath.Join(app, "assistants", "qa", "package.yao"), `{"name":"Questions","connector":"scripted"}`)
	writeFile(t, filepath.Join(app, "assistants", "coder", "package.yao"), `{"name":"Coder","connector":"scripted","sandbox":{"command":"claude","timeout":"1m"}}`)
	w.startServer(t, app)
	return w
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// listeningLine is the line in which a server prints its address.
var listeningLine = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// startServer starts 'atoll serve' with further arguments; it ends with the test.
func (w *fixture) startServer(t *testing.T, app string, args ...string) {
	t.Helper()
	program := testenv.Atoll(t)
	env := append(os.Environ(), "ATOLL_HOME="+filepath.Join(w.dir, "home"), "ATOLL_APP="+app, "ATOLL_CONFIG="+filepath.Join(w.dir, "none.yaml"),
		"ATOLL_ARCHIVE_STORAGE="+filepath.Join(w.dir, "objects"))
	if agents := os.Getenv("ATOLL_AGENTS"); agents != "" { // as 'atoll agent install' leaves them
		if err := os.MkdirAll(filepath.Join(w.dir, "home"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(agents, filepath.Join(w.dir, "home", "agents")); err != nil {
			t.Fatal(err)
		}
	}
	var log lockedBuffer
	cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited
		select {
		case <-over:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Error("the server does not stop")
		}
		if t.Failed() {
			t.Logf("the server:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); w.base == ""; {
		w.base = listeningLine.FindString(log.String())
		select {
		case err := <-over:
			over <- err
			t.Fatalf("the server exited: %v\n%s", err, log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not print its address:\n%s", log.String())
		}
	}
	token := exec.Command(program, "token", "create", "--quiet", "--name", "sdk")
	token.Env = env
	out, err := token.Output()
	if err != nil {
		t.Fatalf("token create: %v %s", err, out)
	}
	w.token = strings.TrimSpace(string(out))
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
