package atolltest

import (
	"context"
	"os"
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest/internal/killtest"
)

// Steps is work on a directory that KillSteps kills.
type Steps struct {
	PerAct  int                                            // steps at which a process is killed, unless $ATOLL_KILLS says more
	Prepare func(t *testing.T, dir string)                 // fills the directory before each kill; nil: it is empty
	Do      func(ctx context.Context, dir string) error    // in the process that is killed
	Check   func(t *testing.T, dir string, completed bool) // checks what is left
}

// KillSteps kills a process at every step of work that is no act on a sandbox, such as the import of an image, and
// checks what the next process finds. The test has to call nothing else: it runs in the processes that are killed.
func KillSteps(t *testing.T, steps Steps) {
	t.Helper()
	var task killTask
	if killtest.Task(t, &task) {
		ctx, cancel := context.WithTimeout(t.Context(), killTimeout)
		defer cancel()
		killtest.Begin()
		if err := steps.Do(ctx, task.Dir); err != nil {
			t.Fatal(err)
		}
		killtest.End()
		os.Exit(0) // without the cleanup of a test: the directory is not its own
	}
	kill := func(call int) killtest.Result {
		dir := t.TempDir()
		if steps.Prepare != nil {
			steps.Prepare(t, dir)
		}
		r := killtest.Run(t, killTask{Dir: dir}, call)
		if r.Killed == "" && !r.Ended {
			t.Fatalf("call %d: it failed: %s", call, r.Output)
		}
		if steps.Check(t, dir, r.Ended); t.Failed() {
			t.Fatalf("this was after a kill before call %d: %s (0: none)", call, r.Killed)
		}
		return r
	}
	points := killtest.Points(t, kill(0).Calls, steps.PerAct)
	for _, call := range points {
		kill(call)
	}
	t.Logf("killed at %d calls", len(points))
}
