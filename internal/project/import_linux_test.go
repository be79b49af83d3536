package project_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// state is what git says of a working tree, and all files in it.
const state = `git symbolic-ref -q HEAD || git rev-parse HEAD; git rev-parse -q --verify HEAD || echo none; git status --porcelain=v1 -z | tr '\0\n' '|~'; ` +
	`echo; git diff --cached | cat; git diff | cat; git ls-files -s; find . -name .git -prune -o -name .worktrees -prune -o ! -type d -print | LC_ALL=C sort; git for-each-ref refs/heads refs/tags --format='%(objectname) %(refname)'`

func hostState(t *testing.T, dir string) string {
	t.Helper()
	return run(t, dir, "sh", "-c", "LC_ALL=C; export LC_ALL; "+state)
}

func run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := program(t, dir, args...)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// TestCarryIn carries repositories in of which each is unlike the first, and
// compares all that git says of them, inside and at home.
func TestCarryIn(t *testing.T) {
	testenv.Logic(t)
	for name, prepare := range map[string]func(t *testing.T, dir string) string{
		"Clean": func(*testing.T, string) string { return "" },
		"StagedAndNot": func(t *testing.T, dir string) string {
			write(t, dir, "a.txt", "staged\n")
			write(t, dir, "n.txt", "staged, new\n")
			git(t, dir, "add", "a.txt", "n.txt")
			git(t, dir, "rm", "-q", "--cached", "b.txt")
			write(t, dir, "a.txt", "staged\nand more\n")
			write(t, dir, "deep/er/untracked.txt", "untracked\n")
			return ""
		},
		"Removed": func(t *testing.T, dir string) string {
			if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
				t.Fatal(err)
			}
			return ""
		},
		"LinksAndModes": func(t *testing.T, dir string) string {
			for _, to := range [][2]string{{"a.txt", "link"}, {"/etc/passwd", "out"}, {"nowhere", "dangling"}} {
				if err := os.Symlink(to[0], filepath.Join(dir, to[1])); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(dir, "a.txt"), 0o755); err != nil {
				t.Fatal(err)
			}
			return ""
		},
		"OddNames": func(t *testing.T, dir string) string {
			for _, n := range []string{"new\nline", "tab\t", "-rf", "quote\"'", "ü", "\xff\xfe", "back\\slash", " space ", ":colon", "*"} {
				write(t, dir, n, n)
			}
			git(t, dir, "add", "--", ":(literal)new\nline")
			return ""
		},
		"Branches": func(t *testing.T, dir string) string {
			git(t, dir, "branch", "feature/x", "HEAD^")
			git(t, dir, "tag", "v1", "HEAD^")
			git(t, dir, "tag", "-a", "-m", "v2", "v2")
			return ""
		},
		"Detached": func(t *testing.T, dir string) string {
			git(t, dir, "checkout", "-q", "--detach", "HEAD^")
			write(t, dir, "a.txt", "changed\n")
			return ""
		},
		"Unborn": func(t *testing.T, dir string) string {
			git(t, dir, "checkout", "-q", "--orphan", "fresh")
			write(t, dir, "u.txt", "untracked\n")
			return ""
		},
		"LinkedTree": func(t *testing.T, dir string) string {
			linked := filepath.Join(t.TempDir(), "linked")
			git(t, dir, "worktree", "add", "-q", "-b", "side", linked)
			write(t, linked, "a.txt", "changed beside\n")
			return linked
		},
		"Subdirectory": func(t *testing.T, dir string) string {
			write(t, dir, "sub/dir/file", "x")
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRepo(t)
			if other := prepare(t, dir); other != "" {
				dir = other
			}
			from := dir
			if name == "Subdirectory" {
				from = filepath.Join(dir, "sub/dir")
			}
			before := hostState(t, dir)
			sb := newSandbox(t)
			carry(t, open(t, from), sb, project.ImportOptions{})
			same(t, "inside", sh(t, sb, "export LC_ALL=C; "+state), before)
			same(t, "at home", hostState(t, dir), before)
			same(t, "fsck inside", sh(t, sb, "git fsck --strict --no-progress --no-dangling 2>&1"), noteUnborn(name))
		})
	}
}

// racy changes a file in the instant in which its index was written, as far as
// clocks can tell: it has its old size and time.
const racy = "touch -d @1700000000 a.txt; git config core.checkStat minimal; git config core.trustctime false; git update-index -q --refresh; printf 'ONE\n' >a.txt; touch -d @1700000000 a.txt .git/index"

