package docker_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
)

// leaks are counts of what sandboxes could leave behind.
type leaks struct{ containers, images, volumes, files, processes int }

// countLeaks counts everything in the engine, which only the tests use.
func countLeaks(t *testing.T, c *client.Client, dir string) leaks {
	t.Helper()
	containers, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	images, err := c.ImageList(t.Context(), client.ImageListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := c.VolumeList(t.Context(), client.VolumeListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return leaks{len(containers.Items), len(images.Items), len(volumes.Items), countEntries(t, dir), countProcesses(t)}
}

func countEntries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// countProcesses counts the processes of this test's guests and egress proxies, and the engine's shims.
func countProcesses(t *testing.T) int {
	t.Helper()
	var programs []os.FileInfo
	for _, name := range []string{"atoll-guest", "atoll-egress"} {
		program, err := helper.Finder{}.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, info)
	}
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, dir := range list {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have exited
		info, _ := os.Stat(filepath.Join(dir, "exe"))         // it may have exited
		if bytes.Contains(line, []byte("-shim-")) && bytes.Contains(line, []byte(enginetest.Dir(t)+"/")) {
			n++
		}
		for _, program := range programs {
			if info != nil && os.SameFile(info, program) {
				n++
			}
		}
	}
	return n
}

// listGoroutines returns the stacks of goroutines in atoll's code, except for tests.
func listGoroutines(t *testing.T) string {
	t.Helper()
	var b, ours bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
		t.Fatal(err)
	}
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(stack, "atoll/driver/docker.") || strings.Contains(stack, "atoll/internal/guest.") || strings.Contains(stack, "yamux") {
			ours.WriteString(stack + "\n\n")
		}
	}
	return ours.String()
}

// TestManySandboxesLeaveNothing creates, uses and destroys many sandboxes, four at once; every third has an egress
// proxy. ATOLL_LEAKS sets their number.
func TestManySandboxesLeaveNothing(t *testing.T) {
	n, workers := 20, 4
	if text := os.Getenv("ATOLL_LEAKS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	d, c := newDriver(t), engineClient(t)
	var during int
	useOnce(t, d, true, func() { during = countProcesses(t) })
	before, descriptors := countLeaks(t, c, d.Dir), countEntries(t, "/proc/self/fd")
	if during < before.processes+3 {
		t.Errorf("with a sandbox there are %d processes, without %d: its shim, guest and egress proxy are not detected", during, before.processes)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < n; i += workers {
				useOnce(t, d, i%3 == 0, func() {})
			}
		})
	}
	wg.Wait()
	t.Logf("%d sandboxes, %.1f a second", n, float64(n)/time.Since(start).Seconds())
	if after := countLeaks(t, c, d.Dir); after != before {
		t.Errorf("before there were %+v, now %+v", before, after)
	}
	if now := countEntries(t, "/proc/self/fd"); now > descriptors+2*workers { // the engine's client keeps some open
		t.Errorf("before there were %d descriptors, now %d", descriptors, now)
	}
	if stacks := listGoroutines(t); stacks != "" {
		t.Errorf("goroutines are left:\n%s", stacks)
	}
}

// useOnce creates a sandbox, runs a command in it and destroys it.
func useOnce(t *testing.T, d *docker.Driver, gate bool, then func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var spec atoll.Spec
	if gate {
		spec.Network.Allow = []string{"example.com:443"}
	}
	sb, err := d.Create(ctx, spec)
	if err != nil {
		t.Errorf("Create: %v", err)
		return
	}
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "hi"}})
	if err != nil || string(exit.Stdout) != "hi\n" {
		t.Errorf("Exec: %q, %v", exit.Stdout, err)
	}
	then()
	if err := sb.Destroy(ctx); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}
