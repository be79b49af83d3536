package namespace_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
)

// newDiskDriver returns a driver that can limit files.
func newDiskDriver(t *testing.T) *namespace.Driver {
	t.Helper()
	d := newDriver(t)
	f, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if why := f.Lacks["FullDiskIsQuota"]; why != "" {
		skipUnlessRequired(t, "no limits of files: %s", why)
	}
	return d
}

// listLoopDevices returns the loop devices of files in a directory.
func listLoopDevices(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range found {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), dir) {
			list = append(list, f+": "+string(b))
		}
	}
	return list
}

// smallLimits returns limits that allow 1 MB and not 4 MB.
func smallLimits() atoll.Resources { return atoll.Resources{Disk: 3 << 20, Files: 300} }

func createSmallSandbox(t *testing.T, d *namespace.Driver, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	spec.Limits = smallLimits()
	sb, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if left := listLoopDevices(t, d.Dir+"/"+sb.ID()); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	})
	return sb
}

// checkLimitsHeld fails the test if a sandbox can use more than smallLimits.
func checkLimitsHeld(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/big", bytes.Repeat([]byte("x"), 4<<20), 0o644); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("4 MB: %v", err)
	}
	runShell(t, sb, "! dd if=/dev/zero of=/tmp/fill bs=65536 count=64 2>/tmp/err && rm /tmp/fill")
	// 64 files are reserved for the system itself; how many it uses depends on the host.
	if got := runShell(t, sb, "i=0; mkdir /tmp/many; while [ $i -lt 400 ] && (: >/tmp/many/$i) 2>/dev/null; do i=$((i+1)); done; rm -r /tmp/many; [ $i -gt 200 ] && [ $i -lt 365 ] && echo held || echo $i"); got != "held\n" {
		t.Errorf("with a limit of 300 files there are %s", got)
	}
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/small", bytes.Repeat([]byte("x"), 1<<20), 0o644); err != nil {
		t.Errorf("1 MB: %v", err)
	}
	runShell(t, sb, "rm /workspace/small")
}

// TestDisk tests the lifecycle of a sandbox with a disk of its own.
func TestDisk(t *testing.T) { testDiskLifecycle(t, newDiskDriver(t), atoll.Spec{}) }

func TestDiskOfImage(t *testing.T) {
	d := newDiskDriver(t)
	if _, err := d.ImportImage(t.Context(), "test/busybox:1", makeBusyboxArchive(t), nil); err != nil {
		t.Fatal(err)
	}
	sb := createSmallSandbox(t, d, atoll.Spec{Image: "test/busybox:1"})
	if err := atoll.WriteFile(t.Context(), sb, "/etc/big", bytes.Repeat([]byte("x"), 4<<20), 0o644); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("4 MB: %v", err)
	}
	runShell(t, sb, "echo kept > /workspace/x")
	if err := errors.Join(atoll.Stop(t.Context(), sb), atoll.Start(t.Context(), sb)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "busybox cat /workspace/x"); got != "kept\n" {
		t.Errorf("after a stop: %q", got)
	}
	fork, err := atoll.Fork(t.Context(), sb, "", atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, fork, "busybox cat /workspace/x /etc/of-the-image"); got != "kept\nyes" {
		t.Errorf("in the fork: %q", got)
	}
	if err := atoll.WriteFile(t.Context(), fork, "/etc/big", bytes.Repeat([]byte("x"), 4<<20), 0o644); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("4 MB in the fork: %v", err)
	}
	if err := fork.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func testDiskLifecycle(t *testing.T, d *namespace.Driver, spec atoll.Spec) {
	ctx := t.Context()
	sb := createSmallSandbox(t, d, spec)
	checkLimitsHeld(t, sb)
	before, err := atoll.StatsOf(ctx, sb)
	if err != nil {
		t.Fatal(err)
	}
	runShell(t, sb, "echo first > /workspace/x; ln /workspace/x /workspace/y; [ ! -e /lost+found ]; head -c 500000 /dev/urandom > /workspace/data")
	after, err := atoll.StatsOf(ctx, sb)
	if err != nil || after.DiskLimit != 3<<20 || after.DiskUsed-before.DiskUsed < 500_000 || after.DiskUsed-before.DiskUsed > 600_000 {
		t.Errorf("stats %+v, before %+v, %v", after, before, err)
	}
	if _, err := atoll.Snapshot(ctx, sb, "one"); err != nil {
		t.Fatal(err)
	}
	runShell(t, sb, "echo second > /workspace/x; rm /workspace/data")
	if err := atoll.Stop(ctx, sb); err != nil {
		t.Fatal(err)
	}
	if left := listLoopDevices(t, d.Dir); len(left) > 0 {
		t.Errorf("a stopped sandbox has %v", left)
	}
	stopped, err := atoll.Fork(ctx, sb, "", atoll.Spec{}) // fork of a stopped sandbox
	if err != nil {
		t.Fatal(err)
	}
	if err := atoll.Start(ctx, sb); err != nil {
		t.Fatal(err)
	}
	running, err := atoll.Fork(ctx, sb, "", atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]atoll.Sandbox{"": sb, "fork of the stopped": stopped, "fork of the running": running} {
		if got := runShell(t, s, "cat /workspace/x /workspace/y"); got != "second\nsecond\n" {
			t.Errorf("%s: %q", name, got)
		}
		checkLimitsHeld(t, s)
	}
	if err := atoll.Restore(ctx, sb, "one"); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "echo third >> /workspace/x; cat /workspace/y; wc -c < /workspace/data; rm /workspace/data"); got != "first\nthird\n500000\n" {
		t.Errorf("restored: %q", got)
	}
	checkLimitsHeld(t, sb)
	testForkLimits(t, sb)
	if err := errors.Join(stopped.Destroy(ctx), running.Destroy(ctx)); err != nil {
		t.Error(err)
	}
}

