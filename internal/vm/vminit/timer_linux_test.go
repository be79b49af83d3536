package vminit

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/vm/timer"
)

// TestVMWithoutTimerEnds boots a VM whose kernel has no timer, as one that could not measure it: it ends with the reason instead of
// sleeping for ever.
func TestVMWithoutTimerEnds(t *testing.T) {
	dir, err := os.MkdirTemp("", "vm") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "port")) //nolint:noctx // closed below
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v := launchVM(t, start{append: EmulatedParameter + " mitigations=off tsc=reliable nolapic_timer"}, dir)
	select {
	case <-v.ended:
	case <-time.After(patience):
		t.Fatal("a VM without a timer does not end")
	}
	if text := v.console.String(); !strings.Contains(text, "atoll: "+timer.Fault) {
		t.Errorf("the console does not say why: %q", text)
	}
}
