package virtual

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
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
	if two := debug.SetMemoryLimit(-1); two-one != 64<<20+2*filesStep {
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

// TestHeapLimitFollowsFiles writes files while a command runs: the runtime's memory limit has room for them, and not for all files
// that the sandbox may have.
func TestHeapLimitFollowsFiles(t *testing.T) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Skip("$GOMEMLIMIT is set, which a driver leaves")
	}
	d := &Driver{LimitHeap: true}
	sb, err := d.Create(t.Context(), atoll.Spec{Limits: atoll.Resources{Memory: 64 << 20, Disk: 400 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	empty := debug.SetMemoryLimit(-1)
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = sb.Exec(ctx, atoll.Cmd{Shell: "for i in 1 2 3 4 5; do head -c 10000000 /dev/zero | tr '\\0' a > f$i; done; echo; sleep 100", Stdout: writerFunc(func(b []byte) (int, error) {
			close(written)
			return len(b), nil
		})}) // it is cancelled
	}()
	<-written
	deadline, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if !testenv.Poll(deadline, func() bool { return debug.SetMemoryLimit(-1) >= empty+40<<20 }) {
		t.Errorf("the limit is %d MiB; without files it was %d", debug.SetMemoryLimit(-1)>>20, empty>>20)
	}
	if now := debug.SetMemoryLimit(-1); now > empty+100<<20 {
		t.Errorf("the limit is %d MiB; without files it was %d", now>>20, empty>>20)
	}
	cancel()
	<-ended
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
