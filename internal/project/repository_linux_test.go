package project_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestGitDirElsewhere has projects whose git directory is not in their working tree: sync, merge and status work as in others.
func TestGitDirElsewhere(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, base string) string{
		"Separate": func(t *testing.T, base string) string {
			dir := filepath.Join(base, "web")
			run(t, base, "git", "init", "-q", "--separate-git-dir", filepath.Join(base, "git data"), dir)
			return dir
		},
		"Submodule": func(t *testing.T, base string) string {
			run(t, base, "sh", "-ec", "git init -q lib; cd lib; git commit -q --allow-empty -m lib; cd ..; git init -q super; cd super; git submodule --quiet add ../lib lib; git commit -qm super")
			return filepath.Join(base, "super/lib")
		},
		"WorktreeOfSubmodule": func(t *testing.T, base string) string {
			run(t, base, "sh", "-ec", "git init -q lib; cd lib; git commit -q --allow-empty -m lib; cd ..; git init -q super; cd super; git submodule --quiet add ../lib lib; git commit -qm super; cd lib; git worktree add -q ../../tree -b tree")
			return filepath.Join(base, "tree")
		},
	} {
		t.Run(name, func(t *testing.T) {
			env(t)
			dir := prepare(t, t.TempDir())
			run(t, dir, "sh", "-ec", "echo a >a.txt; git add a.txt; git commit -qm first")
			sb := newSandbox(t)
			r := open(t, dir)
			importRecorded(t, r, sb)
			sh(t, sb, "echo inside >inside.txt; git add -A; git commit -qm inside")
			if _, err := r.Sync(t.Context(), sb, box); err != nil {
				t.Fatal(err)
			}
			same(t, "synced", read(t, dir, "inside.txt"), "inside\n")
			sh(t, sb, "echo more >more.txt; git add -A; git commit -qm more")
			run(t, dir, "sh", "-ec", "echo home >home.txt; git add -A; git commit -qm home; echo dirty >>a.txt")
			_, err := r.Sync(t.Context(), sb, box)
			is(t, err, project.ErrDiverged)
			branch := git(t, dir, "branch", "--show-current")
			if _, err := r.Merge(t.Context(), project.MergeOptions{Name: "box", Branch: branch}); err != nil {
				t.Fatal(err)
			}
			same(t, "merged", read(t, dir, "more.txt"), "more\n")
			for _, b := range readLedger(t, r, sb).Branches {
				if b.Name == branch && (b.HostTree != dir || !b.HostDirty || !b.Home) {
					t.Errorf("%+v; want the working tree %s, dirty and home", b, dir)
				}
			}
			if _, err := r.Update(t.Context(), sb, project.UpdateOptions{Name: "box"}); err != nil {
				t.Fatal(err)
			}
			same(t, "updated", sh(t, sb, "cat home.txt"), "home")
			run(t, dir, "git", "checkout", "-q", "a.txt")
			run(t, dir, "git", "worktree", "add", "-q", filepath.Join(t.TempDir(), "other"), "-b", "other")
			sh(t, sb, "git switch -q -c other; git commit -q --allow-empty -m other")
			if _, err := r.Sync(t.Context(), sb, box); err == nil || !strings.Contains(err.Error(), "is checked out in the working tree") {
				t.Errorf("a sync of a branch that another working tree is on: %v", err)
			}
		})
	}
}

// TestGlobalConfig: the user's settings are where GIT_CONFIG_GLOBAL says.
func TestGlobalConfig(t *testing.T) {
	dir := newRepo(t)
	write(t, dir, "../settings", "[user]\n\tname = Grace\n\temail = grace@example.com\n")
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(dir, "../settings"))
	sb := newSandbox(t)
	carry(t, open(t, dir), sb, project.ImportOptions{})
	same(t, "author", sh(t, sb, "git commit -q --allow-empty -m x; git log -1 --format='%an %ae'"), "Grace grace@example.com")
}

// TestIdentityOfOtherRepositories: a repository that is created inside has the user's name, too, unless the sandbox has one.
func TestIdentityOfOtherRepositories(t *testing.T) {
	dir := newRepo(t)
	sb := newSandbox(t)
	sh(t, sb, "git config --global user.email there@example.com")
	carry(t, open(t, dir), sb, project.ImportOptions{})
	same(t, "author", sh(t, sb, "git init -q nested; cd nested; git commit -q --allow-empty -m x; git log -1 --format='%an %ae'"), "Ada there@example.com")
}

