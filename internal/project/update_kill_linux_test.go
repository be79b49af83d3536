package project_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// insideWork is uncommitted work of a sandbox that an update must not touch.
const insideWork = "echo staged >staged.txt; git add staged.txt; echo dirty >>b.txt; echo u >u.txt; "

// checkInsideWork checks that insideWork is still there.
func checkInsideWork(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	same(t, "uncommitted work inside", sh(t, sb, "git status --porcelain"), " M b.txt\nA  staged.txt\n?? u.txt")
	same(t, "files inside", sh(t, sb, "cat staged.txt; tail -n 1 b.txt; cat u.txt"), "staged\ndirty\nu")
}

// TestKilledUpdate kills updates: fast-forwards with uncommitted work inside, and merges. Nothing of either side is lost, and
// the next update, after what it tells to do, has all commits inside. It ends git inside that the killed one has left, which would keep
// its locks for minutes.
func TestKilledUpdate(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	dir := newRepo(t)
	d, sb := lossSandbox(t)
	r := open(t, dir)
	importRecorded(t, r, sb)
	sh(t, sb, insideWork)
	whole := killed(t, "update", d, sb, dir, time.Hour, false)
	for n := range kills(t) {
		what := []string{"update", "update-merge"}[n%2]
		mode := project.UpdateForward
		if what == "update-merge" {
			mode = project.UpdateMerge
			sh(t, sb, fmt.Sprintf("git stash -q -u; echo %d >inside.txt; git add inside.txt; git commit -qm inside-%d; git stash pop -q --index; git reset -q -- staged.txt; mv staged.txt /tmp/staged", n, n))
		}
		run(t, dir, "sh", "-ec", fmt.Sprintf("for i in 1 2 3 4 5 6 7 8 9; do echo %d >h$i.txt; done; git add -A; git commit -qm home-%d; git branch new-%d", n, n, n))
		host, head := hostState(t, dir), sh(t, sb, "git rev-parse HEAD")
		killed(t, what, d, sb, dir, time.Duration(random.Int64N(int64(whole))), n%3 == 0)
		same(t, "the host", hostState(t, dir), host)
		same(t, "the commits inside", sh(t, sb, "git merge-base --is-ancestor "+head+" HEAD && echo there"), "there")
		unlock(t, dir)
		_, err := r.Update(t.Context(), sb, project.UpdateOptions{Name: "box", Mode: mode})
		if errors.Is(err, project.ErrConflict) { // a merge that is not finished: --abort undoes it
			sh(t, sb, "git merge --abort")
			_, err = r.Update(t.Context(), sb, project.UpdateOptions{Name: "box", Mode: mode})
		}
		if errors.Is(err, project.ErrUnsaved) { // files that were half written
			t.Logf("after %s: %v", what, err)
			sh(t, sb, "rm -f $(git ls-files -o 'h*.txt'); git checkout -q HEAD -- 'h*.txt' 2>/dev/null || true")
			_, err = r.Update(t.Context(), sb, project.UpdateOptions{Name: "box", Mode: mode})
		}
		if err != nil && !errors.Is(err, project.ErrNoNewWork) {
			t.Fatalf("after %s: %v", what, err)
		}
		if what == "update-merge" {
			sh(t, sb, "mv /tmp/staged staged.txt; git add staged.txt")
		}
		checkInsideWork(t, sb)
		same(t, "the host's commit inside", sh(t, sb, "git merge-base --is-ancestor "+git(t, dir, "rev-parse", "main")+" HEAD && git rev-parse new-"+fmt.Sprint(n)), git(t, dir, "rev-parse", "main"))
		if out := sh(t, sb, "git fsck --strict --no-progress --no-dangling 2>&1 || true"); out != "" {
			t.Errorf("fsck inside: %s", out)
		}
		if _, err := r.Sync(t.Context(), sb, box); err != nil && !errors.Is(err, project.ErrNoNewWork) {
			t.Fatal(err)
		}
	}
}

// TestUpdateWithoutAWire loses the connection after each of an update's calls.
func TestUpdateWithoutAWire(t *testing.T) {
	dir, r, sb := thereWithRecord(t, "")
	sh(t, sb, insideWork)
	run(t, dir, "sh", "-ec", commitHome+"git branch new")
	host, head := hostState(t, dir), sh(t, sb, "git rev-parse HEAD")
	home := git(t, dir, "rev-parse", "main")
	n := 0
	for ; ; n++ {
		_, err := r.Update(t.Context(), &cut{sb, n}, project.UpdateOptions{Name: "box"})
		if err == nil || errors.Is(err, project.ErrNoNewWork) {
			break
		}
		is(t, err, io.ErrUnexpectedEOF)
		same(t, "the host", hostState(t, dir), host)
		checkInsideWork(t, sb)
		if at := sh(t, sb, "git rev-parse HEAD"); at != head && at != home {
			t.Errorf("after %d calls the sandbox is at %s", n, at)
		}
		if n > 200 {
			t.Fatal("it never ends")
		}
	}
	checkInsideWork(t, sb)
	same(t, "branches inside", sh(t, sb, "git rev-parse main new"), home+"\n"+home)
	if n < 10 {
		t.Errorf("only %d calls", n)
	}
}
