package project_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestFetchAllLeavesSandboxesOut checks that 'git fetch --all' and 'git remote update' work beside the remote of a sandbox,
// for which git may have no program.
func TestFetchAllLeavesSandboxesOut(t *testing.T) {
	testenv.Logic(t)
	dir := newRepo(t)
	run(t, dir, "git", "clone", "-q", "--bare", ".", "../origin.git")
	run(t, dir, "git", "remote", "add", "origin", "../origin.git")
	r := open(t, dir)
	if err := r.AddRemote(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	fetch := func() {
		t.Helper()
		for _, args := range [][]string{{"fetch", "-q", "--all"}, {"remote", "update"}} {
			git(t, dir, args...) // fails the test if git does
		}
	}
	fetch()
	same(t, "the branches of origin", git(t, dir, "rev-parse", "origin/main"), git(t, dir, "rev-parse", "main"))

	// The remote of an earlier version gets the setting, but what the user has decided stays.
	key := "remote.sandbox-box.skipFetchAll"
	git(t, dir, "config", "--unset", key)
	if err := r.AddRemote(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	fetch()
	git(t, dir, "config", key, "false")
	if err := r.AddRemote(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	same(t, "the user's setting", git(t, dir, "config", key), "false")
	if err := r.RemoveRemote(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	same(t, "settings of a removed remote", run(t, dir, "sh", "-c", "git config --get-regexp sandbox-box || true"), "")
}
