package project_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(helpertest.Build(m)) }

// newSandbox makes a sandbox that sees the host's programs, git among them.
func newSandbox(t testing.TB) atoll.Sandbox {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "no git: %v", err)
	}
	d := &namespace.Driver{Dir: t.TempDir()}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "no namespaces: %v", err)
	}
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return sb
}

// env is a home without settings but a name.
func env(t testing.TB) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	write(t, home, ".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n")
}

// git runs the host's git as a user does.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := naive(t, dir, args...)
	if err != nil {
		t.Fatalf("git %q in %s: %v\n%s", args, dir, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func naive(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	return program(t, dir, append([]string{"git"}, args...)...)
}

func program(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// newRepo makes a repository with two commits.
func newRepo(t testing.TB, args ...string) string {
	t.Helper()
	env(t)
	dir := filepath.Join(t.TempDir(), "Shop Front")
	git(t, "/", append(append([]string{"init", "-q"}, args...), dir)...)
	write(t, dir, "a.txt", "one\n")
	write(t, dir, ".gitignore", "*.log\n.env*\nbuild/\n")
	commit(t, dir, "first")
	write(t, dir, "b.txt", "two\n")
	commit(t, dir, "second")
	return dir
}

func commit(t testing.TB, dir, message string) {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", message)
}

func open(t testing.TB, dir string) *project.Repo {
	t.Helper()
	r, err := project.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sh runs shell text in the sandbox's workspace.
func sh(t testing.TB, sb atoll.Sandbox, text string) string {
	t.Helper()
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "set -e; cd /workspace; " + text})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%s: %d %v\n%s%s", text, exit.Code, err, exit.Stdout, exit.Stderr)
	}
	return strings.TrimSuffix(string(exit.Stdout), "\n")
}

func carry(t testing.TB, r *project.Repo, sb atoll.Sandbox, c project.ImportOptions) *project.ImportPlan {
	t.Helper()
	p, err := r.Import(t.Context(), sb, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func same(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

var box = project.FetchOptions{Name: "box"}

func TestThereAndBack(t *testing.T) {
	dir := newRepo(t)
	sb := newSandbox(t)
	r := open(t, filepath.Join(dir))
	carry(t, r, sb, project.ImportOptions{})
	same(t, "log inside", sh(t, sb, "git log --format=%s"), "second\nfirst")
	same(t, "status inside", sh(t, sb, "git status --porcelain"), "")
	same(t, "remotes inside", sh(t, sb, "git remote"), "")
	same(t, "author inside", sh(t, sb, "git config user.name; git config user.email"), "Ada\nada@example.com")

	sh(t, sb, "echo three >c.txt; git add c.txt; git commit -q -m third; echo more >>a.txt; echo new >new.txt")
	res, err := r.Sync(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Applied || res.Switched || res.Commits != 1 || res.Files != 1 || res.Insertions != 1 || res.TargetBranch != "main" {
		t.Errorf("result %+v", res)
	}
	same(t, "file", read(t, dir, "c.txt"), "three\n")
	same(t, "log", git(t, dir, "log", "--format=%s %an"), "third Ada\nsecond Ada\nfirst Ada")
	same(t, "status", git(t, dir, "status", "--porcelain"), "")
	same(t, "work", git(t, dir, "show", "refs/sandbox/box/wip/main:new.txt"), "new")
	same(t, "fsck", git(t, dir, "fsck", "--strict", "--no-progress", "--no-dangling"), "")
	same(t, "left-overs", strings.Join(glob(t, dir+"/.git/objects/tmp_*"), " "), "")

	_, err = r.Sync(t.Context(), sb, box)
	is(t, err, project.ErrNoNewWork)
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestWhyItIsNone: what is said of a directory that git finds no repository at.
func TestWhyItIsNone(t *testing.T) {
	env(t)
	plain := t.TempDir()
	_, err := project.Open(t.Context(), plain)
	is(t, err, project.ErrNoRepository)
	if errors.Is(err, project.ErrUnreadable) {
		t.Errorf("%v: there is none to read", err)
	}
	broken := filepath.Join(plain, "broken")
	write(t, broken, ".git/HEAD", "garbage\n")
	_, err = project.Open(t.Context(), broken)
	is(t, err, project.ErrUnreadable)
	is(t, err, atoll.ErrNotFound)
}

func TestNames(t *testing.T) {
	for dir, want := range map[string]string{
		"Shop Front": "shop-front", "Müller & Söhne": "muller-sohne", "a\nb": "a-b", "日本": "project", "..x..": "x",
	} {
		if got := (&project.Repo{Dir: "/src/" + dir}).Name(); got != want {
			t.Errorf("%q: %q, want %q", dir, got, want)
		}
	}
}

func TestUncommitted(t *testing.T) {
	dir := newRepo(t)
	r := open(t, dir)
	write(t, dir, "a.txt", "one and more\n")
	write(t, dir, "large\n", strings.Repeat("x", 1000))
	write(t, dir, ".env", strings.Repeat("x", 5000))
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	u, err := r.Uncommitted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (project.Uncommitted{Files: 2, Bytes: 1013, Largest: "large\uFFFD"}); u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
}
