package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
)

func packed(k atoll.PackedKind, b []byte) *atoll.PackedFiles {
	return &atoll.PackedFiles{Kind: k, Dir: "/", ReadCloser: io.NopCloser(bytes.NewReader(b))}
}

// TestCompare: what differs is listed once, under its own name, in the order of names.
func TestCompare(t *testing.T) {
	dir := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	file := func(name, content string) tar.Header { return tar.Header{Name: name, Mode: 0o644, Linkname: content} }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	hard := func(name, to string) tar.Header { return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to} }
	executable := file("mode", "x")
	executable.Mode = 0o755
	for _, c := range []struct {
		law      string
		old, now []tar.Header
		want     []string
	}{
		{"Equal", []tar.Header{dir("./"), file("a", "1")}, []tar.Header{dir("./"), file("a", "1")}, nil},
		{"OrderDoesNotCount", []tar.Header{file("a", "1"), file("b", "2")}, []tar.Header{file("b", "2"), file("a", "1")}, nil},
		{"Content", []tar.Header{file("a", "1")}, []tar.Header{file("a", "2")}, []string{"modified /a"}},
		{"Mode", []tar.Header{file("mode", "x")}, []tar.Header{executable}, []string{"modified /mode"}},
		{"AddedAndDeleted", []tar.Header{dir("d"), file("d/old", "1")}, []tar.Header{dir("d"), file("d/new", "1")}, []string{"added /d/new", "deleted /d/old"}},
		{"FilesTellOfDirectories", nil, []tar.Header{dir("d"), dir("d/e"), file("d/e/f", "1"), dir("empty")}, []string{"added /d/e/f", "added /empty"}},
		{"Target", []tar.Header{link("l", "a")}, []tar.Header{link("l", "b")}, []string{"modified /l"}},
		{"Kind", []tar.Header{file("k", "a")}, []tar.Header{link("k", "a")}, []string{"modified /k"}},
		{"WhichNameIsTheLink", []tar.Header{file("a", "1"), hard("b", "a")}, []tar.Header{file("b", "1"), hard("a", "b")}, nil},
		{"LinkToAChangedFile", []tar.Header{file("a", "1"), hard("b", "a")}, []tar.Header{file("a", "2"), hard("b", "a")}, []string{"modified /a", "modified /b"}},
		{"RemovedFromTheImage", nil, []tar.Header{file("etc/.wh.passwd", "")}, []string{"deleted /etc/passwd"}},
		{"BackInTheImage", []tar.Header{file("etc/.wh.passwd", "")}, nil, []string{"added /etc/passwd"}},
		{"ReplacesARemovedFile", []tar.Header{file(".wh.a", "")}, []tar.Header{file("a", "1")}, []string{"added /a"}},
		{"RemovedBefore", []tar.Header{file(".wh.a", "")}, []tar.Header{file(".wh.a", "")}, nil},
		{"OpaqueDirectory", []tar.Header{dir("d")}, []tar.Header{dir("d"), file("d/.wh..wh..opq", "")}, []string{"modified /d"}},
	} {
		t.Run(c.law, func(t *testing.T) {
			d, err := Compare(t.Context(), packed(atoll.PackedLayer, tarOf(t, c.old...)), packed(atoll.PackedLayer, tarOf(t, c.now...)))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range d.Files {
				got = append(got, f.Status+" "+f.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || d.Total != len(c.want) {
				t.Errorf("total %d, files (-want +got):\n%s", d.Total, diff)
			}
		})
	}
	d, err := Compare(t.Context(), packed(atoll.PackedRoot, tarOf(t)), packed(atoll.PackedRoot, tarOf(t, file(".wh.mine", "1"))))
	if err != nil || len(d.Files) != 1 || d.Files[0].Path != "/.wh.mine" {
		t.Errorf("a file of that name that is no layer's: %+v, %v", d, err)
	}
}

// TestCompareMany: the list has an end, and the memory, too.
func TestCompareMany(t *testing.T) {
	var many []tar.Header
	for i := range maxDifferences + 5 {
		many = append(many, tar.Header{Name: fmt.Sprintf("f%05d", i), Linkname: "1"})
	}
	d, err := Compare(t.Context(), packed(atoll.PackedRoot, tarOf(t)), packed(atoll.PackedRoot, tarOf(t, many...)))
	if err != nil || d.Total != maxDifferences+5 || len(d.Files) != maxDifferences || d.Files[0].Path != "/f00000" {
		t.Errorf("%d of %d files, %v", len(d.Files), d.Total, err)
	}
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		for i := 0; ; i++ {
			if tw.WriteHeader(&tar.Header{Name: fmt.Sprint(i)}) != nil {
				return
			}
		}
	}()
	_, err = compareStreams(t.Context(), &atoll.PackedFiles{Kind: atoll.PackedRoot, ReadCloser: r}, packed(atoll.PackedRoot, tarOf(t)), 1000)
	if _ = r.Close(); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("endless files: %v", err)
	}
}

// TestCompareHoles: a file with a hole of a terabyte, which costs its maker nothing, is not read.
func TestCompareHoles(t *testing.T) {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "hole", Size: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	if _, err := Compare(t.Context(), packed(atoll.PackedLayer, b.Bytes()), packed(atoll.PackedLayer, tarOf(t))); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("compared: %v", err)
	}
}
