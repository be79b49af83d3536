package project

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// These tests run the same workflow with every driver.

func TestOnNamespaces(t *testing.T) { testWorkflow(t, newNamespaceFixture(t)) }

func TestOnDocker(t *testing.T) {
	if testing.Short() {
		t.Skip("an engine of its own: left out by -short")
	}
	testWorkflow(t, newDockerFixture(t))
}

// TestOnMicroVMs runs only with ATOLL_PROJECT_MACHINES=1, because it takes minutes
// where VMs are emulated.
func TestOnMicroVMs(t *testing.T) {
	if os.Getenv("ATOLL_PROJECT_MACHINES") == "" {
		t.Skip("machines: ATOLL_PROJECT_MACHINES=1 is by hand")
	}
	testWorkflow(t, newMicroVMFixture(t))
}

// TestOnKubernetes runs only with ATOLL_PROJECT_CLUSTER=1 and $ATOLL_CLUSTER: scripts/test
// selects it where a cluster runs.
func TestOnKubernetes(t *testing.T) {
	w := newKubernetesFixture(t)
	testWorkflow(t, w)
	w.testAccess()
}

// newKubernetesFixture returns a fixture whose sandboxes are pods of a new cluster.
func newKubernetesFixture(t testing.TB) *fixture {
	t.Helper()
	if os.Getenv(clusterVar) == "" {
		t.Skip("Kubernetes: not selected by " + clusterVar + "=1")
	}
	kubeconfig := clustertest.Kubeconfig(t)
	files := []string{"image", "--busybox", gitImage}
	for _, p := range listGitFiles(t) {
		files = append(files, "/"+p.name+"="+p.file)
	}
	clustertest.Tool(t, files...)
	w := newFixture(t, "kubernetes")
	w.env = append(w.env, "ATOLL_KUBERNETES_KUBECONFIG="+kubeconfig, "ATOLL_KUBERNETES_NAMESPACE=projects")
	clustertest.RemoveNamespace(t, "projects")
	w.up = append(w.up, "--image", gitImage)
	return w
}

// newDockerFixture returns a fixture with the tests' Docker engine and an image.
func newDockerFixture(t testing.TB) *fixture {
	t.Helper()
	host := enginetest.Host(t)
	w := newFixture(t, "docker")
	w.env = append(w.env, "ATOLL_DOCKER_HOST="+host)
	w.importImage("docker")
	return w
}

// newMicroVMFixture returns a fixture whose sandboxes are small VMs.
func newMicroVMFixture(t testing.TB) *fixture {
	t.Helper()
	if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
		testenv.Skip(t, "qemu", `no kernel for machines: eval "$(scripts/machine)"`)
	}
	w := newFixture(t, "microvm")
	for _, name := range []string{"ATOLL_MACHINE_KERNEL", "ATOLL_MACHINE_MODULES"} {
		w.env = append(w.env, name+"="+os.Getenv(name))
	}
	w.importImage("qemu")
	w.up = append(w.up, "--memory", "1024m", "--cpus", "1")
	return w
}

// newNamespaceFixture returns a fixture whose sandboxes use the host's programs.
func newNamespaceFixture(t testing.TB) *fixture {
	t.Helper()
	w := newFixture(t, "namespace")
	r := w.runProgram("/", w.bin, "run", "--", "true")
	if r.code != 0 {
		testenv.Skip(t, "namespace", "no namespaces: %s", r.stderr)
	}
	return w
}

// repositoryState returns the complete state of a repository: files with modes, the
// index, HEAD, its own refs and the stash.
func (w *fixture) repositoryState(dir string) string {
	w.t.Helper()
	var b strings.Builder
	root := w.joinPath(dir)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := ""
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			what, err = os.Readlink(name)
		case d.Type().IsRegular():
			var text []byte
			text, err = os.ReadFile(name)
			what = fmt.Sprintf("%x", sha256.Sum256(text))
		}
		fmt.Fprintf(&b, "%v %q %s\n", info.Mode(), rel, what)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ls-files", "--stage"},
		{"symbolic-ref", "-q", "HEAD"},
		{"stash", "list", "--format=%H"},
		{"for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags", "refs/stash"},
	} {
		r := w.runProgram(dir, append([]string{"git"}, args...)...) // symbolic-ref fails for a detached HEAD
		fmt.Fprintf(&b, "%v\n%s", args, r.stdout)
	}
	return b.String()
}

