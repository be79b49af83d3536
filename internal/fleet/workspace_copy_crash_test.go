package fleet

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// copyCrashVar is the environment variable that makes TestWorkspaceCopyChild the child
// process of the crash test.
const copyCrashVar = "ATOLL_FLEET_CRASH_CARRY"

func TestWorkspaceCopyChild(t *testing.T) {
	if home := os.Getenv(copyCrashVar); home != "" {
		t.Fatal("the child of a crash test ended: ", runCopyChild(home))
	}
}

// runCopyChild uses copied workspaces until it is killed.
func runCopyChild(home string) error {
	f, err := Open(context.Background(), withPostgres(Options{Home: home, Drivers: []atoll.Driver{newRemoteDriver(home)}}))
	if err != nil {
		return err
	}
	say := &lineWriter{w: os.Stdout}
	a := f.Account(LocalCaller())
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for i := range 3 {
		wg.Go(func() { errs <- countInSandboxes(a, say, fmt.Sprint("w", i)) })
	}
	return <-errs // any end is a failure
}

// countInSandboxes counts in a file of a workspace, in one sandbox after another,
// without end.
func countInSandboxes(a *Account, say *lineWriter, ws string) error {
	ctx := context.Background()
	for {
		sb, err := a.Create(ctx, persistentConfig(atoll.WorkspaceMount{Workspace: ws}))
		if err != nil {
			return err
		}
		for range 1 + rand.IntN(3) {
			exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "cd /workspace; n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); mkdir -p d/$n; echo $n >n; sync; echo $n"})
			if err != nil {
				return err
			}
			say.writeLine("wrote", ws, strings.TrimSpace(string(exit.Stdout)))
			switch rand.IntN(4) {
			case 0:
				err = sb.SaveWorkspaces(ctx)
			case 1:
				if err = sb.Stop(ctx); err == nil {
					err = sb.Start(ctx)
				}
			}
			if err != nil {
				return err
			}
		}
		if err := sb.Destroy(ctx); err != nil {
			return err
		}
	}
}

// TestWorkspaceCopyCrash kills a process that copies workspaces: files that were
// written in a sandbox must be stored when the sandbox is gone, whichever process ended
// it.
func TestWorkspaceCopyCrash(t *testing.T) {
	rounds := testenv.Rounds(t, 4, 8, "ATOLL_CRASHES")
	if os.Getenv(postgresVar) != "" {
		rounds = min(rounds, 2) // each waits for a lease
	}
	home := t.TempDir()
	wrote := make(map[string]int)
	for round := range rounds {
		crashCopyChildOnce(t, home, wrote, time.Duration(5+rand.IntN(250))*time.Millisecond)
		f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{newRemoteDriver(home)}})
		waitUntilReconciled(t, f)
		a := f.Account(LocalCaller())
		list, err := a.List(t.Context(), Filter{})
		must(t, err)
		for _, i := range list {
			sb, err := a.Open(t.Context(), i.ID)
			must(t, err)
			must(t, sb.Destroy(t.Context()))
		}
		for ws, n := range wrote {
			got := strings.TrimSpace(readStored(t, a, ws, "/n"))
			if at, err := strconv.Atoi(got); err != nil || at < n {
				t.Errorf("round %d: %s holds %q; %d was acknowledged", round, ws, got, n)
			} else if info, err := reopenFiles(t, a, ws).StatFile(t.Context(), fmt.Sprintf("/d/%d", at)); err != nil || !info.IsDir() {
				t.Errorf("round %d: %s is not whole: %v", round, ws, err)
			}
		}
		closeFleet(t, f)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d crashes, counted to %v", rounds, wrote)
}

// crashCopyChildOnce starts a child and kills it some time after its first line.
func crashCopyChildOnce(t *testing.T, home string, wrote map[string]int, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorkspaceCopyChild$")
	cmd.Env = append(os.Environ(), copyCrashVar+"="+home)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // if it prints nothing
	lines, first := bufio.NewScanner(out), true
	for lines.Scan() {
		if first {
			kill.Reset(after)
			first = false
		}
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "wrote" {
			if n, err := strconv.Atoi(words[2]); err == nil {
				wrote[words[1]] = n
			}
		}
	}
	kill.Stop()
	if err := cmd.Wait(); err == nil || first {
		t.Fatalf("the child was not killed but ended: %v", err)
	}
}
