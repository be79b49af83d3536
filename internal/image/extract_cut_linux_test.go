package image

import (
	"archive/tar"
	"bytes"
	"testing"
	"time"
)

// TestCutLayer: a layer that was cut is an error.
func TestCutLayer(t *testing.T) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "d/f", Size: 3}} {
		h.ModTime, h.Format = time.Unix(1, 5), tar.FormatPAX
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := tw.Write([]byte("abc")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{100, 1100, 1600, 4500} {
		if err := ExtractLayer(t.Context(), t.TempDir(), bytes.NewReader(b.Bytes()[:n]), ExtractOptions{}); err == nil {
			t.Errorf("cut to %d of %d bytes: no error", n, b.Len())
		}
	}
	if err := ExtractLayer(t.Context(), t.TempDir(), bytes.NewReader(b.Bytes()), ExtractOptions{}); err != nil {
		t.Error(err)
	}
}