// TestCarryInInTheInstantOfTheIndex: see racy.
func TestCarryInInTheInstantOfTheIndex(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	sb := newSandbox(t)
	run(t, dir, "sh", "-ec", racy)
	carry(t, open(t, dir), sb, project.ImportOptions{})
	same(t, "file", sh(t, sb, "cat a.txt"), "ONE")
}

func noteUnborn(name string) string {
	if name == "Unborn" {
		return "notice: HEAD points to an unborn branch (fresh)"
	}
	return ""
}

func TestCarryInEmptyRepository(t *testing.T) {
	testenv.Logic(t)
	env(t)
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	sb := newSandbox(t)
	carry(t, open(t, dir), sb, project.ImportOptions{})
	sh(t, sb, "echo 1 >f; git add f; git commit -q -m first")
	if _, err := open(t, dir).Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "file", read(t, dir, "f"), "1\n")
	same(t, "status", git(t, dir, "status", "--porcelain"), "")
}

func TestCarryInOtherObjectFormat(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t, "--object-format=sha256")
	write(t, dir, "a.txt", "changed\n")
	sb := newSandbox(t)
	carry(t, open(t, dir), sb, project.ImportOptions{})
	same(t, "status", sh(t, sb, "git status --porcelain"), " M a.txt")
	sh(t, sb, "echo 3 >c; git add c; git commit -q -m third")
	if _, err := open(t, dir).Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "file", read(t, dir, "c"), "3\n")
	same(t, "work", git(t, dir, "status", "--porcelain"), " M a.txt")
}

func TestCarryInShallow(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	clone := filepath.Join(t.TempDir(), "shallow")
	git(t, "/", "clone", "-q", "--depth=1", "file://"+dir, clone)
	sb := newSandbox(t)
	p := carry(t, open(t, clone), sb, project.ImportOptions{})
	if !p.Shallow {
		t.Error("the plan does not say that it is shallow")
	}
	same(t, "log", sh(t, sb, "git log --format=%s; git remote"), "second")
	same(t, "fsck inside", sh(t, sb, "git fsck --strict --no-progress --no-dangling 2>&1"), "")
	sh(t, sb, "echo 3 >c; git add c; git commit -q -m third")
	if _, err := open(t, clone).Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "log", git(t, clone, "log", "--format=%s"), "third\nsecond")
}

func TestCarryInSubmodules(t *testing.T) {
	testenv.Logic(t)
	lib := newRepo(t)
	dir := newRepo(t)
	git(t, dir, "submodule", "--quiet", "add", "file://"+lib, "vendor/lib")
	commit(t, dir, "with lib")
	write(t, dir, "vendor/lib/a.txt", "changed in lib\n")
	git(t, dir, "init", "-q", "made") // somebody's repository inside, no submodule
	write(t, dir, "made/m.txt", "made\n")
	commit(t, filepath.Join(dir, "made"), "made")
	before := git(t, dir, "status", "--porcelain")
	sb := newSandbox(t)
	p := carry(t, open(t, dir), sb, project.ImportOptions{})
	if !slices.Contains(p.Modules, "vendor/lib") || !slices.Contains(p.Modules, "made") {
		t.Errorf("modules %q", p.Modules)
	}
	same(t, "status", sh(t, sb, "git status --porcelain"), before)
	same(t, "status of lib", sh(t, sb, "cd vendor/lib; git status --porcelain; git log -1 --format=%s; git remote"), " M a.txt\nsecond")
	same(t, "made", sh(t, sb, "cat made/m.txt; git -C made log -1 --format=%s"), "made\nmade")

	sh(t, sb, "cd vendor/lib; git commit -qam 'in lib'; cd ../..; git commit -qam 'with newer lib'; echo 2 >made/2.txt; git init -q other; echo o >other/o.txt")
	res, err := open(t, dir).Sync(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "lib's commit", git(t, filepath.Join(dir, "vendor/lib"), "log", "-1", "--format=%s", "refs/sandbox/box/main"), "in lib")
	same(t, "lib's file", read(t, dir, "vendor/lib/a.txt"), "changed in lib\n")
	// What the host's submodule needs is here: its origin need not be.
	git(t, filepath.Join(dir, "vendor/lib"), "checkout", "-q", "--", ".")
	if err := os.Rename(lib, lib+".gone"); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "submodule", "--quiet", "update")
	same(t, "lib's HEAD", git(t, filepath.Join(dir, "vendor/lib"), "log", "-1", "--format=%s"), "in lib")
	same(t, "status of the host", git(t, dir, "status", "--porcelain", "--", "vendor"), "")
	same(t, "made's work", git(t, filepath.Join(dir, "made"), "show", "refs/sandbox/box/wip/main:2.txt"), "2")
	if len(res.Modules) != 3 {
		t.Errorf("modules %v", res.Modules)
	}
	other := git(t, dir, "for-each-ref", "--format=%(refname)", "refs/sandbox/box/nested/*/wip/*")
	same(t, "other's work", git(t, dir, "show", other+":o.txt"), "o")

	// What is rescued of them goes with the rest when it is old.
	sh(t, sb, "echo late >vendor/lib/late.txt; echo late >made/late.txt")
	got, err := open(t, dir).Rescue(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before time.Time
		there  bool
	}{{got.Time, true}, {got.Time.Add(time.Second), false}} {
		if err := open(t, dir).ForgetOld(t.Context(), c.before); err != nil {
			t.Fatal(err)
		}
		for _, m := range []string{".", "vendor/lib", "made"} {
			if refs := git(t, filepath.Join(dir, m), "for-each-ref", "refs/sandbox/box/rescue"); (refs != "") != c.there {
				t.Errorf("rescued of %s: %q, want some: %v", m, refs, c.there)
			}
		}
	}
}

