package project_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// there makes a repository and a sandbox that it is in.
func there(t *testing.T) (dir string, r *project.Repo, sb atoll.Sandbox) {
	t.Helper()
	dir = newRepo(t)
	sb = newSandbox(t)
	r = open(t, dir)
	carry(t, r, sb, project.ImportOptions{})
	return dir, r, sb
}

const commitThird = "echo three >c.txt; git add -A; git commit -q -m third; "

// TestSync has the host in each state, and looks at what a sync makes of it.
func TestSync(t *testing.T) {
	testenv.Logic(t)
	for name, c := range map[string]struct {
		home, inside string // shell text, before the sync
		want         error
		after        string // what git says of the host then; empty: as before
	}{
		"Forward":                        {"", commitThird, nil, "main third ||"},
		"HostAhead":                      {"git commit -q --allow-empty -m ahead", "", project.ErrNoNewWork, ""},
		"DirtyElsewhere":                 {"echo dirty >>a.txt; echo u >untracked", commitThird, nil, "main third | M a.txt|?? untracked||"},
		"DirtyInTheWay":                  {"echo dirty >>a.txt", "echo other >>a.txt; git commit -qam third", project.ErrDirty, ""},
		"StagedInTheWay":                 {"echo dirty >>a.txt; git add a.txt", "echo other >>a.txt; git commit -qam third", project.ErrDirty, ""},
		"UntrackedInTheWay":              {"echo mine >c.txt", commitThird, project.ErrDirty, ""},
		"IgnoredInTheWay":                {"echo SECRET >.env", "echo theirs >.env; git add -f .env; git commit -q -m env", project.ErrDirty, ""},
		"IgnoredFileWhereADirectoryGoes": {"echo SECRET >.env", "mkdir .env; echo theirs >.env/x; git add -f .env; git commit -q -m env", project.ErrDirty, ""},
		"IgnoredDirectoryWhereAFileGoes": {"mkdir build; echo mine >build/out", "echo theirs >build; git add -f build; git commit -q -m build", project.ErrDirty, ""},
		"LinkWhereADirectoryGoes":        {"ln -s /nowhere build", "mkdir build; echo theirs >build/out; git add -f build; git commit -q -m build", project.ErrDirty, ""},
		"TrackedFileBecomesDirectory":    {"", "git rm -q a.txt; mkdir a.txt; echo x >a.txt/x; git add -A; git commit -q -m third", nil, "main third ||"},
		"SameWorkOnBothSides":            {"echo dirty >>a.txt; echo new >n.txt; rm b.txt", "echo dirty >>a.txt; echo new >n.txt; rm b.txt; git add -A; git commit -q -m third", nil, "main third ||"},
		"SameWorkInNamesThatGitQuotes":   {`echo dirty >"$(printf 'a\nb')"; echo new >ümlaut; echo q >'"'`, `echo dirty >"$(printf 'a\nb')"; echo new >ümlaut; echo q >'"'; git add -A; git commit -q -m third`, nil, "main third ||"},
		"SameWorkAndMore":                {"echo dirty >>a.txt; echo new >n.txt", "echo dirty >>a.txt; echo other >n.txt; git add -A; git commit -q -m third", project.ErrDirty, ""},
		"StagedIsAnotherState":           {"echo staged >a.txt; git add a.txt; echo dirty >a.txt", "echo dirty >a.txt; git commit -qam third", project.ErrDirty, ""},
		"Diverged":                       {"git commit -q --allow-empty -m mine", commitThird, project.ErrDiverged, ""},
		"OtherBranchClean":               {"", "git checkout -q -b feature/x; " + commitThird, nil, "feature/x third ||"},
		"OtherBranchUntracked":           {"echo u >untracked", "git checkout -q -b feature/x; " + commitThird, nil, "feature/x third |?? untracked||"},
		"OtherBranchDirty":               {"echo dirty >>b.txt", "git checkout -q -b feature/x; " + commitThird, project.ErrDirty, ""},
		"OtherBranchStaged":              {"echo dirty >s; git add s", "git checkout -q -b feature/x; " + commitThird, project.ErrDirty, ""},
		"OtherBranchIgnored":             {"echo SECRET >.env", "git checkout -q -b feature/x; echo theirs >.env; git add -f .env; git commit -q -m env", project.ErrDirty, ""},
		"OtherBranchDiverged":            {"git branch feature/x; git checkout -q feature/x; git commit -q --allow-empty -m mine; git checkout -q main", "git checkout -q -b feature/x; " + commitThird, project.ErrDiverged, ""},
		"OtherBranchHostAhead":           {"git branch old HEAD^; git checkout -q old", "", nil, "main second ||"},
		"HostDetached":                   {"git checkout -q --detach", commitThird, nil, "main third ||"},
		"RenamedDefaultBranch":           {"", "git branch -m main trunk; " + commitThird, nil, "trunk third ||"},
		"SandboxDetached":                {"", "git checkout -q --detach; " + commitThird, project.ErrDetached, ""},
		"CheckedOutInAnotherTree":        {"git checkout -q -b mine; git worktree add -q ../linked main", commitThird, atoll.ErrState, ""},
		"Rewritten":                      {"", "git commit -q --amend -m again", project.ErrDiverged, ""},
		"Nothing":                        {"", "", project.ErrNoNewWork, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r, sb := there(t)
			run(t, dir, "sh", "-ec", c.home+"\n:")
			git(t, dir, "stash", "list")
			sh(t, sb, c.inside+"\n:")
			say := func() string {
				return run(t, dir, "sh", "-c", `printf '%s %s ' "$(git branch --show-current)" "$(git log -1 --format=%s)"; printf '|'; git status --porcelain -z | tr '\0' '|'; echo '|'`)
			}
			full := func() string { return hostState(t, dir) + run(t, dir, "sh", "-c", "cat .env build/* * 2>&1 || :") }
			before := full()

			dry := box
			dry.DryRun = true
			res, err := r.Sync(t.Context(), sb, dry)
			if c.want == nil && err != nil {
				t.Fatalf("dry run: %v", err)
			}
			if c.want != nil {
				is(t, err, c.want)
			}
			if res.Applied || full() != before || git(t, dir, "for-each-ref", "refs/sandbox") != "" {
				t.Errorf("a dry run changed something:\n%s\n%s", before, full())
			}
			res, err = r.Sync(t.Context(), sb, box)
			if c.want != nil {
				is(t, err, c.want)
				same(t, "the host", full(), before)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !res.Applied {
				t.Errorf("not landed: %+v", res)
			}
			same(t, "the host", say(), c.after)
			same(t, "fsck", git(t, dir, "fsck", "--strict", "--no-progress", "--no-dangling"), "")
			same(t, "index", git(t, dir, "ls-files", "--unmerged"), "")
		})
	}
}

