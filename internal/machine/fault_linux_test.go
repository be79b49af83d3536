package machine

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
	"github.com/atoll-sandbox/atoll/internal/cgroup"
	"github.com/atoll-sandbox/atoll/internal/musthave"
)

// alone runs the calling test once more, in a process that a part of it is for;
// it reports whether this is that process.
func alone(t *testing.T, attr *syscall.SysProcAttr) bool {
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

// TestHostDiskIsFull gives a machine a disk on a file system with little room:
// it waits, says why, and goes on when there is room.
func TestHostDiskIsFull(t *testing.T) {
	long(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	c := config(t)
	if !alone(t, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}) {
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
	m := start(t, c)
	rw := say(t, m, "fill vda")
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
		expect(t, rw, strconv.Itoa(n))
	}
	expect(t, rw, "16 write /dev/vda: no space left on device") // its own end
	if s, err := m.Status(deadline(t)); err != nil || s.Phase != Running || s.Problem != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestHostHasNoMemory holds a machine to less than its guest believes to have.
func TestHostHasNoMemory(t *testing.T) {
	tree, err := cgroup.Probe()
	if err != nil {
		t.Fatal(err)
	}
	if why, no := tree.Missing()[cgroup.Memory]; no {
		musthave.Skip(t, "cgroup", "memory: %s", why)
	}
	c := config(t)
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
	m := start(t, c)
	say(t, m, "memory")
	end, err := m.Wait(deadline(t))
	if err != nil || end == nil || end.Reason != ByMemory {
		t.Errorf("%+v, %v", end, err)
	}
}

// TestDiskFailsWhileItStarts fails before anybody could resume the machine.
func TestDiskFailsWhileItStarts(t *testing.T) {
	c := fake(t, "fulldisk")
	_, err := Start(deadline(t), c)
	if err == nil || !strings.Contains(err.Error(), "the host's disk is full") {
		t.Errorf("%v", err)
	}
	if end, err := Ended(c.Dir); err != nil || end == nil || end.Reason != ByDisk {
		t.Errorf("%+v, %v", end, err)
	}
}

// stranger is a user whose processes nobody else has.
func stranger(t *testing.T) *User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, so that a machine's processes are known by their user")
	}
	id := 1_701_000_000 + rand.IntN(1_000_000)
	return &User{id, id}
}

// processes are those of a user.
func (u *User) processes(t *testing.T) (list []string) {
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

// TestStarterIsKilled kills who starts machines at random instants: nothing is
// left of what he had started.
func TestStarterIsKilled(t *testing.T) {
	if os.Getenv("ATOLL_MACHINE_ALONE") == t.Name() {
		startForEver(t)
		return
	}
	long(t)
	user := stranger(t)
	c := config(t)
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
		unclaimed(t, c.Dir)
		if left := user.processes(t); len(left) > 0 {
			t.Fatalf("killed after %v: %v is left", after, left)
		}
		if _, err := os.Lstat(filepath.Join(c.Dir, GuestSocket)); err == nil {
			t.Fatalf("killed after %v: %s is left", after, GuestSocket)
		}
	}
}

// unclaimed waits until no monitor is at work in a directory.
func unclaimed(t *testing.T, dir string) {
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
	c.Append = "test=mute" // or he may be done before he is killed
	_, err := Start(deadline(t), &c)
	t.Fatal(err)
}

// TestNobodyElsesSocket puts another's socket where the monitor's was.
func TestNobodyElsesSocket(t *testing.T) {
	m := start(t, awake(t))
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