func TestCarryInFilesGitIgnores(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	write(t, dir, ".env", "SECRET=1\n")
	write(t, dir, "app/.env.local", "SECRET=2\n")
	write(t, dir, ".gitignore", "*.log\nbuild/\n/.env\ncerts/\n") // app/.env.local is not ignored
	commitOnly(t, dir, ".gitignore")
	write(t, dir, "certs/dev.pem", "PEM\n")
	write(t, dir, "certs/other.txt", "not named\n")
	write(t, dir, "x.log", "not named\n")
	write(t, dir, ".worktreeinclude", "*.pem\n# all else stays\na.txt\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, ".env.link")); err != nil {
		t.Fatal(err)
	}
	commitOnly(t, dir, ".worktreeinclude")
	sb := newSandbox(t)
	p := carry(t, open(t, dir), sb, project.ImportOptions{Env: []string{".env*"}})
	same(t, "files", strings.Join(p.Files, " "), ".env app/.env.local certs/dev.pem")
	same(t, "left", strings.Join(p.Skipped, " "), ".env.link")
	same(t, "inside", sh(t, sb, "cat .env app/.env.local certs/dev.pem; stat -c %a .env app/.env.local certs/dev.pem; ls certs; git status --porcelain"),
		"SECRET=1\nSECRET=2\nPEM\n600\n600\n600\ndev.pem")
	same(t, "what git has of it inside", sh(t, sb, "git rev-list --all --objects; git cat-file --batch-all-objects --batch | grep -ac SECRET || true"), git(t, dir, "rev-list", "--all", "--objects")+"\n0")
	if _, err := open(t, dir).Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "secrets in refs", git(t, dir, "for-each-ref", "refs/sandbox/box/wip"), "")

	if _, err := project.AddWorktree(t.Context(), sb, "x"); err != nil {
		t.Fatal(err)
	}
	same(t, "another working tree", sh(t, sb, "cd .worktrees/x; cat .env app/.env.local; stat -c %a .env; git status --porcelain"), "SECRET=1\nSECRET=2\n600")
	_, err := open(t, dir).PlanImport(t.Context(), project.ImportOptions{Env: []string{"a\nb"}})
	is(t, err, atoll.ErrInvalid)
	_, err = open(t, dir).Import(t.Context(), newSandbox(t), project.ImportOptions{Env: []string{".env*"}, MaxFiles: 10})
	is(t, err, project.ErrTooLarge)
}

func commitOnly(t testing.TB, dir, name string) {
	t.Helper()
	git(t, dir, "add", name)
	git(t, dir, "commit", "-q", "-m", name)
}

func TestCarryInChooses(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	git(t, dir, "branch", "wanted")
	git(t, dir, "branch", "private")
	git(t, dir, "tag", "v1")
	write(t, dir, "a.txt", "dirty\n")
	sb := newSandbox(t)
	carry(t, open(t, dir), sb, project.ImportOptions{Branches: []string{"wanted"}, Clean: true})
	same(t, "refs", sh(t, sb, "git for-each-ref --format='%(refname)'; git status --porcelain"), "refs/heads/main\nrefs/heads/wanted")
	_, err := open(t, dir).PlanImport(t.Context(), project.ImportOptions{Branches: []string{"nowhere"}})
	is(t, err, atoll.ErrNotFound)
}

