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

// bomb uses up something that is shared: it gets all of it where the limit is
// wide, and is held where it is narrow.
type bomb struct {
	name   string
	amount int                       // processes, MB, files
	narrow atoll.Resources           //
	wide   atoll.Resources           //
	has    func(atoll.Features) bool // nil: every driver has the limit
}

func bombs() []bomb {
	memory := func(mb int64) atoll.Resources { return atoll.Resources{Memory: mb << 20} }
	disk := func(f atoll.Features) bool { return f.Lacks["FullDiskIsQuota"] == "" }
	return []bomb{
		{name: "bomb-processes", amount: 100, narrow: atoll.Resources{PIDs: 50}, wide: atoll.Resources{PIDs: 300}},
		{name: "bomb-memory", amount: 128, narrow: memory(64), wide: memory(512)},
		{name: "bomb-memfd", amount: 128, narrow: memory(64), wide: memory(512)},
		{name: "bomb-shm", amount: 48, narrow: memory(32), wide: memory(512)},
		{name: "bomb-tmp", amount: 32, narrow: atoll.Resources{Disk: 16 << 20}, wide: atoll.Resources{Disk: 128 << 20}, has: disk},
		{name: "bomb-disk", amount: 32, narrow: atoll.Resources{Disk: 16 << 20}, wide: atoll.Resources{Disk: 128 << 20}, has: disk},
		{name: "bomb-inodes", amount: 2000, narrow: atoll.Resources{Disk: 64 << 20, Files: 1000}, wide: atoll.Resources{Disk: 128 << 20, Files: 10000}, has: disk},
	}
}

func TestBombs(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		features, err := p.driver.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bombs() {
			if b.has != nil && !b.has(features) || slices.Contains(p.lacks, b.name) {
				continue // Create refuses the limit: the suite shows that
			}
			t.Run(b.name, func(t *testing.T) {
				if code, out := explode(t, p, b, b.wide); code != crossed {
					t.Errorf("with room for it the bomb gets exit code %d: %s", code, out)
				}
				if code, out := explode(t, p, b, b.narrow); code == crossed {
					t.Errorf("the limit %+v let it: %s", b.narrow, out)
				}
			})
		}
	})
}

// explode runs a bomb in a sandbox of its own and fails if the host or the
// sandbox don't answer meanwhile and afterwards.
func explode(t *testing.T, p place, b bomb, limits atoll.Resources) (int, string) {
	t.Helper()
	sb := p.sandbox(t, atoll.Spec{Limits: limits})
	stop := answering(t)
	defer stop()
	var out bytes.Buffer
	exit, err := sb.Exec(t.Context(), atoll.Cmd{
		Args: []string{"/workspace/probe", p.mountNS(t), b.name, strconv.Itoa(b.amount)}, Stdout: &out, Stderr: &out, Timeout: time.Minute,
	})
	if p.mortal && errors.Is(err, atoll.ErrUnavailable) {
		saysWhy(t, sb)
		return held, "it ended the sandbox"
	}
	if err != nil {
		t.Errorf("Exec: %v", err)
	}
	if after, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo works", Timeout: patience}); err != nil || string(after.Stdout) != "works\n" {
		t.Errorf("afterwards the sandbox does not answer: %v, %+v", err, after)
	}
	return exit.Code, strings.TrimSpace(out.String())
}

// saysWhy waits until a sandbox that has used up its memory says so.
func saysWhy(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	var st atoll.Status
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !testenv.Poll(ctx, func() (killed bool) {
		var err error
		st, err = sb.Status(t.Context())
		return err == nil && st.State == atoll.Failed && strings.Contains(fmt.Sprint(st.Conditions), "OOMKilled")
	}) {
		t.Errorf("it is gone, and says %+v", st)
	}
}

// patience is how long a small program may take on a host that answers.
const patience = time.Minute

// answering starts small programs on the host, one after the other, until the
// function that it returns is called, and fails if one takes too long.
func answering(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			one, end := context.WithTimeout(ctx, patience)
			err := exec.CommandContext(one, "/bin/true").Run()
			end()
			if ctx.Err() == nil && err != nil {
				done <- fmt.Errorf("a small program of the host, which had %v: %w", patience, err)
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

// TestForkBomb and the log flood end at their deadlines, and the host answers.
func TestForkBomb(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		for name, text := range map[string]string{
			"fork":     "bomb() { bomb | bomb & }; bomb; sleep 30",
			"detach":   "while :; do setsid sh -c 'sleep 100 & sleep 100' & done",
			"log":      "yes flood; sleep 30",
			"log-both": "yes out & yes err >&2 & wait",
			"zombies":  "while :; do (sh -c : & exec sleep 100) & done",
			"pipes":    "while :; do yes | sleep 100 & done",
		} {
			t.Run(name, func(t *testing.T) {
				sb := p.sandbox(t, atoll.Spec{Limits: atoll.Resources{PIDs: 64, Memory: 128 << 20}})
				stop := answering(t)
				defer stop()
				exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text, Timeout: 2 * time.Second, MaxOutput: 1 << 20})
				if len(exit.Stdout) > 1<<20 || len(exit.Stderr) > 1<<20 {
					t.Errorf("%d and %d bytes were kept, more than 1 MB", len(exit.Stdout), len(exit.Stderr))
				}
				_ = err // a shell that can't fork may give up before the deadline
				after, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo works", Timeout: patience})
				if err != nil || string(after.Stdout) != "works\n" {
					t.Errorf("afterwards the sandbox does not answer: %v, %+v", err, after)
				}
			})
		}
	})
}
