package vfs

import (
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
)

func newPopulated(t *testing.T) *FS {
	t.Helper()
	f := New(Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.MkdirAll("/a/b/c", 0o755))
	must(f.WriteFile("/a/hello", []byte("hello\n"), 0o644))
	must(f.WriteFile("/a/b/empty", nil, 0o600))
	must(f.WriteFile("/a/b/big", make([]byte, 200_000), 0o644))
	must(f.Symlink("b/big", "/a/link"))
	must(f.Symlink("b", "/a/dirlink"))
	must(f.Link("/a/hello", "/a/b/c/again"))
	return f
}

func TestViewsPassTestFS(t *testing.T) {
	f := newPopulated(t)
	expected := []string{"a/hello", "a/b/empty", "a/b/big", "a/link", "a/dirlink", "a/b/c/again"}
	s := f.Snapshot()
	if err := f.RemoveAll("/a/b/c"); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(s.IO(), expected...); err != nil {
		t.Errorf("snapshot: %v", err)
	}
	if err := fstest.TestFS(f.IO(), expected[:5]...); err != nil {
		t.Errorf("live: %v", err)
	}
	sub, err := fs.Sub(f.IO(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(sub, "hello", "b/big"); err != nil {
		t.Errorf("sub: %v", err)
	}
}

func TestOpenFileWrites(t *testing.T) {
	f := New(Options{})
	w, err := f.OpenFile("/x", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := w.WriteString("abc"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.ReadFile("/x")
	if err != nil || string(got) != "abcabcabc" {
		t.Fatalf("ReadFile = %q, %v", got, err)
	}
}
