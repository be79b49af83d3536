package ext4

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// findProgram returns the path of a program of e2fsprogs.
func findProgram(t testing.TB, name string) string {
	t.Helper()
	testenv.Real(t, "e2fsprogs")
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin"} {
		if p := filepath.Join(dir, name); exec.Command(p, "-V").Run() == nil {
			return p
		}
	}
	testenv.Skip(t, "e2fsprogs", "no %s: apt install e2fsprogs", name)
	return ""
}

// archive returns a tar of entries; the Linkname of a regular file is its content.
func archive(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg || h.Typeflag == 0 {
			content, h.Linkname, h.Typeflag = h.Linkname, "", tar.TypeReg
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func file(name, content string) tar.Header { return tar.Header{Name: name, Linkname: content} }
func dir(name string) tar.Header           { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
func link(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
}

func hardLink(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink}
}

// buildFS makes a file system.
func buildFS(t testing.TB, o Options, fill func(w *Writer) error) (string, Usage) {
	t.Helper()
	if o.Size == 0 {
		o.Size = 64 << 30
	}
	o.UUID = [16]byte{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}
	o.Time = time.Unix(1_700_000_000, 0)
	name := filepath.Join(t.TempDir(), "fs")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(o.Size); err != nil {
		t.Fatal(err)
	}
	w, err := New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	if fill != nil {
		if err := fill(w); err != nil {
			t.Fatal(err)
		}
	}
	u, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return name, u
}

// runFsck checks a file system with e2fsck.
func runFsck(t testing.TB, name string) {
	t.Helper()
	out, err := exec.Command(findProgram(t, "e2fsck"), "-fn", name).CombinedOutput()
	if err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
}

func TestEmpty(t *testing.T) {
	for _, size := range []int64{8 << 20, 100 << 20, 128 << 20, 129 << 20, 1 << 30, 3<<30 + 12345, 64 << 30, 1 << 40} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			name, u := buildFS(t, Options{Size: size, UID: 1000, GID: 100000}, nil)
			runFsck(t, name)
			t.Logf("%+v", u)
		})
	}
}

// TestShrink makes file systems smaller, and checks them with e2fsck.
func TestShrink(t *testing.T) {
	name, u := buildFS(t, Options{}, func(w *Writer) error {
		return w.AddTar(t.Context(), archive(t, file("a", strings.Repeat("x", 200<<20)), file("b/c", "d")))
	})
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := Shrink(f, u.Free+1); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("more than there is: %v", err)
	}
	if p, same, err := Shrink(f, u.Free); err != nil || len(p) > 0 || same.Size != u.Size {
		t.Errorf("as it is: %v %v %v", p, same, err)
	}
	for _, free := range []int64{u.Free - 1<<20, 20<<30 + 1, 1 << 30, 100 << 20, 1, 0} {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			patches, got, err := Shrink(f, free)
			if err != nil {
				t.Fatal(err)
			}
			if got.Free < free || got.Free > free+4<<20 {
				t.Errorf("%+v", got)
			}
			for i, p := range patches {
				old := make([]byte, len(p.Data))
				if _, err := f.ReadAt(old, p.Offset); err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt(p.Data, p.Offset); err != nil {
					t.Fatal(err)
				}
				patches[i].Data = old
			}
			runFsck(t, name)
			if out, err := exec.Command(findProgram(t, "e2fsck"), "-p", name).CombinedOutput(); err != nil || strings.Contains(string(out), "forced") {
				t.Errorf("not trusted: %v\n%s", err, out)
			}
			for _, p := range patches { // restore the blocks
				if _, err := f.WriteAt(p.Data, p.Offset); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
