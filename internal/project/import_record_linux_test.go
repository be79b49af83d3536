package project_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// carriedIn makes a repository, has shell text leave uncommitted work in it, and
// carries that into a sandbox, as 'atoll up' does.
func carriedIn(t *testing.T, sb atoll.Sandbox, dirty string) (dir string, r *project.Repo, f project.FetchOptions) {
	t.Helper()
	dir = newRepo(t)
	run(t, dir, "sh", "-ec", dirty+"\n:")
	r = open(t, dir)
	return dir, r, carryAndKeep(t, r, sb)
}

func carryAndKeep(t *testing.T, r *project.Repo, sb atoll.Sandbox) project.FetchOptions {
	t.Helper()
	p, err := r.PlanImport(t.Context(), project.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := box
	f.ImportedTree = p.Tree
	for _, err := range []error{p.Execute(t.Context(), sb), p.Record(t.Context(), f.Name), p.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

const kept = "refs/sandbox/box/carried/work"

// ourWork leaves uncommitted work of each kind.
const ourWork = `echo ours >>a.txt; echo new >n.txt; chmod +x b.txt; ln -s a.txt link; mkdir sub; echo deep >sub/deep`

// theirWork goes on with that, and commits it.
const theirWork = `for f in a.txt n.txt b.txt sub/deep; do echo theirs >>$f; done; ln -sf n.txt link; git add -A; git commit -q -m third`

// reset makes a sandbox that another case has used like new.
func reset(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	sh(t, sb, "find . -mindepth 1 -delete; rm -rf /tmp/o /tmp/ours")
}

// TestSyncOverWhatWentIn: uncommitted work that went in, and was worked on
// there, is not in the way of what was made of it.
func TestSyncOverWhatWentIn(t *testing.T) {
	testenv.Logic(t)
	const landed = "main third ||"
	sb := newSandbox(t)
	for name, c := range map[string]struct {
		home   string // shell text, before it is carried in
		inside string
		later  string // on the host, before the sync
		after  string // what git says of the host then
	}{
		"EachKind":                  {ourWork, theirWork, "", landed},
		"Staged":                    {ourWork + "; git add -A", theirWork, "", landed},
		"OnlyOneIsCommitted":        {ourWork, "echo theirs >>a.txt; git commit -q -m third a.txt", "", "main third | M b.txt|?? link|?? n.txt|?? sub/deep||"},
		"AndDirtyElsewhere":         {"echo ours >>a.txt", changeA + "; echo n >n", "echo dirty >>b.txt; echo s >s; git add s a.txt", "main third | M b.txt|A  s||"},
		"RemovedInside":             {ourWork, "rm a.txt n.txt; git add -A; git commit -q -m third", "", "main third |?? n.txt||"},
		"RemovedHere":               {"rm a.txt", "echo again >a.txt; git add -A; git commit -q -m third", "", landed},
		"BecomesADirectory":         {"echo ours >>a.txt", "rm a.txt; mkdir a.txt; echo x >a.txt/x; git add -A; git commit -q -m third", "", landed},
		"NewBecomesADirectory":      {"echo new >n", "rm n; mkdir n; echo x >n/x; git add -A; git commit -q -m third", "", landed},
		"BecomesALink":              {"echo ours >>a.txt", "ln -sf b.txt a.txt; git add -A; git commit -q -m third", "", landed},
		"StagedIsWhatComes":         {ourWork, "git add -A; git commit -q -m third", "git add -A", landed},
		"NamesWithNewlines":         {"echo new >'n\nl'", "echo more >>'n\nl'; git add -A; git commit -q -m third", "", landed},
		"SameOnAnotherBranchInside": {"echo ours >>a.txt", "git checkout -q -b feature; " + changeA, "git checkout -q -b feature", "feature third ||"},
	} {
		t.Run(name, func(t *testing.T) {
			reset(t, sb)
			dir, r, f := carriedIn(t, sb, c.home)
			ours := git(t, dir, "ls-tree", "-r", kept)
			sh(t, sb, c.inside+"\n:")
			run(t, dir, "sh", "-ec", c.later+"\n:")
			before := everything(t, dir)
			dry := f
			dry.DryRun = true
			would, err := r.Sync(t.Context(), sb, dry)
			if err != nil {
				t.Fatalf("dry run: %v", err)
			}
			same(t, "after a dry run", everything(t, dir), before)
			res, err := r.Sync(t.Context(), sb, f)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "what is gone over", strings.Join(res.Overwritten, " "), strings.Join(would.Overwritten, " "))
			say := run(t, dir, "sh", "-c", `printf '%s %s ' "$(git branch --show-current)" "$(git log -1 --format=%s)"; printf '|'; git status --porcelain -uall -z | tr '\0' '|'; echo '|'`)
			same(t, "the host", say, c.after)
			same(t, "tip", git(t, dir, "rev-parse", "HEAD"), sh(t, sb, "git rev-parse HEAD"))
			same(t, "fsck", git(t, dir, "fsck", "--strict", "--no-progress", "--no-dangling"), "")
			same(t, "left over", strings.Join(glob(t, dir+"/.git/objects/tmp_*"), " "), "")
			if len(res.Overwritten) == 0 {
				same(t, "kept", res.RescueRef, "")
				return
			}
			saved, err := r.Rescues(t.Context(), "box")
			if err != nil || len(saved) != 1 || saved[0].Refs[0] != res.RescueRef {
				t.Errorf("rescues %v, %v", saved, err)
			}
			if _, err := r.Restore(t.Context(), "box", saved[0].Time, "rescued/"); err != nil {
				t.Error(err)
			}
			same(t, "restored", git(t, dir, "ls-tree", "-r", "rescued/carried/work"), ours)
		})
	}
}

// changeA goes on with what went in as a.txt, and commits it.
const changeA = "echo theirs >>a.txt; git commit -qam third"

// everything is the host's state, files, and what is kept.
func everything(t *testing.T, dir string) string {
	t.Helper()
	return hostState(t, dir) + run(t, dir, "sh", "-c", "cat .env * 2>&1; ls -l | cut -c1-10; git for-each-ref refs/sandbox/box/carried refs/sandbox/box/rescue")
}

// TestNotCertainInside: what was done inside does not show that it was made of
// what went in, or that all of it was. Then that stays.
func TestNotCertainInside(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	for name, c := range map[string]struct{ home, inside string }{
		"StillDirty":            {"echo ours >>a.txt", "cp a.txt /tmp/ours; git checkout -q a.txt; " + changeA + "; cp /tmp/ours a.txt"},
		"DirtyAgain":            {"echo ours >>a.txt", changeA + "; echo more >>a.txt"},
		"Stashed":               {"echo ours >>a.txt", "git stash -q; " + changeA},
		"FromAnotherTree":       {"echo ours >>a.txt", "git worktree add -q --detach /tmp/o; cd /tmp/o; " + changeA + "; cd /workspace; git update-ref refs/heads/main $(git -C /tmp/o rev-parse HEAD)"},
		"OnAnotherBranch":       {"echo ours >>a.txt", "git checkout -q -b feature; " + changeA},
		"BecomesARepository":    {"echo new >n", "rm n; git init -q n; git -C n -c user.name=A -c user.email=a@b commit -q --allow-empty -m in; git add n 2>/dev/null; git commit -q -m third"},
		"WasARepository":        {"git init -q n; git -C n commit -q --allow-empty -m in", "rm -rf n; echo n >n; git add -A; git commit -q -m third"},
		"WasADirectory":         {"mkdir n; echo x >n/x", "rm -r n; echo n >n; git add -A; git commit -q -m third"},
		"AnotherStateIsStaged":  {"echo staged >a.txt; git add a.txt; echo ours >>a.txt", changeA},
		"NotTheOneThatIsDirty":  {"echo ours >>a.txt; mkdir d; echo mine >d/.env", changeA + "; mkdir -p d; echo x >d/.env; git add -f d/.env; git commit -q -m env"},
		"OtherTreeHasTheBranch": {"echo ours >>a.txt", "git stash -q; git checkout -q -b other; git worktree add -q /tmp/o main; cd /tmp/o; " + changeA + "; cd /workspace; git stash pop -q"},
	} {
		t.Run(name, func(t *testing.T) {
			reset(t, sb)
			dir, r, f := carriedIn(t, sb, c.home)
			sh(t, sb, c.inside+"\n:")
			before := everything(t, dir)
			if name == "OtherTreeHasTheBranch" {
				f.Branch = "main"
			}
			_, err := r.Sync(t.Context(), sb, f)
			is(t, err, project.ErrDirty)
			same(t, "the host", everything(t, dir), before)
		})
	}
}

// TestNotCertainHere: the host's files are not any more what went in, or it can't be
// known what that was. When they are again, they are moved forward.
func TestNotCertainHere(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	dir, r, f := carriedIn(t, sb, "echo ours >>a.txt; ln -s a.txt link")
	sh(t, sb, "echo theirs >>a.txt; echo x >x; ln -sf x link; echo x >.env; git add -A; git add -f .env; git commit -q -m third")
	for _, c := range []struct {
		what, change, undo string
		want               error
	}{
		{"Changed", "cp -p a.txt ../a; echo later >>a.txt", "mv ../a a.txt", project.ErrDirty},
		{"Mode", "chmod +x a.txt", "chmod -x a.txt", project.ErrDirty},
		{"Removed", "mv a.txt ..", "mv ../a.txt .", project.ErrDirty},
		{"Link", "ln -sf b.txt link", "ln -sf a.txt link", project.ErrDirty},
		{"AnotherIsInTheWay", "echo mine >x", "rm x", project.ErrDirty},
		{"IgnoredIsInTheWay", "echo SECRET >.env", "rm .env", project.ErrDirty},
		{"AnotherStateIsStaged", "cp a.txt ..; echo s >a.txt; git add a.txt; mv ../a.txt .", "git reset -q", project.ErrDirty},
		{"RemovalIsStaged", "git rm -q --cached a.txt", "git reset -q", project.ErrDirty},
		{"Committed", "cp a.txt ..; echo s >a.txt; git commit -qm mine a.txt; mv ../a.txt .", "git reset -q --soft HEAD^; git reset -q", project.ErrDiverged},
		{"MergeUnderWay", "git rev-parse HEAD^ >.git/MERGE_HEAD", "rm .git/MERGE_HEAD", project.ErrDirty},
		{"KeptIsAnother", "git update-ref refs/saved " + kept + "; git update-ref " + kept + " HEAD", "git update-ref " + kept + " refs/saved", project.ErrDirty},
		{"KeptIsGone", "git update-ref -d " + kept, "git update-ref " + kept + " refs/saved", project.ErrDirty},
		{"Diverged", "git commit -q --allow-empty -m mine", "git reset -q --soft HEAD^", project.ErrDiverged},
	} {
		run(t, dir, "sh", "-ec", c.change)
		before := everything(t, dir)
		if _, err := r.Sync(t.Context(), sb, f); !errors.Is(err, c.want) {
			t.Fatalf("%s: got error %v, want %v", c.what, err, c.want)
		}
		same(t, c.what, everything(t, dir), before)
		run(t, dir, "sh", "-ec", c.undo)
	}
	if _, err := r.Sync(t.Context(), sb, f); err != nil {
		t.Fatal(err)
	}
	same(t, "file", read(t, dir, "a.txt"), "one\nours\ntheirs\n")
	same(t, "the host", git(t, dir, "status", "--porcelain"), "")
}

// TestStagedWorkIsKeptApart: what is kept has what is staged as its second parent.
func TestStagedWorkIsKeptApart(t *testing.T) {
	testenv.Logic(t)
	dir, _, _ := carriedIn(t, newSandbox(t), "echo staged >a.txt; git add a.txt; echo worked >a.txt; echo n >n")
	same(t, "work", git(t, dir, "show", kept+":a.txt"), "worked")
	same(t, "staged", git(t, dir, "show", kept+"^2:a.txt"), "staged")
	same(t, "before", git(t, dir, "show", kept+"^1:a.txt"), "one")
	git(t, dir, "gc", "-q", "--prune=now")
	same(t, "after an upkeep", git(t, dir, "show", kept+":n"), "n")
}

// TestWentInTwice: what an earlier sandbox of the name was given counts for
// that one only.
func TestWentInTwice(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	dir, r, first := carriedIn(t, sb, "echo ours >>a.txt")
	write(t, dir, "a.txt", "two\n")
	reset(t, sb)
	second := carryAndKeep(t, r, sb)
	sh(t, sb, "echo theirs >>a.txt; git commit -qam third")
	_, err := r.Sync(t.Context(), sb, first)
	is(t, err, project.ErrDirty)
	if _, err := r.Sync(t.Context(), sb, second); err != nil {
		t.Fatal(err)
	}
	same(t, "file", read(t, dir, "a.txt"), "two\ntheirs\n")

	// Once only: what somebody makes of it again is his.
	write(t, dir, "a.txt", "two\n")
	sh(t, sb, "echo more >>a.txt; git commit -qam fourth")
	_, err = r.Sync(t.Context(), sb, second)
	is(t, err, project.ErrDirty)
	same(t, "file", read(t, dir, "a.txt"), "two\n")

	git(t, dir, "checkout", "-q", "a.txt")
	reset(t, sb)
	carryAndKeep(t, r, sb) // nothing
	same(t, "the imported work that is kept", git(t, dir, "for-each-ref", "refs/sandbox/box/carried/work"), "")
	same(t, "the imported branches", git(t, dir, "for-each-ref", "--format=%(refname) %(objectname)", "refs/sandbox/box/carried"), "refs/sandbox/box/carried/heads/main "+git(t, dir, "rev-parse", "main"))
}

// TestWhatWentInOfALinkedTree: each working tree has its own.
func TestWhatWentInOfALinkedTree(t *testing.T) {
	testenv.Logic(t)
	main := newRepo(t)
	write(t, main, "a.txt", "of main\n")
	dir := t.TempDir() + "/linked"
	git(t, main, "worktree", "add", "-q", "-b", "linked", dir)
	write(t, dir, "a.txt", "ours\n")
	sb, r := newSandbox(t), open(t, dir)
	f := carryAndKeep(t, r, sb)
	sh(t, sb, "echo theirs >>a.txt; git commit -qam third")
	if _, err := r.Sync(t.Context(), sb, f); err != nil {
		t.Fatal(err)
	}
	same(t, "file", read(t, dir, "a.txt"), "ours\ntheirs\n")
	same(t, "status", git(t, dir, "status", "--porcelain"), "")
	same(t, "file of main", read(t, main, "a.txt"), "of main\n")
	if err := r.ForgetImport(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	same(t, "what is kept of it", git(t, dir, "for-each-ref", "refs/sandbox/box/carried"), "")
}

// TestSyncOverASubmodule: one that has moved is as before; it is the host's.
func TestSyncOverASubmodule(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	lib := dir + "/lib"
	git(t, "/", "init", "-q", lib)
	write(t, lib, "l", "1\n")
	commit(t, lib, "one")
	git(t, dir, "add", "lib")
	git(t, dir, "commit", "-q", "-m", "with lib")
	write(t, lib, "l", "2\n")
	commit(t, lib, "two")
	write(t, dir, "a.txt", "ours\n")
	sb, r := newSandbox(t), open(t, dir)
	f := carryAndKeep(t, r, sb)
	sh(t, sb, "echo theirs >>a.txt; git commit -qm third a.txt")
	if _, err := r.Sync(t.Context(), sb, f); err != nil {
		t.Fatal(err)
	}
	same(t, "status", git(t, dir, "status", "--porcelain"), " M lib")
	sh(t, sb, "git -C lib commit -q --allow-empty -m three; git add lib; git commit -q -m fourth")
	before := hostState(t, dir)
	_, err := r.Sync(t.Context(), sb, f)
	is(t, err, project.ErrDirty)
	same(t, "the host", hostState(t, dir), before)
}

// TestJoinOverWhatWentIn: merge and apply, as a sync.
func TestJoinOverWhatWentIn(t *testing.T) {
	testenv.Logic(t)
	type join = func(*project.Repo, context.Context, project.MergeOptions) (*project.MergeResult, error)
	sb := newSandbox(t)
	merge, apply := (*project.Repo).Merge, (*project.Repo).Apply
	for name, c := range map[string]struct {
		do                  join
		home, inside, later string
		branch              string
		want                error
		after               string // of git status, and of a.txt
		over                bool
	}{
		"MergeForward":    {merge, ourWork, theirWork, "", "main", nil, "one\nours\ntheirs", true},
		"MergeBoth":       {merge, ourWork, theirWork, "echo m >m; git add m; git commit -q -m mine m", "main", nil, "one\nours\ntheirs", true},
		"MergeWork":       {merge, "echo ours >>a.txt", "echo theirs >>a.txt", "", "wip/main", nil, "one\nours\ntheirs", true},
		"MergeChanged":    {merge, "echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "echo later >>a.txt", "main", project.ErrDirty, "", false},
		"MergeOfAnother":  {merge, "echo ours >>a.txt", "git worktree add -q -b o /tmp/o; cd /tmp/o; echo theirs >>a.txt; git commit -qam third", "", "o", project.ErrDirty, "", false},
		"Apply":           {apply, ourWork, theirWork, "", "main", nil, " M a.txt\n M b.txt\n?? link\n?? n.txt\n?? sub/deep\none\nours\ntheirs", true},
		"ApplyWork":       {apply, ourWork, "echo theirs >>a.txt; echo theirs >>n.txt", "", "wip/main", nil, " M a.txt\n M b.txt\n?? link\n?? n.txt\n?? sub/deep\none\nours\ntheirs", true},
		"ApplyStaged":     {apply, "echo ours >>a.txt; git add a.txt", "echo theirs >>a.txt", "", "wip/main", nil, "MM a.txt\none\nours\ntheirs", true},
		"ApplyWhatIsHere": {apply, ourWork, "echo x >x", "", "wip/main", nil, " M a.txt\n M b.txt\n?? link\n?? n.txt\n?? sub/deep\n?? x\none\nours", false},
		"ApplyNothing":    {apply, ourWork, "", "", "wip/main", project.ErrNoNewWork, "", false},
		"ApplyRemoved":    {apply, ourWork, "git add -A; git commit -q -m s; git rm -q a.txt; git commit -q -m third", "echo n >a", "main", nil, " D a.txt\n M b.txt\n?? a\n?? link\n?? n.txt\n?? sub/deep\n", true},
		"ApplyChanged":    {apply, "echo ours >>a.txt", "echo theirs >>a.txt", "echo later >>a.txt", "wip/main", project.ErrConflict, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			reset(t, sb)
			dir, r, f := carriedIn(t, sb, c.home)
			ours := git(t, dir, "ls-tree", "-r", kept)
			sh(t, sb, c.inside+"\n:")
			run(t, dir, "sh", "-ec", c.later+"\n:")
			got, err := r.Fetch(t.Context(), sb, f)
			if err != nil {
				t.Fatal(err)
			}
			before := hostState(t, dir)
			m := project.MergeOptions{Name: "box", Branch: c.branch, ImportedTree: f.ImportedTree, Fetched: got}
			for _, m.DryRun = range []bool{true, false} {
				res, err := c.do(r, t.Context(), m)
				if c.want != nil {
					is(t, err, c.want)
				} else if err != nil {
					t.Fatal(err)
				}
				if m.DryRun || c.want != nil {
					same(t, "the host", hostState(t, dir), before)
					continue
				}
				if (len(res.Overwritten) > 0) != c.over || (res.RescueRef != "") != c.over {
					t.Errorf("went over %q, kept as %q", res.Overwritten, res.RescueRef)
				}
				if c.over {
					same(t, "what is kept", git(t, dir, "ls-tree", "-r", res.RescueRef), ours)
				}
				same(t, "the host", strings.TrimSuffix(run(t, dir, "sh", "-c", "git status --porcelain -uall; cat a.txt 2>/dev/null || :"), "\n"), strings.TrimSuffix(c.after, "\n"))
				same(t, "fsck", git(t, dir, "fsck", "--strict", "--no-progress", "--no-dangling"), "")
			}

			// Who has not looked inside now goes over nothing.
			if c.over {
				return
			}
			m.Fetched, m.DryRun = nil, true
			if _, err := c.do(r, t.Context(), m); c.want != nil {
				is(t, err, c.want)
			}
		})
	}
}

// TestWorkOfAnotherTreeWaits: a dry run tells of it, as of that in the main one.
func TestWorkOfAnotherTreeWaits(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	_, r, f := carriedIn(t, sb, "echo ours >>a.txt")
	f.DryRun = true
	if _, err := project.AddWorktree(t.Context(), sb, "side"); err != nil {
		t.Fatal(err)
	}
	waits := func() bool {
		t.Helper()
		res, err := r.Sync(t.Context(), sb, f)
		if err != nil && !errors.Is(err, project.ErrNoNewWork) {
			t.Fatal(err)
		}
		return res.PendingWork
	}
	if waits() {
		t.Error("nobody has done anything, and work waits")
	}
	sh(t, sb, "echo theirs >.worktrees/side/n")
	if !waits() {
		t.Error("work in another working tree does not wait")
	}
}

// TestWorktreeBehindALock: what is in the way is named, as it is of the host's.
func TestWorktreeBehindALock(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	carriedIn(t, sb, "")
	sh(t, sb, "mkdir -p .git/refs/heads/fix; : >.git/refs/heads/fix/it.lock")
	_, err := project.AddWorktree(t.Context(), sb, "fix/it")
	is(t, err, project.ErrLocked)
	if !strings.Contains(err.Error(), "/workspace/.git/refs/heads/fix/it.lock is there since ") {
		t.Errorf("%v: names no file", err)
	}
	sh(t, sb, "rm .git/refs/heads/fix/it.lock")
	if _, err := project.AddWorktree(t.Context(), sb, "fix/it"); err != nil {
		t.Error(err)
	}
}
