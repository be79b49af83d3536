package microvm_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// vmFacts returns the processes of a sandbox.
func vmFacts(t *testing.T, d *microvm.Driver, sb atoll.Sandbox) hypervisor.Facts {
	t.Helper()
	m, err := hypervisor.Open(filepath.Join(d.Dir, sb.ID()))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Facts
}

// waitForDeath waits until a sandbox does not run, and returns its condition.
func waitForDeath(t *testing.T, d *microvm.Driver, sb atoll.Sandbox) (atoll.State, atoll.Condition) {
	t.Helper()
	m, err := hypervisor.Open(filepath.Join(d.Dir, sb.ID()))
	if err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = m.Wait(ctx)
		_ = m.Close()
	}
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		t.Fatalf("it does not die: %v", err)
	}
	s := getStatus(t, sb)
	return s.State, s.Conditions[0]
}

// TestDeath kills the processes of a VM, checks the status, and starts it again with its files.
func TestDeath(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	for _, c := range []struct {
		name   string
		kill   func()
		state  atoll.State
		reason hypervisor.Reason
	}{
		{"the hypervisor is killed", func() { killProcess(t, vmFacts(t, d, sb).PID) }, atoll.Failed, hypervisor.BySignal},
		{"the monitor is killed", func() { killProcess(t, vmFacts(t, d, sb).Monitor) }, atoll.Failed, hypervisor.ByMonitor},
		{"its kernel gives up", func() {
			_, _ = sb.Exec(t.Context(), atoll.Cmd{Shell: "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger", User: "root", Timeout: time.Minute})
		}, atoll.Failed, hypervisor.ByPanic},
		{"it switches itself off", func() {
			_, _ = sb.Exec(t.Context(), atoll.Cmd{Args: []string{"poweroff", "-f"}, User: "root", Timeout: time.Minute})
		}, atoll.Stopped, hypervisor.ByGuest},
	} {
		t.Run(c.name, func(t *testing.T) {
			runShell(t, sb, "echo kept >> /workspace/kept; sync")
			c.kill()
			state, ready := waitForDeath(t, d, sb)
			t.Logf("%s: %s", ready.Reason, ready.Message)
			if state != c.state || ready.True || ready.Reason != string(c.reason) && ready.Reason != "died" || ready.Message == "" {
				t.Errorf("it is %s: %+v", state, ready)
			}
			if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "true"}); !errors.Is(err, atoll.ErrUnavailable) {
				t.Errorf("Exec: %v", err)
			}
			var left []int
			if !testenv.Poll(t.Context(), func() bool { // what was killed may take a moment to be gone
				left = leaktest.Processes(t, filepath.Join(d.Dir, sb.ID()))
				return len(left) == 0
			}) {
				t.Errorf("left are %v", left)
			}
			if err := atoll.Start(t.Context(), sb); err != nil {
				t.Fatal(err)
			}
			if got := runShell(t, sb, "cat /workspace/kept"); !strings.HasPrefix(got, "kept\n") {
				t.Errorf("its file: %q", got)
			}
		})
	}
}

func killProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// TestWrongKernel uses a file that is no kernel, and a kernel that does not boot.
func TestWrongKernel(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	bad := filepath.Join(d.Dir, "bad")
	if err := os.WriteFile(bad, bytes.Repeat([]byte("no kernel "), 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	other := &microvm.Driver{Dir: d.Dir, Image: testImage, Kernel: bad}
	if _, err := other.Probe(t.Context()); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), bad) {
		t.Errorf("Probe: %v", err)
	}
	if _, err := other.Create(t.Context(), atoll.Spec{}); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), bad) {
		t.Errorf("Create: %v", err)
	}
	if list, err := d.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("there are %v, %v", list, err)
	}
}

// TestDamagedDisk uses a damaged root disk.
func TestDamagedDisk(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(d.Dir, sb.ID(), "workspace.qcow2")
	if out, err := exec.CommandContext(t.Context(), "qemu-io", "-f", "qcow2", "-c", "write -P 0xaa 0 64k", work).CombinedOutput(); err != nil {
		testenv.Skip(t, "qemu", "no qemu-io: %v: %s", err, out)
	}
	err := atoll.Start(t.Context(), sb)
	t.Logf("%v", err)
	if !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "workspace") {
		t.Errorf("Start: %v", err)
	}
	if s := getStatus(t, sb); s.State != atoll.Stopped {
		t.Errorf("it is %+v", s)
	}
	if err := os.WriteFile(filepath.Join(d.Dir, sb.ID(), "root.qcow2"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = atoll.Start(t.Context(), sb)
	t.Logf("%v", err)
	if err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("Start: %v", err)
	}
}

