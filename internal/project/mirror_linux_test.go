package project_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestMirror shows the files of a sandbox in a separate working tree: nothing else of the host changes.
func TestMirror(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	write(t, dir, "mine", "of the host\n")
	before := hostState(t, dir)
	m := project.MirrorOptions{Name: "box", Dir: filepath.Join(t.TempDir(), "mirror")}
	show := func(changed bool, name, want string) {
		t.Helper()
		res, err := r.Mirror(t.Context(), sb, m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(m.Dir, name))
		if res.Changed != changed || res.Dir != m.Dir || string(b) != want {
			t.Errorf("%+v; %s has %q, %v; want changed %t and %q", res, name, b, err, changed, want)
		}
	}
	show(true, "a.txt", "one\n")
	show(false, "a.txt", "one\n")
	sh(t, sb, "echo two >a.txt; echo new >n; rm b.txt; echo secret >.env")
	show(true, "a.txt", "two\n")
	show(false, "n", "new\n")
	for _, gone := range []string{"b.txt", ".env", "mine"} {
		if _, err := os.Lstat(filepath.Join(m.Dir, gone)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", gone, err)
		}
	}
	sh(t, sb, "git add -A; git commit -q -m third; git checkout -q -b other; echo three >a.txt")
	show(true, "a.txt", "three\n")
	m.Branch = "main"
	show(true, "a.txt", "two\n")
	m.Branch = "nowhere"
	if _, err := r.Mirror(t.Context(), sb, m); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a branch that is not there: %v", err)
	}
	git(t, dir, "worktree", "remove", "--force", m.Dir)
	if after := hostState(t, dir); after != before {
		t.Errorf("the host's working tree has changed:\n%s\n%s", before, after)
	}
}

// TestMirrorKeepsWork has the user work where a mirror is, or would be: nothing is overwritten.
func TestMirrorKeepsWork(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	m := project.MirrorOptions{Name: "box", Dir: filepath.Join(t.TempDir(), "mirror")}
	refused := func(want error) {
		t.Helper()
		if res, err := r.Mirror(t.Context(), sb, m); !errors.Is(err, want) || res != nil {
			t.Errorf("%+v, %v; want %v", res, err, want)
		}
	}
	mirror := m.Dir
	linked := filepath.Join(t.TempDir(), "linked")
	git(t, dir, "worktree", "add", "-q", "--detach", linked)
	file := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(file), "file", "mine")
	for _, m.Dir = range []string{t.TempDir(), dir, linked, file, filepath.Join(dir, ".git")} {
		refused(atoll.ErrExists)
	}
	m.Dir = mirror
	if _, err := r.Mirror(t.Context(), sb, m); err != nil {
		t.Fatal(err)
	}

	write(t, m.Dir, "a.txt", "edited here\n")
	sh(t, sb, "echo two >a.txt")
	refused(project.ErrDirty)
	if b, err := os.ReadFile(filepath.Join(m.Dir, "a.txt")); err != nil || string(b) != "edited here\n" {
		t.Errorf("the user's file has %q, %v", b, err)
	}
	git(t, m.Dir, "checkout", "-q", "a.txt")
	if res, err := r.Mirror(t.Context(), sb, m); err != nil || !res.Changed {
		t.Errorf("once it is not in the way: %+v, %v", res, err)
	}

	write(t, m.Dir, "mine", "x")
	commit(t, m.Dir, "a commit of the user")
	refused(atoll.ErrState)
	git(t, m.Dir, "checkout", "-q", "-b", "kept")
	refused(atoll.ErrState)
}

