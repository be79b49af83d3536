package project

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// These tests check what a hostile sandbox can do to its user through atoll's commands:
// what the commands print and which programs they start. Lower packages test attacks on
// git objects and the wire protocol.

// obeyed are payloads that a terminal acts on: a title, a clipboard, a cleared screen,
// a typed answer, C1 controls, reversed text.
var obeyed = []string{"\x1b]0;pwned\x07", "\x1b]52;c;cHduZWQ=\x07", "\x1b[2J", "\x1b[6n", "\x1bP+q\x1b\\", "\u009b2J", "\u202e", "\r\x1b[K"}

// findControls returns the control sequences in text other than colors and, on a
// terminal, the cursor movements of progress bars.
func findControls(text string, terminal bool) string {
	for _, p := range obeyed {
		if terminal && p == "\r\x1b[K" {
			continue // a progress bar
		}
		if strings.Contains(text, p) {
			return fmt.Sprintf("%q", p)
		}
	}
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n' || r == '\t' || terminal && (r == '\r' || r == 0x1b):
		case r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == utf8.RuneError && size == 1 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return fmt.Sprintf("%q in %q", r, text[max(0, i-20):min(len(text), i+20)])
		}
	}
	return ""
}

// runOnTerminal runs atoll on a terminal and returns all its output.
func (w *fixture) runOnTerminal(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.bin, args...)
	cmd.Dir, cmd.Env = w.joinPath(dir), append(w.env, "TERM=xterm-256color", "PAGER=cat")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		w.t.Fatal(err)
	}
	var b bytes.Buffer
	_, _ = io.Copy(&b, f) // a closed terminal returns an error
	var exit *exec.ExitError
	if err := errors.Join(cmd.Wait(), f.Close()); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return b.String()
}

// TestOutputIsEscaped checks that commands print no control sequences from names of
// branches, files and people and from commit messages, whether on a terminal or not.
func TestOutputIsEscaped(t *testing.T) {
	w := newNamespaceFixture(t)
	w.createRepository("r")
	w.upSandbox("r", "r")
	all := strings.Join(obeyed, "x")
	w.writeFile("payload", all)
	w.runAtoll(0, "/", "cp", w.joinPath("payload"), "r:/tmp/payload")
	// git refuses control characters in names of refs, so the files are written directly.
	w.runInSandbox("r", "/workspace", `p="$(cat /tmp/payload)"
		mkdir "dir$p"; echo x >"dir$p/file$p"; ln -s "/etc/passwd$p" "link$p"; mkdir -p .husky; echo x >".husky/post-$p"; printf 'all:\n\ttrue%s\n' "$p" >Makefile
		git add -A; git -c user.name="Eve$p" -c user.email="eve$p@example.com" commit -qm "subject $p
body $p"
		printf '%s\n' "$p" >"untracked$p"
		c=$(git rev-parse HEAD); git branch "$(printf 'side\302\233\342\200\256x')" || true
		d=$(printf '.git/refs/heads/evil\033]0;pwned\007'); echo $c >"$d" || true
		printf '%s refs/heads/packed\033[2J\n' $c >>.git/packed-refs
		git update-ref refs/heads/plain $c; git worktree add -q ".worktrees/w$p" plain || true`)
	copied := w.runInSandbox("r", "/workspace", "git log -1 --format=%B%an; cat Makefile")
	if findControls(copied, false) == "" {
		t.Fatal("unescaped output does not contain the payload")
	}

	looks := map[string]bool{"status": true, "worktree": true, "diff": true, "log": true, "restore": true, "proxy": true} // these use colors and a pager
	var leaks []string
	for _, args := range []string{
		"status", "status --all", "worktree list", "sync --dry-run", "sync", "diff r", "diff r plain", "log r", "log -p r", "log r plain", "merge r plain --dry-run",
		"merge r plain --yes", "apply r wip/main --yes", "restore r", "proxy ls", "ls", "inspect r", "history r", "ps r", "logs r", "events", "worktree remove nothing",
		"exec r -- git log -1 --format=%s", "down", "restore r",
	} {
		if strings.HasPrefix(args, "exec") || args == "events" || strings.HasPrefix(args, "logs") {
			continue // the output of a command is not escaped, and events has no end
		}
		words := strings.Fields(args)
		r := w.runProgram("r", append([]string{w.bin}, words...)...)
		if bad := findControls(r.stdout+r.stderr, false); bad != "" {
			leaks = append(leaks, args+": "+bad)
		}
		r = w.runProgram("r", append(append([]string{w.bin}, words...), "--json")...)
		said := strings.NewReplacer("\u009b", "", "\u202e", "").Replace(r.stdout) + r.stderr // JSON may contain other characters
		if bad := findControls(said, false); bad != "" && words[0] != "history" {            // history has the unchanged output of commands
			leaks = append(leaks, args+" --json: "+bad)
		}
		if !looks[words[0]] {
			continue
		}
		if bad := findControls(w.runOnTerminal("r", words...), true); bad != "" {
			leaks = append(leaks, args+" before a terminal: "+bad)
		}
	}
	if len(leaks) > 0 {
		t.Errorf("raw:\n%s", strings.Join(leaks, "\n"))
	}
}

