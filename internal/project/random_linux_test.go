package project_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestRandomWork runs random sequences of a user's git on both sides and of atoll's operations. After each of these,
// nothing that was reachable is lost; the ledger agrees with git; and what a refusal suggests works.
func TestRandomWork(t *testing.T) {
	rounds := flag.Lookup("rapid.checks")
	was := rounds.Value.String()
	if err := rounds.Value.Set(strconv.Itoa(testenv.Rounds(t, 2, 20, "ATOLL_PROJECT_SEQUENCES"))); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rounds.Value.Set(was) }()
	env(t)
	k := newKiller(t)
	base := t.TempDir()
	ended := 0
	rapidtest.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, t.Context(), base, k)
		for range rapid.IntRange(4, 14).Draw(rt, "steps") {
			m.step()
		}
		m.checkLedger()
		if ended++; ended%50 == 0 {
			t.Logf("%d sequences", ended)
		}
	})
}

// workSide is the repository of one side; run runs shell text in it.
type workSide struct {
	name string
	run  func(text string) (string, error)
}

// must returns what text prints, which must succeed. If a killed git has left a lock file, it is removed, as git tells its user.
func (s *workSide) must(t *rapid.T, text string) string {
	out, err := s.run("set -e; " + text)
	for range 3 {
		if err == nil || !strings.Contains(out, ".lock': File exists") {
			break
		}
		_, rest, _ := strings.Cut(out, "Unable to create '")
		lock, _, _ := strings.Cut(rest, "'")
		if _, rmErr := s.run("rm '" + lock + "'"); rmErr != nil {
			t.Fatalf("%s: %s: git names the lock file %q, which is not there\n%s", s.name, text, lock, out)
		}
		out, err = s.run("set -e; " + text)
	}
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", s.name, text, err, out)
	}
	return out
}

// machine is a project and its sandbox.
type machine struct {
	t            *rapid.T
	ctx          context.Context
	dir, oracle  string
	sb           atoll.Sandbox
	repo         *project.Repo
	host, inside workSide
	killer       *killer
	imported     string // project.ImportPlan.Tree
	count        int    // makes contents and names unique
}

func newMachine(t *rapid.T, ctx context.Context, base string, k *killer) *machine {
	sb := k.sb
	m := &machine{t: t, ctx: ctx, sb: sb, killer: k}
	root, err := os.MkdirTemp(base, "work-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	m.dir, m.oracle = filepath.Join(root, "web"), filepath.Join(root, "oracle")
	m.host = workSide{"host", func(text string) (string, error) {
		cmd := exec.CommandContext(ctx, "sh", "-c", text)
		cmd.Dir = m.dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}}
	m.inside = workSide{"inside", func(text string) (string, error) {
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "cd /workspace; " + text})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("status %d", exit.Code)
		}
		return string(exit.Stdout) + string(exit.Stderr), err
	}}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m.host.must(t, "git init -q; printf '*.log\\n' >.gitignore; echo a >a.txt; echo b >b.txt; git add -A; git commit -qm first; git branch side")
	if m.repo, err = project.Open(ctx, m.dir); err != nil {
		t.Fatal(err)
	}
	m.load()
	return m
}

// load imports the repository into an empty workspace, as 'atoll up' does.
func (m *machine) load() {
	m.inside.must(m.t, "rm -rf /tmp/side-*; find . -mindepth 1 -delete")
	m.importAll()
}

func (m *machine) importAll() {
	p, err := m.repo.PlanImport(m.ctx, project.ImportOptions{})
	if err == nil {
		err = errors.Join(p.Execute(m.ctx, m.sb), p.Record(m.ctx, "box"), p.Close())
	}
	if err != nil {
		m.t.Fatalf("import: %v", err)
	}
	m.imported = p.Tree
}

