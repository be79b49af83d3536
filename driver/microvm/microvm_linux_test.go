package microvm_test

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/imagetest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, "qemu", func(m *testing.M) int {
		defer sharedDir.remove()
		return helpertest.Main(m)
	}))
}

// sharedDir is the directory of the drivers of this process: to import the image and to boot a VM takes seconds.
var sharedDir lazyDir

// lazyDir is a directory that is created when it is needed.
type lazyDir struct {
	once sync.Once
	dir  string
	err  error
}

// path creates the directory and returns its name.
func (s *lazyDir) path() (string, error) {
	s.once.Do(func() { s.dir, s.err = os.MkdirTemp("", "mv") })
	return s.dir, s.err
}

func (s *lazyDir) remove() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // that of a process that ends
	}
}

// testImage is the image of the tests' sandboxes.
const testImage = "test/busybox:1"

// newDriver returns a driver of small VMs that has the test image, in the directory that tests share. newDriverIn is for
// those that look at the directory, or that damage what is in it.
func newDriver(t testing.TB) *microvm.Driver {
	t.Helper()
	requireVMs(t)
	dir, err := sharedDir.path()
	if err != nil {
		t.Fatal(err)
	}
	return newDriverIn(t, dir)
}

// requireVMs skips a test where there is nothing to run VMs with.
func requireVMs(t testing.TB) {
	t.Helper()
	testenv.Real(t, "qemu")
	if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
		testenv.Skip(t, "qemu", `no kernel for machines: eval "$(scripts/machine)"`)
	}
}

// newDriverIn is newDriver with a directory.
func newDriverIn(t testing.TB, dir string) *microvm.Driver {
	t.Helper()
	d := &microvm.Driver{Dir: dir, Image: testImage, Memory: 256 << 20, MinMemory: 16 << 20, CPUs: 1}
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "qemu", "no machines here: %v", err)
	}
	if images, err := d.Images(t.Context()); err != nil || len(images) > 0 {
		return d
	}
	if _, err := d.ImportImage(t.Context(), testImage, imagetest.MakeBusybox(t, "qemu"), nil); err != nil {
		t.Fatal(err)
	}
	return d
}

// makeShortDir returns a directory with a name short enough for sockets in it.
func makeShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// makeArchive returns a tar archive of files.
func makeArchive(t testing.TB, files map[string][]byte) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// createTestSandbox creates a sandbox that is destroyed when the test ends.
func createTestSandbox(t *testing.T, d *microvm.Driver, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	sb, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return sb
}

// skipIfRace skips a long test under the race detector, which checks neither monitors nor guests.
func skipIfRace(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many machines: left out by -short")
	}
}

// runShell runs shell text that must succeed.
func runShell(t *testing.T, sb atoll.Sandbox, text string) string {
	t.Helper()
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%s: status %d, %v: %s", text, exit.Code, err, exit.Stderr)
	}
	return string(exit.Stdout)
}

// getStatus returns the status of a sandbox.
func getStatus(t *testing.T, sb atoll.Sandbox) atoll.Status {
	t.Helper()
	s, err := sb.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bootLog returns the boot log of a VM.
func bootLog(d *microvm.Driver, sb atoll.Sandbox) string {
	b, err := os.ReadFile(filepath.Join(d.Dir, sb.ID(), "boot.log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestDriver(t *testing.T) {
	skipIfRace(t)
	atolltest.Run(t, newDriver(t))
}

func TestHello(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{Name: "hello"})
	t.Logf("%s", runShell(t, sb, "id; pwd; hostname; uname -a; cat /proc/mounts; ls -la / /dev; df; free; cat /etc/passwd; ps; date; cat /proc/cmdline; dmesg | tail -5; mount"))
	t.Logf("%+v", getStatus(t, sb))
	t.Logf("%s", bootLog(d, sb))
}
