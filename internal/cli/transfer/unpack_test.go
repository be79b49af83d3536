package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
)

// makeStream returns a stream of entries; the content of a file is its name.
func makeStream(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content = h.Name
		}
		h.Size, h.Mode = int64(len(content)), 0o640
		if h.Typeflag == tar.TypeDir {
			h.Mode = 0o750
		}
		h.ModTime = time.Unix(1_000_000_000, 0)
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }

func link(kind byte, name, to string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Linkname: to}
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	stream := makeStream(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "top/"}, file("top/a"), file("top/x/y/b"), file("top/x/c"), file("top/a"),
		file("top/z/d"), link(tar.TypeSymlink, "top/s", "../../elsewhere"), link(tar.TypeLink, "top/x/h", "top/z/d"), file("top/x/y/e"))
	if err := Unpack(dir, "new", stream); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		got[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"new/a": "top/a", "new/x/y/b": "top/x/y/b", "new/x/c": "top/x/c", "new/z/d": "top/z/d", "new/x/h": "top/z/d", "new/x/y/e": "top/x/y/e"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for name, mode := range map[string]fs.FileMode{"new": 0o750, "new/a": 0o640} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode || info.ModTime().Unix() != 1_000_000_000 {
			t.Errorf("%s: %v, %v, %v", name, info.Mode(), info.ModTime(), err)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "new/s")); err != nil || to != "../../elsewhere" {
		t.Errorf("%q, %v", to, err)
	}
}

// TestUnpackStaysBelow unpacks streams that lead out of the directory.
func TestUnpackStaysBelow(t *testing.T) {
	outside := t.TempDir()
	for name, c := range map[string]struct {
		entries []tar.Header
		want    error // nil: any
	}{
		"DotDot":             {[]tar.Header{file("a/../../f")}, atoll.ErrDenied},
		"Absolute":           {[]tar.Header{file("/f")}, atoll.ErrDenied},
		"LinkOfStream":       {[]tar.Header{link(tar.TypeSymlink, "a", outside), file("a/f")}, atoll.ErrDenied},
		"LinkBelow":          {[]tar.Header{file("d/g"), link(tar.TypeSymlink, "d/a", outside), file("d/a/b/f")}, atoll.ErrDenied},
		"DirectoryIsLink":    {[]tar.Header{link(tar.TypeSymlink, "a", outside), {Typeflag: tar.TypeDir, Name: "a/"}}, atoll.ErrDenied},
		"PlantedBefore":      {[]tar.Header{file("planted/f")}, atoll.ErrDenied},
		"HardLinkOut":        {[]tar.Header{link(tar.TypeLink, "a", "../f")}, nil},
		"HardLinkByLink":     {[]tar.Header{link(tar.TypeSymlink, "s", outside), link(tar.TypeLink, "a", "s/secret")}, atoll.ErrDenied},
		"LinkForDirectory":   {[]tar.Header{file("d/g"), link(tar.TypeSymlink, "d", outside), file("d/f")}, atoll.ErrExists},
		"FileIsNoDirectory":  {[]tar.Header{file("d"), file("d/f")}, nil},
		"DirectoryIsNoFile":  {[]tar.Header{file("d/g"), file("d")}, nil},
		"RenamedStaysBelow":  {[]tar.Header{file("../f")}, atoll.ErrDenied},
		"LinkReplacedByFile": {[]tar.Header{link(tar.TypeSymlink, "a", outside+"/f"), file("a"), file("a/f")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "planted")), os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			err := Unpack(dir, "", makeStream(t, c.entries...))
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

// BenchmarkUnpack unpacks 5,000 small files in 50 directories.
func BenchmarkUnpack(b *testing.B) {
	var entries []tar.Header
	for i := range 5000 {
		entries = append(entries, file(fmt.Sprintf("top/dir%d/sub/file%d", i/100, i)))
	}
	stream := makeStream(b, entries...).Bytes()
	for b.Loop() {
		if err := Unpack(b.TempDir(), "new", bytes.NewReader(stream)); err != nil {
			b.Fatal(err)
		}
	}
}