// userWork are the user's commands. N is a new number, F a file, B a branch that exists.
var userWork = map[string]string{
	"commit":    "mkdir -p sub; echo N >F; git add -A; git commit -qm N",
	"append":    "mkdir -p sub; echo N >>F; git add -A; git commit -qm N",
	"amend":     "mkdir -p sub; echo N >F; git add -A; git commit -q --amend -m N",
	"branch":    "git switch -q -c b-N",
	"switch":    "git switch -q B",
	"delete":    "git branch -q -D B",
	"rename":    "git branch -q -m r-N",
	"rebase":    "git rebase -q B || git rebase --abort",
	"merge":     "git merge -q --no-edit B || git merge --abort",
	"dirty":     "mkdir -p sub; echo N >>F",
	"stage":     "mkdir -p sub; echo N >>F; git add F; echo more >>F",
	"untracked": "echo N >u-N.txt",
	"remove":    "git rm -q -f F",
	"stash":     "git stash push -q -u",
	"detach":    "git switch -q --detach",
	"tag":       "git tag t-N",
	"gc":        "git gc -q --prune=now",
	"worktree":  "git worktree add -q -f ../tmp/side-N B",
}

var workFiles = []string{"a.txt", "b.txt", "sub/c.txt"}

// work runs one of the user's commands on a side. It may fail, as it may for a user.
func (m *machine) work(s *workSide, what string) {
	m.count++
	pick := rapid.IntRange(0, 7).Draw(m.t, "branch")
	text := strings.NewReplacer("N", strconv.Itoa(m.count), "F", rapid.SampledFrom(workFiles).Draw(m.t, "file"), "B", "$B").Replace(userWork[what])
	all := "set -- $(git branch --format='%(refname:short)' | grep -v '(' ); shift $((" + strconv.Itoa(pick) + " % $#)); B=$1; " + text
	_, _ = s.run(all)
}

// step is one random step.
func (m *machine) step() {
	operations := map[string]func(){
		"sync": m.sync, "update": func() { m.update(project.UpdateForward) }, "update-merge": func() { m.update(project.UpdateMerge) },
		"update-rebase": func() { m.update(project.UpdateRebase) }, "merge": m.merge, "apply": m.apply, "apply-to": m.applyTo, "down": m.down, "status": m.checkLedger,
		"kill": m.kill, "restore": m.restore,
	}
	names := []string{}
	for name := range userWork {
		if name != "worktree" {
			names = append(names, "host "+name)
		}
		names = append(names, "inside "+name)
	}
	for name := range operations {
		names = append(names, name, name, name)
	}
	slices.Sort(names)
	name := rapid.SampledFrom(names).Draw(m.t, "step")
	switch where, what, _ := strings.Cut(name, " "); where {
	case "host":
		m.work(&m.host, what)
	case "inside":
		m.work(&m.inside, what)
	default:
		m.guard(name, operations[name])
	}
}

// options are those of a fetch of the sandbox.
func (m *machine) options() project.FetchOptions {
	return project.FetchOptions{Name: "box", ImportedTree: m.imported}
}

// unexpected fails the test unless an error is one of those that are answers.
func (m *machine) unexpected(what string, err error, answers ...error) {
	m.t.Helper()
	if err == nil || slices.ContainsFunc(answers, func(a error) bool { return errors.Is(err, a) }) {
		return
	}
	m.t.Fatalf("%s: %v", what, err)
}

// sync syncs, and follows what a refusal suggests until it succeeds.
func (m *machine) sync() {
	for range 4 {
		_, err := m.repo.Sync(m.ctx, m.sb, m.options())
		switch {
		case err == nil, errors.Is(err, project.ErrNoNewWork):
			return
		case errors.Is(err, project.ErrLocked):
			m.unlock(err)
		case errors.Is(err, project.ErrDirty): // 'git stash -u'
			m.host.must(m.t, "git stash push -q -u")
		case errors.Is(err, project.ErrDetached): // inside, 'git switch -c BRANCH'
			m.count++
			m.inside.must(m.t, "git switch -q -c d-"+strconv.Itoa(m.count))
		case errors.Is(err, project.ErrDiverged):
			if rapid.Bool().Draw(m.t, "here") {
				m.mergeDiverged()
			} else {
				m.update(project.UpdateMerge)
			}
		default:
			m.t.Fatalf("sync: %v", err)
		}
	}
	_, err := m.repo.Sync(m.ctx, m.sb, m.options())
	m.unexpected("sync, after what it suggested", err, project.ErrNoNewWork)
}