func TestCarryInManyFiles(t *testing.T) {
	testenv.Real(t, "namespace") // thousands of files
	const count = 50_000
	dir := newRepo(t)
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/main\ncommitter Ada <ada@example.com> 1000000000 +0000\ndata 4\nmany\nfrom refs/heads/main^0\n")
	for i := range count {
		text := fmt.Sprint(i)
		fmt.Fprintf(&b, "M 100644 inline d%d/f%d\ndata %d\n%s\n", i/100, i%100, len(text), text)
	}
	stream := filepath.Join(t.TempDir(), "stream")
	write(t, filepath.Dir(stream), "stream", b.String())
	run(t, dir, "sh", "-c", "git fast-import --quiet <"+stream+" && git reset -q --hard")
	write(t, dir, "d7/f7", "changed\n")
	sb := newSandbox(t)
	carry(t, open(t, dir), sb, project.ImportOptions{})
	same(t, "count", sh(t, sb, "git ls-files | wc -l; git status --porcelain"), fmt.Sprint(count+3)+"\n M d7/f7")
	sh(t, sb, "echo x >d8/f8; git commit -qm one d8/f8")
	if _, err := open(t, dir).Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "file", read(t, dir, "d8/f8"), "x\n")
	same(t, "status", git(t, dir, "status", "--porcelain"), " M d7/f7")
}

func TestOpenRefuses(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	bare := filepath.Join(t.TempDir(), "bare")
	git(t, dir, "clone", "-q", "--bare", dir, bare)
	for name, c := range map[string]struct {
		path string
		want error
	}{
		"Bare":         {bare, project.ErrBare},
		"InsideGit":    {filepath.Join(dir, ".git", "objects"), project.ErrNoRepository},
		"NoRepository": {t.TempDir(), project.ErrNoRepository},
		"Missing":      {filepath.Join(dir, "nowhere"), project.ErrNoRepository},
		"File":         {filepath.Join(dir, "a.txt"), project.ErrNoRepository},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := project.Open(t.Context(), c.path)
			is(t, err, c.want)
			if !strings.Contains(err.Error(), c.path) {
				t.Errorf("error %q does not name %s", err, c.path)
			}
		})
	}
	t.Run("NoGitOnTheHost", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := project.Open(t.Context(), dir)
		is(t, err, project.ErrNoGit)
	})
	t.Run("OldGitOnTheHost", func(t *testing.T) {
		bin := t.TempDir()
		write(t, bin, "git", "#!/bin/sh\necho git version 2.30.2\n")
		if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		_, err := project.Open(t.Context(), dir)
		is(t, err, project.ErrNoGit)
	})
}

func TestPlanRefuses(t *testing.T) {
	testenv.Logic(t)
	t.Run("Unmerged", func(t *testing.T) {
		dir := newRepo(t)
		git(t, dir, "checkout", "-q", "-b", "side", "HEAD^")
		write(t, dir, "b.txt", "other\n")
		commit(t, dir, "side")
		if out, err := naive(t, dir, "merge", "main"); err == nil {
			t.Fatal(out)
		}
		_, err := open(t, dir).PlanImport(t.Context(), project.ImportOptions{})
		is(t, err, project.ErrConflict)
	})
	t.Run("Partial", func(t *testing.T) {
		dir := newRepo(t)
		git(t, dir, "config", "uploadpack.allowFilter", "true")
		clone := filepath.Join(t.TempDir(), "partial")
		git(t, "/", "clone", "-q", "--filter=blob:none", "file://"+dir, clone)
		_, err := open(t, clone).PlanImport(t.Context(), project.ImportOptions{})
		is(t, err, atoll.ErrUnsupported)
	})
}