// checkUnchanged checks that the state of a repository is the same as before.
func (w *fixture) checkUnchanged(what, dir, want string) {
	w.t.Helper()
	if got := w.repositoryState(dir); got != want {
		w.t.Errorf("%s changed the host:\n%s", what, diffLines(want, got))
	}
}

// diffLines returns the lines that are in only one of two texts.
func diffLines(a, b string) string {
	var out strings.Builder
	for _, side := range []struct{ mark, text, other string }{{"- ", a, b}, {"+ ", b, a}} {
		has := map[string]bool{}
		for line := range strings.SplitSeq(side.other, "\n") {
			has[line] = true
		}
		for line := range strings.SplitSeq(side.text, "\n") {
			if !has[line] {
				fmt.Fprintln(&out, side.mark+line)
			}
		}
	}
	return out.String()
}

// checkEqual compares two texts without leading and trailing white space.
func checkEqual(t testing.TB, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// createRepository creates a repository with a few commits.
func (w *fixture) createRepository(dir string, args ...string) {
	w.t.Helper()
	w.runGit("/", append(append([]string{"init", "-q"}, args...), w.joinPath(dir))...)
	w.writeFile(dir+"/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
	w.writeFile(dir+"/b.txt", "b\n")
	w.writeFile(dir+"/.gitignore", "*.log\n.env*\nbuild/\n")
	w.commitAll(dir, "first")
	w.writeFile(dir+"/src/main.c", "int main(void) { return 0; }\n")
	w.writeFile(dir+"/run.sh", "#!/bin/sh\necho run\n")
	w.must(os.Chmod(w.joinPath(dir+"/run.sh"), 0o755))
	w.must(os.Symlink("a.txt", w.joinPath(dir+"/link")))
	w.commitAll(dir, "second")
}

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// makeUncommittedWork creates uncommitted work of every kind.
func (w *fixture) makeUncommittedWork(dir string) {
	w.t.Helper()
	w.writeFile(dir+"/parked.txt", "for later\n")
	w.runGit(dir, "stash", "push", "-q", "-u", "-m", "later")
	w.writeFile(dir+"/b.txt", "b\nstaged\n")
	w.writeFile(dir+"/new-staged.txt", "staged and new\n")
	w.runGit(dir, "add", "b.txt", "new-staged.txt")
	w.writeFile(dir+"/b.txt", "b\nstaged\nand more\n")
	w.writeFile(dir+"/src/main.c", "int main(void) { return 1; }\n")
	w.writeFile(dir+"/untracked/deep.txt", "nobody knows me\n")
	w.must(os.Symlink("nowhere", w.joinPath(dir+"/dangling")))
	w.must(os.Chmod(w.joinPath(dir+"/src/main.c"), 0o755))
	w.must(os.Remove(w.joinPath(dir + "/link")))
	w.writeFile(dir+"/.env", "SECRET=of-mine\n")
}

// checkImported checks that a sandbox has the host's working tree: committed, staged,
// changed and untracked files.
func (w *fixture) checkImported(dir, name string) {
	w.t.Helper()
	for _, args := range []string{
		"status --porcelain --untracked-files=all --ignore-submodules=all", "diff --ignore-submodules=all", "diff --cached --ignore-submodules=all",
		"rev-parse HEAD", "symbolic-ref HEAD", "rev-parse HEAD^{tree}",
	} {
		want := w.runGit(dir, strings.Fields(args)...)
		checkEqual(w.t, "inside, git "+args, w.runInSandbox(name, "/workspace", "git "+args), want)
	}
	checkEqual(w.t, "what nobody tracks", w.runInSandbox(name, "/workspace", "cat untracked/deep.txt; readlink dangling"), "nobody knows me\nnowhere")
	checkEqual(w.t, "env files are not asked for", w.runInSandbox(name, "/workspace", "ls -A | grep env || true"), "")
	checkEqual(w.t, "remotes inside", w.runInSandbox(name, "/workspace", "git remote"), "")
	checkEqual(w.t, "who commits inside", w.runInSandbox(name, "/workspace", "git config user.name; git config user.email"), "Ada\nada@example.com")
}

// testWorkflow runs the whole workflow of a project: a repository with uncommitted
// work, a submodule and a linked working tree; an agent that works on two branches;
// syncing its work to the host.
func testWorkflow(t testing.TB, w *fixture) {
	w.createRepository("lib")
	w.createRepository("Shop Front")
	w.runGit("Shop Front", "submodule", "--quiet", "add", w.joinPath("lib"), "lib")
	w.commitAll("Shop Front", "with a library")
	w.runGit("Shop Front", "worktree", "add", "-q", "-b", "linked", w.joinPath("linked"))
	w.makeUncommittedWork("Shop Front")
	before := w.repositoryState("Shop Front")

	w.upSandbox("Shop Front", "shop")
	w.checkUnchanged("up", "Shop Front", before)
	w.checkImported("Shop Front", "shop")
	checkEqual(t, "the submodule", w.runInSandbox("shop", "/workspace/lib", "cat b.txt; git rev-parse HEAD"), "b\n"+w.runGit("Shop Front/lib", "rev-parse", "HEAD"))
	checkEqual(t, "the port", w.runInSandbox("shop", "/workspace", "echo $ATOLL_PORT"), "3000")
	w.runAtoll(3, "Shop Front", append([]string{"up", "--no-attach"}, w.up...)...) // it is running already
	if r := w.runAtoll(0, "Shop Front/src", "status"); !strings.Contains(r.stdout, "shop") {
		t.Errorf("status: %s", r.stdout)
	}
	if t.Failed() {
		return
	}
	w.testAgentWork("Shop Front", "shop")
	w.testRefusedSyncs("Shop Front", "shop")
	w.checkUnchanged("what was refused", "Shop Front", before)
	w.testMerges("Shop Front", "shop")
	w.testFastForwards("Shop Front", "shop")
	w.testRemove("Shop Front", "shop")
	w.testLinkedWorktree("linked", "linked")
	w.testAutoModes()
}

// testAgentWork runs a script that works in two working trees, by exec and on a
// terminal.
func (w *fixture) testAgentWork(dir, name string) {
	w.t.Helper()
	w.runAtoll(0, dir, "worktree", "add", "feature/login", "--create")
	w.runAtoll(0, dir, "worktree", "add", "fix", "--create")
	w.runInSandbox(name, "/workspace/.worktrees/feature/login", `
		echo 'void login(void);' >login.h; printf 'one\n' >one; git add -A; git commit -qm "login"
		mkdir deep; echo more >deep/more.txt; git add -A; git commit -qm "more of it"
		echo half >half-done.txt`)
	list := w.runAtoll(0, dir, "worktree", "list").stdout
	for _, want := range []string{"feature/login", "fix", name + "-feature-login", name + "-fix", "3010", "3020"} {
		if !strings.Contains(list, want) {
			w.t.Errorf("worktree list has no %s:\n%s", want, list)
		}
	}
	// An agent's terminal starts in the working tree and has its port.
	w.runAtoll(0, "/", "terminal", "send", name, name+"-fix", "--", "sed -i s/three/drei/ a.txt && git commit -qam \"fix on port $ATOLL_PORT\" && touch .git-done\n")
	w.waitFor("the agent on the terminal is done", func() bool {
		return w.runProgram("/", w.bin, "exec", name, "--", "test", "-e", "/workspace/.worktrees/fix/.git-done").code == 0
	})
	checkEqual(w.t, "what the agent on the terminal did", w.runInSandbox(name, "/workspace/.worktrees/fix", "rm .git-done; git log -1 --format=%s; git status --porcelain"), "fix on port 3020")
	w.runAtoll(3, dir, "worktree", "remove", "feature/login") // refused, because half-done.txt exists nowhere else
}

// testRefusedSyncs runs syncs that are refused because of the host's files.
func (w *fixture) testRefusedSyncs(dir, name string) {
	w.t.Helper()
	before := w.runGit(dir, "for-each-ref")
	w.runAtoll(3, dir, "sync", "--branch", "feature/login", "--dry-run") // prints what a sync would do
	checkEqual(w.t, "refs after a dry run", w.runGit(dir, "for-each-ref"), before)
	w.runAtoll(3, dir, "sync", "--branch", "feature/login") // another branch, and the host has uncommitted work
	inside := w.runInSandbox(name, "/workspace", "git rev-parse feature/login fix")
	checkEqual(w.t, "what was fetched all the same", w.runGit(dir, "rev-parse", "refs/sandbox/"+name+"/feature/login", "refs/sandbox/"+name+"/fix"), inside)
	checkEqual(w.t, "what was not committed", w.runGit(dir, "show", "refs/sandbox/"+name+"/wip/feature/login:half-done.txt"), "half")
}

// testMerges merges one branch next to uncommitted work, and another one with a
// conflict.
func (w *fixture) testMerges(dir, name string) {
	w.t.Helper()
	work := w.runGit(dir, "diff") + w.runGit(dir, "diff", "--cached") + w.runGit(dir, "stash", "list", "--format=%H")
	w.runAtoll(1, dir, "diff", name, "feature/login", "--exit-code") // there are changes
	w.runAtoll(0, dir, "merge", name, "feature/login", "--yes")
	checkEqual(w.t, "what was merged", w.readFile(dir+"/login.h")+w.readFile(dir+"/deep/more.txt"), "void login(void);\nmore")
	checkEqual(w.t, "uncommitted work after a merge", w.runGit(dir, "diff")+w.runGit(dir, "diff", "--cached")+w.runGit(dir, "stash", "list", "--format=%H"), work)
	if _, err := os.Lstat(w.joinPath(dir + "/half-done.txt")); err == nil {
		w.t.Error("uncommitted work of the sandbox came with a branch")
	}

	w.runGit(dir, "stash", "push", "-q", "-u", "-m", "all of it")
	w.writeFile(dir+"/a.txt", "one\ntwo\ntrois\nfour\nfive\nsix\nseven\n")
	w.runGit(dir, "commit", "-qam", "another three")
	w.runGit(dir, "stash", "pop", "-q", "--index")
	before := w.repositoryState(dir)
	r := w.runAtoll(3, dir, "merge", name, "fix", "--yes")
	if !strings.Contains(r.stdout+r.stderr, "a.txt") {
		w.t.Errorf("a conflict without the file's name: %s%s", r.stdout, r.stderr)
	}
	w.checkUnchanged("a merge with a conflict", dir, before)
}

// testFastForwards runs syncs that fast-forward the host's branch.
func (w *fixture) testFastForwards(dir, name string) {
	w.t.Helper()
	w.runInSandbox(name, "/workspace", "echo agent >agent.txt; git add agent.txt; git commit -qm 'on main' --only agent.txt")
	w.runAtoll(3, dir, "sync") // both sides have commits of their own
	w.commitAll(dir, "all that was not committed")
	main := w.runGit(dir, "rev-parse", "main")
	w.runAtoll(0, dir, "sync", "--branch", "fix") // the host is clean: its working tree changes to the branch
	checkEqual(w.t, "the host's branch", w.runGit(dir, "symbolic-ref", "HEAD"), "refs/heads/fix")
	checkEqual(w.t, "the host's commit", w.runGit(dir, "rev-parse", "HEAD"), w.runInSandbox(name, "/workspace", "git rev-parse fix"))
	checkEqual(w.t, "the host's files", w.runGit(dir, "status", "--porcelain"), "")
	checkEqual(w.t, "main meanwhile", w.runGit(dir, "rev-parse", "main"), main)
	w.runAtoll(0, dir, "sync", "--branch", "fix") // nothing new
	w.runGit(dir, "checkout", "-q", "main")
}

// testRemove removes a sandbox and checks that the host has everything that was only in
// it.
func (w *fixture) testRemove(dir, name string) {
	w.t.Helper()
	w.runInSandbox(name, "/workspace", "git stash -q; echo of-main >only-here.txt; git stash -q -u; echo loose >loose.txt")
	w.runAtoll(0, dir, "down", "--rm", "--force")
	rescued := w.runGit(dir, "for-each-ref", "--format=%(refname)", "refs/sandbox/"+name+"/rescue/")
	var found []string
	for ref := range strings.Lines(rescued) {
		ref = strings.TrimSpace(ref)
		for _, commit := range strings.Fields(ref + " " + ref + "^3") { // the third parent of a stash has the untracked files
			r := w.runProgram(dir, "git", "ls-tree", "-r", "--name-only", commit)
			found = append(found, strings.Fields(r.stdout)...)
		}
	}
	for _, want := range []string{"only-here.txt", "loose.txt", "half-done.txt"} {
		if !strings.Contains(" "+strings.Join(found, " ")+" ", " "+want+" ") {
			w.t.Errorf("%s is lost; rescued refs:\n%s", want, rescued)
		}
	}
	if r := w.runAtoll(0, dir, "restore", name); strings.TrimSpace(r.stdout) == "" {
		w.t.Error("restore lists nothing")
	}
	checkEqual(w.t, "sandboxes that are left", w.runAtoll(0, "/", "ls", "--json").stdout, "[]")
}

// testAccess checks access to a project's programs: by a terminal and by the names of
// ports; and that work is saved when the sandbox is removed.
func (w *fixture) testAccess() {
	w.t.Helper()
	w.createRepository("site")
	w.upSandbox("site", "site")
	w.runAtoll(0, "/", "terminal", "send", "site", "site", "--", "echo o''n-a-terminal; mkdir www; echo loose >loose.txt; echo by-its-name >www/index.html; httpd -f -p 127.0.0.1:8080 -h www\n")
	w.waitFor("the terminal shows it", func() bool {
		return strings.Contains(w.runAtoll(0, "/", "terminal", "read", "site", "site").stdout, "on-a-terminal")
	})
	w.waitFor("the port has a name that answers", func() bool {
		return strings.Contains(w.runProgram("/", w.bin, "proxy", "ls").stdout, "8080-site.localhost")
	})
	at := strings.TrimSpace(w.runAtoll(0, "/", "open", "--print", "site", "8080").stdout)
	checkEqual(w.t, "the page of "+at, w.fetchPage(at), "by-its-name")
	w.runAtoll(0, "site", "down", "--rm", "--force")
	rescued := w.runGit("site", "for-each-ref", "--format=%(refname)", "refs/sandbox/site/rescue/")
	if !strings.Contains(rescued, "refs/") {
		w.t.Errorf("removing the sandbox saved nothing: %q", rescued)
	}
}

// fetchPage fetches a page by the name of a port, resolving it as browsers do.
func (w *fixture) fetchPage(at string) string {
	w.t.Helper()
	u, err := url.Parse(at)
	w.must(err)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://127.0.0.1:"+u.Port()+"/", nil)
	w.must(err)
	req.Host = u.Host
	res, err := http.DefaultClient.Do(req)
	w.must(err)
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	w.must(err)
	return string(b)
}

// testLinkedWorktree checks a project that is a linked working tree.
func (w *fixture) testLinkedWorktree(dir, name string) {
	w.t.Helper()
	w.upSandbox(dir, name)
	checkEqual(w.t, "the branch of a linked working tree", w.runInSandbox(name, "/workspace", "git symbolic-ref HEAD"), "refs/heads/linked")
	w.runInSandbox(name, "/workspace", "echo of-linked >c.txt; git add c.txt; git commit -qm linked")
	w.runAtoll(0, dir, "sync")
	checkEqual(w.t, "in the linked working tree", w.readFile(dir+"/c.txt"), "of-linked")
	w.runAtoll(0, dir, "down", "--rm", "--force")
}

// testAutoModes checks the two modes in which work is synced automatically.
func (w *fixture) testAutoModes() {
	w.t.Helper()
	for _, mode := range []string{"auto-commit", "auto-idle"} {
		w.createRepository(mode)
		w.upSandbox(mode, mode, "--sync-mode", mode)
		w.runInSandbox(mode, "/workspace", "echo by-itself >auto.txt; git add auto.txt; git commit -qm auto")
		w.waitFor(mode+" has brought a commit home", func() bool {
			b, err := os.ReadFile(w.joinPath(mode + "/auto.txt"))
			return err == nil && string(b) == "by-itself\n"
		})
		w.waitFor("the host is whole", func() bool { return w.runGit(mode, "--no-optional-locks", "status", "--porcelain") == "" }) // a fast-forward needs the lock
		w.runAtoll(0, mode, "down", "--rm", "--force")
	}
}

// TestRepositoryKinds syncs other kinds of repositories both ways with the namespace
// driver.
func TestRepositoryKinds(t *testing.T) {
	w := newNamespaceFixture(t)
	for name, made := range map[string]func(dir string){
		"renamed-default": func(dir string) { w.createRepository(dir, "-b", "trunk/of-it") },
		"sha256":          func(dir string) { w.createRepository(dir, "--object-format=sha256") },
		"newlines": func(dir string) {
			w.createRepository(dir)
			w.writeFile(dir+"/new\nline.txt", "a name of two lines\n")
			w.writeFile(dir+"/-rf ~ \"quoted\" \\ 'x' \xff\t.txt", "a name to be careful with\n")
			w.commitAll(dir, "odd names")
			w.writeFile(dir+"/un\ntracked", "x\n")
		},
		"shallow": func(dir string) {
			w.createRepository(dir + "-origin")
			w.runGit("/", "clone", "-q", "--depth=1", "file://"+w.joinPath(dir+"-origin"), w.joinPath(dir))
		},
		"unborn": func(dir string) {
			w.runGit("/", "init", "-q", w.joinPath(dir))
			w.writeFile(dir+"/x", "x\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			made(name)
			before := w.repositoryState(name)
			w.upSandbox(name, name)
			w.checkUnchanged("up", name, before)
			checkEqual(t, "status inside", w.runInSandbox(name, "/workspace", "git status --porcelain"), w.runGit(name, "status", "--porcelain"))
			if name == "newlines" {
				w.must(os.Remove(w.joinPath(name + "/un\ntracked"))) // the sandbox has it, and it would prevent the sync
			}
			if name == "unborn" {
				w.must(os.Remove(w.joinPath(name + "/x")))
			}
			w.runInSandbox(name, "/workspace", "mkdir d; echo agent >d/agent.txt; echo 2 >'n\ne w'; git add -A; git commit -qm work")
			w.runAtoll(0, name, "sync")
			checkEqual(t, "the tree at home", w.runGit(name, "rev-parse", "HEAD", "HEAD^{tree}"), w.runInSandbox(name, "/workspace", "git rev-parse HEAD HEAD^{tree}"))
			checkEqual(t, "the branch at home", w.runGit(name, "symbolic-ref", "HEAD"), w.runInSandbox(name, "/workspace", "git symbolic-ref HEAD"))
			checkEqual(t, "status at home", w.runGit(name, "status", "--porcelain"), "")
			checkEqual(t, "is it whole", w.runGit(name, "fsck", "--no-dangling"), "")
			w.runAtoll(0, name, "rm", "--force", name)
		})
	}
	w.t = t
}

// TestDetachedHead checks that sync moves no branch if the host or the sandbox has a
// detached HEAD, but fetches the work, which can be merged by name.
func TestDetachedHead(t *testing.T) {
	w := newNamespaceFixture(t)
	w.createRepository("r")
	w.runGit("r", "checkout", "-q", "--detach")
	before := w.repositoryState("r")
	w.upSandbox("r", "r")
	w.runInSandbox("r", "/workspace", "echo x >x; git add x; git commit -qm x")
	w.runAtoll(3, "r", "sync")
	w.checkUnchanged("sync", "r", before)
	w.runInSandbox("r", "/workspace", "git checkout -q -b named")
	w.runAtoll(0, "r", "sync") // the host has no uncommitted work
	checkEqual(t, "the host's branch", w.runGit("r", "symbolic-ref", "HEAD"), "refs/heads/named")
}

// TestManyFiles syncs a repository with many files: $ATOLL_PROJECT_FILES if it is set.
func TestManyFiles(t *testing.T) {
	n := 2000
	if text := os.Getenv("ATOLL_PROJECT_FILES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	w := newNamespaceFixture(t)
	w.createRepository("many")
	for i := range n {
		w.writeFile(fmt.Sprintf("many/d%d/f%d.txt", i%100, i), fmt.Sprintln(i))
	}
	w.commitAll("many", "many")
	w.writeFile("many/d0/f0.txt", "changed\n")
	before := w.repositoryState("many")
	w.upSandbox("many", "many")
	w.checkUnchanged("up", "many", before)
	checkEqual(t, "files inside", w.runInSandbox("many", "/workspace", "git ls-files | wc -l; git status --porcelain"), fmt.Sprintf("%d\n M d0/f0.txt", n+6))
	w.runGit("many", "checkout", "-q", "--", ".")
	w.runInSandbox("many", "/workspace", "for d in d*; do echo new >$d/new.txt; done; git checkout -q d0/f0.txt; git add -A; git commit -qm new")
	w.runAtoll(0, "many", "sync")
	checkEqual(t, "the tree at home", w.runGit("many", "rev-parse", "HEAD^{tree}"), w.runInSandbox("many", "/workspace", "git rev-parse HEAD^{tree}"))
	checkEqual(t, "status at home", w.runGit("many", "status", "--porcelain"), "")
}

// TestInterruptUp checks that Ctrl-C during up leaves the host unchanged and that the
// next up succeeds.
func TestInterruptUp(t *testing.T) {
	w := newNamespaceFixture(t)
	w.createRepository("r")
	w.makeUncommittedWork("r")
	before := w.repositoryState("r")
	for i := range 3 {
		cmd := exec.CommandContext(t.Context(), w.bin, append([]string{"up", "--no-attach", "--name", "r"}, w.up...)...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = w.joinPath("r"), w.env, commandTimeout
		cmd.Stderr = &onceWriter{at: 40 * i, do: func() { _ = cmd.Process.Signal(os.Interrupt) }} // interrupts later each time
		_ = cmd.Run()                                                                             // it may have finished already
		w.checkUnchanged("up and Ctrl-C", "r", before)
	}
	if r := w.runProgram("r", append([]string{w.bin, "up", "--no-attach", "--name", "r"}, w.up...)...); r.code != 0 && r.code != 3 {
		t.Fatalf("up after Ctrl-C: %d %s", r.code, r.stderr)
	}
	w.checkImported("r", "r")
}

// onceWriter calls a function once, when more than a number of bytes were written.
type onceWriter struct {
	at   int
	do   func()
	once sync.Once
}

func (w *onceWriter) Write(b []byte) (int, error) {
	if w.at -= len(b); w.at < 0 {
		w.once.Do(w.do)
	}
	return len(b), nil
}
