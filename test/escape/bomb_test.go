//go:build linux

package escape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// bomb exhausts a shared resource: it succeeds with the wide limit and fails with the
// narrow one.
type bomb struct {
	name      string
	amount    int // processes, MB, files
	narrow    atoll.Resources
	wide      atoll.Resources
	supported func(atoll.Features) bool // nil: every driver has the limit
}

func listBombs() []bomb {
	memory := func(mb int64) atoll.Resources { return atoll.Resources{Memory: mb << 20} }
	disk := func(f atoll.Features) bool { return f.Lacks["FullDiskIsQuota"] == "" }
	return []bomb{
		{name: "bomb-processes", amount: 100, narrow: atoll.Resources{PIDs: 50}, wide: atoll.Resources{PIDs: 300}},
		{name: "bomb-memory", amount: 128, narrow: memory(64), wide: memory(512)},
		{name: "bomb-memfd", amount: 128, narrow: memory(64), wide: memory(512)},
		{name: "bomb-shm", amount: 48, narrow: memory(32), wide: memory(512)},
		{name: "bomb-tmp", amount: 32, narrow: atoll.Resources{Disk: 16 << 20}, wide: atoll.Resources{Disk: 128 << 20}, supported: disk},
		{name: "bomb-disk", amount: 32, narrow: atoll.Resources{Disk: 16 << 20}, wide: atoll.Resources{Disk: 128 << 20}, supported: disk},
		{name: "bomb-inodes", amount: 2000, narrow: atoll.Resources{Disk: 64 << 20, Files: 1000}, wide: atoll.Resources{Disk: 128 << 20, Files: 10000}, supported: disk},
	}
}

func TestResourceLimits(t *testing.T) {
	forEachDriver(t, func(t *testing.T, p testDriver) {
		features, err := p.driver.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		bombs := listBombs()
		if p.ownKernel {
			bombs = testenv.Sample(t, bombs, 3, "ATOLL_BOMBS") // in an emulated VM each takes seconds
		}
		for _, b := range bombs {
			if b.supported != nil && !b.supported(features) || slices.Contains(p.missingLimits, b.name) {
				continue // Create refuses the limit: atolltest checks that
			}
			t.Run(b.name, func(t *testing.T) {
				if code, out := runBomb(t, p, b, b.wide); code != crossed {
					t.Errorf("exit code %d with the wide limit: %s", code, out)
				}
				if code, out := runBomb(t, p, b, b.narrow); code == crossed {
					t.Errorf("it succeeds with the limit %+v: %s", b.narrow, out)
				}
			})
		}
	})
}

// runBomb runs a bomb in a new sandbox. It fails the test if the host does not answer
// meanwhile or the sandbox does not answer afterwards.
func runBomb(t *testing.T, p testDriver, b bomb, limits atoll.Resources) (int, string) {
	t.Helper()
	sb := p.createSandbox(t, atoll.Spec{Limits: limits})
	stop := monitorHost(t)
	defer stop()
	var out bytes.Buffer
	exit, err := sb.Exec(t.Context(), atoll.Cmd{
		Args: []string{"/workspace/probe", p.hostMountNamespace(t), b.name, strconv.Itoa(b.amount)}, Stdout: &out, Stderr: &out, Timeout: time.Minute,
	})
	if p.diesOfMemoryLimit && errors.Is(err, atoll.ErrUnavailable) {
		waitForOOMKilled(t, sb)
		return held, "it ended the sandbox"
	}
	if err != nil {
		t.Errorf("Exec: %v", err)
	}
	if after, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo works", Timeout: answerTimeout}); err != nil || string(after.Stdout) != "works\n" {
		t.Errorf("the sandbox does not answer afterwards: %v, %+v", err, after)
	}
	return exit.Code, strings.TrimSpace(out.String())
}

// waitForOOMKilled waits until the status of a sandbox that exceeded its memory limit
// has the reason.
func waitForOOMKilled(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	var st atoll.Status
	ctx, cancel := context.WithTimeout(t.Context(), answerTimeout)
	defer cancel()
	if !testenv.Poll(ctx, func() (killed bool) {
		var err error
		st, err = sb.Status(t.Context())
		return err == nil && st.State == atoll.Failed && strings.Contains(fmt.Sprint(st.Conditions), "OOMKilled")
	}) {
		t.Errorf("it is gone, and says %+v", st)
	}
}

// answerTimeout is how long a small program may take.
const answerTimeout = time.Minute

// monitorHost runs small programs on the host, one after the other, until stop is
// called, and fails the test if one takes too long.
func monitorHost(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			one, end := context.WithTimeout(ctx, answerTimeout)
			err := exec.CommandContext(one, "/bin/true").Run()
			end()
			if ctx.Err() == nil && err != nil {
				done <- fmt.Errorf("a small program of the host, which had %v: %w", answerTimeout, err)
				return
			}
		}
		done <- nil
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestForkBombsAndOutputFloods checks that fork bombs and floods of output end at their
// deadlines and that the host and the sandbox answer meanwhile and afterwards.
func TestForkBombsAndOutputFloods(t *testing.T) {
	forEachDriver(t, func(t *testing.T, p testDriver) {
		bombs := []struct{ name, text string }{
			{"fork", "bomb() { bomb | bomb & }; bomb; sleep 30"},
			{"detach", "while :; do setsid sh -c 'sleep 100 & sleep 100' & done"},
			{"log", "yes flood; sleep 30"},
			{"log-both", "yes out & yes err >&2 & wait"},
			{"zombies", "while :; do (sh -c : & exec sleep 100) & done"},
			{"pipes", "while :; do yes | sleep 100 & done"},
		}
		if p.ownKernel {
			bombs = testenv.Sample(t, bombs, 2, "ATOLL_BOMBS")
		}
		for _, b := range bombs {
			t.Run(b.name, func(t *testing.T) {
				sb := p.createSandbox(t, atoll.Spec{Limits: atoll.Resources{PIDs: 64, Memory: 128 << 20}})
				stop := monitorHost(t)
				defer stop()
				exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: b.text, Timeout: 2 * time.Second, MaxOutput: 1 << 20})
				if len(exit.Stdout) > 1<<20 || len(exit.Stderr) > 1<<20 {
					t.Errorf("%d and %d bytes were kept, more than 1 MB", len(exit.Stdout), len(exit.Stderr))
				}
				_ = err // a shell that can't fork may give up before the deadline
				after, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo works", Timeout: answerTimeout})
				if err != nil || string(after.Stdout) != "works\n" {
					t.Errorf("the sandbox does not answer afterwards: %v, %+v", err, after)
				}
			})
		}
	})
}
