package microvm_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// TestInspectAfterHypervisorDied kills the hypervisor of a VM whose monitor can't report that: the status is
// asked of the processes, not of the record.
func TestInspectAfterHypervisorDied(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	facts := vmFacts(t, d, sb)
	if err := syscall.Kill(facts.Monitor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	killProcess(t, facts.PID)
	testenv.WaitFor(t, "the status says that it has ended", func() bool { return getStatus(t, sb).State == atoll.Failed })
	if s := getStatus(t, sb); s.Ready() || s.Conditions[0].Message == "" {
		t.Errorf("it is %s: %+v", s.State, s.Conditions)
	}
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != atoll.Failed {
		t.Errorf("List: %+v, %v", list, err)
	}
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "true"}); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("Exec: %v", err)
	}
	if err := atoll.Start(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "echo works"); got != "works\n" {
		t.Errorf("started again: %q", got)
	}
}

// TestAcknowledgedFilesSurviveKilledHypervisor kills the hypervisor of a VM when files were written and
// imported.
func TestAcknowledgedFilesSurviveKilledHypervisor(t *testing.T) {
	skipIfRace(t)
	ctx, d := t.Context(), newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	content := []byte(strings.Repeat("acknowledged\n", 5000))
	for _, name := range []string{"/workspace/written", "/home/atoll/written"} {
		if err := atoll.WriteFile(ctx, sb, name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := sb.Import(ctx, "/", makeArchive(t, map[string][]byte{"workspace/dir/imported": content, "home/atoll/dir/imported": content})); err != nil {
		t.Fatal(err)
	}
	killProcess(t, vmFacts(t, d, sb).PID)
	waitForDeath(t, d, sb)
	if err := atoll.Start(ctx, sb); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/workspace/written", "/home/atoll/written", "/workspace/dir/imported", "/home/atoll/dir/imported"} {
		got, err := atoll.ReadFile(ctx, sb, name)
		if err != nil || string(got) != string(content) {
			t.Errorf("%s has %d bytes of %d, %v", name, len(got), len(content), err)
		}
	}
}

// TestTruncatedDisk starts VMs whose disks have lost their ends: they don't start with wrong data.
func TestTruncatedDisk(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	for _, disk := range []string{"workspace", "root"} {
		sb := createTestSandbox(t, d, atoll.Spec{})
		runShell(t, sb, "dd if=/dev/zero bs=1M count=3 2>/dev/null | tr '\\0' x >/workspace/big; cp /workspace/big /home/atoll/big; sync")
		if err := atoll.Stop(t.Context(), sb); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(d.Dir, sb.ID(), disk+".qcow2")
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, info.Size()-1<<20); err != nil {
			t.Fatal(err)
		}
		err = atoll.Start(t.Context(), sb)
		if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "truncated") || !strings.Contains(err.Error(), disk) {
			t.Errorf("Start: %v", err)
		}
		// The reason of the failed start stays.
		s := getStatus(t, sb)
		if s.State != atoll.Stopped || s.Conditions[0].Reason != "start failed" || !strings.Contains(s.Conditions[0].Message, "truncated") {
			t.Errorf("it is %s: %+v", s.State, s.Conditions[0])
		}
	}
}

// TestBootLogIsKept checks that the boot log of the start before is kept.
func TestBootLogIsKept(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, "true")
	name := filepath.Join(d.Dir, sb.ID(), hypervisor.BootLog)
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(name)
	if err != nil || len(before) == 0 {
		t.Fatalf("the log has %d bytes, %v", len(before), err)
	}
	if err := atoll.Start(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if old, err := os.ReadFile(name + ".old"); err != nil || string(old) != string(before) {
		t.Errorf("the earlier log has %d bytes of %d, %v", len(old), len(before), err)
	}
}
