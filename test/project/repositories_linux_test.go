package project

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// repositoriesVar names a directory of repositories, with working trees or bare, for TestRepositories.
const repositoriesVar = "ATOLL_PROJECT_REPOSITORIES"

// TestRepositories takes repositories of many kinds through the whole flow: up, sync, update, a merge, down and restore.
// They are generated, or those in the directory that ATOLL_PROJECT_REPOSITORIES names, such as clones of public ones.
func TestRepositories(t *testing.T) {
	if dir := os.Getenv(repositoriesVar); dir != "" {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				t.Run(e.Name(), func(t *testing.T) { testRepository(t, filepath.Join(dir, e.Name()), "") })
			}
		}
		return
	}
	names := make([]string, 0, len(repositories))
	for name := range repositories {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range testenv.Sample(t, names, 3, "ATOLL_REPOSITORIES") {
		t.Run(name, func(t *testing.T) { testRepository(t, "", repositories[name]) })
	}
}

// repositories are shell texts that create the repository "repo". The files of 'seed N' are in directories of 100.
var repositories = map[string]string{
	"Submodules":     `for m in inner lib tool; do git init -q $m; (cd $m; seed 20); done; (cd lib; git submodule --quiet add ../inner deep/inner; git commit -qm inner); git init -q repo; cd repo; seed 50; git submodule --quiet add ../lib lib; git submodule --quiet add ../tool "tools/a tool"; git submodule --quiet update --init --recursive; git commit -qm modules`,
	"LFSPointers":    `git init -q repo; cd repo; seed 50; printf '*.bin filter=lfs diff=lfs merge=lfs -text\n' >.gitattributes; for i in 1 2 3; do printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12345\n' $i >f$i.bin; done; git add -A; git commit -qm lfs`,
	"Monorepo":       `git init -q repo; cd repo; for p in api web lib docs infra; do (mkdir -p services/$p/src; cd services/$p/src; seed 1000); done; for i in 1 2 3 4 5 6 7 8 9 10; do echo $i >>services/api/src/log; git add -A; git commit -qm "commit $i"; git tag v$i; done`,
	"OddNames":       `git init -q repo; cd repo; seed 5; nl=$(printf 'a\nb'); tab=$(printf 'a\tb'); for n in "$nl" "$tab" ' lead' 'trail ' -dash 'q"uote' "apos'" 'back\slash' '*' '?' '[x]' ':(top)x' 'grüße' "$(printf 'gru\314\210n')" '日本' "$(printf %0200d 7)" '#hash' '!bang' 'a$b' '%s'; do echo "$n" >"./$n"; mkdir -p "./dir $n"; echo x >"./dir $n/$n"; done; git add -A; git commit -qm odd`,
	"FiftyThousand":  `git init -q repo; cd repo; seed 50000`,
	"Shallow":        `git init -q origin; (cd origin; seed 20; for i in 1 2 3 4 5 6; do echo $i >f; git add f; git commit -qm $i; done); git clone -q --depth 2 "file://$PWD/origin" repo`,
	"Sparse":         `git init -q repo; cd repo; seed 1000; git sparse-checkout set --cone d1 d2`,
	"SeparateGitDir": `git init -q --separate-git-dir "$PWD/git data" repo; cd repo; seed 50`,
	"LinkedWorktree": `git init -q first; cd first; seed 50; git worktree add -q ../repo -b linked`,
	"SHA256":         `git init -q --object-format=sha256 repo; cd repo; seed 50`,
	"LinksAndModes":  `git init -q repo; cd repo; seed 20; ln -s d0/f1 link; ln -s /etc/passwd out; ln -s nowhere broken; ln -s . self; printf '#!/bin/sh\n' >run; chmod 755 run; printf 'a\r\nb\r\n' >crlf; printf '*.txt text eol=crlf\n' >.gitattributes; printf 'x\n' >t.txt; head -c 3000000 /dev/zero >zeros; git add -A; git commit -qm modes`,
	"ManyBranches":   `git init -q repo; cd repo; seed 20; h=$(git rev-parse HEAD); for i in $(seq 400); do echo "create refs/heads/topic/$i $h"; echo "create refs/tags/t$i $h"; done | git update-ref --stdin; git switch -q -c old/style; git merge -q --no-ff -m merged topic/1; echo 1 >m; git add m; git commit -qm m; git stash list; git pack-refs --all`,
}

// seedFunction defines seed N: it commits N files below the current directory.
const seedFunction = `seed() { ref=$(git symbolic-ref HEAD)-seed; awk -v n=$1 -v ref=$ref 'BEGIN {
	printf "commit %s\ncommitter Ada <ada@example.com> 1700000000 +0000\ndata 5\nseed\n\n", ref
	for (i = 0; i < n; i++) { text = "file " i "\n"; printf "M 100644 inline d%d/f%d\ndata %d\n%s\n", int(i / 100), i, length(text), text }
}' | git fast-import --quiet; p=$(git rev-parse --show-prefix); git read-tree ${p:+"--prefix=$p"} $ref; git checkout-index -q -f -a; git update-ref -d $ref; git commit -qm "seed $1"; }
`

