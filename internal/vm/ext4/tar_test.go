package ext4

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// paths lists the paths in a writer.
func (w *Writer) paths() string {
	var list []string
	var walk func(n *node, at string)
	walk = func(n *node, at string) {
		for name, c := range n.sortedChildren() {
			list = append(list, at+name)
			if c.isDir() {
				walk(c, at+name+"/")
			}
		}
	}
	walk(w.root, "")
	return strings.Join(list, " ")
}

// TestLayersOfArchives adds archives over one another, like the layers of images.
func TestLayersOfArchives(t *testing.T) {
	for name, c := range map[string]struct {
		layers [][]tar.Header
		want   string
	}{
		"Implicit":          {[][]tar.Header{{file("a/b/c", "x")}}, "a a/b a/b/c"},
		"Dots":              {[][]tar.Header{{file("./a", "x"), dir("./"), file("/b", "y"), file("c//d", "")}}, "a b c c/d"},
		"Whiteout":          {[][]tar.Header{{file("a/b", "x"), file("a/c", "x")}, {file("a/.wh.b", "")}}, "a a/c"},
		"WhiteoutOfDir":     {[][]tar.Header{{file("a/b/c", "x")}, {file("a/.wh.b", "")}}, "a"},
		"WhiteoutOfNothing": {[][]tar.Header{{file("a/.wh.b", "")}}, "a"},
		"WhiteoutOfOwn":     {[][]tar.Header{{file("a/b", "x"), file("a/.wh.b", "")}}, "a a/b"},
		"Opaque":            {[][]tar.Header{{file("a/b/c", "x"), file("a/d", "x")}, {file("a/.wh..wh..opq", ""), file("a/e", "")}}, "a a/e"},
		"OpaqueComesLast":   {[][]tar.Header{{file("a/b/c", "x")}, {file("a/b/e", ""), file("a/.wh..wh..opq", "")}}, "a a/b a/b/e"},
		"AUFS":              {[][]tar.Header{{file(".wh..wh.plnk", "x"), file("a", "")}}, "a"},
		"FileOverDir":       {[][]tar.Header{{file("a/b", "x")}, {file("a", "y")}}, "a"},
		"DirOverFile":       {[][]tar.Header{{file("a", "x")}, {file("a/b", "y")}}, "a a/b"},
		"Twice":             {[][]tar.Header{{file("a", "x"), file("a", "y"), dir("d"), dir("d")}}, "a d"},
		"ThroughLink":       {[][]tar.Header{{dir("usr/lib"), link("lib", "usr/lib")}, {file("lib/x", "y")}}, "lib usr usr/lib usr/lib/x"},
		"ThroughAbsolute":   {[][]tar.Header{{link("a", "/b/c"), file("a/x", "y")}}, "a b b/c b/c/x"},
		"LinkLeadsOut":      {[][]tar.Header{{link("a", "../../../etc"), file("a/x", "y")}}, "a etc etc/x"},
		"HardAcross":        {[][]tar.Header{{file("a", "x")}, {hardLink("b", "a"), file(".wh.a", "")}}, "b"},
		"HardToItself":      {[][]tar.Header{{file("a", "x"), hardLink("a", "./a")}}, "a"},
		"HardToLink":        {[][]tar.Header{{link("a", "nowhere"), hardLink("b", "a")}}, "a b"},
		"Devices":           {[][]tar.Header{{{Name: "c", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, {Name: "b", Typeflag: tar.TypeBlock, Devmajor: 300, Devminor: 70000}, {Name: "f", Typeflag: tar.TypeFifo}}}, "b c f"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			fs, _ := buildFS(t, Options{Size: 64 << 20}, func(w *Writer) error {
				for _, l := range c.layers {
					if err := w.AddTar(t.Context(), archive(t, l...)); err != nil {
						return err
					}
				}
				got = w.paths()
				return nil
			})
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			runFsck(t, fs)
		})
	}
}

