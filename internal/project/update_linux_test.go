package project_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// importAgain replaces the workspace of a sandbox by the import of another repository, so that many cases
// share one sandbox.
func importAgain(t *testing.T, sb atoll.Sandbox, prepare string) (dir string, r *project.Repo) {
	t.Helper()
	dir = newRepo(t)
	run(t, dir, "sh", "-ec", prepare+"\n:")
	sh(t, sb, "rm -rf /tmp/side; find . -mindepth 1 -delete")
	r = open(t, dir)
	importRecorded(t, r, sb)
	return dir, r
}

const (
	commitHome   = "echo home >home.txt; git add home.txt; git commit -qm home; "
	commitInside = "echo inside >inside.txt; git add inside.txt; git commit -qm inside; "
)

// TestUpdate has commits on the host, and compares what git reports inside after an update.
func TestUpdate(t *testing.T) {
	testenv.Logic(t)
	sb := newSandbox(t)
	for name, c := range map[string]struct {
		prepare, home, inside string
		update                project.UpdateOptions
		want                  error
		log, status           string // of the working tree inside
		branches              string // name and subject of each branch inside
		conflicts, left       string
		dry                   bool // with a dry run before
	}{
		"FastForward": {dry: true, home: commitHome, log: "home second first", branches: "main home"},
		"NothingNew":  {want: project.ErrNoNewWork, log: "second first", branches: "main second"},
		"InsideAhead": {inside: commitInside, want: project.ErrNoNewWork, log: "inside second first", branches: "main inside"},
		"DirtyElsewhere": {
			home: commitHome, inside: "echo d >>a.txt; echo s >>b.txt; git add b.txt; echo u >u.txt",
			log: "home second first", status: " M a.txt|M  b.txt|?? u.txt", branches: "main home",
		},
		"DirtyInTheWay": {
			home: "echo h >>a.txt; git commit -qam home", inside: "echo d >>a.txt",
			want: project.ErrUnsaved, log: "second first", status: " M a.txt", branches: "main second",
		},
		"UntrackedInTheWay": {
			home: commitHome, inside: "echo mine >home.txt", want: project.ErrUnsaved,
			log: "second first", status: "?? home.txt", branches: "main second",
		},
		"IgnoredInTheWay": {
			home: "echo h >x.log; git add -f x.log; git commit -qm home", inside: "echo mine >x.log", want: project.ErrUnsaved,
			log: "second first", branches: "main second",
		},
		"DirtyEqual": {
			prepare: "echo dirty >>a.txt; echo new >n.txt", home: "git add -A; git commit -qm home",
			log: "home second first", branches: "main home",
		},
		"StagedOtherVersion": {
			home: "echo new >n.txt; git add n.txt; git commit -qm home", inside: "echo staged >n.txt; git add n.txt; echo new >n.txt", want: project.ErrUnsaved,
			log: "second first", status: "AM n.txt", branches: "main second",
		},
		"Diverged": {
			home: commitHome, inside: commitInside, want: project.ErrDiverged, log: "inside second first", branches: "main inside",
		},
		"Merge": {
			dry:  true,
			home: commitHome, inside: commitInside + "echo d >>a.txt", update: project.UpdateOptions{Mode: project.UpdateMerge},
			log: "Merge host/main into main inside second first", status: " M a.txt", branches: "main Merge host/main into main",
		},
		"Rebase": {
			home: commitHome, inside: commitInside + "echo u >u", update: project.UpdateOptions{Mode: project.UpdateRebase},
			log: "inside home second first", status: "?? u", branches: "main inside",
		},
		"RebaseDirty": {
			home: commitHome, inside: commitInside + "echo d >>a.txt", update: project.UpdateOptions{Mode: project.UpdateRebase}, want: project.ErrUnsaved,
			log: "inside second first", status: " M a.txt", branches: "main inside",
		},
		"MergeConflict": {
			dry:  true,
			home: "echo h >a.txt; git commit -qam home", inside: "echo i >a.txt; git commit -qam inside", update: project.UpdateOptions{Mode: project.UpdateMerge}, want: project.ErrConflict,
			log: "inside second first", status: "UU a.txt", branches: "main inside", conflicts: "a.txt",
		},
		"RebaseConflict": {
			home: "echo h >a.txt; git commit -qam home", inside: "echo i >a.txt; git commit -qam inside", update: project.UpdateOptions{Mode: project.UpdateRebase}, want: project.ErrConflict,
			log: "home second first", status: "UU a.txt", branches: "main inside", conflicts: "a.txt",
		},
		"OtherBranches": {
			dry:     true,
			prepare: "git branch behind; git branch both; git branch gone",
			home:    "for b in behind both; do git checkout -q $b; echo $b >h.txt; git add h.txt; git commit -qm home-$b; done; git branch new; git checkout -q main",
			inside:  "git checkout -q both; " + commitInside + "git checkout -q main; git branch -q -D gone",
			log:     "second first", branches: "behind home-behind|both inside|main second|new home-both", left: "both",
		},
		"OtherTree": {
			prepare: "git branch side", home: "git checkout -q side; " + commitHome + "git checkout -q main",
			inside: "git worktree add -q /tmp/side side; echo d >>/tmp/side/a.txt", log: "second first", branches: "main second|side home",
		},
		"OtherTreeDirty": {
			prepare: "git branch side", home: "git checkout -q side; echo h >>a.txt; git commit -qam home; git checkout -q main",
			inside: "git worktree add -q /tmp/side side; echo d >>/tmp/side/a.txt", log: "second first", branches: "main second|side second", left: "side",
		},
		"ChosenTree": {
			prepare: "git branch side", home: "git checkout -q side; " + commitHome + "git checkout -q main",
			inside: "git worktree add -q /tmp/side side; cd /tmp/side; " + commitInside, update: project.UpdateOptions{Tree: "side", Mode: project.UpdateMerge},
			log: "second first", branches: "main second|side Merge host/side into side",
		},
		"OnlyRemote": {
			home:   "git init -q ../up; git fetch -q . ; git remote add origin ../up; git checkout -q --detach; " + commitHome + "git update-ref refs/remotes/origin/feature/x HEAD; git checkout -q main",
			update: project.UpdateOptions{Source: "origin/feature/x"}, log: "second first", branches: "feature/x home|main second",
		},
		"MergeNamed": {
			home: "git checkout -q -b other; " + commitHome, inside: commitInside, update: project.UpdateOptions{Source: "other", Mode: project.UpdateMerge},
			log: "Merge host/other into main inside second first", branches: "main Merge host/other into main|other home",
		},
		"Missing": {update: project.UpdateOptions{Source: "mian"}, want: atoll.ErrNotFound, log: "second first", branches: "main second"},
		"OwnBranchInside": {
			home: commitHome, inside: "git checkout -q -b mine; " + commitInside, update: project.UpdateOptions{Mode: project.UpdateRebase}, want: atoll.ErrInvalid,
			log: "inside second first", branches: "main second|mine inside",
		},
		"DetachedInside": {home: commitHome, inside: "git checkout -q --detach", log: "second first", branches: "main home"},
		"BranchBelow": {
			prepare: "git branch a", home: "git branch -q -D a; git branch a/b", inside: "git branch -q -D a; git update-ref refs/remotes/host/a main",
			log: "second first", branches: "a/b second|main second",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r := importAgain(t, sb, c.prepare)
			run(t, dir, "sh", "-ec", c.home+"\n:")
			sh(t, sb, "("+c.inside+"\n:)")
			c.update.Name = "box"
			before := hostState(t, dir)
			if c.dry {
				inside := sh(t, sb, state)
				dry := c.update
				dry.DryRun = true
				if res, err := r.Update(t.Context(), sb, dry); err != nil || strings.Join(res.Conflicts, " ") != c.conflicts {
					t.Errorf("dry run: %+v, %v", res, err)
				}
				same(t, "inside after a dry run", sh(t, sb, state), inside)
			}
			res, err := r.Update(t.Context(), sb, c.update)
			if c.want != nil {
				is(t, err, c.want)
			} else if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(sh(t, sb, "git log --first-parent --format=%s | tr '\\n' ' '; echo; git status --porcelain -uall | tr '\\n' '|'; echo; git for-each-ref --format='%(refname:short) %(subject)' refs/heads | tr '\\n' '|'; echo; git fsck --strict --no-progress --no-dangling"), "\n")
			same(t, "log", strings.TrimSuffix(got[0], " "), c.log)
			same(t, "status", strings.TrimSuffix(got[1], "|"), c.status)
			same(t, "branches", strings.TrimSuffix(got[2], "|"), c.branches)
			same(t, "the host", hostState(t, dir), before)
			if res == nil || errors.Is(c.want, atoll.ErrInvalid) { // nothing was brought in
				return
			}
			same(t, "conflicts", strings.Join(res.Conflicts, " "), c.conflicts)
			var left []string
			for _, l := range res.Left {
				left = append(left, l.Name)
			}
			same(t, "left", strings.Join(left, " "), c.left)
			if c.update.Mode != "" && c.want == nil && c.update.Tree == "" {
				same(t, "file of the host", sh(t, sb, "cat home.txt"), "home")
			}
			if head := git(t, dir, "rev-parse", "main"); c.update.Source == "" {
				same(t, "host/main inside", sh(t, sb, "git rev-parse refs/remotes/host/main"), head)
				same(t, "record", git(t, dir, "rev-parse", "refs/sandbox/box/carried/heads/main"), head)
			}
			same(t, "objects left over", strings.Join(glob(t, dir+"/.git/objects/tmp_*"), " "), "")
		})
	}
}
