package git_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command"
	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// hostGit runs the real git.
func hostGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null"), identity...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// makeHostRepository makes a repository with many commits, deltas, a tag, a branch and, at the end, packs.
func makeHostRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	hostGit(t, dir, "init", "-q", "-b", "main")
	var text strings.Builder
	for n := range 40 {
		text.WriteString(strings.Repeat(string(rune('a'+n%26)), 60) + "\n")
		for _, name := range []string{"file", "sub/deep/file"} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text.String()+name), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		hostGit(t, dir, "add", ".")
		hostGit(t, dir, "commit", "-q", "-m", "commit "+string(rune('a'+n%26)))
	}
	hostGit(t, dir, "tag", "-a", "-m", "a tag", "v1")
	hostGit(t, dir, "branch", "side", "HEAD~5")
	hostGit(t, dir, "gc", "-q", "--aggressive", "--prune=now")
	return dir
}

// copyIn copies a directory of the host into a sandbox.
func copyIn(t *testing.T, s *commandtest.Sandbox, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(name, from)
		if d.IsDir() {
			return s.FS.MkdirAll(target, 0o755)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return s.FS.WriteFile(target, b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// runGit runs a command that must succeed.
func runGit(t *testing.T, s *commandtest.Sandbox, line string) string {
	t.Helper()
	o := s.Exec("", commandtest.SplitWords(line)...)
	if o.Code != 0 {
		t.Fatalf("%s: %d %s%s", line, o.Code, o.Stdout, o.Stderr)
	}
	return o.Stdout
}

// TestPackedRepository reads a repository that the real git has packed, changes it, and lets the real git check it.
func TestPackedRepository(t *testing.T) {
	testenv.Real(t, "git")
	dir := makeHostRepository(t)
	for _, setting := range []string{"true", "false"} { // deltas to offsets, and to names
		hostGit(t, dir, "-c", "repack.useDeltaBaseOffset="+setting, "repack", "-q", "-a", "-d", "-f")
		s := commandtest.New(t, "/w")
		s.Env = append(s.Env, identity...)
		copyIn(t, s, dir, "/w")
		for _, line := range []string{"log --format=%H", "status", "show --stat v1", "diff HEAD~3 side", "rev-parse v1 side main", "branch -a", "tag -n", "describe", "for-each-ref", "cat-file -p HEAD^{tree}", "log -p --oneline -3", "blame -s file"} {
			if got, want := runGit(t, s, "git "+line), hostGit(t, dir, strings.Fields(line)...); got != want {
				t.Errorf("git %s: %.300q, the real one %.300q", line, got, want)
			}
		}
		for _, line := range []string{"git switch side", "cp file other", "git add other", "git commit -qm more", "git merge -q main", "git branch -d main", "git tag -d v1"} {
			runGit(t, s, line)
		}
		out := t.TempDir()
		copySandboxOut(t, s, "/w", out)
		if text := hostGit(t, out, "fsck", "--strict", "--full"); strings.Contains(text, "error") || strings.Contains(text, "missing") {
			t.Errorf("git fsck: %s", text)
		}
		if a, b := hostGit(t, out, "log", "--format=%H"), runGit(t, s, "git log --format=%H"); a != b {
			t.Errorf("the logs differ: %s %s", a, b)
		}
	}
}

// copySandboxOut copies a directory of a sandbox to the host.
func copySandboxOut(t *testing.T, s *commandtest.Sandbox, from, to string) {
	t.Helper()
	err := fs.WalkDir(commandtest.Sub(t, s.FS.IO(), from), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(filepath.Join(to, name), 0o755))
		}
		b, err := s.FS.ReadFile(from + "/" + name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLocalRemotes clones, fetches, pulls and pushes between repositories of a sandbox.
func TestLocalRemotes(t *testing.T) {
	testenv.Real(t, "git")
	s := commandtest.New(t, "/w")
	s.Env = append(s.Env, identity...)
	dir := makeHostRepository(t)
	copyIn(t, s, dir+"/.git", "/srv/project.git")
	runGit(t, s, "git -C /srv/project.git config core.bare true")
	for _, line := range []string{
		"git clone -q /srv/project.git one", "git clone -q file:///srv/project.git two", "git -C one status", "cp one/file one/new", "git -C one add new", "git -C one commit -qm new", "git -C one push -q",
		"git -C two fetch", "git -C two pull -q", "git -C two log -1", "git -C two checkout -q -b topic", "cp two/file two/topic", "git -C two add topic", "git -C two commit -qm topic", "git -C two push -q -u origin topic",
		"git -C one fetch -q", "git -C one merge -q origin/topic", "git -C one push -q origin main v1", "git -C one push -q origin --delete topic", "git -C two fetch -q --prune", "git ls-remote /srv/project.git",
	} {
		runGit(t, s, line)
	}
	if o := s.Exec("", "git", "-C", "two", "push", "origin", "topic:main", "--force"); o.Code != 0 {
		t.Errorf("a forced push: %d %s", o.Code, o.Stderr)
	}
	if o := s.Exec("", "git", "-C", "one", "push", "origin", "HEAD~3:main"); o.Code != 1 || !strings.Contains(o.Stderr, "[rejected]") {
		t.Errorf("a push that is no fast-forward: %d %s", o.Code, o.Stderr)
	}
	if text := runGit(t, s, "git -C two branch -a"); strings.Contains(text, "origin/topic") {
		t.Errorf("the removed branch is still there:\n%s", text)
	}
	for _, name := range []string{"/srv/project.git", "/w/one/.git", "/w/two/.git"} {
		out := t.TempDir()
		copySandboxOut(t, s, name, out)
		if text := hostGit(t, out, "--git-dir=.", "fsck", "--strict", "--full"); strings.Contains(text, "error") || strings.Contains(text, "missing") {
			t.Errorf("git fsck of %s: %s", name, text)
		}
	}
}

// networkSandbox returns a sandbox with the host's network.
func networkSandbox(t *testing.T) *commandtest.Sandbox {
	t.Helper()
	s := commandtest.New(t, "/w")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	s.Kernel = kernel.New(kernel.Config{FS: s.FS, Programs: program.ByName(command.All()), Network: transport})
	s.Env = append(s.Env, identity...)
	return s
}

// TestHTTPRemotes clones from and pushes to the real git's server, by version 2 and 0 of the protocol.
func TestHTTPRemotes(t *testing.T) {
	testenv.Real(t, "git")
	root := t.TempDir()
	source := makeHostRepository(t)
	hostGit(t, root, "clone", "-q", "--bare", source, "project.git")
	repository := filepath.Join(root, "project.git")
	hostGit(t, repository, "config", "http.receivepack", "true")
	home := strings.TrimSpace(hostGit(t, root, "--exec-path"))
	for _, version := range []string{"2", "0"} {
		hostGit(t, repository, "config", "protocol.version", version)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			env := []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null"}
			if version == "2" {
				env = append(env, "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
			} else {
				r.Header.Del("Git-Protocol")
			}
			(&cgi.Handler{Path: home + "/git-http-backend", Env: env}).ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		s := networkSandbox(t)
		url := server.URL + "/project.git"
		for _, line := range []string{"git clone " + url + " one", "git clone -q --depth 2 " + url + " shallow", "git -C one status", "cp one/file one/v" + version, "git -C one add .", "git -C one commit -qm more" + version, "git -C one push -q", "git -C shallow pull -q --ff-only", "git -C one checkout -q -b topic" + version, "git -C one push -q -u origin topic" + version} {
			runGit(t, s, line)
		}
		if got, want := runGit(t, s, "git -C one log --format=%H main"), hostGit(t, repository, "log", "--format=%H", "main"); got != want {
			t.Errorf("version %s: the logs differ:\n%s\n%s", version, got, want)
		}
		if text := runGit(t, s, "git -C shallow log --oneline"); strings.Count(text, "\n") != 3 {
			t.Errorf("version %s: the shallow clone has the log\n%s", version, text)
		}
		if text := hostGit(t, repository, "fsck", "--strict", "--full"); strings.Contains(text, "error") {
			t.Errorf("version %s: git fsck: %s", version, text)
		}
		out := t.TempDir()
		copySandboxOut(t, s, "/w/one", out)
		if text := hostGit(t, out, "fsck", "--strict", "--full"); strings.Contains(text, "error") || strings.Contains(text, "missing") {
			t.Errorf("version %s: git fsck of the clone: %s", version, text)
		}
		if text := hostGit(t, out, "status", "--porcelain"); text != "" {
			t.Errorf("version %s: the real git finds changes in the clone: %s", version, text)
		}
		if o := s.Exec("", "git", "clone", server.URL+"/nothing.git"); o.Code != 128 || !strings.Contains(o.Stderr, "not found") {
			t.Errorf("a missing repository: %d %s", o.Code, o.Stderr)
		}
		if n := s.Kernel.Memory(); n != 0 {
			t.Errorf("%d bytes stay charged", n)
		}
	}
}