// TestLFS takes a repository with git-lfs through a sandbox: the files are there, new ones come home as LFS objects, and the
// host's git-lfs takes them for its own.
func TestLFS(t *testing.T) {
	if _, err := exec.LookPath("git-lfs"); err != nil {
		testenv.Skip(t, "git-lfs", "no git-lfs: %v", err)
	}
	dir := newRepo(t)
	run(t, dir, "sh", "-ec", "git lfs install --skip-repo >/dev/null; git lfs track '*.bin' >/dev/null; printf 'one\\0' >one.bin; echo plain >plain.txt; git add -A; git commit -qm lfs; printf 'two\\0' >two.bin")
	sb := newSandbox(t)
	r := open(t, dir)
	importRecorded(t, r, sb)
	same(t, "files inside", sh(t, sb, "cat one.bin two.bin plain.txt | tr '\\0' .; git status --porcelain"), "one.two.plain\n?? two.bin")

	sh(t, sb, "printf 'ONE\\0' >one.bin; printf 'new\\0' >new.bin; printf 'agent\\0' >agent.bin; git add -A; git commit -qm inside; git switch -q -c wip; printf 'wip\\0' >wip.bin")
	same(t, "blob inside", sh(t, sb, "git cat-file -p HEAD:one.bin | head -n 1"), "version https://git-lfs.github.com/spec/v1")
	run(t, dir, "rm", "two.bin")
	sh(t, sb, "git stash -q -u; git switch -q main; git stash pop -q")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"one.bin": "ONE\x00", "new.bin": "new\x00", "agent.bin": "agent\x00", "two.bin": "two\x00"} {
		same(t, name, read(t, dir, name), want)
	}
	same(t, "status", run(t, dir, "git", "status", "--porcelain"), "")
	same(t, "git-lfs", run(t, dir, "git", "lfs", "fsck"), "Git LFS fsck OK")
	same(t, "files of git-lfs", run(t, dir, "git", "lfs", "ls-files", "-n"), "agent.bin\nnew.bin\none.bin\ntwo.bin")
	same(t, "uncommitted work", run(t, dir, "sh", "-c", "git cat-file -p refs/sandbox/box/wip/main:wip.bin | git lfs smudge | tr '\\0' ."), "wip.")

	// Again, with a file that the first sync wrote, and the other way.
	sh(t, sb, "printf 'three\\0' >one.bin; git add one.bin; git commit -qm third")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "one.bin", read(t, dir, "one.bin"), "three\x00")
	run(t, dir, "sh", "-ec", "printf 'home\\0' >home.bin; git add -A; git commit -qm home")
	if _, err := r.Update(t.Context(), sb, project.UpdateOptions{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	same(t, "updated", sh(t, sb, "tr '\\0' . <home.bin; git status --porcelain"), "home.?? wip.bin")

	// A merge.
	sh(t, sb, "printf 'side\\0' >side.bin; git add side.bin; git commit -qm side")
	run(t, dir, "sh", "-ec", "echo more >>plain.txt; git commit -qam more")
	if _, err := r.Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Merge(t.Context(), project.MergeOptions{Name: "box", Branch: "main"}); err != nil {
		t.Fatal(err)
	}
	same(t, "side.bin", read(t, dir, "side.bin"), "side\x00")
	same(t, "status", run(t, dir, "git", "status", "--porcelain"), "")
}

// TestFalseLFSObject: an object of the sandbox that is not what its name says does not enter the host's store; one that the
// sandbox does not have is no error, and the file is the pointer.
func TestFalseLFSObject(t *testing.T) {
	if _, err := exec.LookPath("git-lfs"); err != nil {
		testenv.Skip(t, "git-lfs", "no git-lfs: %v", err)
	}
	dir := newRepo(t)
	run(t, dir, "sh", "-ec", "git lfs install --skip-repo >/dev/null; git lfs track '*.bin' >/dev/null; printf 'one\\0' >one.bin; git add -A; git commit -qm lfs")
	sb := newSandbox(t)
	r := open(t, dir)
	importRecorded(t, r, sb)
	// An old file: git would filter a file that is as new as its index again, which would write the right object.
	sh(t, sb, "printf 'new\\0' >new.bin; touch -d @1000000000 new.bin; git add -A; git commit -qm inside; f=.git/lfs/objects/$(git cat-file -p :new.bin | sed -n 's/oid sha256:\\(..\\)\\(..\\)\\(.*\\)/\\1\\/\\2\\/\\1\\2\\3/p'); printf 'bad\\0' >$f; echo $f >.git/where")
	head := git(t, dir, "rev-parse", "main")
	_, err := r.Sync(t.Context(), sb, box)
	is(t, err, project.ErrUnsafe)
	same(t, "main", git(t, dir, "rev-parse", "main"), head)
	where := sh(t, sb, "cat .git/where; rm $(cat .git/where)")
	if _, err := os.Stat(filepath.Join(dir, where)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want none", where, err)
	}
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	if text := read(t, dir, "new.bin"); !strings.HasPrefix(text, "version https://git-lfs") {
		t.Errorf("new.bin is %q, want a pointer", text)
	}
	same(t, "status", run(t, dir, "git", "status", "--porcelain"), "")
}

// TestRestoreTwice restores the same save twice, and one whose branches were changed since.
func TestRestoreTwice(t *testing.T) {
	dir, r, sb := there(t)
	sh(t, sb, commitThird+"echo dirty >>a.txt")
	saved, err := r.Rescue(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		list, err := r.Restore(t.Context(), "box", saved.Time, "rescued/")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "branches", strings.Join(list, " "), "rescued/main rescued/wip/main")
	}
	git(t, dir, "branch", "-f", "rescued/main", "main")
	_, err = r.Restore(t.Context(), "box", saved.Time, "rescued/")
	is(t, err, atoll.ErrExists)
}

// TestTreesOnOneBranch has several working trees on one branch: a rescue saves the uncommitted work of each, and the ledger
// names the main one.
func TestTreesOnOneBranch(t *testing.T) {
	_, r, sb := there(t)
	sh(t, sb, "for i in 1 2 3; do git worktree add -q -f /tmp/tree-$i main; echo work-$i >/tmp/tree-$i/w.txt; done")
	saved, err := r.Rescue(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ref := range saved.Refs {
		got = append(got, git(t, r.Dir, "show", ref+":w.txt"))
	}
	slices.Sort(got)
	same(t, "saved", strings.Join(got, " "), "work-1 work-2 work-3")
	for _, b := range readLedger(t, r, sb).Branches {
		if b.Name == "main" && (b.SandboxTree != project.Workspace || !b.SandboxDirty) {
			t.Errorf("%+v", b)
		}
	}
}