// TestContentRunsNothingOnHost checks that no command of atoll starts programs that the
// host's git configuration would start for content of a sandbox: hooks in the tree,
// merge and diff drivers, filters, pagers, editors, signatures.
func TestContentRunsNothingOnHost(t *testing.T) {
	w := newNamespaceFixture(t)
	w.createRepository("r")
	for _, setting := range [][2]string{
		{"core.hooksPath", ".husky"},
		{"core.fsmonitor", "./monitor"},
		{"filter.x.smudge", "./run-me smudge; cat"},
		{"filter.x.clean", "./run-me clean; cat"},
		{"diff.x.textconv", "./run-me textconv; cat"},
		{"diff.x.command", "./run-me diff"},
		{"merge.x.driver", "./run-me merge"},
		{"log.showSignature", "true"},
		{"gpg.program", "./run-me"},
		{"core.pager", "./run-me pager"},
		{"core.editor", "./run-me editor"},
		{"core.askPass", "./run-me askpass"},
		{"core.sshCommand", "./run-me ssh"},
		{"sequence.editor", "./run-me"},
		{"submodule.recurse", "true"},
		{"fetch.recurseSubmodules", "true"},
		{"protocol.ext.allow", "always"},
		{"alias.merge-tree", "!./run-me alias"},
		{"uploadpack.packObjectsHook", "./run-me hook"},
		{"gc.auto", "1"},
	} {
		w.runGit("r", "config", setting[0], setting[1])
	}
	w.upSandbox("r", "r")
	sprung := w.joinPath("sprung")
	script := "#!/bin/sh\necho $0 $* >>" + sprung + "\n"
	w.writeFile("script", script)
	w.runAtoll(0, "/", "cp", w.joinPath("script"), "r:/tmp/script")
	w.runInSandbox("r", "/workspace", `
		mkdir .husky; for n in .husky/post-merge .husky/post-checkout .husky/post-index-change .husky/reference-transaction .husky/pre-merge-commit .husky/commit-msg .husky/pre-auto-gc run-me monitor; do cp /tmp/script $n; chmod +x $n; done
		printf '* filter=x diff=x merge=x\n' >.gitattributes
		printf '[submodule "m"]\n\tpath = m\n\turl = ext::./run-me\n' >.gitmodules
		sed -i s/two/zwei/ a.txt
		git add -A; git commit -qm work; git update-ref refs/heads/side HEAD; sed -i s/six/sechs/ a.txt`)
	w.checkUnsafePull("r", "r", sprung)

	before := w.repositoryState("r")
	for _, args := range []string{"status", "sync --dry-run", "diff r", "log -p r", "merge r main --dry-run"} {
		w.runProgram("r", append([]string{w.bin}, strings.Fields(args)...)...)
		w.checkNotRun(args, sprung)
	}
	w.checkUnchanged("looking", "r", before)
	w.writeFile("r/a.txt", strings.Replace(w.readFile("r/a.txt"), "seven", "sieben", 1))
	w.runGit("r", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "commit", "-qam", "mine")
	_ = os.Remove(sprung)
	for i, args := range []string{"merge r side --yes", "apply r wip/main --yes", "sync", "sync --branch side", "restore r", "worktree list", "down --sync", "up --no-attach", "down --rm --force"} {
		if i == 1 { // .gitattributes is now on the host, where every 'git status' starts this filter
			w.runGit("r", "config", "--unset", "filter.x.clean")
		}
		w.runProgram("r", append([]string{w.bin}, strings.Fields(args)...)...)
		w.checkNotRun(args, sprung)
	}
}

// checkUnsafePull checks that the attack works against a user who pulls from a
// directory that is shared with the sandbox.
func (w *fixture) checkUnsafePull(dir, name, sprung string) {
	w.t.Helper()
	w.must(os.Mkdir(w.joinPath("out"), 0o755))
	r := w.runProgram("out", "sh", "-ec", `"$0" exec "$1" -- tar -C /workspace -cf - . | tar -xf - --no-same-owner; cp -a "$2" ../twin`, w.bin, name, w.joinPath(dir))
	if r.code != 0 {
		w.t.Fatal(r.stderr)
	}
	r = w.runProgram("twin", "git", "pull", "-q", w.joinPath("out"), "main")
	b, err := os.ReadFile(sprung)
	if err != nil || !strings.Contains(string(b), "post-merge") {
		w.t.Fatalf("the unsafe pull does not run the attack: %v %s %s", err, b, r.stderr)
	}
	w.must(os.Remove(sprung))
}

// checkNotRun fails the test if an attack has run.
func (w *fixture) checkNotRun(what, file string) {
	w.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		return
	}
	w.t.Errorf("%s started on the host: %s", what, b)
	_ = os.Remove(file)
}

// TestSyncFollowsNoLinks checks that sync writes nothing through links in the tree that
// lead out of it.
func TestSyncFollowsNoLinks(t *testing.T) {
	w := newNamespaceFixture(t)
	w.createRepository("r")
	w.writeFile("victim/keep", "keep\n")
	w.writeFile("r/build/old", "ignored here\n")
	w.upSandbox("r", "r")
	w.runInSandbox("r", "/workspace", fmt.Sprintf(`
		rm -rf src build; ln -s %[1]s src; ln -s %[1]s build; ln -s %[1]s/made a-link; git add -A -f; git commit -qm links
		git worktree add -q -b second .worktrees/second; cd .worktrees/second; rm src a-link; mkdir src; echo x >src/keep; echo x >a-link; git add -A; git commit -qm through`, w.joinPath("victim")))
	for _, args := range []string{"sync", "merge r second --yes", "sync --branch second", "sync --artifacts build", "sync --artifacts", "apply r second --yes"} {
		w.runProgram("r", append([]string{w.bin}, strings.Fields(args)...)...)
		checkEqual(t, "outside, after "+args, w.runProgram("victim", "sh", "-c", "ls -A; cat keep").stdout, "keep\nkeep")
	}
	if strings.Contains(w.runProgram("r", "sh", "-c", "test -L build || cat build/old").stdout, "x") {
		t.Error("a file that the host ignores was overwritten")
	}
}