// mergeDiverged merges the branch of the sandbox's main working tree into the host's branch of the same name.
func (m *machine) mergeDiverged() {
	branch := strings.TrimSpace(m.inside.must(m.t, "git branch --show-current"))
	if strings.TrimSpace(m.host.must(m.t, "git branch --show-current")) != branch {
		if out, err := m.host.run("git switch -q " + branch); err != nil {
			m.host.must(m.t, "git stash push -q -u; git switch -q "+branch)
			_ = out
		}
	}
	m.mergeBranch(branch)
}

// merge merges a branch of the sandbox into the host's current branch.
func (m *machine) merge() {
	all := m.fetch()
	if len(all) > 0 {
		m.mergeBranch(rapid.SampledFrom(all).Draw(m.t, "merged"))
	}
}

// fetch fetches, and returns the fetched branches.
func (m *machine) fetch() []string {
	m.fetchAll()
	all, err := m.repo.Branches(m.ctx, "box")
	if err != nil {
		m.t.Fatal(err)
	}
	return all
}

// fetchAll fetches everything.
func (m *machine) fetchAll() *project.FetchResult {
	var got *project.FetchResult
	m.retryLocked("fetch", func() (err error) {
		got, err = m.repo.Fetch(m.ctx, m.sb, m.options())
		return err
	})
	return got
}

// mergeBranch merges, and follows what a refusal suggests.
func (m *machine) mergeBranch(branch string) {
	for range 4 {
		got := m.fetchAll()
		_, err := m.repo.Merge(m.ctx, project.MergeOptions{Name: "box", Branch: branch, ImportedTree: m.imported, Fetched: got})
		switch {
		case err == nil, errors.Is(err, project.ErrNoNewWork):
			return
		case errors.Is(err, project.ErrLocked):
			m.unlock(err)
		case errors.Is(err, project.ErrDirty):
			m.host.must(m.t, "git stash push -q -u")
		case errors.Is(err, project.ErrDetached):
			m.count++
			m.host.must(m.t, "git switch -q -c h-"+strconv.Itoa(m.count))
		case errors.Is(err, project.ErrConflict): // 'git merge refs/sandbox/box/BRANCH' joins by hand
			m.host.must(m.t, "git stash push -q -u || true; git merge -q --no-edit refs/sandbox/box/"+branch+" || { git add -A; git commit -qm joined; }")
		case errors.Is(err, project.ErrUnrelated):
			m.host.must(m.t, "git stash push -q -u || true; git merge -q --no-edit --allow-unrelated-histories refs/sandbox/box/"+branch+" || { git add -A; git commit -qm joined; }")
		default:
			m.t.Fatalf("merge %s: %v", branch, err)
		}
	}
	m.t.Fatalf("merge %s does not end", branch)
}

// apply applies a branch to the working tree.
func (m *machine) apply() {
	all := m.fetch()
	if len(all) == 0 {
		return
	}
	branch := rapid.SampledFrom(all).Draw(m.t, "applied")
	m.retryLocked("apply", func() error {
		_, err := m.repo.Apply(m.ctx, project.MergeOptions{Name: "box", Branch: branch, ImportedTree: m.imported})
		return err
	}, project.ErrNoNewWork, project.ErrConflict)
}

