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

// The same way through a project, on every wall that is here.

func TestOnNamespaces(t *testing.T) { journey(t, onNamespaces(t)) }

func TestOnDocker(t *testing.T) {
	if testing.Short() {
		t.Skip("an engine of its own: left out by -short")
	}
	journey(t, onDocker(t))
}

// TestOnMachines is by hand, with ATOLL_PROJECT_MACHINES=1: minutes, where
// machines are emulated.
func TestOnMachines(t *testing.T) {
	if os.Getenv("ATOLL_PROJECT_MACHINES") == "" {
		t.Skip("machines: ATOLL_PROJECT_MACHINES=1 is by hand")
	}
	journey(t, onMachines(t))
}

// TestOnKubernetes is by hand, with ATOLL_PROJECT_CLUSTER=1 and the variable of
// scripts/cluster: a cluster for one test is too much each time.
func TestOnKubernetes(t *testing.T) {
	w := onKubernetes(t)
	journey(t, w)
	w.reached()
}

// onKubernetes is a world whose sandboxes are pods of a cluster of the test's own.
func onKubernetes(t testing.TB) *world {
	t.Helper()
	if os.Getenv(clusterVar) == "" {
		t.Skip("Kubernetes: " + clusterVar + "=1 is by hand")
	}
	kubeconfig := clustertest.Kubeconfig(t)
	files := []string{"image", "--busybox", gitImage}
	for _, p := range gitPrograms(t) {
		files = append(files, "/"+p.name+"="+p.file)
	}
	clustertest.Tool(t, files...)
	w := newWorld(t, "kubernetes")
	w.env = append(w.env, "ATOLL_KUBERNETES_KUBECONFIG="+kubeconfig, "ATOLL_KUBERNETES_NAMESPACE=projects")
	clustertest.RemoveNamespace(t, "projects")
	w.up = append(w.up, "--image", gitImage)
	return w
}

// onDocker is a world with the tests' engine, and an image.
func onDocker(t testing.TB) *world {
	t.Helper()
	host := enginetest.Host(t)
	w := newWorld(t, "docker")
	w.env = append(w.env, "ATOLL_DOCKER_HOST="+host)
	w.imports("docker")
	return w
}

// onMachines is a world of machines, small ones.
func onMachines(t testing.TB) *world {
	t.Helper()
	if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
		testenv.Skip(t, "qemu", `no kernel for machines: eval "$(scripts/machine)"`)
	}
	w := newWorld(t, "microvm")
	for _, name := range []string{"ATOLL_MACHINE_KERNEL", "ATOLL_MACHINE_MODULES"} {
		w.env = append(w.env, name+"="+os.Getenv(name))
	}
	w.imports("qemu")
	w.up = append(w.up, "--memory", "1024m", "--cpus", "1")
	return w
}

// onNamespaces is a world whose sandboxes see the host's programs.
func onNamespaces(t testing.TB) *world {
	t.Helper()
	w := newWorld(t, "namespace")
	r := w.try("/", w.bin, "run", "--", "true")
	if r.code != 0 {
		testenv.Skip(t, "namespace", "no namespaces: %s", r.stderr)
	}
	return w
}

// state is a repository to the byte: files with modes, the index, HEAD, its own
// refs and the stash.
func (w *world) state(dir string) string {
	w.t.Helper()
	var b strings.Builder
	root := w.path(dir)
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
		{"ls-files", "--stage"}, {"symbolic-ref", "-q", "HEAD"}, {"stash", "list", "--format=%H"},
		{"for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags", "refs/stash"},
	} {
		r := w.try(dir, append([]string{"git"}, args...)...) // on no branch, HEAD is no symbol
		fmt.Fprintf(&b, "%v\n%s", args, r.stdout)
	}
	return b.String()
}

// unchanged holds a repository to a state.
func (w *world) unchanged(what, dir, want string) {
	w.t.Helper()
	if got := w.state(dir); got != want {
		w.t.Errorf("%s changed the host:\n%s", what, difference(want, got))
	}
}

