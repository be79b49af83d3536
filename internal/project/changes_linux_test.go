package project_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// prepareChanges makes a repository with a commit on main, one on the branch fix in a working tree of its own, and
// work that is in no commit.
const prepareChanges = `git init -q -b main; git config user.name Eve; git config user.email eve@example.com
printf 'one\ntwo\n' >a.txt; printf '{"scripts":{"test":"go"}}' >package.json; printf 'gone\n' >gone.txt; git add .; git commit -qm first
git branch fix; git worktree add -q .worktrees/fix fix 2>/dev/null
cd .worktrees/fix; mkdir -p .github/workflows; echo 'on: push' >.github/workflows/ci.yml; printf 'h1:x\n' >go.sum; ln -s /etc/passwd out; git add .; git commit -qm ci
printf '{"scripts":{"test":"go","postinstall":"sh x"}}' >package.json; printf 'one\n2\n' >a.txt; rm gone.txt; mkdir hooks; echo '#!/bin/sh' >hooks/pre-commit
cp a.txt tool; chmod 755 tool; ln -s a.txt near; printf '\000\001' >binary; cd ../..
git init -q nested
`

// formatChanges formats a list of changes, a line for each file.
func formatChanges(l *wire.Changes) string {
	var b strings.Builder
	for _, f := range l.Files {
		fmt.Fprintf(&b, "%s %s +%d-%d %s\n", f.Status, f.Path, f.Inserted, f.Deleted, strings.Join(f.Risks, "; "))
	}
	return b.String()
}

const (
	committed = `added .github/workflows/ci.yml +1-0 run by CI
added go.sum +1-0 chooses versions of dependencies
added out +1-0 a link that leads out of the repository, to /etc/passwd
`
	uncommitted = `modified a.txt +1-1 
untracked binary +0-0 
deleted gone.txt +0-1 
untracked hooks/pre-commit +0-0 may be a git hook
untracked near +0-0 
modified package.json +1-1 scripts of npm: postinstall
untracked tool +0-0 a new program: its executable bit is set
`
)

