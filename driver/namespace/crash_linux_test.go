package namespace_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
)

// TestMakerIsKilled kills processes that make sandboxes, and looks what the next
// one finds: sandboxes that work, and nothing else.
func TestMakerIsKilled(t *testing.T) {
	if dir := os.Getenv("ATOLL_CRASH"); dir != "" {
		d := &namespace.Driver{Dir: dir}
		for {
			if _, err := d.Create(t.Context(), atoll.Spec{}); err != nil {
				t.Fatal(err)
			}
			_, _ = os.Stdout.WriteString("made\n") // who reads it kills this process
		}
	}
	d := newDriver(t)
	for range 5 {
		crashIn(t, "TestMakerIsKilled", d.Dir)
	}
	afterCrash(t, d)
}

// crashIn starts a process that makes sandboxes in a test, and kills it in the
// middle.
func crashIn(t *testing.T, test, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+test+"$")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), "ATOLL_CRASH="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = out.Read(make([]byte, 5)) // at the first sandbox; the next is on its way
	cancel()
	_ = cmd.Wait() // it was killed
	if err != nil {
		t.Fatal(err)
	}
}

// afterCrash uses and destroys the sandboxes that there are, until nothing is
// left. A process that was killed can leave one that is only just forked and
// still has its lock, so a sandbox half made may be there for a moment.
func afterCrash(t *testing.T, d *namespace.Driver) {
	t.Helper()
	var left []string
	for range 600 {
		list, err := d.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			sb, err := d.Open(t.Context(), s.ID)
			if err != nil {
				t.Fatal(err)
			}
			if s.State == atoll.Running && run(t, sb, "echo works") != "works\n" {
				t.Errorf("sandbox %s does not work", s.ID)
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		}
		if left, err = filepath.Glob(filepath.Join(d.Dir, "s*")); err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("left are %v", left)
}