// TestMirrorRunsNothing has the sandbox place what git would run on the host, also when the user calls it there: hooks by a
// relative path, and filters of the user's that its attributes choose.
func TestMirrorRunsNothing(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	proof := filepath.Join(t.TempDir(), "proof")
	git(t, dir, "config", "core.hooksPath", "hooks")
	git(t, dir, "config", "filter.evil.smudge", "touch '"+proof+"'; cat")
	more := filepath.Join(t.TempDir(), "config")
	write(t, filepath.Dir(more), "config", "[filter \"boo\"]\n\tsmudge = touch '"+proof+"'; cat\n")
	git(t, dir, "config", "includeIf.gitdir:**/worktrees/**.path", more)
	sh(t, sb, `mkdir hooks; for h in post-checkout post-index-change; do printf '#!/bin/sh\ntouch "`+proof+`"\n' >hooks/$h; chmod +x hooks/$h; done
		printf '* filter=evil\na.txt filter=boo\n' >.gitattributes; ln -s / root`)
	m := project.MirrorOptions{Name: "box", Dir: filepath.Join(t.TempDir(), "mirror")}
	for range 2 {
		if _, err := r.Mirror(t.Context(), sb, m); err != nil {
			t.Fatal(err)
		}
		write(t, m.Dir, "b.txt", "b\n")
		git(t, m.Dir, "status")
		git(t, m.Dir, "-c", "filter.evil.smudge=", "-c", "filter.boo.smudge=", "checkout", "b.txt")
		sh(t, sb, "rm -rf root; mkdir root; echo x >root/x; echo again >a.txt")
	}
	git(t, dir, "worktree", "remove", m.Dir)
	if _, err := os.Lstat(proof); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something ran on the host: %v", err)
	}
}

// TestMirrorKeepsFilesInRepositories has the sandbox replace a repository in its tree where the user has files: git itself would
// remove them.
func TestMirrorKeepsFilesInRepositories(t *testing.T) {
	testenv.Logic(t)
	_, r, sb := there(t)
	m := project.MirrorOptions{Name: "box", Dir: filepath.Join(t.TempDir(), "mirror")}
	const link = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),notes && git commit -q -m link"
	for _, replace := range []string{"echo f >notes && git add notes", "ln -s /etc notes && git add notes", "mkdir notes && echo x >notes/dir && git add notes"} {
		sh(t, sb, link)
		if _, err := r.Mirror(t.Context(), sb, m); err != nil {
			t.Fatal(err)
		}
		write(t, m.Dir, "notes/dir/mine", "x")
		sh(t, sb, "git rm -q --cached notes && rm -rf notes && "+replace+" && git commit -q -m "+strings.Fields(replace)[0])
		if _, err := r.Mirror(t.Context(), sb, m); !errors.Is(err, project.ErrDirty) {
			t.Errorf("%s: %v", replace, err)
		}
		if _, err := os.Lstat(filepath.Join(m.Dir, "notes/dir/mine")); err != nil {
			t.Errorf("%s: the user's file: %v", replace, err)
		}
		if err := os.RemoveAll(filepath.Join(m.Dir, "notes")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Mirror(t.Context(), sb, m); err != nil {
			t.Errorf("%s, when they are gone: %v", replace, err)
		}
		sh(t, sb, "git rm -q -r notes && git commit -q -m gone")
	}
}

// TestMirrorDuringWork has the user commit, or begin a merge, where a mirror is: also while the sandbox is being asked.
func TestMirrorDuringWork(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	m := project.MirrorOptions{Name: "box", Dir: filepath.Join(t.TempDir(), "mirror")}
	if _, err := r.Mirror(t.Context(), sb, m); err != nil {
		t.Fatal(err)
	}
	sh(t, sb, `git config filter.slow.clean 'touch /tmp/asked; while [ ! -e /tmp/go ]; do sleep 0.02; done; cat'; echo 's filter=slow' >.gitattributes; echo 1 >s`)
	done := make(chan error, 1)
	go func() {
		_, err := r.Mirror(t.Context(), sb, m)
		done <- err
	}()
	sh(t, sb, "while [ ! -e /tmp/asked ]; do sleep 0.02; done")
	write(t, m.Dir, "mine", "x")
	commit(t, m.Dir, "a commit of the user")
	mine := git(t, m.Dir, "rev-parse", "HEAD")
	sh(t, sb, "touch /tmp/go")
	if err := <-done; !errors.Is(err, atoll.ErrState) {
		t.Errorf("a commit meanwhile: %v", err)
	}
	if now := git(t, m.Dir, "rev-parse", "HEAD"); now != mine {
		t.Errorf("the user's commit %s is gone: %s", mine, now)
	}

	git(t, m.Dir, "checkout", "-q", "--detach", "HEAD~1")
	git(t, dir, "branch", "other", strings.TrimSpace(mine))
	git(t, m.Dir, "merge", "--no-ff", "--no-commit", "other")
	if _, err := r.Mirror(t.Context(), sb, m); !errors.Is(err, atoll.ErrState) || !strings.Contains(err.Error(), "MERGE_HEAD") {
		t.Errorf("during a merge: %v", err)
	}
	git(t, m.Dir, "merge", "--abort")
	if res, err := r.Mirror(t.Context(), sb, m); err != nil || !res.Changed {
		t.Errorf("after it: %+v, %v", res, err)
	}
}