// TestChanges lists and reads the changes of a branch with its working tree.
func TestChanges(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	sh(t, sb, prepareChanges)
	list := func(o project.ChangesOptions) *wire.Changes {
		t.Helper()
		o.Dir = project.Workspace
		l, err := project.ListChanges(t.Context(), sb, o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	same(t, "main", formatChanges(list(project.ChangesOptions{})), "added nested +0-0 a repository in the repository\n")
	same(t, "commits", formatChanges(list(project.ChangesOptions{Branch: "fix", View: wire.CommittedChanges})), committed)
	same(t, "uncommitted", formatChanges(list(project.ChangesOptions{Branch: "fix", View: wire.UncommittedChanges})), uncommitted)
	all := list(project.ChangesOptions{Branch: "fix"})
	if n := len(all.Files); n != 10 || all.Base != "main" || all.Tree != project.Workspace+"/.worktrees/fix" || all.Dir != all.Tree || all.To != "" {
		t.Errorf("%d files, base %q, tree %q, dir %q, to %q", n, all.Base, all.Tree, all.Dir, all.To)
	}
	// The same branch from its own tree; main, which has a reflog, has nothing since it began.
	here, err := project.ListChanges(t.Context(), sb, project.ChangesOptions{Dir: all.Tree + "/hooks"})
	if err != nil || here.Branch != "fix" || formatChanges(here) != formatChanges(all) {
		t.Errorf("from a directory below: %+v, %v", here, err)
	}
	for path, want := range map[string]wire.FileChange{
		"a.txt":    {Old: wire.FileSide{Exists: true, Size: 8, Text: "one\ntwo\n"}, New: wire.FileSide{Exists: true, Size: 6, Text: "one\n2\n"}},
		"binary":   {New: wire.FileSide{Exists: true, Size: 2, Omitted: "binary"}},
		"gone.txt": {Old: wire.FileSide{Exists: true, Size: 5, Text: "gone\n"}},
		"near":     {New: wire.FileSide{Exists: true, Size: 5, Text: "a.txt"}},
		"hooks":    {New: wire.FileSide{Exists: true, Omitted: "not a file"}},
	} {
		want.Path = path
		if got, err := project.ReadChange(t.Context(), sb, all.Dir, all.From, all.To, path); err != nil || *got != want {
			t.Errorf("%s: %+v, %v; want %+v", path, got, err, want)
		}
	}
	tip := list(project.ChangesOptions{Branch: "fix", View: wire.CommittedChanges}).To
	if got, err := project.ReadChange(t.Context(), sb, all.Dir, all.From, tip, "go.sum"); err != nil || got.New.Text != "h1:x\n" || got.Old.Exists {
		t.Errorf("go.sum: %+v, %v", got, err)
	}
}

// TestChangesSinceTheBranchCame compares a branch without another one with its first state here.
func TestChangesSinceTheBranchCame(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	sh(t, sb, "git init -q -b main; git config user.name Eve; git config user.email eve@example.com; echo 1 >a; git add a; git commit -qm 1; echo 2 >b; git add b; git commit -qm 2; echo u >u")
	l, err := project.ListChanges(t.Context(), sb, project.ChangesOptions{Dir: project.Workspace})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "main", formatChanges(l), "added b +1-0 \nuntracked u +0-0 \n")
	sh(t, sb, "rm -rf .git; git init -q -b main; git add a")
	if l, err = project.ListChanges(t.Context(), sb, project.ChangesOptions{Dir: project.Workspace}); err != nil {
		t.Fatal(err)
	}
	same(t, "a branch without a commit", formatChanges(l), "added a +1-0 \nuntracked b +0-0 \nuntracked u +0-0 \n")
}

// TestBadChanges asks for what isn't there or can't be.
func TestBadChanges(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	list := func(o project.ChangesOptions) error {
		o.Dir = project.Workspace
		_, err := project.ListChanges(t.Context(), sb, o)
		return err
	}
	if err := list(project.ChangesOptions{}); !errors.Is(err, project.ErrNoRepository) {
		t.Errorf("no repository: %v", err)
	}
	sh(t, sb, prepareChanges)
	for _, o := range []project.ChangesOptions{{Branch: "none"}, {Base: "none"}} {
		if err := list(o); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := list(project.ChangesOptions{Base: "--output=/workspace/written"}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an option as base: %v", err)
	}
	for _, c := range []struct{ from, path string }{{"HEAD", "a.txt"}, {"--textconv", "a.txt"}, {"", "../etc/passwd"}, {"", "/etc/passwd"}, {"", ""}, {"", "a\x00b"}} {
		if _, err := project.ReadChange(t.Context(), sb, project.Workspace, c.from, "", c.path); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("from %q, path %q: %v", c.from, c.path, err)
		}
	}
}

// TestChangesOfAVirtualSandbox uses the git of the virtual computer.
func TestChangesOfAVirtualSandbox(t *testing.T) {
	testenv.Logic(t)
	d := &virtual.Driver{}
	sb, err := d.Create(t.Context(), atoll.Spec{Dir: project.Workspace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
	sh(t, sb, "git init -q -b main; git config user.name Eve; git config user.email eve@example.com; echo 1 >a; git add a; git commit -qm 1; git checkout -q -b fix; echo 2 >b; git add b; git commit -qm 2; echo 3 >a; echo u >Makefile; chmod 4755 Makefile")
	l, err := project.ListChanges(t.Context(), sb, project.ChangesOptions{Dir: project.Workspace, Base: "main"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "fix", formatChanges(l), "untracked Makefile +0-0 runs with the rights of its owner: its set-user-id bit is set; run by make; a new program: its executable bit is set\nmodified a +1-1 \nadded b +1-0 \n")
	c, err := project.ReadChange(t.Context(), sb, l.Dir, l.From, l.To, "a")
	if err != nil || c.Old.Text != "1\n" || c.New.Text != "3\n" {
		t.Errorf("a: %+v, %v", c, err)
	}
}
