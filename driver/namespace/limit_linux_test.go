package namespace_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestMoreMemoryThanTheHostHas requests a limit that no sandbox of this host can reach.
func TestMoreMemoryThanTheHostHas(t *testing.T) {
	sb, err := newDriver(t).Create(t.Context(), atoll.Spec{Limits: atoll.Resources{Memory: 200 << 40}})
	if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "limits.memory 209715200 MiB: this host has") {
		t.Errorf("Create: %v", err)
	}
	if err == nil {
		_ = sb.Destroy(context.WithoutCancel(t.Context()))
	}
}

// TestDefaultLimits checks the limits of a sandbox of an unprivileged user, which has no control groups.
func TestDefaultLimits(t *testing.T) {
	if os.Geteuid() == 0 {
		rerunUnprivileged(t, "TestDefaultLimits")
		return
	}
	d := newDriver(t)
	f, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(f.Notes, "\n"); !strings.Contains(notes, "shared memory is not limited") {
		skipUnlessRequired(t, "this user has control groups: %s", notes)
	}
	for name, l := range map[string]atoll.Resources{"memory": {Memory: 128 << 20}, "cpu": {CPU: 1}} {
		sb, err := d.Create(t.Context(), atoll.Spec{Limits: l})
		if !errors.Is(err, atoll.ErrUnsupported) {
			t.Errorf("a limit of %s that nothing enforces: %v, want ErrUnsupported", name, err)
		}
		if err == nil { // shared memory passes a limit of each process
			t.Errorf("it holds %s", runShell(t, sb, "dd if=/dev/zero of=/dev/shm/big bs=1M count=300 2>/dev/null; stat -c %s /dev/shm/big"))
			if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	}
	const look = `awk '/^Max (processes|data size)/ {print $(NF-1)}' /proc/self/limits`
	limits := func(l atoll.Resources) []string {
		sb, err := d.Create(t.Context(), atoll.Spec{Limits: l})
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Destroy(context.WithoutCancel(t.Context()))
		return strings.Fields(runShell(t, sb, look))
	}
	held, lifted := limits(atoll.Resources{}), limits(atoll.Resources{PIDs: -1, Memory: -1})
	if len(held) != 2 || held[0] != "1090519040" || len(held[1]) > 5 {
		t.Errorf("limits by default: %q", held)
	}
	if len(lifted) != 2 || lifted[0] == held[0] || lifted[1] == held[1] {
		t.Errorf("limits of -1: %q", lifted)
	}
}
