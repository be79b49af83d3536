package fleet

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"
	"time"
)

// archiveOf makes a tar stream. The content of a file is in its Linkname.
func archiveOf(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		body := ""
		if h.Typeflag == tar.TypeReg || h.Typeflag == 0 {
			body, h.Linkname = h.Linkname, ""
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeDir {
				h.Mode = 0o755
			}
		}
		if h.ModTime.IsZero() {
			h.ModTime = time.Unix(1234567890, 0)
		}
		h.Size = int64(len(body))
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, body)
		must(t, err)
	}
	must(t, w.Close())
	return &b
}

// entriesOf returns the names of an export.
func entriesOf(t testing.TB, f *Files, name string) (names []string) {
	t.Helper()
	rc, err := f.Export(t.Context(), name)
	must(t, err)
	for r := tar.NewReader(rc); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			must(t, rc.Close())
			return names
		}
		must(t, err)
		names = append(names, h.Name)
	}
}
