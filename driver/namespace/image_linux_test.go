package namespace_test

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// makeBusyboxArchive returns an archive of a root file system that has only a static shell.
func makeBusyboxArchive(t *testing.T) *bytes.Buffer {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		skipUnlessRequired(t, "needs busybox: apt install busybox-static")
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))},
		{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "busybox"},
		{Name: "etc/of-the-image", Typeflag: tar.TypeReg, Mode: 0o640, Uid: 1000, Gid: 1000, Size: 3},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		content := program
		if h.Name == "etc/of-the-image" {
			content = []byte("yes")
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// skipUnlessRequired skips a test because something is missing; it fails the test if ATOLL_MUST
// names "namespace".
func skipUnlessRequired(t *testing.T, format string, args ...any) {
	t.Helper()
	testenv.Skip(t, "namespace", format, args...)
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

// TestImageRootless runs TestImage as a user that may not read the overlay's own directory.
func TestImageRootless(t *testing.T) {
	if os.Geteuid() == 0 {
		rerunUnprivileged(t, "TestImage")
		return
	}
	t.Skip("TestImage does so")
}

func TestImage(t *testing.T) {
	d := newDriver(t)
	if _, err := d.ImportImage(t.Context(), "test/busybox:1", makeBusyboxArchive(t), nil); err != nil {
		t.Fatal(err)
	}
	sb, err := d.Create(t.Context(), atoll.Spec{Image: "test/busybox:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(t.Context())
	if got := runShell(t, sb, "busybox cat /etc/of-the-image; busybox stat -c ' %u %g' /etc/of-the-image"); got != "yes 1000 1000\n" {
		t.Errorf("a file of the image: %q", got)
	}
	runShell(t, sb, "busybox rm -f /workspace/x; echo kept > /workspace/x; busybox test ! -e /usr/bin/env; busybox test ! -e /etc/shadow")
	if err := d.RemoveImage(t.Context(), "test/busybox:1"); err == nil {
		t.Error("an image that is in use was removed")
	}
	fork, err := atoll.Fork(t.Context(), sb, "", atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, fork, "busybox cat /workspace/x /etc/of-the-image"); got != "kept\nyes" {
		t.Errorf("in the fork: %q", got)
	}
	if err := fork.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveImage(t.Context(), "test/busybox:1"); err != nil {
		t.Errorf("RemoveImage: %v", err)
	}
}
