package project_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// thereWithRecord is there with the record of the import, as 'atoll up' makes it.
func thereWithRecord(t *testing.T, prepare string) (dir string, r *project.Repo, sb atoll.Sandbox) {
	t.Helper()
	dir = newRepo(t)
	run(t, dir, "sh", "-ec", prepare+"\n:")
	sb = newSandbox(t)
	r = open(t, dir)
	importRecorded(t, r, sb)
	return dir, r, sb
}

func importRecorded(t *testing.T, r *project.Repo, sb atoll.Sandbox) {
	t.Helper()
	p, err := r.PlanImport(t.Context(), project.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Record(t.Context(), "box"), p.Execute(t.Context(), sb), p.Close()); err != nil {
		t.Fatal(err)
	}
}

// readLedger returns the ledger of the running sandbox, as 'atoll status' reads it.
func readLedger(t *testing.T, r *project.Repo, sb atoll.Sandbox) *project.Ledger {
	t.Helper()
	dry := box
	dry.DryRun = true
	res, err := r.Sync(t.Context(), sb, dry)
	if res == nil {
		t.Fatal(err)
	}
	l, err := r.ReadLedger(t.Context(), "box", res)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// describe formats a ledger: each branch with its relation, then the totals.
func describe(l *project.Ledger) string {
	var b strings.Builder
	for _, s := range l.Branches {
		b.WriteString(s.Name + " " + string(s.Relation))
		if s.Ahead+s.Behind > 0 {
			b.WriteString(" +" + strings.Repeat("i", s.Ahead) + "-" + strings.Repeat("i", s.Behind))
		}
		for _, f := range []struct {
			is   bool
			text string
		}{{!s.Home, "pending"}, {s.HostDirty, "host-dirty"}, {s.SandboxDirty, "sandbox-dirty"}, {s.Rescue != "", "rescued"}} {
			if f.is {
				b.WriteString(" " + f.text)
			}
		}
		b.WriteString("; ")
	}
	if l.IsHome() {
		return b.String() + "home"
	}
	return b.String() + "not home"
}

// TestLedger has both sides in each state, and compares with the ledger.
func TestLedger(t *testing.T) {
	testenv.Logic(t)
	for name, c := range map[string]struct{ prepare, home, inside, want string }{
		"Untouched":         {"git branch side", "", "", "main equal; side equal; home"},
		"Ahead":             {"", "", commitThird, "main ahead +i- pending; not home"},
		"OtherBranchAhead":  {"", "", "git checkout -q -b side; " + commitThird + "git checkout -q main", "main equal; side only-inside +i- pending; not home"},
		"Behind":            {"", "git commit -q --allow-empty -m mine", "", "main behind +-i; home"},
		"Diverged":          {"", "git commit -q --allow-empty -m mine", commitThird, "main diverged +i-i pending; not home"},
		"OnlyHost":          {"", "git branch new", "", "main equal; new only-host; home"},
		"RemovedInside":     {"git branch side", "", "git branch -D side", "main equal; side removed-inside; home"},
		"RemovedHost":       {"git branch side", "git branch -D side", "", "main equal; side removed-host; home"},
		"RemovedWithWork":   {"git branch side", "git branch -D side", "git checkout -q side; " + commitThird + "git checkout -q main", "main equal; side removed-host +i- pending; not home"},
		"DirtyHost":         {"", "echo u >untracked", "", "main equal host-dirty; home"},
		"DirtySandbox":      {"", "", "echo u >untracked", "main equal sandbox-dirty; not home"},
		"DirtyOtherTree":    {"git branch side", "git worktree add -q ../linked side; echo d >../linked/d", "", "main equal; side equal host-dirty; home"},
		"DetachedHead":      {"", "", "git checkout -q --detach; " + commitThird, "head/workspace only-inside +i- pending; main equal; not home"},
		"Stash":             {"", "", "echo u >>a.txt; git stash -q", "main equal; not home"},
		"HomeOnOtherBranch": {"", "git checkout -q -b other; git commit -q --allow-empty -m o", "git checkout -q -b copy main; git branch -D main", "copy only-inside; main removed-inside; other only-host; home"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r, sb := thereWithRecord(t, c.prepare)
			run(t, dir, "sh", "-ec", c.home+"\n:")
			sh(t, sb, c.inside+"\n:")
			before := hostState(t, dir)
			same(t, "ledger", describe(readLedger(t, r, sb)), c.want)
			same(t, "the host", hostState(t, dir), before)
		})
	}
}

// TestLedgerAfterSync: a second branch stays pending until it is merged, whatever was fetched.
func TestLedgerAfterSync(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := thereWithRecord(t, "")
	sh(t, sb, commitThird+"git checkout -q -b side; echo s >s; git add s; git commit -qm side; git checkout -q main")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "after the sync", describe(readLedger(t, r, sb)), "main equal; side only-inside +i- pending; not home")
	res, err := r.Sync(t.Context(), sb, box)
	is(t, err, project.ErrNoNewWork)
	if list := wire.PendingBranches(res.Branches); len(list) != 1 || list[0].Name != "side" || list[0].Ahead != 1 {
		t.Errorf("pending after a sync without news: %+v", list)
	}
	if _, err := r.Merge(t.Context(), project.MergeOptions{Name: "box", Branch: "side"}); err != nil {
		t.Fatal(err)
	}
	same(t, "after the merge", describe(readLedger(t, r, sb)), "main behind +-i; side only-inside; home")
	same(t, "git", git(t, dir, "rev-list", "--count", "refs/sandbox/box/side", "--not", "--branches"), "0")
}

// TestLedgerOfStoppedSandbox: a rescue also updates what merge, diff and status read, so that a merge after
// the sandbox was stopped takes the newest work.
func TestLedgerOfStoppedSandbox(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := thereWithRecord(t, "")
	sh(t, sb, commitThird)
	if _, err := r.Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	sh(t, sb, "echo newer >c.txt; git commit -q -a --amend -m newer; echo w >work; echo x >>a.txt; git stash -q -- a.txt")
	if _, err := r.Rescue(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "fetched", git(t, dir, "rev-parse", "refs/sandbox/box/main"), sh(t, sb, "git rev-parse main"))
	l, err := r.ReadLedger(t.Context(), "box", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "ledger", describe(l), "main ahead +i- pending sandbox-dirty rescued; not home")
	if l.Live || l.Rescued.IsZero() || l.Stashes != 0 {
		t.Errorf("ledger %+v", l)
	}
	if live := readLedger(t, r, sb); live.Stashes != 0 || !live.Live {
		t.Errorf("a rescued stash counts: %+v", live)
	}
	if _, err := r.Merge(t.Context(), project.MergeOptions{Name: "box", Branch: "main"}); err != nil {
		t.Fatal(err)
	}
	same(t, "merged", git(t, dir, "log", "-1", "--format=%s"), "newer")
}

// TestLedgerOfNestedRepository: work in a submodule is pending until it was fetched.
func TestLedgerOfNestedRepository(t *testing.T) {
	testenv.Logic(t)
	_, r, sb := thereWithRecord(t, "git init -q ../mod; git -C ../mod commit -q --allow-empty -m m; git submodule --quiet add ../mod mod; git commit -qm mod")
	same(t, "before", describe(readLedger(t, r, sb)), "main equal; main equal; home")
	sh(t, sb, "cd mod; git commit -q --allow-empty -m inner")
	l := readLedger(t, r, sb)
	if l.IsHome() || len(l.Pending()) != 1 || l.Pending()[0].Repository != "mod" {
		t.Errorf("ledger %s %+v", describe(l), l.Pending())
	}
}
