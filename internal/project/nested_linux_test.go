package project_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// addLink has a sandbox commit a repository without content at a path.
const addLink = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib; git commit -q -m link; "

// TestSyncKeepsFilesInSubmodule has the sandbox put a file or a link in the place of a submodule where the host has files: git
// itself would remove all of them.
func TestSyncKeepsFilesInSubmodule(t *testing.T) {
	testenv.Logic(t)
	for _, replace := range []string{"echo f >lib", "ln -s /etc lib"} {
		dir, r, sb := there(t)
		sh(t, sb, addLink)
		syncOf := func() error {
			_, err := r.Sync(t.Context(), sb, project.FetchOptions{Name: "box"})
			return err
		}
		if err := syncOf(); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "lib/mine", "x")
		sh(t, sb, "git rm -q --cached lib; rm -rf lib; "+replace+"; git add lib; git commit -q -m replaced")
		if err := syncOf(); !errors.Is(err, project.ErrDirty) {
			t.Errorf("sync, %s: %v", replace, err)
		}
		if b := read(t, dir, "lib/mine"); b != "x" {
			t.Errorf("%s: the user's file has %q", replace, b)
		}
		if err := os.Remove(filepath.Join(dir, "lib/mine")); err != nil {
			t.Fatal(err)
		}
		if err := syncOf(); err != nil {
			t.Errorf("%s, once it is empty: %v", replace, err)
		}
	}
}

// TestNestedRepositoriesThatLeadAround has the sandbox make links that lead from a repository in its working tree to the outer one.
func TestNestedRepositoriesThatLeadAround(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, "for n in n k; do mkdir $n; ln -s ../.git $n/.git; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),$n; done; git commit -q -m around")
	got, err := r.Fetch(t.Context(), sb, project.FetchOptions{Name: "box"})
	if err != nil || len(got.Modules) > 0 {
		t.Errorf("%d nested repositories, %v", len(got.Modules), err)
	}
	if _, err := r.Rescue(t.Context(), sb, project.FetchOptions{Name: "box"}); err != nil {
		t.Error(err)
	}
	if refs := git(t, dir, "for-each-ref", "--format=%(refname)"); strings.Contains(refs, "/nested/") {
		t.Errorf("the host has %s", refs)
	}
}

// TestRepositoriesWithGitFile syncs a sandbox with a submodule and a committed working tree, whose .git is a file.
func TestRepositoriesWithGitFile(t *testing.T) {
	testenv.Logic(t)
	_, r, sb := there(t)
	sh(t, sb, `git init -q /tmp/l; git -C /tmp/l -c user.name=x -c user.email=x@x commit -q --allow-empty -m 1
		git -c protocol.file.allow=always submodule --quiet add /tmp/l sm; git worktree add -q wt; git add wt; git commit -q -m sm; echo new >sm/file`)
	got, err := r.Fetch(t.Context(), sb, project.FetchOptions{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Modules) != 1 || got.Modules["sm"].WorkCommit == "" {
		t.Errorf("the nested repositories are %+v", got.Modules)
	}
}

// TestManyDirectories refuses a commit with few files and many directories.
func TestManyDirectories(t *testing.T) {
	testenv.Logic(t)
	_, r, sb := there(t)
	sh(t, sb, "d=deep; for i in $(seq 30); do d=$d/d; done; mkdir -p $d; echo x >$d/f; git add deep; git commit -q -m deep")
	limits := project.Limits{Files: 20}
	if _, err := r.Sync(t.Context(), sb, project.FetchOptions{Name: "box", Limits: limits}); !errors.Is(err, project.ErrTooLarge) {
		t.Errorf("31 directories with a limit of 20: %v", err)
	}
}
