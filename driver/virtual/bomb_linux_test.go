package virtual_test

import (
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Commands that try to use much memory, one in each line: those that once did, and others.
var (
	//go:embed testdata/bombs.sh
	bombFile string
	//go:embed testdata/bombs_wide.sh
	wideBombFile string
	//go:embed testdata/bombs_red.sh
	redBombFile string
	//go:embed testdata/bombs_blind.sh
	blindBombFile string
)

// The limits of a bomb.
const (
	bombMemory = 64 << 20
	bombDisk   = 12 << 20
)

// TestBombsStayWithinTheLimit runs commands that try to use more memory than their sandbox has,
// each in a process of its own, and looks at the most memory that the process had: beyond that of
// an empty command, at most the sandbox's limits and 32 MiB.
func TestBombsStayWithinTheLimit(t *testing.T) {
	runBombs(t, bombFile, testenv.Rounds(t, 4, 1, "")) // the logic tier takes every fourth
}

// TestWideBombsStayWithinTheLimit does the same with more kinds of commands.
func TestWideBombsStayWithinTheLimit(t *testing.T) {
	runBombs(t, wideBombFile, testenv.Rounds(t, 40, 1, ""))
}

// TestBlindBombsStayWithinTheLimit does the same with commands that were written without a look at the
// other lists: those that exceeded the limits, and some of those that did not.
func TestBlindBombsStayWithinTheLimit(t *testing.T) {
	t.Run("red", func(t *testing.T) { runBombs(t, redBombFile, testenv.Rounds(t, 7, 1, "")) })
	t.Run("blind", func(t *testing.T) { runBombs(t, blindBombFile, testenv.Rounds(t, 80, 12, "ATOLL_BLIND_BOMBS")) })
}

// runBombs runs every n-th command of a file.
func runBombs(t *testing.T, file string, every int) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector multiplies memory, which this test measures; it runs without")
	}
	bombs := strings.Split(strings.TrimSpace(file), "\n")[1:]
	base := peakOfBomb(t, "true")
	for i, script := range bombs {
		if i%every != 0 {
			continue
		}
		t.Run(script, func(t *testing.T) {
			most := int64(0)
			for range 3 { // where the machine is busy the garbage collector may be late once
				if most = peakOfBomb(t, script) - base; most <= bombMemory+bombDisk+overmemory {
					return
				}
			}
			t.Errorf("%d MiB, with limits of %d MiB for memory and %d MiB for files", most>>20, bombMemory>>20, bombDisk>>20)
		})
	}
}

// peakOfBomb runs a command in a sandbox of another process and returns that process's peak of
// memory in bytes.
func peakOfBomb(t *testing.T, script string) int64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunBomb$", "-test.v")
	cmd.Env = append(os.Environ(), "ATOLL_TEST_BOMB="+script, "GOMEMLIMIT=off")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestRunBomb") {
		t.Fatalf("%v\n%s", err, out)
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// TestRunBomb is the process that [peakOfBomb] starts.
func TestRunBomb(t *testing.T) {
	script := os.Getenv("ATOLL_TEST_BOMB")
	if script == "" {
		t.Skip("it is a part of TestBombsStayWithinTheLimit")
	}
	d := &virtual.Driver{LimitHeap: true}
	sb, err := d.Create(t.Context(), atoll.Spec{Limits: atoll.Resources{Memory: bombMemory, Disk: bombDisk}})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", script}, Timeout: 5 * time.Second, MaxOutput: 64 << 10})
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