// testRepository takes one repository through the flow. It is a copy of from, or made by a shell text.
func testRepository(t *testing.T, from, text string) {
	w := newNamespaceFixture(t)
	switch {
	case text != "":
		if r := w.runProgram("", "sh", "-ec", seedFunction+text); r.code != 0 {
			t.Fatalf("%s: %d\n%s%s", text, r.code, r.stdout, r.stderr)
		}
	default:
		if _, err := os.Stat(filepath.Join(from, ".git")); err == nil {
			w.runProgram("", "cp", "-a", from, w.joinPath("repo"))
		} else {
			w.runGit("", "clone", "-q", "--shared", from, w.joinPath("repo"))
		}
	}
	const repo, name = "repo", "flow"
	status := w.runGit(repo, "status", "--porcelain", "-z")
	w.upSandbox(repo, name)
	inside := func(text string) string { return w.runInSandbox(name, "/workspace", text) }
	head := func() string { return w.runGit(repo, "rev-parse", "HEAD") }
	checkEqual(t, "HEAD inside", inside("git rev-parse HEAD"), head())
	checkEqual(t, "status inside", inside("git status --porcelain -z"), status)
	checkEqual(t, "files inside", inside("git ls-files -s | sha256sum"), strings.TrimSpace(w.runProgram(repo, "sh", "-c", "git ls-files -s | sha256sum").stdout))

	inside("git switch -q -c agent/side; echo side >flow-side.txt; git add flow-side.txt; git commit -qm side; git switch -q -; echo inside >flow-inside.txt; git add flow-inside.txt; git commit -qm inside")
	w.runAtoll(0, repo, "sync")
	checkEqual(t, "HEAD after sync", head(), inside("git rev-parse HEAD"))
	checkEqual(t, "status after sync", w.runGit(repo, "status", "--porcelain", "-z"), status)
	checkEqual(t, "a fetched branch", w.runGit(repo, "show", "refs/sandbox/"+name+"/agent/side:flow-side.txt"), "side")

	w.runProgram(repo, "sh", "-ec", "echo home >flow-home.txt; git add --sparse flow-home.txt; git commit -qm home")
	w.runAtoll(0, repo, "update")
	checkEqual(t, "HEAD inside after update", inside("git rev-parse HEAD"), head())

	w.runProgram(repo, "sh", "-ec", "echo more >>flow-home.txt; git add --sparse flow-home.txt; git commit -qm more")
	inside("echo more >>flow-inside.txt; git commit -qam more; git rev-parse HEAD")
	if r := w.runAtoll(3, repo, "sync"); !strings.Contains(r.stderr, "atoll merge "+name) {
		t.Errorf("a sync of diverged branches: %s", r.stderr)
	}
	w.runAtoll(0, repo, "merge", "--yes")
	w.runAtoll(0, repo, "merge", "--yes", name, "agent/side")
	w.runAtoll(0, repo, "update")
	checkEqual(t, "HEAD inside after a merge", inside("git rev-parse HEAD"), head())
	w.checkHome(repo)

	inside("echo unsaved >flow-unsaved.txt; echo more >>flow-inside.txt")
	w.runAtoll(0, repo, "down")
	w.runAtoll(0, repo, "restore", name, "last")
	branches := strings.Fields(w.runGit(repo, "for-each-ref", "--format=%(refname)", "refs/heads/rescued/wip"))
	if len(branches) != 1 || w.runGit(repo, "show", branches[0]+":flow-unsaved.txt") != "unsaved" {
		t.Errorf("restored: %q", branches)
	}
	w.runAtoll(0, repo, "down", "--rm", "--force")
	checkEqual(t, "status at the end", w.runGit(repo, "status", "--porcelain", "-z"), status)
	w.runGit(repo, "fsck", "--connectivity-only", "--no-progress")
}

// checkHome checks that status, as JSON, takes all work for home.
func (w *fixture) checkHome(repo string) {
	w.t.Helper()
	var one struct {
		Ledger struct {
			Commits int  `json:"commits"`
			Work    bool `json:"uncommitted"`
		} `json:"ledger"`
	}
	out := w.runAtoll(0, repo, "status", "--json").stdout
	if err := json.Unmarshal([]byte(out), &one); err != nil {
		w.t.Fatalf("status: %v\n%s", err, out)
	}
	if one.Ledger.Commits != 0 || one.Ledger.Work {
		w.t.Errorf("status: %s; want all of it home", out)
	}
}
