package hypervisor

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// copyReadable copies a test's file to a place where other users can read it.
func copyReadable(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(worldDir(t), filepath.Base(path))
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return copied
}

// worldDir returns a directory that every user can enter.
func worldDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("ATOLL_TEST_DIR"), "/tmp"), "atoll-m-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOrdinaryUsers runs a VM, saves it and clones it, as a user without
// any rights.
func TestOrdinaryUsers(t *testing.T) {
	if os.Getenv("ATOLL_MACHINE_ALONE") == t.Name() {
		runOrdinary(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	skipShort(t)
	c := vmConfig(t)
	c.User = nil
	c.Helper, c.Kernel, c.Initrd = copyReadable(t, c.Helper), copyReadable(t, c.Kernel), copyReadable(t, c.Initrd)
	home := worldDir(t)
	c.Dir = filepath.Join(home, "s")
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{home, c.Dir} {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	f := fakeConfig(t, "attack")
	f.User, f.Dir, f.Helper, f.QEMU = nil, c.Dir, c.Helper, copyReadable(t, f.QEMU)
	f.Kernel = f.QEMU
	taken, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(deadline(t), copyReadable(t, self), "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "ATOLL_MACHINE_ALONE="+t.Name(), "ATOLL_MACHINE_CONFIG="+string(text), "ATOLL_MACHINE_TAKEN="+string(taken), "HOME="+home, "TMPDIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v: %s", err, out)
	}
}

func runOrdinary(t *testing.T) {
	var c Config
	if err := json.Unmarshal([]byte(os.Getenv("ATOLL_MACHINE_CONFIG")), &c); err != nil {
		t.Fatal(err)
	}
	c.Disks = []Disk{newDisk(t, &c, "root", 1<<20)}
	m := startVM(t, &c)
	checkEcho(t, m)
	s, err := m.Status(deadline(t))
	if err != nil || len(s.Facts.MissingIsolation) == 0 || !strings.Contains(s.Facts.MissingIsolation[0], "the user who started it") || s.Facts.Resident == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	t.Log(s.Facts.MissingIsolation)
	if err := m.Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	template := filepath.Join(filepath.Dir(c.Dir), "template")
	if err := SaveTemplate(deadline(t), &c, template); err != nil {
		t.Fatal(err)
	}
	c.Template = template
	m = startVM(t, &c)
	checkEcho(t, m)
	if err := m.Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	var taken Config
	if err := json.Unmarshal([]byte(os.Getenv("ATOLL_MACHINE_TAKEN")), &taken); err != nil {
		t.Fatal(err)
	}
	checkConfined(t, &taken)
}
