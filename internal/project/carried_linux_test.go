package project_test

import (
	"context"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// carriedIn makes a repository, has shell text leave uncommitted work in it, and
// carries that into a sandbox, as 'atoll up' does.
func carriedIn(t *testing.T, dirty string) (dir string, r *project.Repo, sb atoll.Sandbox, f project.Fetch) {
	t.Helper()
	dir = newRepo(t)
	run(t, dir, "sh", "-ec", dirty+"\n:")
	sb, r = newSandbox(t), open(t, dir)
	return dir, r, sb, carryAndKeep(t, r, sb)
}

func carryAndKeep(t *testing.T, r *project.Repo, sb atoll.Sandbox) project.Fetch {
	t.Helper()
	p, err := r.Plan(t.Context(), project.Carry{})
	if err != nil {
		t.Fatal(err)
	}
	f := box
	f.Carried = p.Tree
	for _, err := range []error{p.Into(t.Context(), sb), p.Keep(t.Context(), f.Name), p.Close()} {
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

// TestSyncOverWhatWentIn: uncommitted work that went in, and was worked on
// there, is not in the way of what was made of it. All else is.
func TestSyncOverWhatWentIn(t *testing.T) {
	const landed = "main third ||"
	for name, c := range map[string]struct {
		home   string // shell text, before it is carried in
		inside string
		later  string // on the host, before the sync
		want   error
		after  string // what git says of the host then; with an error it is as before
	}{
		"EachKind":             {ourWork, theirWork, "", nil, landed},
		"Staged":               {ourWork + "; git add -A", theirWork, "", nil, landed},
		"StagedLater":          {ourWork, theirWork, "git add -A", nil, landed},
		"OnlyOneIsCommitted":   {ourWork, "echo theirs >>a.txt; git commit -q -m third a.txt", "", nil, "main third | M b.txt|?? link|?? n.txt|?? sub/deep||"},
		"AndDirtyElsewhere":    {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "echo dirty >>b.txt; echo s >s; git add s", nil, "main third | M b.txt|A  s||"},
		"RemovedInside":        {ourWork, "rm a.txt n.txt; git add -A; git commit -q -m third", "", nil, "main third |?? n.txt||"},
		"RemovedHere":          {"rm a.txt", "echo again >a.txt; git add -A; git commit -q -m third", "", nil, landed},
		"BecomesADirectory":    {"echo ours >>a.txt", "rm a.txt; mkdir a.txt; echo x >a.txt/x; git add -A; git commit -q -m third", "", nil, landed},
		"NewBecomesADirectory": {"echo new >n", "rm n; mkdir n; echo x >n/x; git add -A; git commit -q -m third", "", nil, landed},
		"BecomesALink":         {"echo ours >>a.txt", "ln -sf b.txt a.txt; git add -A; git commit -q -m third", "", nil, landed},
		"CommittedAsItWas":     {ourWork, "git add -A; git commit -q -m third", "", nil, landed},
		"StagedIsWhatComes":    {ourWork, "git add -A; git commit -q -m third", "git add -A", nil, landed},
		"TwoCommits":           {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam second; echo more >>a.txt; git commit -qam third", "", nil, landed},
		"NamesWithNewlines":    {"echo new >'n\nl'", "echo more >>'n\nl'; git add -A; git commit -q -m third", "", nil, landed},
		"NewWork":              {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third; echo n >n", "", nil, landed},

		"ChangedSince":              {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "echo later >>a.txt", project.ErrDirty, ""},
		"ModeChangedSince":          {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "chmod +x a.txt", project.ErrDirty, ""},
		"RemovedSince":              {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "rm a.txt", project.ErrDirty, ""},
		"LinkChangedSince":          {"ln -s a.txt link", "ln -sf n link; git add -A; git commit -q -m third", "ln -sf b.txt link", project.ErrDirty, ""},
		"OneOfTwoChangedSince":      {ourWork, theirWork, "echo later >>n.txt", project.ErrDirty, ""},
		"AnotherIsInTheWay":         {"echo ours >>a.txt", "echo theirs >>a.txt; echo x >x; git add -A; git commit -q -m third", "echo mine >x", project.ErrDirty, ""},
		"IgnoredIsInTheWay":         {"echo ours >>a.txt", "echo theirs >>a.txt; echo x >.env; git add -A; git add -f .env; git commit -q -m third", "echo SECRET >.env", project.ErrDirty, ""},
		"AnotherStateIsStaged":      {"echo staged >a.txt; git add a.txt; echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "", project.ErrDirty, ""},
		"StagedAndChangedBack":      {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "cp a.txt /tmp/x$$; echo s >a.txt; git add a.txt; mv /tmp/x$$ a.txt", project.ErrDirty, ""},
		"OnlyTheIndexForgot":        {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "git rm -q --cached a.txt", project.ErrDirty, ""},
		"StillDirtyInside":          {"echo ours >>a.txt", "cp a.txt /tmp/ours; git checkout -q a.txt; echo theirs >>a.txt; git commit -qam third; cp /tmp/ours a.txt", "", project.ErrDirty, ""},
		"DirtyAgainInside":          {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third; echo more >>a.txt", "", project.ErrDirty, ""},
		"StashedInside":             {"echo ours >>a.txt", "git stash -q; echo theirs >>a.txt; git commit -qam third", "", project.ErrDirty, ""},
		"FromAnotherTree":           {"echo ours >>a.txt", "git worktree add -q --detach /tmp/o; cd /tmp/o; echo theirs >>a.txt; git commit -qam third; cd /workspace; git update-ref refs/heads/main $(git -C /tmp/o rev-parse HEAD)", "", project.ErrDirty, ""},
		"MainIsWhereNobodyWorks":    {"echo ours >>a.txt", "git stash -q; git checkout -q -b other; git worktree add -q /tmp/o main; cd /tmp/o; echo theirs >>a.txt; git commit -qam third; cd /workspace; git stash pop -q", "", project.ErrDirty, ""},
		"WentInAndWasPutAsideHere":  {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "git stash -q; git stash apply -q; git commit -qam mine; git reset -q --soft HEAD^; echo x >>a.txt", project.ErrDirty, ""},
		"BecomesARepository":        {"echo new >n", "rm n; git init -q n; git -C n -c user.name=A -c user.email=a@b commit -q --allow-empty -m in; git add n 2>/dev/null; git commit -q -m third", "", project.ErrDirty, ""},
		"WasARepository":            {"git init -q n; git -C n commit -q --allow-empty -m in", "rm -rf n; echo n >n; git add -A; git commit -q -m third", "", project.ErrDirty, ""},
		"ADirectoryIsWhereItGoes":   {"mkdir n; echo x >n/x", "rm -r n; echo n >n; git add -A; git commit -q -m third", "", project.ErrDirty, ""},
		"AMergeIsUnderWay":          {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "git rev-parse HEAD^ >.git/MERGE_HEAD", project.ErrDirty, ""},
		"OnAnotherBranch":           {"echo ours >>a.txt", "git checkout -q -b feature; echo theirs >>a.txt; git commit -qam third", "", project.ErrDirty, ""},
		"KeptIsGone":                {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "git update-ref -d " + kept, project.ErrDirty, ""},
		"KeptIsAnother":             {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "git update-ref " + kept + " HEAD", project.ErrDirty, ""},
		"Diverged":                  {"echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third", "git commit -q --allow-empty -m mine", project.ErrDiverged, ""},
		"SameOnAnotherBranchInside": {"echo ours >>a.txt", "git checkout -q -b feature; echo theirs >>a.txt; git commit -qam third", "git checkout -q -b feature", nil, "feature third ||"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r, sb, f := carriedIn(t, c.home)
			ours := git(t, dir, "ls-tree", "-r", kept)
			sh(t, sb, c.inside+"\n:")
			run(t, dir, "sh", "-ec", c.later+"\n:")
			full := func() string {
				return hostState(t, dir) + run(t, dir, "sh", "-c", "cat .env * 2>&1; ls -l | cut -c1-10;  git for-each-ref refs/sandbox/box/carried refs/sandbox/box/rescue")
			}
			before := full()

			dry := f
			dry.DryRun = true
			would, err := r.Sync(t.Context(), sb, dry)
			if c.want == nil && err != nil {
				t.Fatalf("dry run: %v", err)
			}
			if c.want != nil {
				is(t, err, c.want)
			}
			same(t, "after a dry run", full(), before)
			res, err := r.Sync(t.Context(), sb, f)
			if c.want != nil {
				is(t, err, c.want)
				same(t, "the host", full(), before)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			same(t, "what is gone over", strings.Join(res.Over, " "), strings.Join(would.Over, " "))
			say := run(t, dir, "sh", "-c", `printf '%s %s ' "$(git branch --show-current)" "$(git log -1 --format=%s)"; printf '|'; git status --porcelain -uall -z | tr '\0' '|'; echo '|'`)
			same(t, "the host", say, c.after)
			same(t, "tip", git(t, dir, "rev-parse", "HEAD"), sh(t, sb, "git rev-parse HEAD"))
			same(t, "fsck", git(t, dir, "fsck", "--strict", "--no-progress", "--no-dangling"), "")
			same(t, "left over", strings.Join(glob(t, dir+"/.git/objects/tmp_*"), " "), "")
			if len(res.Over) == 0 {
				same(t, "kept", res.Kept, "")
				return
			}
			same(t, "what is kept", git(t, dir, "ls-tree", "-r", res.Kept), ours)
			saved, err := r.Rescues(t.Context(), "box")
			if err != nil || len(saved) != 1 || saved[0].Refs[0] != res.Kept {
				t.Errorf("rescues %v, %v", saved, err)
			}
			if _, err := r.Restore(t.Context(), "box", saved[0].Time, "rescued/"); err != nil {
				t.Error(err)
			}
			same(t, "restored", git(t, dir, "ls-tree", "-r", "rescued/carried/work"), ours)
		})
	}
}

// TestStagedWorkIsKeptApart: what is kept has what is staged as its second parent.
func TestStagedWorkIsKeptApart(t *testing.T) {
	dir, _, _, _ := carriedIn(t, "echo staged >a.txt; git add a.txt; echo worked >a.txt; echo n >n")
	same(t, "work", git(t, dir, "show", kept+":a.txt"), "worked")
	same(t, "staged", git(t, dir, "show", kept+"^2:a.txt"), "staged")
	same(t, "before", git(t, dir, "show", kept+"^1:a.txt"), "one")
	git(t, dir, "gc", "-q", "--prune=now")
	same(t, "after an upkeep", git(t, dir, "show", kept+":n"), "n")
}

// TestWentInTwice: what an earlier sandbox of the name was given counts for
// that one only.
func TestWentInTwice(t *testing.T) {
	dir, r, sb, first := carriedIn(t, "echo ours >>a.txt")
	write(t, dir, "a.txt", "two\n")
	sh(t, sb, "find . -mindepth 1 -delete")
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
	sh(t, sb, "find . -mindepth 1 -delete")
	carryAndKeep(t, r, sb) // nothing
	same(t, "what is kept of it", git(t, dir, "for-each-ref", "refs/sandbox/box/carried"), "")
}

// TestWhatWentInOfALinkedTree: each working tree has its own.
func TestWhatWentInOfALinkedTree(t *testing.T) {
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
	if err := r.ForgetCarried(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	same(t, "what is kept of it", git(t, dir, "for-each-ref", "refs/sandbox/box/carried"), "")
}

// TestSyncOverASubmodule: one that has moved is as before; it is the host's.
func TestSyncOverASubmodule(t *testing.T) {
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
	type join = func(*project.Repo, context.Context, project.Merge) (*project.Merged, error)
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
		"MergeOfMainOnly": {merge, "echo ours >>a.txt", "echo theirs >>a.txt; git commit -qam third; echo more >>a.txt", "", "main", project.ErrDirty, "", false},
		"Apply":           {apply, ourWork, theirWork, "", "main", nil, " M a.txt\n M b.txt\n?? link\n?? n.txt\n?? sub/deep\none\nours\ntheirs", true},
		"ApplyWork":       {apply, ourWork, "echo theirs >>a.txt; echo theirs >>n.txt", "", "wip/main", nil, " M a.txt\n M b.txt\n?? link\n?? n.txt\n?? sub/deep\none\nours\ntheirs", true},
		"ApplyStaged":     {apply, "echo ours >>a.txt; git add a.txt", "echo theirs >>a.txt", "", "wip/main", nil, "MM a.txt\none\nours\ntheirs", true},
		"ApplyWhatIsHere": {apply, ourWork, "echo x >x", "", "wip/main", nil, " M a.txt\n M b.txt\n?? link\n?? n.txt\n?? sub/deep\n?? x\none\nours", false},
		"ApplyNothing":    {apply, ourWork, "", "", "wip/main", project.ErrNothing, "", false},
		"ApplyRemoved":    {apply, ourWork, "git add -A; git commit -q -m s; git rm -q a.txt; git commit -q -m third", "echo n >a", "main", nil, " D a.txt\n M b.txt\n?? a\n?? link\n?? n.txt\n?? sub/deep\n", true},
		"ApplyChanged":    {apply, "echo ours >>a.txt", "echo theirs >>a.txt", "echo later >>a.txt", "wip/main", project.ErrConflict, "", false},
		"ApplyOfAnother":  {apply, "echo ours >>a.txt", "git worktree add -q -b o /tmp/o; cd /tmp/o; echo theirs >>a.txt; git commit -qam third", "", "o", project.ErrConflict, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r, sb, f := carriedIn(t, c.home)
			ours := git(t, dir, "ls-tree", "-r", kept)
			sh(t, sb, c.inside+"\n:")
			run(t, dir, "sh", "-ec", c.later+"\n:")
			got, err := r.Fetch(t.Context(), sb, f)
			if err != nil {
				t.Fatal(err)
			}
			before := hostState(t, dir)
			m := project.Merge{Name: "box", Branch: c.branch, Carried: f.Carried, Fetched: got}
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
				if (len(res.Over) > 0) != c.over || (res.Kept != "") != c.over {
					t.Errorf("went over %q, kept as %q", res.Over, res.Kept)
				}
				if c.over {
					same(t, "what is kept", git(t, dir, "ls-tree", "-r", res.Kept), ours)
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
