package project_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestApplyTo commits work of a sandbox, also uncommitted, to branches of the host that are not checked out.
func TestApplyTo(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	write(t, dir, "mine", "mine\n")
	sh(t, sb, "echo three >>a.txt; git add -A; git commit -qm third; echo uncommitted >>b.txt; echo x: >Makefile")
	if _, err := r.Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	before := hostState(t, dir)
	m := project.MergeOptions{Name: "box", Branch: "wip/main", Target: "review/main", DryRun: true}
	res, err := r.Apply(t.Context(), m)
	if err != nil || res.Files != 3 || len(res.Risks) != 1 || res.Commit != "" {
		t.Fatalf("dry run: %+v, %v", res, err)
	}
	same(t, "after a dry run", hostState(t, dir), before)
	m.DryRun, m.Message = false, "from the sandbox"
	if res, err = r.Apply(t.Context(), m); err != nil || res.Commit != git(t, dir, "rev-parse", "review/main") {
		t.Fatalf("%+v, %v", res, err)
	}
	same(t, "the commit", git(t, dir, "log", "-1", "--format=%s %an", "review/main"), "from the sandbox Ada")
	same(t, "its parent", git(t, dir, "rev-parse", "review/main^"), git(t, dir, "rev-parse", "main"))
	same(t, "its files", git(t, dir, "show", "review/main:b.txt"), git(t, dir, "show", "main:b.txt")+"\nuncommitted")
	same(t, "the working tree", git(t, dir, "status", "--porcelain"), "?? mine")
	_, err = r.Apply(t.Context(), m)
	is(t, err, project.ErrNoNewWork)

	// One that has gone on gets another commit, or a conflict changes nothing.
	git(t, dir, "branch", "other", "main^")
	if _, err = r.Apply(t.Context(), project.MergeOptions{Name: "box", Branch: "main", Target: "other"}); err != nil {
		t.Fatal(err)
	}
	same(t, "another's commit", git(t, dir, "log", "-1", "--format=%s", "other"), "Apply main of sandbox box")
	run(t, dir, "sh", "-ec", "git worktree add -q ../tree -b theirs; cd ../tree; echo theirs >a.txt; git commit -qam theirs; git checkout -q --detach")
	before = hostState(t, dir)
	res, err = r.Apply(t.Context(), project.MergeOptions{Name: "box", Branch: "main", Target: "theirs"})
	is(t, err, project.ErrConflict)
	if len(res.Conflicts) != 1 || res.Conflicts[0] != "a.txt" {
		t.Errorf("conflicts: %q", res.Conflicts)
	}
	run(t, dir, "git", "-C", "../tree", "checkout", "-q", "theirs")
	for target, want := range map[string]error{"main": atoll.ErrState, "theirs": atoll.ErrState, "../x": atoll.ErrInvalid, "main/x": nil} {
		_, err = r.Apply(t.Context(), project.MergeOptions{Name: "box", Branch: "main", Target: target})
		if want != nil {
			is(t, err, want)
		} else if err == nil {
			t.Errorf("a branch below another was created: %s", target)
		}
	}
	same(t, "after refusals", hostState(t, dir), before)
}
