package namespace_test

import (
	"os"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
)

// TestCreatorIsKilled kills processes that create sandboxes, and checks what the next process finds:
// sandboxes that work, and nothing else.
func TestCreatorIsKilled(t *testing.T) {
	if dir := leaktest.MakerDir(); dir != "" {
		d := &namespace.Driver{Dir: dir}
		for {
			if _, err := d.Create(t.Context(), atoll.Spec{}); err != nil {
				t.Fatal(err)
			}
			_, _ = os.Stdout.WriteString("made\n") // the reader kills this process
		}
	}
	d := newDriver(t)
	for range 5 {
		leaktest.KillMaker(t, "TestCreatorIsKilled", d.Dir, "made\n", 0)
	}
	leaktest.DestroyAll(t, d, d.Dir, false)
}

func TestKillAtEveryStep(t *testing.T) {
	atolltest.KillAtEveryStep(t, 4, func(_ testing.TB, dir string) atoll.Driver { return &namespace.Driver{Dir: dir} })
}
