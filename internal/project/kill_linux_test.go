package project_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// kills is how many instants the loss tests try: more by hand.
func kills(t *testing.T) int {
	t.Helper()
	return testenv.Rounds(t, 3, 8, "ATOLL_PROJECT_KILLS")
}

// lossChild is what the loss test kills.
func lossChild(t *testing.T, what string) {
	t.Helper()
	d := &namespace.Driver{Dir: os.Getenv("ATOLL_LOSS_DRIVER")}
	sb, err := d.Open(t.Context(), os.Getenv("ATOLL_LOSS_ID"))
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, os.Getenv("ATOLL_LOSS_DIR"))
	switch what {
	case "carry":
		_, err = r.Import(t.Context(), sb, project.ImportOptions{})
	case "sync":
		_, err = r.Sync(t.Context(), sb, box)
	case "rescue":
		_, err = r.Rescue(t.Context(), sb, box)
	case "update":
		_, err = r.Update(t.Context(), sb, project.UpdateOptions{Name: "box"})
	case "update-merge":
		_, err = r.Update(t.Context(), sb, project.UpdateOptions{Name: "box", Mode: project.UpdateMerge})
	case "merge":
		_, err = r.Merge(t.Context(), project.MergeOptions{Name: "box", Branch: "main"})
	case "fetch":
		_, err = r.Fetch(t.Context(), sb, box)
	case "random":
		err = randomChild(t.Context(), r, sb)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lossCommand returns the process of its own for an operation. env are further variables of the process.
func lossCommand(what string, d *namespace.Driver, sb atoll.Sandbox, dir string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilledAtAnyInstant$")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), "ATOLL_LOSS="+what, "ATOLL_LOSS_DRIVER="+d.Dir, "ATOLL_LOSS_ID="+sb.ID(), "ATOLL_LOSS_DIR="+dir)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// killed runs an operation in a process of its own, and kills that after a while:
// alone, or with every git that it has started. It returns how long it ran.
func killed(t *testing.T, what string, d *namespace.Driver, sb atoll.Sandbox, dir string, after time.Duration, all bool, env ...string) time.Duration {
	t.Helper()
	cmd := lossCommand(what, d, sb, dir, env...)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		return time.Since(start)
	case <-time.After(after):
	}
	pid := cmd.Process.Pid
	if all {
		pid = -pid
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	<-ended
	// What it had started ends by itself: nobody reads or writes it any more.
	testenv.WaitFor(t, what+": processes of the killed one exit", func() bool {
		return errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH)
	})
	return time.Since(start)
}

// lossSandbox is newSandbox that another process can open.
func lossSandbox(t *testing.T) (*namespace.Driver, atoll.Sandbox) {
	t.Helper()
	newSandbox(t) // or skips
	d := &namespace.Driver{Dir: t.TempDir()}
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(sb.Destroy(context.WithoutCancel(t.Context())), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d, sb
}

// unlock takes away what git's that were killed have left, as git tells its user.
func unlock(t *testing.T, dir string) {
	t.Helper()
	run(t, dir, "find", ".git", "-name", "*.lock", "-delete")
}

// TestKilledAtAnyInstant kills what carries work in and home. No commit and no
// uncommitted byte of either side is lost, and the next attempt does it.
func TestKilledAtAnyInstant(t *testing.T) {
	if what := os.Getenv("ATOLL_LOSS"); what != "" {
		lossChild(t, what)
		return
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	t.Run("CarryIn", func(t *testing.T) {
		dir := newRepo(t)
		write(t, dir, "a.txt", "staged\n")
		git(t, dir, "add", "a.txt")
		write(t, dir, "new.txt", "untracked\n")
		before := hostState(t, dir)
		d, sb := lossSandbox(t)
		whole := killed(t, "carry", d, sb, dir, time.Hour, false)
		same(t, "inside", sh(t, sb, "export LC_ALL=C; "+state), before)
		for n := range kills(t) {
			sh(t, sb, "find . -mindepth 1 -delete")
			killed(t, "carry", d, sb, dir, time.Duration(random.Int64N(int64(whole))), n%2 == 0)
			same(t, "the host", hostState(t, dir), before)
			_, err := open(t, dir).Import(t.Context(), sb, project.ImportOptions{})
			if err != nil && !errors.Is(err, atoll.ErrExists) {
				t.Fatal(err)
			}
			same(t, "inside", sh(t, sb, "export LC_ALL=C; "+state), before)
		}
	})
	t.Run("Home", func(t *testing.T) {
		dir := newRepo(t)
		write(t, dir, "b.txt", "stashed\n")
		git(t, dir, "stash", "-q")
		d, sb := lossSandbox(t)
		r := open(t, dir)
		carry(t, r, sb, project.ImportOptions{})
		write(t, dir, "a.txt", "dirty, of the host\n")
		write(t, dir, "u.txt", "untracked, of the host\n")
		stash := git(t, dir, "rev-parse", "refs/stash")
		sh(t, sb, "git worktree add -q /tmp/side -b side")
		whole := killed(t, "sync", d, sb, dir, time.Hour, false)
		for n := range kills(t) {
			sh(t, sb, fmt.Sprintf("for i in 1 2 3 4 5 6 7 8 9; do echo %d >c$i.txt; done; git add -A; git commit -qm 'commit %d'; echo %d >b.txt; echo %d >/tmp/side/s; cd /tmp/side; git add s; git commit -qm side; echo %d >d", n, n, n, n, n))
			inside := sh(t, sb, "export LC_ALL=C; "+state)
			head := git(t, dir, "rev-parse", "main")
			what := []string{"sync", "rescue", "sync", "merge"}[n%4]
			if what == "merge" {
				if _, err := r.Fetch(t.Context(), sb, box); err != nil {
					t.Fatal(err)
				}
			}
			killed(t, what, d, sb, dir, time.Duration(random.Int64N(int64(whole))), n%3 == 0)

			same(t, "inside", sh(t, sb, "export LC_ALL=C; "+state), inside)
			same(t, "dirty", read(t, dir, "a.txt"), "dirty, of the host\n")
			same(t, "untracked", read(t, dir, "u.txt"), "untracked, of the host\n")
			same(t, "stash", git(t, dir, "rev-parse", "refs/stash"), stash)
			if out, err := naive(t, dir, "fsck", "--strict", "--no-progress", "--no-dangling"); err != nil {
				t.Errorf("fsck: %s", out)
			}
			if out, err := naive(t, dir, "merge-base", "--is-ancestor", head, "main"); err != nil {
				t.Errorf("main lost %s: %s", head, out)
			}
			unlock(t, dir)
			sh(t, sb, "find .git -name '*.lock' -delete")
			// Files that were half written are the sandbox's, clean before; git says so.
			if _, err := r.Sync(t.Context(), sb, box); errors.Is(err, project.ErrDirty) {
				t.Logf("after %s: %v", what, err)
				git(t, dir, "checkout", "HEAD", "--", ":(exclude)a.txt", ":/")
				run(t, dir, "sh", "-c", "git ls-files -z -o 'c*.txt' | xargs -0 rm -f")
				_, err = r.Sync(t.Context(), sb, box)
				if err != nil {
					t.Fatal(err)
				}
			} else if err != nil && !errors.Is(err, project.ErrNoNewWork) {
				t.Fatal(err)
			}
			same(t, "main", git(t, dir, "rev-parse", "main"), sh(t, sb, "git rev-parse main"))
			same(t, "work", git(t, dir, "show", "refs/sandbox/box/wip/main:b.txt"), fmt.Sprint(n))
			same(t, "work of side", git(t, dir, "show", "refs/sandbox/box/wip/side:d"), fmt.Sprint(n))
			same(t, "status", git(t, dir, "status", "--porcelain"), " M a.txt\n?? u.txt")
		}
	})
}

// TestSyncWithoutAWire loses the wire after each of the calls: nothing is
// changed, until all is.
func TestSyncWithoutAWire(t *testing.T) {
	dir, r, sb := there(t)
	sh(t, sb, commitThird+"echo dirty >>a.txt; touch .git/atoll-index-1000000000-X .git/atoll-index-1000000000-X.lock")
	before := hostState(t, dir)
	inside := sh(t, sb, state)
	n := 0
	for ; ; n++ {
		_, err := r.Sync(t.Context(), &cut{sb, n}, box)
		if err == nil {
			break
		}
		is(t, err, io.ErrUnexpectedEOF)
		same(t, "the host", hostState(t, dir), before)
		same(t, "refs", git(t, dir, "for-each-ref", "refs/sandbox"), "")
		if n > 100 {
			t.Fatal("it never ends")
		}
	}
	same(t, "inside", sh(t, sb, state), inside)
	same(t, "file", read(t, dir, "c.txt"), "three\n")
	if n < 5 {
		t.Errorf("only %d calls", n)
	}
	same(t, "left inside", sh(t, sb, "ls .git | grep atoll-index || true"), "")
}

// TestHostWithoutSpace has a disk that takes no large file: git can't write the
// pack, nothing changes, and nothing is left.
func TestHostWithoutSpace(t *testing.T) {
	if dir := os.Getenv("ATOLL_LOSS_FULL"); dir != "" {
		signal.Ignore(syscall.SIGXFSZ) // a write says why it can't
		limit := syscall.Rlimit{Cur: 100 << 10, Max: 100 << 10}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		d := &namespace.Driver{Dir: os.Getenv("ATOLL_LOSS_DRIVER")}
		sb, err := d.Open(t.Context(), os.Getenv("ATOLL_LOSS_ID"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = open(t, dir).Sync(t.Context(), sb, box)
		is(t, err, project.ErrTooLarge)
		is(t, err, syscall.EFBIG)
		return
	}
	dir := newRepo(t)
	d, sb := lossSandbox(t)
	carry(t, open(t, dir), sb, project.ImportOptions{})
	sh(t, sb, "head -c 1000000 /dev/urandom >big; git add big; git commit -qm big")
	before := hostState(t, dir)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHostWithoutSpace$")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), "ATOLL_LOSS_FULL="+dir, "ATOLL_LOSS_DRIVER="+d.Dir, "ATOLL_LOSS_ID="+sb.ID())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	same(t, "the host", hostState(t, dir), before)
	same(t, "refs", git(t, dir, "for-each-ref", "refs/sandbox"), "")
	if left := glob(t, filepath.Join(dir, ".git/objects/tmp*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := open(t, dir).Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "size", strings.Fields(run(t, dir, "wc", "-c", "big"))[0], "1000000")
}
