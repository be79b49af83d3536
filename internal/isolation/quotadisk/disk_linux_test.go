package quotadisk

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"golang.org/x/sys/unix"
)

func requireDisks(t *testing.T) {
	t.Helper()
	testenv.Real(t, "namespace")
	if err := CheckSupport(); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
}

// TestSize makes file systems, and asks the kernel for their capacity.
func TestSize(t *testing.T) {
	requireDisks(t)
	for _, s := range []Size{
		{Bytes: 1 << 20}, {Bytes: 4 << 20}, {Bytes: 64 << 20, Files: 1000}, {Bytes: 128 << 20}, {Bytes: 1 << 30}, {Bytes: 100 << 30}, {Files: 1000}, {Bytes: 10 << 30, Files: 100_000},
	} {
		name := filepath.Join(t.TempDir(), "image")
		if err := Create(t.Context(), name, s, 1000); err != nil {
			t.Fatal(err)
		}
		m, err := Mount(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(m.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		again, err := Mount(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		dir := "/proc/self/fd/" // of a descriptor
		if err := os.WriteFile(filepath.Join(dir, itoa(m), "x"), []byte("x"), 0o600); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, itoa(again), "x")); err != nil || string(b) != "x" {
			t.Errorf("a second mount is another: %q, %v", b, err)
		}
		for _, f := range []*os.File{m, again} {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		bytes, files := int64(st.Blocks)*st.Bsize, int64(st.Files)-reserved
		var host unix.Stat_t
		if err := unix.Stat(name, &host); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: %d bytes (%d free), %d files; %d bytes of the host", s, bytes, int64(st.Bavail)*st.Bsize, files, host.Blocks*512)
		if s.Bytes > 0 && (bytes > s.Bytes+s.Bytes/10_000 || bytes < s.Bytes*99/100) {
			t.Errorf("%+v has %d bytes", s, bytes)
		}
		if s.Files > 0 && (files > int64(s.Files) || files < int64(s.Files)*95/100) {
			t.Errorf("%+v has %d files", s, files)
		}
		if dev := findLoop(t, name); dev != "" {
			t.Errorf("%s stays", dev)
		}
	}
}

// TestRepair mounts a file system whose superblock says that it was not unmounted.
func TestRepair(t *testing.T) {
	requireDisks(t)
	name := filepath.Join(t.TempDir(), "image")
	if err := Create(t.Context(), name, Size{Bytes: 4 << 20}, 0); err != nil {
		t.Fatal(err)
	}
	m, err := Mount(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("/proc/self/fd", itoa(m), "x"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open("/proc/self/fd/" + itoa(m) + "/.")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close()); err != nil {
		t.Fatal(err)
	}
	crashed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if crashed[stateAt]&clean != 0 {
		t.Fatal("a mounted file system says that it is clean")
	}
	crash := filepath.Join(t.TempDir(), "crashed")
	if err := os.WriteFile(crash, crashed, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err = Mount(t.Context(), crash); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join("/proc/self/fd", itoa(m), "x"))
	if err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func itoa(f *os.File) string { return strconv.Itoa(int(f.Fd())) }

// findLoop returns the loop device of a file.
func findLoop(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), name) {
			return f
		}
	}
	return ""
}
