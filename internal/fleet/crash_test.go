package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// crashHomeVar is the environment variable that makes the test binary the child process
// of a crash test.
const crashHomeVar = "ATOLL_FLEET_CRASH_HOME"

// runCrashChild uses a fleet until it is killed, and prints what it begins and what was
// acknowledged.
func runCrashChild(home string) error {
	f, err := Open(context.Background(), withPostgres(Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}}))
	if err != nil {
		return err
	}
	go func() { _ = f.Run(context.Background()) }() // it ends with the process
	say := &lineWriter{w: os.Stdout}
	a := f.Account(LocalCaller())
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		wg.Go(func() { errs <- useSandboxes(a, say) })
	}
	return <-errs // returning is always a failure
}

// lineWriter writes whole lines.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *lineWriter) writeLine(words ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintln(t.w, words...) // a write to a closed pipe ends this process
}

// useSandboxes creates, uses and destroys sandboxes without end.
func useSandboxes(a *Account, say *lineWriter) error {
	ctx := context.Background()
	pools, err := a.Pools(ctx)
	if err != nil {
		return err
	}
	for {
		cfg := atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}}
		if len(pools) > 0 && rand.IntN(2) == 0 {
			cfg.Pool = pools[0].Name
		}
		sb, err := a.Create(ctx, cfg)
		if err != nil {
			return err
		}
		say.writeLine("created", sb.ID())
		for n := range rand.IntN(4) {
			if _, err := sb.Exec(ctx, atoll.Cmd{Shell: fmt.Sprintf("echo %d > /n; sync", n)}); err != nil {
				return err
			}
			say.writeLine("wrote", sb.ID(), n)
		}
		if rand.IntN(3) == 0 {
			say.writeLine("stopping", sb.ID())
			if err := sb.Stop(ctx); err != nil {
				return err
			}
			say.writeLine("stopped", sb.ID())
			if err := sb.Start(ctx); err != nil {
				return err
			}
		}
		if rand.IntN(3) == 0 {
			fork, err := sb.Fork(ctx, "", atoll.Spec{})
			if err != nil {
				return err
			}
			say.writeLine("created", fork.ID())
		}
		if rand.IntN(2) == 0 {
			say.writeLine("destroying", sb.ID())
			if err := sb.Destroy(ctx); err != nil {
				return err
			}
			say.writeLine("destroyed", sb.ID())
		}
	}
}

// reportedSandbox is the state of a sandbox as the child process reported it.
type reportedSandbox struct {
	wrote      int // -1: nothing
	destroying bool
	destroyed  bool
	twice      bool // it was claimed twice
}

// TestCrash kills a process repeatedly during its work. Acknowledged changes must be
// kept, others must be complete or have no effect. The next process that opens the
// fleet reconciles them, or one that is still running.
func TestCrash(t *testing.T) {
	rounds := testenv.Rounds(t, 6, 12, "ATOLL_CRASHES")
	if os.Getenv(postgresVar) != "" {
		rounds = min(rounds, 4) // each round waits for a lease
	}
	home := t.TempDir()
	all := make(map[string]*reportedSandbox)
	for round := range rounds {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			var survivor *Fleet
			if round%2 == 1 {
				survivor = openFleet(t, Options{Home: home})
			}
			crashChildOnce(t, home, all, time.Duration(5+rand.IntN(250))*time.Millisecond)
			if survivor == nil {
				survivor = openFleet(t, Options{Home: home})
			}
			waitUntilReconciled(t, survivor)
			checkAfterCrash(t, survivor, all)
		})
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d crashes, %d sandboxes", rounds, len(all))
}

// crashChildOnce starts a child and kills it some time after its first line.
func crashChildOnce(t *testing.T, home string, all map[string]*reportedSandbox, after time.Duration) {
	t.Helper()
	var mu sync.Mutex
	if err := runAndKillChild(home, &mu, all, after); err != nil {
		t.Fatal(err)
	}
}

// runAndKillChild is crashChildOnce for concurrent children; mu guards all.
func runAndKillChild(home string, mu *sync.Mutex, all map[string]*reportedSandbox, after time.Duration) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashHomeVar+"="+home)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // if it prints nothing
	r := bufio.NewReader(out)
	first := true
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break // an incomplete line was cut off
		}
		if first {
			kill.Reset(after)
			first = false
		}
		mu.Lock()
		recordLine(all, line)
		mu.Unlock()
	}
	kill.Stop()
	err = cmd.Wait()
	var exit *exec.ExitError
	if first || !errors.As(err, &exit) || exit.Exited() {
		return fmt.Errorf("the child was not killed but ended: %w", err)
	}
	return nil
}

// recordLine records a line of a child.
func recordLine(all map[string]*reportedSandbox, line string) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return // cut off by the kill
	}
	s := all[words[1]]
	switch words[0] {
	case "created":
		all[words[1]] = &reportedSandbox{wrote: -1, twice: s != nil}
	case "wrote":
		if n, err := strconv.Atoi(words[len(words)-1]); err == nil && s != nil {
			s.wrote = n
		}
	case "destroying":
		s.destroying = true
	case "destroyed":
		s.destroyed = true
	}
}

// checkAfterCrash compares a fleet after a crash with the reported states.
func checkAfterCrash(t *testing.T, f *Fleet, all map[string]*reportedSandbox) {
	t.Helper()
	a := f.Account(LocalCaller())
	list, err := a.List(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	there := driverStates(t, f.opts.Drivers[0])
	for _, i := range list {
		if i.State != atoll.Running && i.State != atoll.Stopped {
			t.Errorf("%s is %s: %+v", i.ID, i.State, i.Conditions)
		}
		if there[i.ID] != i.State {
			t.Errorf("%s is %s, and its driver has %q", i.ID, i.State, there[i.ID])
		}
		if s := all[i.ID]; s != nil && s.destroyed {
			t.Errorf("%s was destroyed and is %s", i.ID, i.State)
		}
		delete(there, i.ID)
	}
	ready, err := f.queryRows(t.Context(), f.registry.DB, "pool <> '' and state <> 'destroyed'")
	must(t, err)
	for _, r := range ready {
		if there[r.id] != r.state {
			t.Errorf("%s of a pool is %s (goal %q, holder %q), and its driver has %q", r.id, r.state, r.goal, r.holder, there[r.id])
		}
		delete(there, r.id)
	}
	if len(there) != 0 {
		t.Errorf("orphans: %v", there)
	}
	for id, s := range all {
		if s.twice {
			t.Errorf("%s was given to two", id)
		}
		if s.destroying {
			continue
		}
		sb, err := a.Open(t.Context(), id)
		if err != nil {
			t.Errorf("lost: %v", err)
			continue
		}
		if s.wrote < 0 {
			continue
		}
		b, err := atoll.ReadFile(t.Context(), sb, "/n")
		if n, _ := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || n < s.wrote {
			t.Errorf("%s: it holds %q, %v; %d was acknowledged", id, b, err, s.wrote)
		}
	}
	if dead, err := f.member.DeadMembers(); err != nil || len(dead) != 0 {
		t.Errorf("%d dead processes are left, %v", len(dead), err)
	}
}
