package project_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestKilledUpdateLeavesNoGit kills an update while git inside holds the lock of the index and waits for a filter. The next command of
// the project ends that git, which removes its lock; without it, the sandbox keeps it for five minutes.
func TestKilledUpdateLeavesNoGit(t *testing.T) {
	dir := newRepo(t)
	d, sb := lossSandbox(t)
	r := open(t, dir)
	importRecorded(t, r, sb)
	sh(t, sb, `git config filter.slow.smudge 'touch /tmp/waits; exec sleep 1000'; echo '*.slow filter=slow' >.git/info/attributes`)
	run(t, dir, "sh", "-ec", "echo x >a.slow; git add -A; git commit -qm slow")
	cmd := lossCommand("update", d, sb, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.WaitFor(t, "git inside waits", func() bool { return sh(t, sb, "ls /tmp/waits 2>/dev/null || true") != "" })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	same(t, "the lock", sh(t, sb, "ls .git/index.lock"), ".git/index.lock")
	sh(t, sb, "git config --unset filter.slow.smudge; rm .git/info/attributes")
	if _, err := r.Fetch(t.Context(), sb, box); err != nil && !errors.Is(err, project.ErrNoNewWork) {
		t.Fatal(err)
	}
	same(t, "git inside", sh(t, sb, "grep -l -x -e git -e sleep /proc/[0-9]*/comm 2>/dev/null || true"), "")
	same(t, "the lock", sh(t, sb, "ls .git/index.lock 2>/dev/null || true"), "")
	if left, err := filepath.Glob(filepath.Join(dir, ".git", "atoll-commands", "*")); err != nil || len(left) > 0 {
		t.Errorf("records of commands: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".git", "atoll-commands")); err != nil {
		t.Error(err) // nothing was recorded
	}
}