func TestSyncOfAnotherBranch(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, "git branch side; git worktree add -q /tmp/side side; cd /tmp/side; echo s >s; git add s; git commit -qm side")
	f := box
	f.Branch = "nowhere"
	_, err := r.Sync(t.Context(), sb, f)
	is(t, err, atoll.ErrNotFound)
	f.Branch = "side"
	res, err := r.Sync(t.Context(), sb, f)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Switched || res.TargetBranch != "side" || res.Commits != 1 {
		t.Errorf("result %+v", res)
	}
	same(t, "the host", git(t, dir, "log", "-1", "--format=%s %D"), "side HEAD -> side")
}

// TestManySyncsAtOnce: each does its work or says that another did.
func TestManySyncsAtOnce(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, commitThird+"echo dirty >>a.txt")
	errs := make(chan error)
	for range 4 {
		go func() {
			_, err := r.Fetch(t.Context(), sb, box)
			errs <- err
		}()
	}
	done := 0
	for range 4 {
		if err := <-errs; err == nil {
			done++
		} else if !errors.Is(err, project.ErrMoved) {
			t.Error(err)
		}
	}
	if done == 0 {
		t.Error("nobody did it")
	}
	same(t, "work", git(t, dir, "show", "refs/sandbox/box/wip/main:a.txt"), "one\ndirty")
	same(t, "fsck", git(t, dir, "fsck", "--strict", "--no-progress", "--no-dangling"), "")
}

