// Package imagetest makes images for tests.
package imagetest

import (
	"archive/tar"
	"bytes"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// MakeBusybox returns an archive of a root file system with a static busybox and a file etc/of-the-image. It
// skips a test of a part, see testenv.Skip, where busybox is missing.
func MakeBusybox(t testing.TB, part string) *bytes.Buffer {
	t.Helper()
	path, err := image.FindBusybox()
	if err != nil {
		testenv.Skip(t, part, "%v", err)
	}
	files, err := image.BusyboxFiles(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, image.File{
		Header:  tar.Header{Name: "etc/of-the-image", Typeflag: tar.TypeReg, Mode: 0o640, Uid: 1000, Gid: 1000},
		Content: []byte("yes"),
	})
	archive, err := image.WriteArchive(files)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
