package virtual

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestHeapLimitFollowsSandboxes checks that the runtime's memory limit is that of the sandboxes that
// exist, those opened from a directory too, and that none is left afterwards.
func TestHeapLimitFollowsSandboxes(t *testing.T) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Skip("$GOMEMLIMIT is set, which a driver leaves")
	}
	dir := t.TempDir()
	spec := atoll.Spec{Limits: atoll.Resources{Memory: 64 << 20, Disk: 16 << 20}}
	first, err := (&Driver{Dir: dir}).Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	d := &Driver{Dir: dir, LimitHeap: true}
	opened, err := d.Open(t.Context(), first.ID())
	if err != nil {
		t.Fatal(err)
	}
	one := debug.SetMemoryLimit(-1)
	second, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if two := debug.SetMemoryLimit(-1); two-one != 80<<20 {
		t.Errorf("a second sandbox changed the limit by %d bytes", two-one)
	}
	for i, sb := range []atoll.Sandbox{opened, second} {
		if err := sb.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := debug.SetMemoryLimit(-1); i == 0 && now != one || i == 1 && now != math.MaxInt64 {
			t.Errorf("after %d were destroyed the limit is %d", i+1, now)
		}
	}
}
