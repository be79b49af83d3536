package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
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

// TestExtractLayerStaysInside: links of an archive lead nowhere outside, and owners beyond those of
// the sandbox are refused.
func TestExtractLayerStaysInside(t *testing.T) {
	outside := t.TempDir()
	for name, c := range map[string]struct {
		entries []tar.Header
		fails   bool
	}{
		"ThroughAbsoluteLink": {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/planted"}}, false}, // the link is resolved below the top
		"ThroughRelativeLink": {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../../../../../../.." + outside}, {Name: "l/planted"}}, false},
		"HardLinkOut":         {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "l/secret"}}, true},
		"WhiteoutThroughLink": {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/.wh.secret"}}, false},
		"ForeignOwner":        {[]tar.Header{{Name: "f", Uid: 1 << 16}}, true},
		"ForeignGroup":        {[]tar.Header{{Name: "f", Gid: 1 << 20}}, true},
	} {
		if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		for _, h := range c.entries {
			if err := tw.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := ExtractLayer(t.Context(), dir, &b, ExtractOptions{IDs: 1 << 16}); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		list, err := os.ReadDir(outside)
		if err != nil || len(list) != 1 {
			t.Errorf("%s: outside is %v %v", name, list, err)
		}
		if inside, err := os.ReadFile(filepath.Join(dir, "h")); err == nil && len(inside) > 0 {
			t.Errorf("%s: the secret is inside", name)
		}
	}
}

// TestDirectoriesAreBounded: directories of an archive, whose attributes are kept in memory, are counted with their names
// and attributes, each name once.
func TestDirectoriesAreBounded(t *testing.T) {
	extract := func(name func(i int) string) error {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		for i := range 50 {
			if err := tw.WriteHeader(&tar.Header{Name: name(i), Typeflag: tar.TypeDir, Mode: 0o755, PAXRecords: map[string]string{xattrPrefix + "trusted.a": strings.Repeat("x", 1000)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		x := &extractor{root: root, limits: Limits{Bytes: 1, Files: 1000}, dirBytes: maxDirBytes - 10_000}
		err = x.extractAll(t.Context(), &b)
		if len(x.dirs) > 10 {
			t.Errorf("%d directories are kept", len(x.dirs))
		}
		return err
	}
	if err := extract(func(int) string { return "same" }); err != nil {
		t.Errorf("one directory many times: %v", err)
	}
	if err := extract(func(i int) string { return fmt.Sprint("d", i) }); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("many directories: error %v, want ErrQuota", err)
	}
}
