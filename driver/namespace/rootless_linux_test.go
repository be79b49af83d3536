package namespace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// unprivilegedUser is the user of tests without privileges.
const unprivilegedUser = 23456

// rerunUnprivileged runs a test of this binary again as an unprivileged user.
func rerunUnprivileged(t *testing.T, name string) {
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
	if err := os.Chown(home, unprivilegedUser, unprivilegedUser); err != nil {
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivilegedUser, Gid: unprivilegedUser}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as user %d: %v\n%s", unprivilegedUser, err, out)
	}
}

func TestRootless(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite, a second time")
	}
	if os.Geteuid() == 0 {
		rerunUnprivileged(t, "TestRootless")
		return
	}
	laws := atolltest.Laws()
	atolltest.RunLaws(t, newDriver(t), testenv.Sample(t, laws, len(laws)/2, "ATOLL_LAWS")...) // the other half is that of TestDriver alone
}