// difference is the lines that only one of two texts has.
func difference(a, b string) string {
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

// same compares two texts, without what is empty at their ends.
func same(t testing.TB, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// repo makes a repository with a few commits.
func (w *world) repo(dir string, args ...string) {
	w.t.Helper()
	w.git("/", append(append([]string{"init", "-q"}, args...), w.path(dir))...)
	w.write(dir+"/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
	w.write(dir+"/b.txt", "b\n")
	w.write(dir+"/.gitignore", "*.log\n.env*\nbuild/\n")
	w.commit(dir, "first")
	w.write(dir+"/src/main.c", "int main(void) { return 0; }\n")
	w.write(dir+"/run.sh", "#!/bin/sh\necho run\n")
	w.must(os.Chmod(w.path(dir+"/run.sh"), 0o755))
	w.must(os.Symlink("a.txt", w.path(dir+"/link")))
	w.commit(dir, "second")
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// dirty leaves work of every kind uncommitted.
func (w *world) dirty(dir string) {
	w.t.Helper()
	w.write(dir+"/parked.txt", "for later\n")
	w.git(dir, "stash", "push", "-q", "-u", "-m", "later")
	w.write(dir+"/b.txt", "b\nstaged\n")
	w.write(dir+"/new-staged.txt", "staged and new\n")
	w.git(dir, "add", "b.txt", "new-staged.txt")
	w.write(dir+"/b.txt", "b\nstaged\nand more\n")
	w.write(dir+"/src/main.c", "int main(void) { return 1; }\n")
	w.write(dir+"/untracked/deep.txt", "nobody knows me\n")
	w.must(os.Symlink("nowhere", w.path(dir+"/dangling")))
	w.must(os.Chmod(w.path(dir+"/src/main.c"), 0o755))
	w.must(os.Remove(w.path(dir + "/link")))
	w.write(dir+"/.env", "SECRET=of-mine\n")
}

// carried holds a sandbox's working tree to the host's: what is committed, staged,
// changed and untracked.
func (w *world) carried(dir, name string) {
	w.t.Helper()
	for _, args := range []string{
		"status --porcelain --untracked-files=all --ignore-submodules=all", "diff --ignore-submodules=all", "diff --cached --ignore-submodules=all",
		"rev-parse HEAD", "symbolic-ref HEAD", "rev-parse HEAD^{tree}",
	} {
		want := w.git(dir, strings.Fields(args)...)
		same(w.t, "inside, git "+args, w.inside(name, "/workspace", "git "+args), want)
	}
	same(w.t, "what nobody tracks", w.inside(name, "/workspace", "cat untracked/deep.txt; readlink dangling"), "nobody knows me\nnowhere")
	same(w.t, "env files are not asked for", w.inside(name, "/workspace", "ls -A | grep env || true"), "")
	same(w.t, "remotes inside", w.inside(name, "/workspace", "git remote"), "")
	same(w.t, "who commits inside", w.inside(name, "/workspace", "git config user.name; git config user.email"), "Ada\nada@example.com")
}

// journey goes through all that people do with a project: a repository with
// uncommitted work, a submodule and a linked working tree; an agent at work on
// two branches; its work back home.
func journey(t testing.TB, w *world) {
	w.repo("lib")
	w.repo("Shop Front")
	w.git("Shop Front", "submodule", "--quiet", "add", w.path("lib"), "lib")
	w.commit("Shop Front", "with a library")
	w.git("Shop Front", "worktree", "add", "-q", "-b", "linked", w.path("linked"))
	w.dirty("Shop Front")
	before := w.state("Shop Front")

	w.start("Shop Front", "shop")
	w.unchanged("up", "Shop Front", before)
	w.carried("Shop Front", "shop")
	same(t, "the submodule", w.inside("shop", "/workspace/lib", "cat b.txt; git rev-parse HEAD"), "b\n"+w.git("Shop Front/lib", "rev-parse", "HEAD"))
	same(t, "the port", w.inside("shop", "/workspace", "echo $ATOLL_PORT"), "3000")
	w.atoll(3, "Shop Front", append([]string{"up", "--no-attach"}, w.up...)...) // it runs already
	if r := w.atoll(0, "Shop Front/src", "status"); !strings.Contains(r.stdout, "shop") {
		t.Errorf("status: %s", r.stdout)
	}
	if t.Failed() {
		return
	}
	w.agent("Shop Front", "shop")
	w.refused("Shop Front", "shop")
	w.unchanged("what was refused", "Shop Front", before)
	w.merged("Shop Front", "shop")
	w.landed("Shop Front", "shop")
	w.ended("Shop Front", "shop")
	w.linked("linked", "linked")
	w.modes()
}

// agent is a script at work in two working trees, by exec and on a terminal.
func (w *world) agent(dir, name string) {
	w.t.Helper()
	w.atoll(0, dir, "worktree", "add", "feature/login", "--create")
	w.atoll(0, dir, "worktree", "add", "fix", "--create")
	w.inside(name, "/workspace/.worktrees/feature/login", `
		echo 'void login(void);' >login.h; printf 'one\n' >one; git add -A; git commit -qm "login"
		mkdir deep; echo more >deep/more.txt; git add -A; git commit -qm "more of it"
		echo half >half-done.txt`)
	list := w.atoll(0, dir, "worktree", "list").stdout
	for _, want := range []string{"feature/login", "fix", name + "-feature-login", name + "-fix", "3010", "3020"} {
		if !strings.Contains(list, want) {
			w.t.Errorf("worktree list has no %s:\n%s", want, list)
		}
	}
	// On its terminal an agent has the working tree as its directory, and its port.
	w.atoll(0, "/", "terminal", "send", name, name+"-fix", "--", "sed -i s/three/drei/ a.txt && git commit -qam \"fix on port $ATOLL_PORT\" && touch .git-done\n")
	w.until("the agent on the terminal is done", func() bool {
		return w.try("/", w.bin, "exec", name, "--", "test", "-e", "/workspace/.worktrees/fix/.git-done").code == 0
	})
	same(w.t, "what the agent on the terminal did", w.inside(name, "/workspace/.worktrees/fix", "rm .git-done; git log -1 --format=%s; git status --porcelain"), "fix on port 3020")
	w.atoll(3, dir, "worktree", "remove", "feature/login") // half-done.txt is nowhere else
}

// refused are syncs that find the host's files in their way.
func (w *world) refused(dir, name string) {
	w.t.Helper()
	before := w.git(dir, "for-each-ref")
	w.atoll(3, dir, "sync", "--branch", "feature/login", "--dry-run") // says what a sync would do
	same(w.t, "refs after a dry run", w.git(dir, "for-each-ref"), before)
	w.atoll(3, dir, "sync", "--branch", "feature/login") // another branch, and the host has uncommitted work
	inside := w.inside(name, "/workspace", "git rev-parse feature/login fix")
	same(w.t, "what was fetched all the same", w.git(dir, "rev-parse", "refs/sandbox/"+name+"/feature/login", "refs/sandbox/"+name+"/fix"), inside)
	same(w.t, "what was not committed", w.git(dir, "show", "refs/sandbox/"+name+"/wip/feature/login:half-done.txt"), "half")
}

// merged joins one branch beside uncommitted work, and finds a conflict in another.
func (w *world) merged(dir, name string) {
	w.t.Helper()
	work := w.git(dir, "diff") + w.git(dir, "diff", "--cached") + w.git(dir, "stash", "list", "--format=%H")
	w.atoll(0, dir, "merge", name, "feature/login", "--yes")
	same(w.t, "what was merged", w.read(dir+"/login.h")+w.read(dir+"/deep/more.txt"), "void login(void);\nmore")
	same(w.t, "uncommitted work after a merge", w.git(dir, "diff")+w.git(dir, "diff", "--cached")+w.git(dir, "stash", "list", "--format=%H"), work)
	if _, err := os.Lstat(w.path(dir + "/half-done.txt")); err == nil {
		w.t.Error("uncommitted work of the sandbox came with a branch")
	}

	w.git(dir, "stash", "push", "-q", "-u", "-m", "all of it")
	w.write(dir+"/a.txt", "one\ntwo\ntrois\nfour\nfive\nsix\nseven\n")
	w.git(dir, "commit", "-qam", "another three")
	w.git(dir, "stash", "pop", "-q", "--index")
	before := w.state(dir)
	r := w.atoll(3, dir, "merge", name, "fix", "--yes")
	if !strings.Contains(r.stdout+r.stderr, "a.txt") {
		w.t.Errorf("a conflict without the file's name: %s%s", r.stdout, r.stderr)
	}
	w.unchanged("a merge with a conflict", dir, before)
}

// landed are syncs that move the host forward.
func (w *world) landed(dir, name string) {
	w.t.Helper()
	w.inside(name, "/workspace", "echo agent >agent.txt; git add agent.txt; git commit -qm 'on main' --only agent.txt")
	w.atoll(3, dir, "sync") // both sides have commits of their own
	w.commit(dir, "all that was not committed")
	main := w.git(dir, "rev-parse", "main")
	w.atoll(0, dir, "sync", "--branch", "fix") // the host is clean: its working tree changes to the branch
	same(w.t, "the host's branch", w.git(dir, "symbolic-ref", "HEAD"), "refs/heads/fix")
	same(w.t, "the host's commit", w.git(dir, "rev-parse", "HEAD"), w.inside(name, "/workspace", "git rev-parse fix"))
	same(w.t, "the host's files", w.git(dir, "status", "--porcelain"), "")
	same(w.t, "main meanwhile", w.git(dir, "rev-parse", "main"), main)
	w.atoll(0, dir, "sync", "--branch", "fix") // nothing new
	w.git(dir, "checkout", "-q", "main")
}

// ended takes a sandbox away. What was only in it is at home.
func (w *world) ended(dir, name string) {
	w.t.Helper()
	w.inside(name, "/workspace", "git stash -q; echo of-main >only-here.txt; git stash -q -u; echo loose >loose.txt")
	w.atoll(0, dir, "down", "--rm", "--force")
	rescued := w.git(dir, "for-each-ref", "--format=%(refname)", "refs/sandbox/"+name+"/rescue/")
	var found []string
	for ref := range strings.Lines(rescued) {
		ref = strings.TrimSpace(ref)
		for _, commit := range strings.Fields(ref + " " + ref + "^3") { // a stash has what nobody tracked as its third parent
			r := w.try(dir, "git", "ls-tree", "-r", "--name-only", commit)
			found = append(found, strings.Fields(r.stdout)...)
		}
	}
	for _, want := range []string{"only-here.txt", "loose.txt", "half-done.txt"} {
		if !strings.Contains(" "+strings.Join(found, " ")+" ", " "+want+" ") {
			w.t.Errorf("%s is lost; rescued are\n%s", want, rescued)
		}
	}
	if r := w.atoll(0, dir, "restore", name); strings.TrimSpace(r.stdout) == "" {
		w.t.Error("restore lists nothing")
	}
	same(w.t, "sandboxes that are left", w.atoll(0, "/", "ls", "--json").stdout, "[]")
}

// reached is what a project's programs are reached by: a terminal, the names of
// ports, and what was saved before it ended.
func (w *world) reached() {
	w.t.Helper()
	w.repo("site")
	w.start("site", "site")
	w.atoll(0, "/", "terminal", "send", "site", "site", "--", "echo o''n-a-terminal; mkdir www; echo loose >loose.txt; echo by-its-name >www/index.html; httpd -f -p 127.0.0.1:8080 -h www\n")
	w.until("the terminal shows it", func() bool {
		return strings.Contains(w.atoll(0, "/", "terminal", "read", "site", "site").stdout, "on-a-terminal")
	})
	w.until("the port has a name that answers", func() bool {
		return strings.Contains(w.try("/", w.bin, "proxy", "ls").stdout, "8080-site.localhost")
	})
	at := strings.TrimSpace(w.atoll(0, "/", "open", "--print", "site", "8080").stdout)
	same(w.t, "the page of "+at, w.page(at), "by-its-name")
	w.atoll(0, "site", "down", "--rm", "--force")
	rescued := w.git("site", "for-each-ref", "--format=%(refname)", "refs/sandbox/site/rescue/")
	if !strings.Contains(rescued, "refs/") {
		w.t.Errorf("an end saved nothing: %q", rescued)
	}
}

// page fetches a page by the name of a port, as browsers resolve it.
func (w *world) page(at string) string {
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

// linked is a project that is a linked working tree.
func (w *world) linked(dir, name string) {
	w.t.Helper()
	w.start(dir, name)
	same(w.t, "the branch of a linked working tree", w.inside(name, "/workspace", "git symbolic-ref HEAD"), "refs/heads/linked")
	w.inside(name, "/workspace", "echo of-linked >c.txt; git add c.txt; git commit -qm linked")
	w.atoll(0, dir, "sync")
	same(w.t, "in the linked working tree", w.read(dir+"/c.txt"), "of-linked")
	w.atoll(0, dir, "down", "--rm", "--force")
}

// modes are the two in which work comes home by itself.
func (w *world) modes() {
	w.t.Helper()
	for _, mode := range []string{"auto-commit", "auto-idle"} {
		w.repo(mode)
		w.start(mode, mode, "--sync-mode", mode)
		w.inside(mode, "/workspace", "echo by-itself >auto.txt; git add auto.txt; git commit -qm auto")
		w.until(mode+" has brought a commit home", func() bool {
			b, err := os.ReadFile(w.path(mode + "/auto.txt"))
			return err == nil && string(b) == "by-itself\n"
		})
		w.until("the host is whole", func() bool { return w.git(mode, "--no-optional-locks", "status", "--porcelain") == "" }) // what lands needs the lock
		w.atoll(0, mode, "down", "--rm", "--force")
	}
}

// Repositories of other kinds go there and back on namespaces.
func TestKinds(t *testing.T) {
	w := onNamespaces(t)
	for name, made := range map[string]func(dir string){
		"renamed-default": func(dir string) { w.repo(dir, "-b", "trunk/of-it") },
		"sha256":          func(dir string) { w.repo(dir, "--object-format=sha256") },
		"newlines": func(dir string) {
			w.repo(dir)
			w.write(dir+"/new\nline.txt", "a name of two lines\n")
			w.write(dir+"/-rf ~ \"quoted\" \\ 'x' \xff\t.txt", "a name to be careful with\n")
			w.commit(dir, "odd names")
			w.write(dir+"/un\ntracked", "x\n")
		},
		"shallow": func(dir string) {
			w.repo(dir + "-origin")
			w.git("/", "clone", "-q", "--depth=1", "file://"+w.path(dir+"-origin"), w.path(dir))
		},
		"unborn": func(dir string) {
			w.git("/", "init", "-q", w.path(dir))
			w.write(dir+"/x", "x\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			made(name)
			before := w.state(name)
			w.start(name, name)
			w.unchanged("up", name, before)
			same(t, "status inside", w.inside(name, "/workspace", "git status --porcelain"), w.git(name, "status", "--porcelain"))
			if name == "newlines" {
				w.must(os.Remove(w.path(name + "/un\ntracked"))) // it is inside, and would be in its own way
			}
			if name == "unborn" {
				w.must(os.Remove(w.path(name + "/x")))
			}
			w.inside(name, "/workspace", "mkdir d; echo agent >d/agent.txt; echo 2 >'n\ne w'; git add -A; git commit -qm work")
			w.atoll(0, name, "sync")
			same(t, "the tree at home", w.git(name, "rev-parse", "HEAD", "HEAD^{tree}"), w.inside(name, "/workspace", "git rev-parse HEAD HEAD^{tree}"))
			same(t, "the branch at home", w.git(name, "symbolic-ref", "HEAD"), w.inside(name, "/workspace", "git symbolic-ref HEAD"))
			same(t, "status at home", w.git(name, "status", "--porcelain"), "")
			same(t, "is it whole", w.git(name, "fsck", "--no-dangling"), "")
			w.atoll(0, name, "rm", "--force", name)
		})
	}
	w.t = t
}

// Where the host, or the sandbox, is on no branch, nothing is moved; work is
// fetched and can be merged by name.
func TestOnNoBranch(t *testing.T) {
	w := onNamespaces(t)
	w.repo("r")
	w.git("r", "checkout", "-q", "--detach")
	before := w.state("r")
	w.start("r", "r")
	w.inside("r", "/workspace", "echo x >x; git add x; git commit -qm x")
	w.atoll(3, "r", "sync")
	w.unchanged("sync", "r", before)
	w.inside("r", "/workspace", "git checkout -q -b named")
	w.atoll(0, "r", "sync") // the host has no uncommitted work
	same(t, "the host's branch", w.git("r", "symbolic-ref", "HEAD"), "refs/heads/named")
}

// ATOLL_PROJECT_FILES=50000 is by hand.
func TestManyFiles(t *testing.T) {
	n := 2000
	if text := os.Getenv("ATOLL_PROJECT_FILES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	w := onNamespaces(t)
	w.repo("many")
	for i := range n {
		w.write(fmt.Sprintf("many/d%d/f%d.txt", i%100, i), fmt.Sprintln(i))
	}
	w.commit("many", "many")
	w.write("many/d0/f0.txt", "changed\n")
	before := w.state("many")
	w.start("many", "many")
	w.unchanged("up", "many", before)
	same(t, "files inside", w.inside("many", "/workspace", "git ls-files | wc -l; git status --porcelain"), fmt.Sprintf("%d\n M d0/f0.txt", n+6))
	w.git("many", "checkout", "-q", "--", ".")
	w.inside("many", "/workspace", "for d in d*; do echo new >$d/new.txt; done; git checkout -q d0/f0.txt; git add -A; git commit -qm new")
	w.atoll(0, "many", "sync")
	same(t, "the tree at home", w.git("many", "rev-parse", "HEAD^{tree}"), w.inside("many", "/workspace", "git rev-parse HEAD^{tree}"))
	same(t, "status at home", w.git("many", "status", "--porcelain"), "")
}

// Ctrl-C in the middle of up leaves the host as it was, and the next up works.
func TestCtrlCInUp(t *testing.T) {
	w := onNamespaces(t)
	w.repo("r")
	w.dirty("r")
	before := w.state("r")
	for i := range 3 {
		cmd := exec.CommandContext(t.Context(), w.bin, append([]string{"up", "--no-attach", "--name", "r"}, w.up...)...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = w.path("r"), w.env, patience
		cmd.Stderr = &trigger{at: 40 * i, do: func() { _ = cmd.Process.Signal(os.Interrupt) }} // each time it has come further
		_ = cmd.Run()                                                                          // it may have been done already
		w.unchanged("up and Ctrl-C", "r", before)
	}
	if r := w.try("r", append([]string{w.bin, "up", "--no-attach", "--name", "r"}, w.up...)...); r.code != 0 && r.code != 3 {
		t.Fatalf("up after Ctrl-C: %d %s", r.code, r.stderr)
	}
	w.carried("r", "r")
}

// trigger does something once, as soon as more than so many bytes were written.
type trigger struct {
	at   int
	do   func()
	once sync.Once
}

func (w *trigger) Write(b []byte) (int, error) {
	if w.at -= len(b); w.at < 0 {
		w.once.Do(w.do)
	}
	return len(b), nil
}