// TestAutoCommitOnARealSandbox: a commit inside is home soon after, and nobody
// inside can call anybody.
func TestAutoCommitOnARealSandbox(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	synced := make(chan struct{})
	a := project.AutoSync{Mode: project.AutoCommit, Delay: 50 * time.Millisecond, Sync: func(ctx context.Context) error {
		res, err := r.Sync(ctx, sb, box)
		if err == nil && res.Applied {
			close(synced)
		}
		return err
	}}
	ended := make(chan error)
	go func() { ended <- a.Run(ctx, sb) }()
	sh(t, sb, commitThird)
	select {
	case <-synced:
	case err := <-ended:
		t.Fatal(err)
	}
	cancel()
	is(t, <-ended, context.Canceled)
	same(t, "file", read(t, dir, "c.txt"), "three\n")
}

// TestStashSurvivesSync: the host's stash is as it was.
func TestStashSurvivesSync(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	write(t, dir, "a.txt", "to stash\n")
	git(t, dir, "stash")
	before := git(t, dir, "stash", "list", "--format=%H")
	sh(t, sb, commitThird)
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "stash", git(t, dir, "stash", "list", "--format=%H"), before)
	git(t, dir, "stash", "pop", "-q")
	same(t, "file", read(t, dir, "a.txt"), "to stash\n")
}

func TestWorkIsFetched(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, "echo staged >a.txt; git add a.txt; echo worked >a.txt; echo n >new; rm b.txt; git stash list; printf x >'new\nline'")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	const work = "refs/sandbox/box/wip/main"
	same(t, "work", git(t, dir, "show", work+":a.txt"), "worked")
	same(t, "staged", git(t, dir, "show", work+"^2:a.txt"), "staged")
	same(t, "names", git(t, dir, "diff", "-z", "--name-status", "HEAD", work), "M\x00a.txt\x00D\x00b.txt\x00A\x00new\x00A\x00new\nline\x00")
	same(t, "the index inside", sh(t, sb, "git status --porcelain -z | tr '\\0' '|'"), "MM a.txt| D b.txt|?? new|?? new\nline|")
	same(t, "left inside", sh(t, sb, "ls .git | grep atoll || true"), "")

	// It was committed as it was: the ref goes.
	sh(t, sb, "git add -A; git commit -qm all")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "refs", git(t, dir, "for-each-ref", "--format=%(refname)", "refs/sandbox"), "refs/sandbox/box/main")

	// It was thrown away: it stays as a rescue.
	sh(t, sb, "echo precious >p")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	sh(t, sb, "rm p")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	rescued, err := r.Rescues(t.Context(), "box")
	if err != nil || len(rescued) != 1 || len(rescued[0].Refs) != 1 {
		t.Fatalf("rescues %v, %v", rescued, err)
	}
	same(t, "precious", git(t, dir, "show", rescued[0].Refs[0]+":p"), "precious")
}

// TestWorkInTheInstantOfTheIndex: see racy.
func TestWorkInTheInstantOfTheIndex(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, racy)
	if _, err := r.Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "work", git(t, dir, "show", "refs/sandbox/box/wip/main:a.txt"), "ONE")
}

func TestBranchesInTheWayOfEachOther(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, "git branch a; git branch wip/x; git branch Main; git branch 'rescue'; git branch 'x\u202ey'; git branch "+strings.Repeat("l", 200))
	got, err := r.Fetch(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	odd := 0
	for _, u := range got.Updates {
		if u.InvalidName {
			odd++
		}
		if strings.Contains(u.SandboxName, "\u202e") {
			t.Errorf("shown as %q", u.SandboxName)
		}
	}
	if odd != 5 || len(got.Updates) != 7 { // Main or main, wip/x, rescue, x?y, lll…
		t.Errorf("%d odd of %d: %+v", odd, len(got.Updates), got.Updates)
	}
	sh(t, sb, "git commit -q --allow-empty -m more; git branch -D a; git branch a/b; git commit -q --allow-empty -m more")
	if _, err := r.Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "what was a", git(t, dir, "log", "-1", "--format=%s", "refs/sandbox/box/a"), "second")
	same(t, "what is a/b", git(t, dir, "for-each-ref", "--format=x", "--points-at", sh(t, sb, "git rev-parse a/b"), "refs/sandbox/box/odd"), "x")
}

