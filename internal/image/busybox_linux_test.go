package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestFindBusybox: programs that are not static ELF files are none.
func TestFindBusybox(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := FindBusybox(); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("an empty $PATH: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "busybox"), []byte("#!/bin/sh\necho sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := FindBusybox(); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a script: %s, %v", path, err)
	}
}

// TestEnsureDefault: without a named image the host's busybox is one, without a registry, until the
// default image is installed.
func TestEnsureDefault(t *testing.T) {
	path, err := FindBusybox()
	if err != nil {
		testenv.Skip(t, "qemu", "%v", err)
	}
	s := &Store{Dir: t.TempDir()}
	for range 2 {
		ref, err := s.EnsureDefault(t.Context(), nil)
		if ref != HostBusybox || err != nil {
			t.Fatalf("%s, %v", ref, err)
		}
	}
	images, err := s.Images(t.Context())
	if err != nil || len(images) != 1 {
		t.Fatalf("%+v, %v", images, err)
	}
	root, err := s.Resolve(t.Context(), HostBusybox)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root.Layers[0], "bin/busybox"))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
	if link, err := os.Readlink(filepath.Join(root.Layers[0], "bin/sh")); link != "busybox" {
		t.Errorf("bin/sh leads to %q, %v", link, err)
	}

	archive, err := WriteArchive([]File{{Header: tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ImportImage(t.Context(), atoll.DefaultImage, io.Reader(archive), nil); err != nil {
		t.Fatal(err)
	}
	if ref, err := s.EnsureDefault(t.Context(), nil); ref != atoll.DefaultImage || err != nil {
		t.Errorf("with the default image: %s, %v", ref, err)
	}
}