// TestMirrorAfterKill continues a checkout that was killed: what it had written is no work of the user's.
func TestMirrorAfterKill(t *testing.T) {
	testenv.Logic(t)
	_, r, sb := there(t)
	m := project.MirrorOptions{Name: "box", Dir: filepath.Join(t.TempDir(), "mirror")}
	if _, err := r.Mirror(t.Context(), sb, m); err != nil {
		t.Fatal(err)
	}
	sh(t, sb, "echo two >a.txt; rm b.txt; mkdir d; echo 1 >d/1; echo 2 >d/2; git add -A; git commit -q -m second")
	write(t, m.Dir, "a.txt", "two\n")
	write(t, m.Dir, "d/1", "1\n")
	if err := os.Remove(filepath.Join(m.Dir, "b.txt")); err != nil {
		t.Fatal(err)
	}
	if res, err := r.Mirror(t.Context(), sb, m); err != nil || !res.Changed {
		t.Fatalf("%+v, %v", res, err)
	}
	if out := git(t, m.Dir, "status", "--porcelain"); out != "" {
		t.Errorf("left: %s", out)
	}
	write(t, m.Dir, "d/3", "mine\n")
	sh(t, sb, "echo 3 >d/3")
	if _, err := r.Mirror(t.Context(), sb, m); !errors.Is(err, project.ErrDirty) {
		t.Errorf("a file of the user: %v", err)
	}
}

// TestMirrorLeavesNoRescues looks at work again and again: what was only looked at is not kept for ever.
func TestMirrorLeavesNoRescues(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	m := project.MirrorOptions{Name: "box", Dir: filepath.Join(t.TempDir(), "mirror")}
	for _, script := range []string{"echo 1 >big", "rm big", "echo 2 >big", "rm big"} {
		sh(t, sb, script)
		if _, err := r.Mirror(t.Context(), sb, m); err != nil {
			t.Fatal(err)
		}
	}
	if out := git(t, dir, "for-each-ref", "--format=%(refname)", "refs/sandbox/box/rescue"); out != "" {
		t.Errorf("kept: %s", out)
	}
	sh(t, sb, "echo 3 >big")
	if _, err := r.Fetch(t.Context(), sb, project.FetchOptions{Name: "box"}); err != nil { // the user keeps it
		t.Fatal(err)
	}
	sh(t, sb, "rm big")
	if _, err := r.Mirror(t.Context(), sb, m); err != nil {
		t.Fatal(err)
	}
	if out := git(t, dir, "for-each-ref", "--format=%(refname)", "refs/sandbox/box/rescue"); out == "" {
		t.Error("work that was fetched is gone")
	}
}

// TestMirrorFollows changes files while they are watched.
func TestMirrorFollows(t *testing.T) {
	testenv.Logic(t)
	_, r, sb := there(t)
	m := project.MirrorOptions{Name: "box", Dir: filepath.Join(t.TempDir(), "mirror")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changes := make(chan string, 10)
	auto := project.AutoSync{Delay: 10 * time.Millisecond, Sync: func(ctx context.Context) error {
		res, err := r.Mirror(ctx, sb, m)
		if err != nil || !res.Changed {
			return err
		}
		b, err := os.ReadFile(filepath.Join(m.Dir, "a.txt"))
		changes <- string(b)
		return err
	}}
	done := make(chan error, 1)
	go func() { done <- auto.RunOnFiles(ctx, sb) }()
	if got := <-changes; got != "one\n" {
		t.Errorf("at first a.txt has %q", got)
	}
	sh(t, sb, "echo two >a.txt")
	if got := <-changes; got != "two\n" {
		t.Errorf("after a change a.txt has %q", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if left := len(changes); left > 0 {
		t.Errorf("%d more changes, although nothing has changed: %s", left, strings.TrimSpace(<-changes))
	}
}
