package project

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// branchAgent is a real agent that works on a branch, with a model of its own.
type branchAgent struct {
	name  string
	kind  string // of the connector
	run   func(command string) modeltest.Use
	model *modeltest.Server
}

// TestAgentsOnBranches lets three real agents work at once in one sandbox, each on a branch of its own, brings their
// branches home, reviews one of them, and has an agent resolve a conflict inside.
func TestAgentsOnBranches(t *testing.T) {
	if testing.Short() {
		t.Skip("real agents: left out by -short")
	}
	programs := testenv.Program(t, "agents", "ATOLL_AGENTS")
	w := newNamespaceFixture(t)
	w.env = append(w.env, "ATOLL_APP="+w.joinPath("app"))
	w.must(os.Symlink(programs, w.joinPath("h/agents")))
	agents := []*branchAgent{
		{name: "claude", kind: "anthropic", run: func(c string) modeltest.Use {
			return newToolUse("Bash", map[string]any{"command": c, "description": "work"})
		}},
		{name: "codex", kind: "responses", run: func(c string) modeltest.Use { return newToolUse("exec_command", map[string]any{"cmd": c}) }},
		{name: "gemini", kind: "gemini", run: func(c string) modeltest.Use {
			return newToolUse("run_shell_command", map[string]any{"command": c, "description": "work"})
		}},
	}
	w.createRepository("web")
	w.runGit("web", "branch", "-M", "main")
	w.runGit(".", "clone", "-q", "--bare", "web", "remote.git")
	w.runGit("web", "remote", "add", "origin", "https://github.com/me/web.git")
	w.runGit("web", "config", "url."+w.joinPath("remote.git")+".insteadOf", "https://github.com/me/web.git")
	w.runGit("web", "fetch", "-q", "origin")
	for _, a := range agents {
		a.model = modeltest.New(t, modeltest.Script{})
		b, err := json.Marshal(map[string]any{"type": a.kind, "options": map[string]any{"host": a.model.URL, "key": agentKey, "model": "scripted-1", "models": []string{"*"}}})
		w.must(err)
		w.writeFile("app/connectors/"+a.name+".conn.yao", string(b))
	}
	script := func(a *branchAgent, command, last string) {
		a.model.Play(modeltest.Script{Aux: title, Turns: []modeltest.Turn{{Text: "I begin.", Tools: []modeltest.Use{a.run(command)}}, {Text: last}}})
	}
	commit := func(line string) string {
		return fmt.Sprintf("printf '%s on port %%s\\n' \"$ATOLL_PORT\" >>shared.txt && git add -A && git commit -qm '%s'", line, line)
	}

	w.upSandbox("web", "web")
	var wg sync.WaitGroup
	for _, a := range agents {
		script(a, commit("by "+a.name), "The summary of "+a.name+".")
		wg.Go(func() {
			r := w.runProgram("web", w.bin, "up", a.name, "--branch", "by-"+a.name, "--connector", a.name, "write it")
			if r.code != 0 {
				t.Errorf("up %s: %d %s", a.name, r.code, r.stderr)
			}
		})
	}
	wg.Wait()
	defer func() {
		if t.Failed() {
			t.Logf("agents:\n%s", w.runProgram("web", w.bin, "agents", "--json").stdout)
		}
	}()
	w.runAtoll(0, "web", "agents", "--wait")
	list := w.runAtoll(0, "web", "agents").stdout
	ports := map[string]bool{}
	for _, a := range agents {
		if !strings.Contains(list, "The summary of "+a.name+".") {
			t.Errorf("agents:\n%s", list)
		}
		w.runAtoll(0, "web", "sync", "--branch", "by-"+a.name)
		text := w.runGit("web", "show", "by-"+a.name+":shared.txt")
		if !strings.HasPrefix(text, "by "+a.name+" on port 30") {
			t.Errorf("branch of %s: %q", a.name, text)
		}
		ports[text[len(text)-4:]] = true
		pr := w.runAtoll(0, "web", "pr", "web", "by-"+a.name, "--dry-run").stdout
		for _, part := range []string{"would be pushed to origin/by-" + a.name, "The summary of " + a.name + "."} {
			if !strings.Contains(pr, part) {
				t.Errorf("pull request of %s has no %q:\n%s", a.name, part, pr)
			}
		}
	}
	if len(ports) != len(agents) {
		t.Errorf("ports of %d agents: %v", len(agents), ports)
	}
	w.checkNoRealKey("web")

	// A review continues the conversation.
	claude := agents[0]
	script(claude, commit("reviewed"), "I have seen your comments.")
	w.runAtoll(0, "web", "review", "web", "by-claude", "--connector", "claude", "-m", "shared.txt:1: say more")
	w.runAtoll(0, "web", "agents", "--wait", "by-claude")
	var asked []string
	for _, q := range claude.model.Requests() {
		asked = append(asked, string(q.Body))
	}
	if last := asked[len(asked)-1]; !strings.Contains(last, "say more") || !strings.Contains(last, "The summary of claude.") {
		t.Errorf("the model was not asked with the comment and the conversation: %s", last)
	}

	w.runGit("web", "switch", "-q", "main")

	// The main branch got another version of the file: the agent merges it inside.
	w.runAtoll(0, "web", "merge", "web", "by-codex", "--yes")
	w.runAtoll(0, "web", "update", "web")
	script(claude, "git merge main || { grep -v '^[<=>]' shared.txt >both && mv both shared.txt && git add -A && git commit -qm joined; }", "I have resolved it.")
	w.runAtoll(0, "web", "up", "claude", "--branch", "by-claude", "--connector", "claude", "merge main")
	w.runAtoll(0, "web", "agents", "--wait", "by-claude")
	w.runAtoll(0, "web", "merge", "web", "by-claude", "--yes")
	if text := w.readFile("web/shared.txt"); !strings.Contains(text, "by claude") || !strings.Contains(text, "by codex") || strings.Contains(text, "<<<<") {
		t.Errorf("both works: %q", text)
	}
}

// checkNoRealKey checks that the key is in no file or environment of a sandbox.
func (w *fixture) checkNoRealKey(name string) {
	w.t.Helper()
	half := len(agentKey) / 2
	if got := w.runInSandbox(name, "/", fmt.Sprintf(`key=$(printf %%s%%s '%s' '%s'); grep -lsaF "$key" /proc/[0-9]*/environ || true
		grep -rlsaF "$key" /home /root /run /srv /tmp /var /workspace || true`, agentKey[:half], agentKey[half:])); got != "" {
		w.t.Errorf("the key is in %q", got)
	}
}
