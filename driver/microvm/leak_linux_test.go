package microvm_test

import (
	"os"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestSandboxesLeaveNothing creates, uses and destroys many VMs, three at once.
func TestSandboxesLeaveNothing(t *testing.T) {
	d := newDriver(t)
	leaktest.UseMany(t, d, d.Dir, leaktest.Rounds(t, 6), 3)
}

// TestCreatorIsKilled kills processes that create VMs, and checks what the next process finds: VMs that work, and
// nothing else.
func TestCreatorIsKilled(t *testing.T) {
	skipIfRace(t)
	if dir := leaktest.MakerDir(); dir != "" {
		d := newDriverIn(t, dir)
		_, _ = os.Stdout.WriteString("begun\n") // the reader kills this process after a while
		for {
			if _, err := d.Create(t.Context(), atoll.Spec{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := newDriver(t)
	leaktest.UseOnce(t, d)
	before := leaktest.Count(t, d.Dir, nil)
	for i := range leaktest.Rounds(t, 4) {
		leaktest.KillMaker(t, "TestCreatorIsKilled", d.Dir, "begun\n", time.Duration(i)*437*time.Millisecond%(3*time.Second))
	}
	leaktest.DestroyAll(t, d, d.Dir, true)
	after := leaktest.Count(t, d.Dir, nil)
	before.Files, after.Files = 0, 0 // unfinished directories are kept for a minute
	if after != before {
		t.Errorf("before there were %+v, now %+v: %v", before, after, leaktest.Processes(t, d.Dir))
	}
}

// TestMountsLeaveNothing checks that the server of a mount exits with the VM, however that ends.
func TestMountsLeaveNothing(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	if f, err := d.Probe(t.Context()); err != nil || !f.Mounts {
		testenv.Skip(t, "qemu", "no mounts here: %v, %v", f.Notes, err)
	}
	leaktest.UseOnce(t, d)
	before := leaktest.Count(t, d.Dir, nil)
	dir := t.TempDir()
	for range 2 {
		sb, err := d.Create(t.Context(), atoll.Spec{Mounts: []atoll.Mount{{Source: dir, Target: "/share"}}})
		if err != nil {
			t.Fatal(err)
		}
		if now := leaktest.Count(t, d.Dir, nil); now.Children == before.Children {
			t.Error("no process serves the mount")
		}
		runShell(t, sb, "echo x > /share/x")
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var after leaktest.Leaks
	for range 1200 { // until they are reaped
		if after = leaktest.Count(t, d.Dir, nil); after == before {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Errorf("before there were %+v, now %+v", before, after)
}

// TestKillAtEveryStep kills few processes, unless $ATOLL_KILLS says more: most kills need a VM that boots.
func TestKillAtEveryStep(t *testing.T) {
	skipIfRace(t)
	requireVMs(t)
	atolltest.KillAtEveryStep(t, 2, func(t testing.TB, dir string) atoll.Driver { return newDriverIn(t, dir) }, "boot/accel-*")
}