func TestCarryInWhereGitIsMissing(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	d := &namespace.Driver{Dir: t.TempDir()}
	t.Cleanup(func() { _ = d.Close() })
	sb, err := d.Create(t.Context(), atoll.Spec{Env: []string{"PATH=/nowhere"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sb.Destroy(context.WithoutCancel(t.Context())) }()
	_, err = open(t, dir).Import(t.Context(), sb, project.ImportOptions{})
	is(t, err, project.ErrNoGit)
}

// An image may have git and no shell: what comes later needs one.
func TestCarryInWhereTheShellIsMissing(t *testing.T) {
	testenv.Logic(t)
	bin := t.TempDir()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(bin, "git")); err != nil {
		t.Fatal(err)
	}
	d := &namespace.Driver{Dir: t.TempDir()}
	t.Cleanup(func() { _ = d.Close() })
	sb, err := d.Create(t.Context(), atoll.Spec{Env: []string{"PATH=/only"}, Mounts: []atoll.Mount{{Source: bin, Target: "/only", ReadOnly: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sb.Destroy(context.WithoutCancel(t.Context())) }()
	_, err = open(t, newRepo(t)).Import(t.Context(), sb, project.ImportOptions{})
	is(t, err, project.ErrNoShell)
	if entries, err := atoll.ReadDir(t.Context(), sb, project.Workspace); err != nil || len(entries) > 0 {
		t.Errorf("it was begun all the same: %v, %v", entries, err)
	}
}

func TestCarryInOverFilesIsRefused(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	sb := newSandbox(t)
	sh(t, sb, "mkdir lost+found; echo mine >mine")
	_, err := open(t, dir).Import(t.Context(), sb, project.ImportOptions{})
	is(t, err, atoll.ErrExists)
	same(t, "file", sh(t, sb, "ls -A; cat mine"), "lost+found\nmine\nmine")
	sh(t, sb, "rm mine")
	carry(t, open(t, dir), sb, project.ImportOptions{})
}

// cut is a sandbox whose Execs fail from one on.
type cut struct {
	atoll.Sandbox
	left int
}

func (c *cut) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if c.left--; c.left < 0 {
		return atoll.Exit{}, io.ErrUnexpectedEOF
	}
	return c.Sandbox.Exec(ctx, cmd)
}

func (c *cut) Unwrap() atoll.Sandbox { return c.Sandbox }

// TestCarryInBeginsAnew loses the wire after each of the calls, and carries in
// again.
func TestCarryInBeginsAnew(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	write(t, dir, "a.txt", "staged\n")
	git(t, dir, "add", "a.txt")
	write(t, dir, "new.txt", "untracked\n")
	before := hostState(t, dir)
	sb := newSandbox(t)
	for n := 0; ; n++ {
		_, err := open(t, dir).Import(t.Context(), &cut{sb, n}, project.ImportOptions{})
		if err == nil {
			break
		}
		is(t, err, io.ErrUnexpectedEOF)
		if n > 100 {
			t.Fatal("it never ends")
		}
	}
	same(t, "inside", sh(t, sb, "export LC_ALL=C; "+state), before)
	// Who was killed before he knew finds that it is there, and leaves it alone.
	sh(t, sb, "echo mine >mine.txt")
	if _, err := open(t, dir).Import(t.Context(), sb, project.ImportOptions{}); err != nil {
		t.Error(err)
	}
	same(t, "what is inside", sh(t, sb, "cat mine.txt a.txt"), "mine\nstaged")
	refused := func(what string) {
		t.Helper()
		_, err := open(t, dir).Import(t.Context(), sb, project.ImportOptions{})
		if err == nil {
			t.Error(what)
		}
		is(t, err, atoll.ErrExists)
	}
	write(t, dir, "b.txt", "more\n")
	refused("another plan")
	git(t, dir, "clean", "-q", "-f", "b.txt")
	for _, mark := range []string{"git config atoll.underway false", "git config --unset atoll.underway", "echo '[' >.git/config"} {
		sh(t, sb, mark)
		refused(mark)
	}
}

// TestIdentity: commits inside have the user's name and e-mail address, whatever characters these have, in other repositories
// too; what the sandbox's user has set stays.
func TestIdentity(t *testing.T) {
	dir := newRepo(t)
	const name, email = "Ada \"the\\first\" #1; = O'Hara\tÄ", "ada+x@example.com"
	run(t, dir, "git", "config", "user.name", name)
	run(t, dir, "git", "config", "user.email", email)
	sb := newSandbox(t)
	sh(t, sb, "git config --global user.email set@example.com")
	carry(t, open(t, dir), sb, project.ImportOptions{})
	same(t, "in the project", sh(t, sb, "git commit -q --allow-empty -m x; git log -1 --format='%an|%ae'"), name+"|"+email)
	same(t, "elsewhere", sh(t, sb, "git init -q /tmp/other; cd /tmp/other; git commit -q --allow-empty -m x; git log -1 --format='%an|%ae'"), name+"|set@example.com")
}