// applyTo commits a branch to a branch of the host.
func (m *machine) applyTo() {
	all := m.fetch()
	if len(all) == 0 {
		return
	}
	m.count++
	to := rapid.SampledFrom([]string{"main", "side", "new-" + strconv.Itoa(m.count)}).Draw(m.t, "to")
	branch := rapid.SampledFrom(all).Draw(m.t, "applied")
	m.retryLocked("apply to "+to, func() error {
		_, err := m.repo.Apply(m.ctx, project.MergeOptions{Name: "box", Branch: branch, Target: to})
		return err
	}, project.ErrNoNewWork, project.ErrConflict, atoll.ErrState)
}

// update brings the host's commits in, and follows what a refusal suggests.
func (m *machine) update(mode project.UpdateMode) {
	source := ""
	for range 5 {
		_, err := m.repo.Update(m.ctx, m.sb, project.UpdateOptions{Name: "box", Mode: mode, Source: source})
		switch {
		case err == nil, errors.Is(err, project.ErrNoNewWork):
			return
		case errors.Is(err, project.ErrConflict): // resolve it inside, or --abort undoes it
			if rapid.Bool().Draw(m.t, "abort") {
				m.inside.must(m.t, "git rebase --abort 2>/dev/null || git merge --abort 2>/dev/null || git cherry-pick --abort")
				return
			}
			m.inside.must(m.t, "export GIT_EDITOR=true; for i in 1 2 3 4 5 6 7 8 9; do git add -A; if [ -d .git/rebase-merge ] || [ -d .git/rebase-apply ]; then git rebase --continue || true; elif [ -e .git/MERGE_HEAD ]; then git commit -q --no-edit; fi; done; [ ! -d .git/rebase-merge ] && [ ! -e .git/MERGE_HEAD ]")
		case errors.Is(err, project.ErrDiverged): // '--merge', '--rebase'
			mode = rapid.SampledFrom([]project.UpdateMode{project.UpdateMerge, project.UpdateRebase}).Draw(m.t, "mode")
		case errors.Is(err, atoll.ErrInvalid) && source == "": // it names a branch of the host
			list := strings.Fields(m.host.must(m.t, "git branch --show-current; git for-each-ref --format='%(refname:lstrip=2)' refs/heads"))
			if len(list) == 0 {
				return
			}
			source = list[0]
		case errors.Is(err, project.ErrUnrelated): // '--rebase'
			mode = project.UpdateRebase
		case errors.Is(err, project.ErrLocked):
			m.unlock(err)
		case errors.Is(err, project.ErrUnsaved): // 'git stash -u' inside
			m.inside.must(m.t, "git stash push -q -u")
		default:
			m.t.Fatalf("update %s: %v", mode, err)
		}
	}
	m.t.Fatalf("update %s does not end", mode)
}

// restore restores one of the saves, twice: the second time changes nothing.
func (m *machine) restore() {
	all, err := m.repo.Rescues(m.ctx, "box")
	if err != nil {
		m.t.Fatal(err)
	}
	if len(all) > 0 {
		m.count++
		m.restoreRescue(rapid.SampledFrom(all).Draw(m.t, "restored"), "restored-"+strconv.Itoa(m.count))
	}
}

func (m *machine) restoreRescue(res project.Rescued, prefix string) {
	for range 2 {
		m.retryLocked("restore", func() error {
			_, err := m.repo.Restore(m.ctx, "box", res.Time, prefix)
			return err
		})
	}
}

// down saves all work of the sandbox, removes it, restores the work, and creates another sandbox.
func (m *machine) down() {
	var res project.Rescued
	err := m.retryLocked("rescue", func() (err error) {
		res, err = m.repo.Rescue(m.ctx, m.sb, m.options())
		return err
	}, project.ErrNoNewWork)
	if err == nil {
		m.count++
		m.restoreRescue(res, "rescued-"+strconv.Itoa(m.count))
		missing, err := m.repo.CountMissing(m.ctx, res)
		if err != nil || missing != 0 {
			m.t.Fatalf("%d commits are missing after a restore, %v", missing, err)
		}
	}
	m.load()
}