// TestOutOfMemory checks that commands that use all memory end, and the VM does not.
func TestOutOfMemory(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: `x=0123456789abcdef; while :; do x="$x$x"; done`, Timeout: 2 * time.Minute})
	if err == nil && exit.Code == 0 {
		t.Error("a memory bomb ended with status 0")
	}
	if got := runShell(t, sb, "echo works"); got != "works\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestFullDisk fills the disks of a VM.
func TestFullDisk(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{Limits: atoll.Resources{Disk: 8 << 20}})
	for _, dir := range []string{"/tmp", "/workspace", "/home/atoll"} {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "dd if=/dev/zero of=" + dir + "/big bs=1M count=20"})
		if err != nil || exit.Code == 0 || !strings.Contains(string(exit.Stderr), "No space left") {
			t.Errorf("%s: status %d, %v: %s", dir, exit.Code, err, exit.Stderr)
		}
		if err := atoll.WriteFile(t.Context(), sb, dir+"/more", make([]byte, 4<<20), 0o644); !errors.Is(err, atoll.ErrQuota) {
			t.Errorf("WriteFile in %s: %v", dir, err)
		}
		runShell(t, sb, "rm "+dir+"/big; echo works > "+dir+"/small")
	}
}

// TestHungGuest stops the processors of a VM: callers that wait for it get an error, and it can be removed.
func TestHungGuest(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, "true")
	m, err := hypervisor.Open(filepath.Join(d.Dir, sb.ID()))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err = sb.Exec(ctx, atoll.Cmd{Shell: "true", Timeout: time.Second})
	t.Logf("%v", err)
	if ctx.Err() != nil || !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "processors are stopped") {
		t.Errorf("Exec: %v", err)
	}
	if s := getStatus(t, sb); s.Conditions[0].True || s.Conditions[0].Reason != "halted" {
		t.Errorf("it is %+v", s)
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "echo works"); got != "works\n" {
		t.Errorf("afterwards: %q", got)
	}
	pid := vmFacts(t, d, sb).PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	again, err := newDriverIn(t, d.Dir).Open(t.Context(), sb.ID()) // with a new connection
	if err != nil {
		t.Fatal(err)
	}
	_, err = again.Exec(ctx, atoll.Cmd{Shell: "true"})
	t.Logf("%v", err)
	if ctx.Err() != nil || !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "has done nothing for") || !strings.Contains(err.Error(), "kill -CONT "+strconv.Itoa(pid)) {
		t.Errorf("Exec while its hypervisor is stopped: %v", err)
	}
	if c := getStatus(t, sb).Conditions[0]; c.True || c.Reason != "halted" {
		t.Errorf("it is %+v", c)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, again, "echo works"); got != "works\n" {
		t.Errorf("after it continues: %q", got)
	}
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if left := leaktest.Processes(t, filepath.Join(d.Dir, sb.ID())); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestStoppedGuest stops process 1 of a VM as root inside: callers that wait get an error, and it can be stopped
// and started again.
func TestStoppedGuest(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, "echo kept > /workspace/kept; sync")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := sb.Exec(ctx, atoll.Cmd{Shell: "cd /sys/fs/cgroup && mkdir stopped && echo 1 > stopped/cgroup.procs && echo 1 > stopped/cgroup.freeze; sleep 100", User: "root", Timeout: time.Second})
	if ctx.Err() != nil || !errors.Is(err, atoll.ErrUnavailable) && !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("Exec that stops it: %v", err)
	}
	_, err = sb.Exec(ctx, atoll.Cmd{Shell: "true", Timeout: time.Second})
	if ctx.Err() != nil || !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "its guest does not take a message") {
		t.Errorf("Exec: %v", err)
	}
	if c := getStatus(t, sb).Conditions[0]; c.True || c.Reason != "hung" {
		t.Errorf("it is %+v", c)
	}
	if err := errors.Join(atoll.Stop(ctx, sb), atoll.Start(ctx, sb)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "cat /workspace/kept"); got != "kept\n" {
		t.Errorf("started again: %q", got)
	}
}

// TestStopFreesDiskSpace checks that the space of removed files is freed on the host's disk.
func TestStopFreesDiskSpace(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	work := filepath.Join(d.Dir, sb.ID(), "workspace.qcow2")
	taken := func() int64 {
		t.Helper()
		info, err := os.Stat(work)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	runShell(t, sb, "dd if=/dev/zero of=/workspace/big bs=1M count=48 2>/dev/null; sync")
	if n := taken(); n < 48<<20 {
		t.Errorf("with a file of 48 MiB it takes %d bytes", n)
	}
	runShell(t, sb, "rm /workspace/big; echo kept > /workspace/kept")
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if n := taken(); n > 24<<20 {
		t.Errorf("without it, stopped, it takes %d bytes", n)
	}
	if err := atoll.Start(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "cat /workspace/kept"); got != "kept\n" {
		t.Errorf("afterwards: %q", got)
	}
}
