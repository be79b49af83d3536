package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/sparse"
)

// TestSparseFilesStaySmall unpacks a file of 64 MiB, of which a sandbox has stored a few bytes.
func TestSparseFilesStaySmall(t *testing.T) {
	const size = 64 << 20
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	h := &tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: size, Mode: 0o600}
	err := sparse.WriteEntry(&b, tw, h, []sparse.Segment{{Offset: 1 << 20, Length: 4}}, bytes.NewReader(append(make([]byte, 1<<20), "data"...)))
	if err := errors.Join(err, tw.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Unpack(dir, "other", &b); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir + "/other")
	if err != nil {
		t.Fatal(err)
	}
	if taken := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != size || taken > 1<<20 {
		t.Errorf("%d bytes take %d", info.Size(), taken)
	}
}