func TestMerge(t *testing.T) {
	testenv.Logic(t)
	for name, c := range map[string]struct {
		home, inside string
		want         error
		conflicts    string
	}{
		"Clean":    {"echo 1 >mine; git add mine; git commit -q -m mine", commitThird, nil, ""},
		"Forward":  {"", commitThird, nil, ""},
		"Nothing":  {"echo 1 >mine; git add mine; git commit -q -m mine", "", project.ErrNoNewWork, ""},
		"Conflict": {"echo 1 >>a.txt; git commit -q -am mine", "echo 2 >>a.txt; echo x >x; git add -A; git commit -q -m theirs", project.ErrConflict, "a.txt"},
		"Dirty":    {"echo 1 >mine; git add mine; git commit -q -m mine; echo dirty >>b.txt", "echo 2 >>b.txt; git commit -q -am theirs", project.ErrDirty, ""},
		"Detached": {"git checkout -q --detach", commitThird, project.ErrDetached, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r, sb := there(t)
			run(t, dir, "sh", "-ec", c.home+"\n:")
			sh(t, sb, c.inside+"\n:")
			if _, err := r.Fetch(t.Context(), sb, box); err != nil {
				t.Fatal(err)
			}
			before := hostState(t, dir)
			m := project.MergeOptions{Name: "box", Branch: "main", DryRun: true}
			for _, m.DryRun = range []bool{true, false} {
				res, err := r.Merge(t.Context(), m)
				if c.want != nil {
					is(t, err, c.want)
				} else if err != nil {
					t.Fatal(err)
				}
				same(t, "conflicts", strings.Join(res.Conflicts, " "), c.conflicts)
				if m.DryRun || c.want != nil {
					same(t, "the host", hostState(t, dir), before)
					continue
				}
				same(t, "file", read(t, dir, "c.txt"), "three\n")
				same(t, "commit", git(t, dir, "rev-parse", "HEAD"), res.Commit)
				same(t, "author", git(t, dir, "log", "-1", "--format=%an"), "Ada")
			}
		})
	}
}

