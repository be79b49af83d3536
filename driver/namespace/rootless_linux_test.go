package namespace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest"
)

// ordinary is the user of tests without privileges.
const ordinary = 23456

// asOrdinary runs a test of this program again as an ordinary user.
func asOrdinary(t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, ordinary, ordinary); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "test")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+name+"$", "-test.v", "-test.timeout=20m")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as user %d: %v\n%s", ordinary, err, out)
	}
}

func TestRootless(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite, a second time")
	}
	if os.Geteuid() == 0 {
		asOrdinary(t, "TestRootless")
		return
	}
	atolltest.Run(t, newDriver(t))
}