// sparseArchive returns a small archive of a large file that is a hole.
func sparseArchive(t testing.TB, size int64) []byte {
	t.Helper()
	b := archive(t, file("hole", "")).Bytes()
	b[156] = tar.TypeGNUSparse
	copy(b[257:], "ustar  \x00")
	copy(b[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0)) // one empty piece at the end
	b[482] = 0
	b[483] = 0x80
	for i := range 8 {
		b[494-i] = byte(size >> (8 * i))
	}
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

func TestHostileArchives(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth+1) + "x"
	var many []tar.Header
	for i := range 2000 {
		many = append(many, file(fmt.Sprint("f", i), ""))
	}
	var same []tar.Header
	for range 2000 {
		same = append(same, file("same", ""))
	}
	cut := archive(t, file("a", strings.Repeat("x", 5000))).Bytes()[:2048]
	for name, c := range map[string]struct {
		archive []byte
		want    error
	}{
		"DotDot":        {archive(t, file("../x", "")).Bytes(), atoll.ErrInvalid},
		"DotDotInside":  {archive(t, file("a/../../x", "")).Bytes(), atoll.ErrInvalid},
		"HardOut":       {archive(t, hardLink("a", "../../etc/passwd")).Bytes(), atoll.ErrInvalid},
		"HardToNothing": {archive(t, hardLink("a", "/etc/passwd")).Bytes(), atoll.ErrInvalid},
		"HardToDir":     {archive(t, dir("d"), hardLink("a", "d")).Bytes(), atoll.ErrInvalid},
		"Circle":        {archive(t, link("a", "b"), link("b", "a"), file("a/x", "")).Bytes(), atoll.ErrInvalid},
		"Itself":        {archive(t, link("a", "a/a"), file("a/x", "")).Bytes(), atoll.ErrInvalid},
		"EmptyLink":     {archive(t, link("a", "")).Bytes(), atoll.ErrInvalid},
		"LongLink":      {archive(t, link("a", strings.Repeat("x", 5000))).Bytes(), atoll.ErrInvalid},
		"LongName":      {archive(t, file(strings.Repeat("n", 256), "")).Bytes(), atoll.ErrInvalid},
		"LongPath":      {archive(t, file(strings.Repeat("n/", 3000)+"n", "")).Bytes(), atoll.ErrInvalid},
		"Deep":          {archive(t, file(deep, "")).Bytes(), atoll.ErrInvalid},
		"Root":          {archive(t, link("./", "x")).Bytes(), atoll.ErrInvalid},
		"WhiteoutOfDot": {archive(t, file("a/.wh..", "")).Bytes(), atoll.ErrInvalid},
		"Device":        {archive(t, tar.Header{Name: "a", Typeflag: tar.TypeChar, Devmajor: 1 << 20}).Bytes(), atoll.ErrInvalid},
		"Cut":           {cut, atoll.ErrInvalid},
		"Text":          {bytes.Repeat([]byte("no archive "), 100), atoll.ErrInvalid},
		"Many":          {archive(t, many...).Bytes(), atoll.ErrQuota},
		"ManyOfOneName": {archive(t, same...).Bytes(), atoll.ErrQuota},
		"SparseBomb":    {sparseArchive(t, 1<<32), atoll.ErrQuota},
		"Large":         {archive(t, file("a", strings.Repeat("x", 17<<20))).Bytes(), atoll.ErrQuota},
		"Attributes":    {archive(t, tar.Header{Name: "a", Linkname: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": strings.Repeat("v", 5000)}}).Bytes(), atoll.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := New(nowhere{}, Options{Size: 16 << 20, Names: 1500})
			if err != nil {
				t.Fatal(err)
			}
			if err = w.AddTar(t.Context(), bytes.NewReader(c.archive)); err == nil {
				_, err = w.Finish(t.Context())
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

type nowhere struct{}

func (nowhere) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// TestManyFiles adds more files than there are inodes.
func TestManyFiles(t *testing.T) {
	r, pw := io.Pipe()
	go func() {
		tw := tar.NewWriter(pw)
		for i := range 10_000_000 {
			if err := tw.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d/%d", i/1000, i), Typeflag: tar.TypeReg}); err != nil {
				return // the reader was closed
			}
		}
	}()
	defer r.Close()
	w, err := New(nowhere{}, Options{Size: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddTar(t.Context(), r); !errors.Is(err, atoll.ErrQuota) {
		t.Error(err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, err := New(nowhere{}, Options{Size: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddTar(ctx, archive(t, file("a", "b"))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := w.Finish(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// FuzzTar adds any archive over another: if that succeeds, e2fsck finds no errors.
func FuzzTar(f *testing.F) {
	f.Add(archive(f, file("a/b", "c"), hardLink("d", "a/b"), link("l", "a"), file("l/x", "y"), dir("q")).Bytes())
	f.Add(archive(f, file("base/.wh.f", ""), file(".wh..wh..opq", "")).Bytes())
	f.Add(archive(f, tar.Header{Name: "x", Linkname: "content", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "v", "SCHILY.xattr.security.capability": "w"}}).Bytes())
	base := archive(f, file("base/f", "x"), link("base/l", ".."), dir("e")).Bytes()
	findProgram(f, "e2fsck")
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "fs")
		out, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if err := out.Truncate(MinSize); err != nil {
			t.Fatal(err)
		}
		w, err := New(out, Options{Size: MinSize})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.AddTar(t.Context(), bytes.NewReader(base)); err != nil {
			t.Fatal(err)
		}
		if err := w.AddTar(t.Context(), bytes.NewReader(b)); err != nil {
			return
		}
		if _, err := w.Finish(t.Context()); err != nil {
			return
		}
		runFsck(t, name)
	})
}
