package machine

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

	"github.com/atoll-sandbox/atoll/internal/boot"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/helper/helpertest"
	"github.com/atoll-sandbox/atoll/internal/musthave"
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

// booted is what all machines of these tests start from.
var booted struct {
	once  sync.Once
	dir   string
	files boot.Files
	err   error

	save     sync.Once
	template string // of config's machine
	saveErr  error
}

func prepare() {
	k, err := boot.Find(os.Getenv("ATOLL_MACHINE_KERNEL"), os.Getenv("ATOLL_MACHINE_MODULES"))
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

// config is that of a small machine, or skips where there can't be one.
func config(t testing.TB) *Config {
	t.Helper()
	if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
		musthave.Skip(t, "qemu", `no kernel for machines: eval "$(scripts/machine)"`)
	}
	if _, err := FindQEMU(); err != nil {
		musthave.Skip(t, "qemu", "%v", err)
	}
	booted.once.Do(prepare)
	if booted.err != nil {
		t.Fatal(booted.err)
	}
	guest, err := helper.Finder{}.Find("atoll-guest")
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{
		Dir: place(t), Helper: guest, Accel: TCG, Memory: 256 << 20, CPUs: 1,
		Kernel: booted.files.Kernel, Initrd: booted.files.Initrd,
		Setup: json.RawMessage(`{"test":true}`),
	}
	if os.Geteuid() == 0 {
		c.User = &User{UID: 1_700_000_123, GID: 1_700_000_123}
	}
	return c
}

// awake is config of a machine that has booted already, once for all tests.
func awake(t testing.TB) *Config {
	t.Helper()
	c := config(t)
	booted.save.Do(func() {
		booted.template = filepath.Join(booted.dir, "template")
		booted.saveErr = SaveTemplate(deadline(t), c, booted.template)
	})
	if booted.saveErr != nil {
		t.Fatal(booted.saveErr)
	}
	c.Dir, c.Template = place(t), booted.template
	return c
}

// long is for tests that prove nothing more under the race detector, which sees
// neither monitors nor guests.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many machines: left out by -short")
	}
}

// place is a directory as a sandbox has it.
func place(t testing.TB) string {
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

// start starts a machine that is gone when the test is over, with all it had.
func start(t testing.TB, c *Config) *Machine {
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

// nothingLeft looks for what a machine leaves behind.
func nothingLeft(t testing.TB, m *Machine) {
	t.Helper()
	for _, pid := range []int{m.who.PID, m.who.Monitor} {
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

// say opens a stream to the test's guest with a line.
func say(t testing.TB, m *Machine, line string) *bufio.ReadWriter {
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

func expect(t testing.TB, rw *bufio.ReadWriter, want string) {
	t.Helper()
	got, err := rw.ReadString('\n')
	if err != nil || strings.TrimSpace(got) != want {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

func echo(t testing.TB, m *Machine) {
	t.Helper()
	rw := say(t, m, "echo")
	if _, err := rw.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	if err := rw.Flush(); err != nil {
		t.Fatal(err)
	}
	expect(t, rw, "hello")
}

func TestBoots(t *testing.T) {
	c := config(t)
	began := time.Now()
	m := start(t, c)
	t.Log("serves after", time.Since(began))
	echo(t, m)
	s, err := m.Status(deadline(t))
	if err != nil || s.Phase != Running || !s.Answers {
		t.Errorf("%+v, %v", s, err)
	}
	t.Logf("%+v", s)
	if len(s.Facts.Weak) > 0 && os.Geteuid() == 0 {
		t.Errorf("walls are missing: %q", s.Facts.Weak)
	}
	again, err := Open(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	echo(t, again)
	if _, err := Start(deadline(t), c); err == nil {
		t.Error("a second machine started in the same directory")
	}
	echo(t, m)
	if err := unix.Access(c.Dir, unix.R_OK); err != nil {
		t.Error(err)
	}
}
