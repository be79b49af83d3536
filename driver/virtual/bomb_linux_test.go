package virtual_test

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Commands that try to use much memory, one in each line.
var (
	//go:embed testdata/bombs.sh
	bombFile string
	//go:embed testdata/bombs_wide.sh
	wideBombFile string
	//go:embed testdata/bombs_red.sh
	redBombFile string
	//go:embed testdata/bombs_blind.sh
	blindBombFile string
	//go:embed testdata/bombs_programs.sh
	programBombFile string
	//go:embed testdata/bombs_parts.sh
	partBombFile string
)

// listBombs returns the commands of all files.
func listBombs() (bombs []string) {
	for _, file := range []string{bombFile, wideBombFile, redBombFile, blindBombFile} {
		bombs = append(bombs, strings.Split(strings.TrimSpace(file), "\n")[1:]...)
	}
	return bombs
}

// The limits of a bomb.
const (
	bombMemory = 64 << 20
	bombDisk   = 12 << 20
)

// TestBombsStayWithinTheLimit runs commands that try to use more memory than their sandbox has,
// each in a process of its own, and looks at the most memory that the process had: beyond that of
// an empty command, at most the sandbox's limits and 32 MiB. After its deadline a command may use the
// processor for overtime. It runs a sample of the day, and all
// of them with ATOLL_BOMBS=all.
func TestBombsStayWithinTheLimit(t *testing.T) {
	bombs := testenv.Sample(t, listBombs(), testenv.Rounds(t, 12, 40, ""), "ATOLL_BOMBS")
	testPeaks(t, listed(bombs))
}

// bomb is a command that tries to use much memory or time.
type bomb struct {
	name     string // of its test
	script   string
	deadline time.Duration
}

// listed returns the bombs of scripts that are named by themselves.
func listed(scripts []string) (list []bomb) {
	for _, script := range scripts {
		list = append(list, bomb{script, script, bombDeadline})
	}
	return list
}

// TestProgramBombsStayWithinTheLimit runs the commands against make, ed, openssl and parallel, all of them each time.
func TestProgramBombsStayWithinTheLimit(t *testing.T) {
	bombs := listed(strings.Split(strings.TrimSpace(programBombFile), "\n")[1:])
	for n := range bombs {
		bombs[n].name = strconv.Itoa(n)
	}
	testPeaks(t, bombs)
}

// TestPartsOfTextsStayWithinTheLimit keeps parts of long texts in variables and functions.
func TestPartsOfTextsStayWithinTheLimit(t *testing.T) {
	bombs := listed(strings.Split(strings.TrimSpace(partBombFile), "\n")[1:])
	for n := range bombs {
		bombs[n].name = strconv.Itoa(n)
	}
	testPeaks(t, bombs)
}

// testPeaks runs bombs, each in a process of its own, and compares the peak of each process with the
// limits. It logs the largest results.
func testPeaks(t *testing.T, bombs []bomb) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector multiplies memory, which this test measures; it runs without")
	}
	base := runBomb(t, bomb{script: "true", deadline: bombDeadline}).peak
	var mu sync.Mutex
	var most bombResult
	t.Cleanup(func() {
		t.Logf("at most %d MiB, %v of work after a deadline, an answer %v after one", (most.peak-base)>>20, most.worked, most.late)
	})
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			var r bombResult
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				most = bombResult{peak: max(most.peak, r.peak), worked: max(most.worked, r.worked), late: max(most.late, r.late)}
			}()
			for range 3 { // where the machine is busy the garbage collector may be late once
				if r = runBomb(t, b); r.peak-base <= bombMemory+bombDisk+overmemory && r.worked <= r.allowed {
					return
				}
			}
			t.Errorf("%d MiB, with limits of %d MiB for memory and %d MiB for files, and work of %v after the deadline, of which %v are allowed, by\n%s", (r.peak-base)>>20, bombMemory>>20, bombDisk>>20, r.worked, r.allowed, b.script)
		})
	}
}

// bombResult is what a command took.
type bombResult struct {
	peak    int64         // memory of its process in bytes
	worked  time.Duration // CPU time of its process after the command's deadline
	allowed time.Duration // for worked: overtime, or as much as sorting takes where that is more
	late    time.Duration // from the deadline to the answer
}

// bombDeadline is the deadline of a command. The marks precede numbers in the output of TestRunBomb.
const (
	bombDeadline = 5 * time.Second
	workedMark   = "worked after the deadline, ns: "
	allowedMark  = "allowed, ns: "
	lateMark     = "late, ns: "
)

// runBomb runs a command in a sandbox of another process.
func runBomb(t *testing.T, b bomb) bombResult {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunBomb$", "-test.v")
	cmd.Env = append(os.Environ(), "ATOLL_TEST_BOMB="+b.script, "ATOLL_TEST_DEADLINE="+b.deadline.String(), "GOMEMLIMIT=off")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestRunBomb") {
		t.Fatalf("%v\n%s", err, out)
	}
	read := func(mark string) time.Duration {
		_, rest, _ := strings.Cut(string(out), mark)
		number, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Fatalf("no %q in %s", mark, out)
		}
		return time.Duration(n)
	}
	return bombResult{cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10, read(workedMark), read(allowedMark), read(lateMark)}
}

// TestRunBomb is the process that [runBomb] starts.
func TestRunBomb(t *testing.T) {
	script := os.Getenv("ATOLL_TEST_BOMB")
	if script == "" {
		t.Skip("it is a part of TestBombsStayWithinTheLimit")
	}
	deadline, err := time.ParseDuration(os.Getenv("ATOLL_TEST_DEADLINE"))
	if err != nil {
		t.Fatal(err)
	}
	d := &virtual.Driver{LimitHeap: true}
	sb, err := d.Create(t.Context(), atoll.Spec{Limits: atoll.Resources{Memory: bombMemory, Disk: bombDisk}})
	if err != nil {
		t.Fatal(err)
	}
	work, end := countWorkAfter(deadline), time.Now().Add(deadline)
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", script}, Timeout: deadline, MaxOutput: 64 << 10})
	late := max(0, time.Since(end))
	worked, allowed := work(), overtime
	if worked > allowed { // where the machine is slow at present, all work takes longer
		allowed = max(allowed, timeSort())
	}
	fmt.Printf("%s%d\n%s%d\n%s%d\n", workedMark, worked, allowedMark, allowed, lateMark, late)
	if err != nil && !errors.Is(err, atoll.ErrTimeout) {
		t.Fatal(err)
	}
	if exit.Code == 134 || strings.Contains(string(exit.Stderr), "internal error") {
		t.Errorf("a command crashed: %s", exit.Stderr)
	}
	exit, err = sb.Exec(t.Context(), atoll.Cmd{Shell: "echo works", Timeout: 5 * time.Second})
	if err != nil || string(exit.Stdout) != "works\n" {
		t.Errorf("afterwards: %q, %v", exit.Stdout, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}
