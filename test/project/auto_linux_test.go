package project

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readSyncStatus returns the sync mode and the last refusal from 'atoll status'.
func (w *fixture) readSyncStatus(name string) (s struct{ Mode, Refused string }) {
	w.t.Helper()
	var all struct {
		Sync *struct{ Mode, Refused string } `json:"sync"`
	}
	all.Sync = &s
	w.must(json.Unmarshal([]byte(w.runAtoll(0, "/", "status", "--offline", "--json", name).stdout), &all))
	return s
}

// TestAutoSync checks for each sync mode whether the background process of 'up' syncs
// commits and uncommitted changes of an agent by itself. Modes that wait until the
// sandbox is idle take minutes and run only with ATOLL_PROJECT_IDLE=1.
func TestAutoSync(t *testing.T) {
	w := newNamespaceFixture(t)
	w.createRepository("r")
	w.writeFile("agent", `cd /workspace; echo "$1" >made-$1; git add made-$1; git commit -qm "agent $1"; echo "loose $1" >loose.txt`)
	w.upSandbox("r", "r")
	w.runAtoll(0, "/", "cp", w.joinPath("agent"), "r:/tmp/agent")
	agent := func(n string) string {
		t.Helper()
		return w.runInSandbox("r", "/workspace", "sh -e /tmp/agent "+n+"; git rev-parse HEAD")
	}
	mode := func(to string) {
		t.Helper()
		w.runAtoll(0, "r", "up", "--name", "r", "--sync-mode", to)
		checkEqual(t, "the mode", w.readSyncStatus("r").Mode, to)
	}
	home := func(what, commit, loose string) {
		t.Helper()
		w.waitFor(what+": the commit is home", func() bool { return w.runGit("r", "rev-parse", "main") == commit })
		w.waitFor(what+": the work is home", func() bool {
			return strings.TrimSpace(w.runProgram("r", "git", "show", "refs/sandbox/r/wip/main:loose.txt").stdout) == loose
		})
		checkEqual(t, "the host's files, "+what, w.runGit("r", "status", "--porcelain"), "")
	}

	agent("1")
	if left, err := filepath.Glob(w.joinPath("h/sync/*")); err != nil || len(left) > 0 || w.runGit("r", "for-each-ref", "refs/sandbox/r/main", "refs/sandbox/r/wip") != "" {
		t.Fatalf("manual: a watcher runs: %q, %v", left, err)
	}
	mode("auto-commit")
	home("auto-commit", agent("2"), "loose 2")

	// A refused sync is reported once, by the next command.
	w.writeFile("r/mine", "mine\n")
	w.commitAll("r", "mine")
	mine := w.runGit("r", "rev-parse", "main")
	theirs := agent("3")
	w.waitFor("it is refused", func() bool { // not by exec, which would make the sandbox busy
		list, err := filepath.Glob(w.joinPath("h/sync/*.json"))
		return err == nil && len(list) == 1 && strings.Contains(w.readFile(list[0]), `"refused"`)
	})
	checkEqual(t, "the host's branch", w.runGit("r", "rev-parse", "main"), mine)
	checkEqual(t, "what was fetched", w.runGit("r", "rev-parse", "refs/sandbox/r/main"), theirs)
	for _, want := range []bool{true, false} {
		if said := w.runAtoll(0, "r", "up", "--name", "r").stderr; strings.Contains(said, "could not come home by itself") != want {
			t.Errorf("want a refusal once: %q", said)
		}
	}

	mode("manual")
	last := agent("4") // the watcher reads the mode when it wants to sync
	log, err := filepath.Glob(w.joinPath("h/sync/*.log"))
	if err != nil || len(log) != 1 {
		t.Fatalf("logs of watchers: %q, %v", log, err)
	}
	w.waitFor("the watcher ends", func() bool {
		b, err := os.ReadFile(log[0])
		return err == nil && strings.Contains(string(b), "the mode of r is manual now")
	})
	checkEqual(t, "what was fetched", w.runGit("r", "rev-parse", "refs/sandbox/r/main"), theirs)

	w.runGit("r", "reset", "-q", "--hard", theirs)
	mode("auto-idle") // at the beginning it is unknown whether it is idle, which counts as idle
	home("auto-idle, at the beginning", last, "loose 4")
	if os.Getenv("ATOLL_PROJECT_IDLE") != "" {
		home("auto-idle", agent("5"), "loose 5")
	}
}