// TestFetchedWhileSomebodyLooks: what somebody agrees to is what he has looked
// at, though a sync by itself has fetched more of the sandbox meanwhile.
func TestFetchedWhileSomebodyLooks(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, commitThird)
	if _, err := r.Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	for verb, do := range map[string]func(*project.Repo, context.Context, project.MergeOptions) (*project.MergeResult, error){"merge": (*project.Repo).Merge, "apply": (*project.Repo).Apply} {
		looked, err := do(r, t.Context(), project.MergeOptions{Name: "box", Branch: "main", DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		sh(t, sb, "echo 'touch /tmp/oops' >>run.sh; git add -A; git commit -q -m "+verb)
		if _, err := r.Fetch(t.Context(), sb, box); err != nil {
			t.Fatal(err)
		}
		before := hostState(t, dir)
		_, err = do(r, t.Context(), project.MergeOptions{Name: "box", Branch: "main", Tip: looked.Tip})
		is(t, err, project.ErrMoved)
		same(t, "the host", hostState(t, dir), before)
	}
}

func TestApply(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	write(t, dir, "mine", "mine\n")
	sh(t, sb, "echo three >>a.txt; printf 'bin\\0ary' >bin; ln -s a.txt link; git add -A; git commit -qm third; echo uncommitted >>b.txt")
	if _, err := r.Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	m := project.MergeOptions{Name: "box", Branch: "wip/main", DryRun: true}
	if _, err := r.Apply(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	same(t, "after a dry run", git(t, dir, "status", "--porcelain"), "?? mine")
	m.DryRun = false
	if _, err := r.Apply(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	same(t, "status", git(t, dir, "status", "--porcelain"), " M a.txt\n M b.txt\n?? bin\n?? link\n?? mine")
	same(t, "binary", read(t, dir, "bin"), "bin\x00ary")
	before := hostState(t, dir)
	_, err := r.Apply(t.Context(), m)
	is(t, err, project.ErrNoNewWork) // the host has all of it
	same(t, "the second time", hostState(t, dir), before)
	write(t, dir, "b.txt", "another\n")
	before = hostState(t, dir)
	_, err = r.Apply(t.Context(), m)
	is(t, err, project.ErrConflict)
	same(t, "after a conflict", hostState(t, dir), before)
	_, err = r.Apply(t.Context(), project.MergeOptions{Name: "box", Branch: "nowhere"})
	is(t, err, atoll.ErrNotFound)
}

func TestWorktrees(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	ctx := t.Context()
	tree, err := project.AddWorktree(ctx, sb, "feature/x")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "path", tree.Path, "/workspace/.worktrees/feature/x")
	same(t, "status of the workspace", sh(t, sb, "git status --porcelain"), "")
	for branch, want := range map[string]error{
		"feature/x": atoll.ErrExists, "main": atoll.ErrExists, "feature/x/y": atoll.ErrExists, "feature": atoll.ErrExists,
		"": atoll.ErrInvalid, "-rf": atoll.ErrInvalid, "../up": atoll.ErrInvalid, "a b": atoll.ErrInvalid, "a/.git/b": atoll.ErrInvalid, "x\x1b[2J": atoll.ErrInvalid, "x.lock": atoll.ErrInvalid,
	} {
		_, err := project.AddWorktree(ctx, sb, branch)
		if errors.Is(want, atoll.ErrExists) && branch == "feature" && err != nil { // git's own word: a directory of branches
			continue
		}
		is(t, err, want)
	}
	sh(t, sb, "cd .worktrees/feature/x; echo x >x.txt; git add x.txt; git commit -qm x; echo unsaved >u.txt")
	trees, err := project.Worktrees(ctx, sb)
	if err != nil || len(trees) != 2 || !trees[0].Main || trees[1].Branch != "feature/x" {
		t.Fatalf("trees %+v, %v", trees, err)
	}
	if _, err := r.Sync(ctx, sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "its commit", git(t, dir, "show", "refs/sandbox/box/feature/x:x.txt"), "x")
	same(t, "its work", git(t, dir, "show", "refs/sandbox/box/wip/feature/x:u.txt"), "unsaved")

	is(t, project.RemoveWorktree(ctx, sb, "feature/x", project.KeepWork), project.ErrUnsaved)
	is(t, project.RemoveWorktree(ctx, sb, "main", project.DiscardWork), atoll.ErrInvalid)
	is(t, project.RemoveWorktree(ctx, sb, "nowhere", project.DiscardWork), atoll.ErrNotFound)
	same(t, "still there", sh(t, sb, "cat .worktrees/feature/x/u.txt"), "unsaved")
	if err := project.RemoveWorktree(ctx, sb, "feature/x", project.DiscardWork); err != nil {
		t.Fatal(err)
	}
	same(t, "gone", sh(t, sb, "ls -A .worktrees/feature; git log -1 --format=%s feature/x"), "x")
	if _, err := project.AddWorktree(ctx, sb, "feature/x"); err != nil {
		t.Fatal(err)
	}
	if err := project.RemoveWorktree(ctx, sb, "feature/x", project.KeepWork); err != nil {
		t.Fatal(err)
	}
}

func TestRescue(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	ctx := t.Context()
	_, err := r.Rescue(ctx, sb, box)
	is(t, err, project.ErrNoNewWork)
	sh(t, sb, `echo stashed >a.txt; git stash -q; echo s2 >b.txt; git stash -q
git branch side; git worktree add -q /tmp/other -b other; echo o >/tmp/other/o.txt
git worktree add -q --detach /tmp/loose; cd /tmp/loose; git commit -q --allow-empty -m loose; cd /workspace
git tag blob $(git hash-object -w a.txt); git tag -a -m note note
echo dirty >dirty.txt; git init -q inner; echo i >inner/i.txt`)
	before := hostState(t, dir)
	got, err := r.Rescue(ctx, sb, box)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the host", hostState(t, dir), before)
	below := "refs/sandbox/box/rescue/" + got.Time.Format("20060102T150405.000000000Z") + "/"
	for _, c := range [][2]string{
		{"wip/main:dirty.txt", "dirty"}, {"wip/other:o.txt", "o"}, {"stash/0:b.txt", "s2"}, {"stash/1:a.txt", "stashed"}, {"tag/blob", "one"},
	} {
		same(t, c[0], git(t, dir, "cat-file", "-p", below+c[0]), c[1])
	}
	same(t, "loose", git(t, dir, "log", "-1", "--format=%s", below+"head/loose"), "loose")
	inner := slices.Collect(func(yield func(string) bool) {
		for _, ref := range got.Refs {
			if strings.Contains(ref, "/nested/") && !yield(ref) {
				return
			}
		}
	})
	if len(inner) != 1 {
		t.Fatalf("inner refs %q", inner)
	}
	same(t, "inner", git(t, dir, "show", inner[0]+":i.txt"), "i")

	list, err := r.Rescues(ctx, "box")
	if err != nil || len(list) != 1 || !list[0].Time.Equal(got.Time) || len(list[0].Refs) != len(got.Refs) {
		t.Fatalf("list %v, %v", list, err)
	}
	branches, err := r.Restore(ctx, "box", got.Time, "rescued/")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "restored", git(t, dir, "show", "rescued/wip/main:dirty.txt"), "dirty")
	if !slices.Contains(branches, "rescued/head/loose") {
		t.Errorf("branches %q", branches)
	}
	if _, err := r.Restore(ctx, "box", got.Time, "rescued/"); err != nil { // the same twice
		t.Fatal(err)
	}
	git(t, dir, "update-ref", "refs/heads/rescued/wip/main", "HEAD")
	_, err = r.Restore(ctx, "box", got.Time, "rescued/")
	is(t, err, atoll.ErrExists)
	_, err = r.Restore(ctx, "box", got.Time.Add(time.Hour), "rescued/")
	is(t, err, atoll.ErrNotFound)
	if n, err := r.Forget(ctx, "box", got.Time); n != 0 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
	if n, err := r.Forget(ctx, "box", got.Time.Add(time.Second)); n != 1 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
	same(t, "rescues", git(t, dir, "for-each-ref", "refs/sandbox/box/rescue"), "")
	same(t, "fetched with the rescue", git(t, dir, "rev-parse", "refs/sandbox/box/main"), sh(t, sb, "git rev-parse main"))
}

func TestRescueInTheMiddleOfAMerge(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, "git checkout -q -b side; echo 1 >>a.txt; git commit -qam 1; git checkout -q main; echo 2 >>a.txt; git commit -qam 2; git merge -q side || true")
	got, err := r.Rescue(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(got.Refs, func(r string) bool { return strings.HasSuffix(r, "wip/main") }); i < 0 || !strings.Contains(git(t, dir, "show", got.Refs[i]+":a.txt"), "<<<<<<<") {
		t.Errorf("refs %q", got.Refs)
	}
	same(t, "status inside", sh(t, sb, "git status --porcelain"), "UU a.txt")
}

// TestNothingIsLeft looks for temporary files of all of the above.
func TestNothingIsLeft(t *testing.T) {
	testenv.Logic(t)
	tmp := t.TempDir()
	dir := newRepo(t)
	write(t, dir, "a.txt", "dirty\n")
	sb := newSandbox(t)
	t.Setenv("TMPDIR", tmp)
	r := open(t, dir)
	killed := filepath.Join(dir, ".git/objects/tmp_objdir-atoll-1") // as a process that was killed leaves it
	write(t, killed, "objects/x", "x")
	if err := os.Chtimes(killed, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "gc", "-q")
	carry(t, r, sb, project.ImportOptions{})
	sh(t, sb, "git commit -qam third")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left in TMPDIR: %v, %v", left, err)
	}
	if left := glob(t, filepath.Join(dir, ".git/objects/tmp*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
