// Package imagetest makes images for tests.
package imagetest

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// MakeBusybox returns an archive of a root file system with a static busybox and a file etc/of-the-image. It
// skips a test of a part, see testenv.Skip, where busybox is missing.
func MakeBusybox(t testing.TB, part string) *bytes.Buffer {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		testenv.Skip(t, part, "needs busybox: apt install busybox-static")
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.CommandContext(t.Context(), path, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "etc/", "usr/", "usr/bin/", "root/", "var/"} {
		add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	add(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil)
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, program)
	for _, name := range bytes.Fields(list) {
		if string(name) != "busybox" {
			add(tar.Header{Name: "bin/" + string(name), Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
		}
	}
	add(tar.Header{Name: "usr/bin/env", Typeflag: tar.TypeSymlink, Linkname: "/bin/busybox"}, nil)
	add(tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"))
	add(tar.Header{Name: "etc/group", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:\nnogroup:x:65534:\n"))
	add(tar.Header{Name: "etc/nsswitch.conf", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("passwd: files\ngroup: files\nhosts: files dns\n"))
	add(tar.Header{Name: "etc/of-the-image", Typeflag: tar.TypeReg, Mode: 0o640, Uid: 1000, Gid: 1000}, []byte("yes"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}
