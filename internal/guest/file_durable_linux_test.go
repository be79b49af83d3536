package guest

import (
	"archive/tar"
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestDurableFiles uses a guest that flushes what it acknowledges.
func TestDurableFiles(t *testing.T) {
	l, dir := linked(t, &Server{Config: Config{Durable: true}}), t.TempDir()
	ctx := t.Context()
	must(t, l.Mkdir(ctx, dir+"/a/b", 0o755))
	must(t, l.WriteFile(ctx, dir+"/a/b/f", strings.NewReader("written"), 0o644))
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"one", "in/two"} {
		must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1}))
		_, err := w.Write([]byte("x"))
		must(t, err)
	}
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "in", Mode: 0o500}))
	must(t, w.Close())
	must(t, l.Import(ctx, dir+"/a", &archive))
	must(t, l.Import(ctx, "/dev/shm", new(bytes.Buffer))) // of a file system in memory
	for name, want := range map[string]string{"/a/b/f": "written", "/a/one": "x", "/a/in/two": "x"} {
		if got, err := os.ReadFile(dir + name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	must(t, l.Remove(ctx, dir+"/a"))
	if _, err := os.Lstat(dir + "/a"); err == nil {
		t.Error("it is not removed")
	}
}