// testForkLimits forks a sandbox with other limits.
func testForkLimits(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	wide, err := atoll.Fork(t.Context(), sb, "one", atoll.Spec{Limits: atoll.Resources{Disk: 20 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	runShell(t, wide, "[ $(wc -c < /workspace/data) = 500000 ]; head -c 10000000 /dev/zero > /workspace/wide; ! head -c 30000000 /dev/zero > /workspace/wide")
	none, err := atoll.Fork(t.Context(), wide, "", atoll.Spec{Limits: atoll.Resources{PIDs: 100}})
	if err != nil {
		t.Fatal(err)
	}
	runShell(t, none, "head -c 40000000 /dev/zero > /workspace/none")
	if _, err := atoll.Fork(t.Context(), wide, "", atoll.Spec{Limits: smallLimits()}); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("a fork whose disk is too small: %v", err)
	}
	if err := errors.Join(wide.Destroy(t.Context()), none.Destroy(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestDisksLeaveNothing creates and destroys sandboxes with disks, also by a
// process that is killed.
func TestDisksLeaveNothing(t *testing.T) {
	if dir := leaktest.MakerDir(); dir != "" {
		d := &namespace.Driver{Dir: dir}
		for {
			if _, err := d.Create(t.Context(), atoll.Spec{Limits: smallLimits()}); err != nil {
				t.Fatal(err)
			}
			_, _ = os.Stdout.WriteString("made\n") // the reader kills this process
		}
	}
	d := newDiskDriver(t)
	leaktest.UseOnce(t, d) // starts the spawner
	before := leaktest.Count(t, d.Dir, nil)
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for range 10 {
				sb, err := d.Create(t.Context(), atoll.Spec{Limits: smallLimits()})
				if err != nil {
					t.Errorf("Create: %v", err)
					return
				}
				if err := sb.Destroy(t.Context()); err != nil {
					t.Errorf("Destroy: %v", err)
				}
				mu.Lock()
				ids = append(ids, sb.ID())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if after := leaktest.Count(t, d.Dir, ids); after != before {
		t.Errorf("before there were %+v, now %+v", before, after)
	}
	for range 5 {
		leaktest.KillMaker(t, "TestDisksLeaveNothing", d.Dir, "made\n", 0)
	}
	leaktest.DestroyAll(t, d, d.Dir, false)
	before.Files = 0
	after := leaktest.Count(t, d.Dir, nil)
	after.Files = 0 // unfinished directories are kept for a minute
	if after != before {
		t.Errorf("before there were %+v, now %+v", before, after)
	}
	if left := listLoopDevices(t, d.Dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestDiskOfUnprivilegedUser checks that limits that can't be enforced are refused.
func TestDiskOfUnprivilegedUser(t *testing.T) {
	if os.Geteuid() == 0 {
		rerunUnprivileged(t, "TestDiskOfUnprivilegedUser")
		return
	}
	d := newDriver(t)
	if _, err := d.Create(t.Context(), atoll.Spec{Limits: smallLimits()}); !errors.Is(err, atoll.ErrUnsupported) || !strings.Contains(err.Error(), "only root") {
		t.Errorf("Create: %v", err)
	}
	if f, err := d.Probe(t.Context()); err != nil || f.Lacks["FullDiskIsQuota"] == "" {
		t.Errorf("Probe: %+v, %v", f.Lacks, err)
	}
}
