package hypervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/vm/boot"
)

func TestMain(m *testing.M) {
	code := helpertest.Main(m)
	if booted.dir != "" {
		_ = os.RemoveAll(booted.dir)
	}
	if fakeDir != "" {
		_ = os.RemoveAll(fakeDir)
	}
	os.Exit(code)
}

// booted is the boot image and the template that all VMs of these tests share.
var booted struct {
	once  sync.Once
	dir   string
	files boot.Files
	err   error

	save     sync.Once
	template string // of vmConfig's VM
	saveErr  error
}

func prepareBoot() {
	k, err := boot.FindKernel(os.Getenv("ATOLL_MACHINE_KERNEL"), os.Getenv("ATOLL_MACHINE_MODULES"))
	if err != nil {
		booted.err = err
		return
	}
	if booted.dir, booted.err = os.MkdirTemp("", "atoll-machine-"); booted.err != nil {
		return
	}
	guest := filepath.Join(booted.dir, "init")
	cmd := exec.Command("go", "build", "-o", guest, "./testdata/init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		booted.err = fmt.Errorf("%w: %s", err, out)
		return
	}
	booted.files, booted.err = boot.Prepare(context.Background(), k, boot.Options{Guest: guest}, filepath.Join(booted.dir, "boot"), nil)
}

// vmConfig returns the configuration of a small VM, or skips the test if VMs can't run here.
func vmConfig(t testing.TB) *Config {
	t.Helper()
	testenv.Real(t, "qemu")
	if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
		testenv.Skip(t, "qemu", `no kernel for VMs: eval "$(scripts/machine)"`)
	}
	if _, err := FindQEMU(); err != nil {
		testenv.Skip(t, "qemu", "%v", err)
	}
	booted.once.Do(prepareBoot)
	if booted.err != nil {
		t.Fatal(booted.err)
	}
	guest, err := helper.Finder{}.Find("atoll-guest")
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{
		Dir: sandboxDir(t), Helper: guest, Accel: TCG, Memory: 256 << 20, CPUs: 1,
		Kernel: booted.files.Kernel, Initrd: booted.files.Initrd,
		Setup: json.RawMessage(`{"test":true}`),
	}
	if os.Geteuid() == 0 {
		c.User = &User{UID: 1_700_000_123, GID: 1_700_000_123}
	}
	return c
}

// templateConfig returns vmConfig's configuration with a template of a VM that has booted, which
// all tests share.
func templateConfig(t testing.TB) *Config {
	t.Helper()
	c := vmConfig(t)
	booted.save.Do(func() {
		booted.template = filepath.Join(booted.dir, "template")
		booted.saveErr = SaveTemplate(deadline(t), c, booted.template)
	})
	if booted.saveErr != nil {
		t.Fatal(booted.saveErr)
	}
	c.Dir, c.Template = sandboxDir(t), booted.template
	return c
}

// skipShort skips tests that prove nothing more under the race detector, which does not see
// monitors and guests.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many VMs: left out by -short")
	}
}

// sandboxDir returns a directory like that of a sandbox.
func sandboxDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// startVM starts a VM, and removes it and checks that nothing is left when the test ends.
func startVM(t testing.TB, c *Config) *VM {
	t.Helper()
	m, err := Start(deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Kill(ctx); err != nil {
			t.Error(err)
		}
		nothingLeft(t, m)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// nothingLeft checks that no processes and files of a VM are left.
func nothingLeft(t testing.TB, m *VM) {
	t.Helper()
	for _, pid := range []int{m.record.PID, m.record.Monitor} {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(text), ") Z ") {
			t.Errorf("process %d is left: %s", pid, text)
		}
	}
	for _, name := range []string{GuestSocket, MonitorSocket, stateFile} {
		if _, err := os.Lstat(filepath.Join(m.dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// sendLine opens a stream to the test's guest, and sends a line.
func sendLine(t testing.TB, m *VM, line string) *bufio.ReadWriter {
	t.Helper()
	c, err := m.Dial(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c))
}

func expectLine(t testing.TB, rw *bufio.ReadWriter, want string) {
	t.Helper()
	got, err := rw.ReadString('\n')
	if err != nil || strings.TrimSpace(got) != want {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

func checkEcho(t testing.TB, m *VM) {
	t.Helper()
	rw := sendLine(t, m, "echo")
	if _, err := rw.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	if err := rw.Flush(); err != nil {
		t.Fatal(err)
	}
	expectLine(t, rw, "hello")
}

func TestBoots(t *testing.T) {
	c := vmConfig(t)
	began := time.Now()
	m := startVM(t, c)
	t.Log("serves after", time.Since(began))
	checkEcho(t, m)
	s, err := m.Status(deadline(t))
	if err != nil || s.Phase != Running || !s.Answers {
		t.Errorf("%+v, %v", s, err)
	}
	t.Logf("%+v", s)
	if len(s.Facts.MissingIsolation) > 0 && os.Geteuid() == 0 {
		t.Errorf("walls are missing: %q", s.Facts.MissingIsolation)
	}
	again, err := Open(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	checkEcho(t, again)
	if _, err := Start(deadline(t), c); err == nil {
		t.Error("a second VM started in the same directory")
	}
	checkEcho(t, m)
	if err := unix.Access(c.Dir, unix.R_OK); err != nil {
		t.Error(err)
	}
}
