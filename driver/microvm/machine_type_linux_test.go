package microvm_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// TestKinds runs VMs of both machine types.
func TestKinds(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	for name, change := range map[string]func(*microvm.Driver){
		"booted":       func(d *microvm.Driver) { d.NoTemplates = true },
		"a PC":         func(d *microvm.Driver) { d.Type = hypervisor.Q35 },
		"a PC, booted": func(d *microvm.Driver) { d.Type, d.NoTemplates = hypervisor.Q35, true },
	} {
		t.Run(name, func(t *testing.T) {
			other := newDriverIn(t, d.Dir)
			change(other)
			sb := createTestSandbox(t, other, atoll.Spec{VM: &atoll.VM{Args: []string{"-rtc", "base=utc"}}})
			if got := runShell(t, sb, "echo hi > /workspace/x; cat /workspace/x"); got != "hi\n" {
				t.Errorf("%q", got)
			}
			if f := vmFacts(t, other, sb); f.Cloned == other.NoTemplates || f.Type != orDefault(other.Type, hypervisor.Microvm) {
				t.Errorf("it is %+v", f)
			}
		})
	}
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// TestRoot makes root disks from a configured directory of the host.
func TestRoot(t *testing.T) {
	skipIfRace(t)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		testenv.Skip(t, "qemu", "no busybox: %v", err)
	}
	d := newDriver(t)
	dir := t.TempDir()
	text, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.WriteFile(filepath.Join(dir, "bin", "sh"), text, 0o755),
		os.WriteFile(filepath.Join(dir, "of-the-host"), []byte("yes"), 0o644), os.Symlink("/etc/shadow", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), atoll.Spec{Image: dir}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a directory that is not configured: %v", err)
	}
	d.Roots = []string{dir}
	sb := createTestSandbox(t, d, atoll.Spec{Image: dir})
	if got := runShell(t, sb, "read x < /of-the-host || true; echo $x; [ -e /link ] || echo nowhere"); got != "yes\nnowhere\n" {
		t.Errorf("%q", got)
	}
	fork, err := atoll.Fork(t.Context(), sb, "", atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, fork, "read x < /of-the-host || true; echo $x"); strings.TrimSpace(got) != "yes" {
		t.Errorf("in the fork: %q", got)
	}
	if err := fork.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestImageInUse checks that an image in use is not removed.
func TestImageInUse(t *testing.T) {
	skipIfRace(t)
	requireVMs(t)
	ctx, d := t.Context(), newDriverIn(t, makeShortDir(t))
	sb := createTestSandbox(t, d, atoll.Spec{})
	if err := d.RemoveImage(ctx, testImage); !errors.Is(err, atoll.ErrState) {
		t.Errorf("RemoveImage: %v", err)
	}
	fork, err := atoll.Fork(ctx, sb, "", atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, fork, "cat /etc/of-the-image; stat -c ' %u %g' /etc/of-the-image"); got != "yes 1000 1000\n" {
		t.Errorf("in the fork: %q", got)
	}
	if err := fork.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveImage(ctx, testImage); err != nil {
		t.Errorf("RemoveImage: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(d.Dir, "bases", "*.ext4")); err != nil || len(left) > 0 {
		t.Errorf("there are %v, %v", left, err)
	}
}
