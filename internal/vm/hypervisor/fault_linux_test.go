package hypervisor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// runAlone runs the calling test once more in a separate process; it reports whether this is that
// process.
func runAlone(t *testing.T, attr *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv("ATOLL_MACHINE_ALONE") == t.Name() {
		return true
	}
	cmd := exec.CommandContext(deadline(t), "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "ATOLL_MACHINE_ALONE="+t.Name())
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v: %s", err, out)
	}
	return false
}

// TestHostDiskIsFull gives a VM a disk on a file system with little space: it waits, reports why,
// and continues when there is space.
func TestHostDiskIsFull(t *testing.T) {
	skipShort(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	c := vmConfig(t)
	if !runAlone(t, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}) {
		return
	}
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=24m"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(small, unix.MNT_DETACH) }()
	other := filepath.Join(small, "other")
	if err := os.WriteFile(other, make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Disks = []Disk{{File: filepath.Join(small, "disk"), Format: "raw", Serial: "root"}}
	if err := os.WriteFile(c.Disks[0].File, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(c.Disks[0].File, 16<<20); err != nil {
		t.Fatal(err)
	}
	m := startVM(t, c)
	rw := sendLine(t, m, "fill vda")
	s := Status{Phase: Running}
	for s.Phase == Running {
		var err error
		if s, err = m.Status(deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Phase != Stuck || s.Problem != "the host's disk is full" {
		t.Fatalf("%+v", s)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if err := m.Resume(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 16; n++ {
		expectLine(t, rw, strconv.Itoa(n))
	}
	expectLine(t, rw, "16 write /dev/vda: no space left on device") // the end of the disk
	if s, err := m.Status(deadline(t)); err != nil || s.Phase != Running || s.Problem != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestHostHasNoMemory limits a VM to less memory than its guest has.
func TestHostHasNoMemory(t *testing.T) {
	tree, err := cgroup.Probe()
	if err != nil {
		t.Fatal(err)
	}
	if why, no := tree.Missing()[cgroup.Memory]; no {
		testenv.Skip(t, "cgroup", "memory: %s", why)
	}
	c := vmConfig(t)
	g, err := tree.Create(deadline(t), "test-"+atoll.NewID(), cgroup.Limits{Memory: 200 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	c.Group, c.Memory = g, 512<<20
	m := startVM(t, c)
	sendLine(t, m, "memory")
	end, err := m.Wait(deadline(t))
	if err != nil || end == nil || end.Reason != ByMemory {
		t.Errorf("%+v, %v", end, err)
	}
}

// TestDiskFailsWhileItStarts fails before the VM could be resumed.
func TestDiskFailsWhileItStarts(t *testing.T) {
	c := fakeConfig(t, "fulldisk")
	_, err := Start(deadline(t), c)
	if err == nil || !strings.Contains(err.Error(), "the host's disk is full") {
		t.Errorf("%v", err)
	}
	if end, err := LastEnd(c.Dir); err != nil || end == nil || end.Reason != ByDisk {
		t.Errorf("%+v, %v", end, err)
	}
}

// unusedUser returns a user without processes.
func unusedUser(t *testing.T) *User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, so that a VM's processes are known by their user")
	}
	id := 1_701_000_000 + rand.IntN(1_000_000)
	return &User{id, id}
}

// listProcesses returns the processes of a user.
func (u *User) listProcesses(t *testing.T) (list []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(text), fmt.Sprintf("\nUid:\t%d\t", u.UID)) && !strings.Contains(string(text), "\nState:\tZ") {
			list = append(list, name)
		}
	}
	return list
}

// TestStarterIsKilled kills the process that starts VMs at random instants: nothing is left of the
// VMs.
func TestStarterIsKilled(t *testing.T) {
	if os.Getenv("ATOLL_MACHINE_ALONE") == t.Name() {
		startForEver(t)
		return
	}
	skipShort(t)
	user := unusedUser(t)
	c := vmConfig(t)
	c.User = user
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		cmd := exec.CommandContext(deadline(t), "/proc/self/exe", "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "ATOLL_MACHINE_ALONE="+t.Name(), "ATOLL_MACHINE_CONFIG="+string(text))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after := time.Duration(rand.Int64N(int64(3 * time.Second)))
		select {
		case <-time.After(after): // the instant is what is tested
		case <-t.Context().Done():
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		waitForUnlock(t, c.Dir)
		if left := user.listProcesses(t); len(left) > 0 {
			t.Fatalf("killed after %v: %v is left", after, left)
		}
		if _, err := os.Lstat(filepath.Join(c.Dir, GuestSocket)); err == nil {
			t.Fatalf("killed after %v: %s is left", after, GuestSocket)
		}
	}
}

// waitForUnlock waits until no monitor runs in a directory.
func waitForUnlock(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan error, 1)
	go func() { done <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a monitor is left")
	}
}

// startForEver is the starter that is killed.
func startForEver(t *testing.T) {
	var c Config
	if err := json.Unmarshal([]byte(os.Getenv("ATOLL_MACHINE_CONFIG")), &c); err != nil {
		t.Fatal(err)
	}
	c.Setup = json.RawMessage(`{"misbehave":"mute"}`) // otherwise it might be done before it is killed
	_, err := Start(deadline(t), &c)
	t.Fatal(err)
}

// TestForeignSocketIsRejected puts another process's socket in the place of the monitor's.
func TestForeignSocketIsRejected(t *testing.T) {
	m := startVM(t, templateConfig(t))
	path := filepath.Join(m.dir, MonitorSocket)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	l, err := listen(m.dir, "other")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Symlink("other", path); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Status(deadline(t)); err == nil || !strings.Contains(err.Error(), "is not the monitor's socket") {
		t.Errorf("%v", err)
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Status(deadline(t)); err != nil {
		t.Error(err)
	}
}
