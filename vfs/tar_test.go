package vfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/google/go-cmp/cmp"
)

// archive makes a tar stream. The content of a file is in its Linkname.
func archive(t testing.TB, entries ...tar.Header) *bytes.Buffer {
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
		}
		h.Size = int64(len(body))
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, body)
		must(t, err)
	}
	must(t, w.Close())
	return &b
}

func file(name, content string) tar.Header { return tar.Header{Name: name, Linkname: content} }

func linkTo(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func TestExportThenImportKeepsAll(t *testing.T) {
	f := New(Options{})
	long := strings.Repeat("long", 60)
	must(t, f.MkdirAll("/src/empty/dir", 0o750))
	must(t, f.MkdirAll("/src/"+long+"/"+long, 0o755))
	must(t, f.WriteFile("/src/"+long+"/"+long+"/x", []byte("deep"), 0o600))
	must(t, f.WriteFile("/src/big", bytes.Repeat([]byte("big"), 100_000), 0o644))
	must(t, f.Truncate("/src/big", 1_000_000))
	must(t, f.WriteFile("/src/suid", nil, 0o755|fs.ModeSetuid|fs.ModeSticky))
	must(t, f.Link("/src/big", "/src/empty/hard"))
	must(t, f.Symlink("../big", "/src/empty/soft"))
	must(t, f.Symlink("nowhere", "/src/dangling"))
	must(t, f.Mknod("/src/pipe", fs.ModeNamedPipe|0o600, 0))
	must(t, f.Mknod("/src/null", fs.ModeDevice|fs.ModeCharDevice|0o666, 0x103))
	must(t, f.Chtimes("/src/big", time.Time{}, time.Unix(1234567890, 123456789)))
	must(t, f.Chtimes("/src/empty", time.Time{}, time.Unix(99, 0)))
	must(t, f.Lchtimes("/src/empty/soft", time.Time{}, time.Unix(98, 0)))

	var b bytes.Buffer
	must(t, f.ExportTar("/src", &b))
	g := New(Options{})
	must(t, g.ImportTar("/new/place", &b))

	want, got := map[string]string{}, map[string]string{}
	essence := func(f *FS, root string, out map[string]string) {
		for p := range dump(t, f) {
			rel, ok := strings.CutPrefix(p, root)
			if !ok || rel == "/null" {
				continue
			}
			i, err := f.Lstat(p)
			must(t, err)
			out[rel] = i.Mode().String() + i.ModTime().String()
			if i.Mode().IsRegular() {
				data, err := f.ReadFile(p)
				must(t, err)
				out[rel] += digest(data)
			}
			if target, err := f.Readlink(p); err == nil {
				out[rel] += target
			}
		}
	}
	essence(f, "/src", want)
	essence(g, "/new/place/src", got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	x, err := g.Stat("/new/place/src/big")
	must(t, err)
	y, err := g.Stat("/new/place/src/empty/hard")
	must(t, err)
	if x.Ino() != y.Ino() || x.Nlink() != 2 {
		t.Errorf("the hard link is lost: inodes %d and %d", x.Ino(), y.Ino())
	}
	must(t, g.verify())
}

func TestExportNamesBeginWithTheBaseName(t *testing.T) {
	f := New(Options{})
	must(t, f.MkdirAll("/a/b", 0o755))
	must(t, f.WriteFile("/a/b/c", nil, 0o644))
	must(t, f.Symlink("a/b", "/link"))
	for path, want := range map[string]string{
		"/a/b": "b/ b/c", "/a/b/": "b/ b/c", "/a/b/c": "c", "/link": "link/ link/c", "/a/b/.": "b/ b/c",
		"/a/b/..": "a/ a/b/ a/b/c", "/": "./ ./a/ ./a/b/ ./a/b/c ./link", "/link/..": "a/ a/b/ a/b/c",
	} {
		var b bytes.Buffer
		must(t, f.ExportTar(path, &b))
		var names []string
		for r := tar.NewReader(&b); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			must(t, err)
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("export %s: %s, want %s", path, got, want)
		}
	}
	if err := f.ExportTar("/missing", io.Discard); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("export of a missing path: %v", err)
	}
}

// TestHostileArchives imports what must be refused. Nothing may change, and
// the error must name the entry.
func TestHostileArchives(t *testing.T) {
	dirEntry := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	hard := func(name, target string) tar.Header {
		return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
	}
	for name, c := range map[string]struct {
		entries []tar.Header
		bad     string
		err     error
	}{
		"AbsoluteName":         {[]tar.Header{file("ok", "x"), file("/etc/passwd", "x")}, "/etc/passwd", atoll.ErrInvalid},
		"DotDotName":           {[]tar.Header{file("a/../../b", "x")}, "a/../../b", atoll.ErrInvalid},
		"DotDotAlone":          {[]tar.Header{dirEntry("..")}, "..", atoll.ErrInvalid},
		"DotDotInside":         {[]tar.Header{file("a/../b", "x")}, "a/../b", atoll.ErrInvalid},
		"ThroughPlantedLink":   {[]tar.Header{linkTo("l", "/etc"), file("l/x", "x")}, "l/x", atoll.ErrInvalid},
		"ThroughPlantedInside": {[]tar.Header{dirEntry("d"), linkTo("l", "d"), file("l/x", "x")}, "l/x", atoll.ErrInvalid},
		"ThroughLinkOfLink":    {[]tar.Header{linkTo("a", ".."), linkTo("b", "a"), dirEntry("b/c")}, "b/c", atoll.ErrInvalid},
		"DirThroughPlanted":    {[]tar.Header{linkTo("l", "/"), dirEntry("l/x/y")}, "l/x/y", atoll.ErrInvalid},
		"ThroughOldLinkOut":    {[]tar.Header{file("out/x", "x")}, "out/x", atoll.ErrInvalid},
		"HardLinkAbsolute":     {[]tar.Header{hard("h", "/secret")}, "h", atoll.ErrInvalid},
		"HardLinkDotDot":       {[]tar.Header{hard("h", "../secret")}, "h", atoll.ErrInvalid},
		"HardLinkThroughOld":   {[]tar.Header{hard("h", "out/secret")}, "h", atoll.ErrInvalid},
		"HardLinkThroughNew":   {[]tar.Header{linkTo("l", "/"), hard("h", "l/secret")}, "h", atoll.ErrInvalid},
		"HardLinkToDirectory":  {[]tar.Header{dirEntry("d"), hard("h", "d")}, "h", atoll.ErrInvalid},
		"HardLinkToNothing":    {[]tar.Header{hard("h", "nothing")}, "h", atoll.ErrNotFound},
		"CharDevice":           {[]tar.Header{{Typeflag: tar.TypeChar, Name: "null"}}, "null", atoll.ErrInvalid},
		"BlockDevice":          {[]tar.Header{{Typeflag: tar.TypeBlock, Name: "sda"}}, "sda", atoll.ErrInvalid},
		"UnknownKind":          {[]tar.Header{{Typeflag: 'Z', Name: "odd"}}, "odd", atoll.ErrInvalid},
		"FileOverDirectory":    {[]tar.Header{file("ok", "x"), file("keep", "x")}, "keep", atoll.ErrInvalid},
		"BeneathFile":          {[]tar.Header{file("f", "x"), file("f/x", "x")}, "f/x", atoll.ErrInvalid},
		"FileTooBig":           {[]tar.Header{file("big", strings.Repeat("x", 2001))}, "big", atoll.ErrQuota},
		"AllTooBig":            {[]tar.Header{file("a", strings.Repeat("x", 1900)), file("b", strings.Repeat("x", 1900)), file("c", strings.Repeat("x", 1900))}, "c", atoll.ErrQuota},
		"SameTooOften":         {[]tar.Header{file("a", strings.Repeat("x", 1900)), file("a", strings.Repeat("x", 1900)), file("a", strings.Repeat("x", 1900))}, "a", atoll.ErrQuota},
		"TooManyEntries":       {slices.Repeat([]tar.Header{dirEntry("same")}, 20), "same", atoll.ErrQuota},
		"TooManyHardLinks":     {[]tar.Header{file("a", "x"), hard("b", "a"), hard("c", "a"), hard("d", "a"), hard("e", "a"), hard("f", "a")}, "e", atoll.ErrQuota},
		"NameTooLong":          {[]tar.Header{file(strings.Repeat("n", 256), "x")}, strings.Repeat("n", 256), atoll.ErrQuota},
		"PathTooLong":          {[]tar.Header{file(strings.Repeat("n/", 2500)+"x", "x")}, strings.Repeat("n/", 2500) + "x", atoll.ErrQuota},
		"TooManyNodes":         {[]tar.Header{file("a/b/c/d/e/f/g/h/i/j/k", "x")}, "a/b/c/d/e/f/g/h/i/j/k", atoll.ErrQuota},
		"LinkToNowhere":        {[]tar.Header{linkTo("l", "")}, "l", atoll.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(Options{Quota: Quota{Bytes: 5000, File: 2000, Nodes: 10}})
			must(t, f.MkdirAll("/w/keep/x", 0o755))
			must(t, f.WriteFile("/secret", []byte("s"), 0o600))
			must(t, f.WriteFile("/w/ok", []byte("old"), 0o600))
			must(t, f.Symlink("..", "/w/out"))
			before, usage := dump(t, f), f.Usage()
			open, err := f.OpenFile("/w/ok", os.O_RDWR, 0)
			must(t, err)
			defer open.Close()

			err = f.ImportTar("/w", archive(t, c.entries...))
			if !errors.Is(err, c.err) {
				t.Fatalf("ImportTar = %v, want %v", err, c.err)
			}
			var pe *fs.PathError
			if !errors.As(err, &pe) || pe.Path != c.bad {
				t.Errorf("the error names %v, want %q", err, c.bad)
			}
			if d := cmp.Diff(before, dump(t, f)); d != "" {
				t.Errorf("something has changed:\n%s", d)
			}
			if f.Usage() != usage {
				t.Errorf("usage is %+v, was %+v", f.Usage(), usage)
			}
			must(t, f.verify())
			if _, err := open.WriteString("new"); err != nil {
				t.Errorf("what was open is not usable any more: %v", err)
			}
			if got, _ := f.ReadFile("/w/ok"); string(got) != "new" {
				t.Errorf("what was open is another file: %q", got)
			}
		})
	}
}

func TestImportReplaces(t *testing.T) {
	f := New(Options{})
	must(t, f.MkdirAll("/w/dir/old", 0o700))
	must(t, f.WriteFile("/victim", []byte("untouched"), 0o600))
	must(t, f.Symlink("/victim", "/w/link"))
	must(t, f.WriteFile("/w/file", []byte("before"), 0o600))
	must(t, f.Link("/w/file", "/w/twin"))
	must(t, f.Symlink("dir", "/w/inside"))
	r, err := f.Open("/w/file")
	must(t, err)
	must(t, f.ImportTar("/w", archive(t,
		file("link", "not followed"),
		file("file", "after"),
		tar.Header{Typeflag: tar.TypeDir, Name: "dir/", Mode: 0o751, ModTime: time.Unix(77, 0)},
		file("dir/new", "n"),
		file("inside/through", "t"),
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o711, ModTime: time.Unix(78, 0)},
	)))
	for p, want := range map[string]string{
		"/victim": "untouched", "/w/link": "not followed", "/w/file": "after", "/w/twin": "before",
		"/w/dir/new": "n", "/w/dir/through": "t",
	} {
		if got, err := f.ReadFile(p); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", p, got, err, want)
		}
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "before" {
		t.Errorf("the open file: %q, %v", got, err)
	}
	must(t, r.Close())
	if _, err := f.Stat("/w/dir/old"); err != nil {
		t.Errorf("a directory lost what was in it: %v", err)
	}
	for p, sec := range map[string]int64{"/w/dir": 77, "/w": 78} {
		if i, err := f.Stat(p); err != nil || i.ModTime().Unix() != sec {
			t.Errorf("%s: time %v, %v", p, i.ModTime(), err)
		}
	}
	must(t, f.verify())
}

// TestImportOverFullTree replaces a tree that fills the quota by one
// that fills it too.
func TestImportOverFullTree(t *testing.T) {
	f := New(Options{Quota: Quota{Bytes: 1000, Nodes: 3}})
	must(t, f.Mkdir("/w", 0o755))
	must(t, f.WriteFile("/w/a", make([]byte, 1000), 0o644))
	must(t, f.ImportTar("/w", archive(t, file("a", strings.Repeat("x", 999)))))
	must(t, f.verify())
}

func TestBrokenArchives(t *testing.T) {
	good := archive(t, file("a", strings.Repeat("a", 5000)), file("b", "b")).Bytes()
	for name, data := range map[string][]byte{
		"CutInHeader":  good[:300],
		"CutInContent": good[:2000],
		"NotATar":      bytes.Repeat([]byte("garbage "), 500),
		"BadChecksum":  append([]byte{'x'}, good[1:]...),
	} {
		f := New(Options{})
		if err := f.ImportTar("/", bytes.NewReader(data)); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
		if n := f.Usage().Nodes; n != 0 {
			t.Errorf("%s: %d nodes", name, n)
		}
	}
	broken := errors.New("line is dead")
	f := New(Options{})
	r := io.MultiReader(bytes.NewReader(good[:1024]), &failing{broken})
	if err := f.ImportTar("/", r); !errors.Is(err, broken) {
		t.Errorf("the reader's error is lost: %v", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// TestArchivesOfGNUTar takes what tar writes, and lets it read what we do.
func TestArchivesOfGNUTar(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("needs the command tar")
	}
	src := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(src, "d", strings.Repeat("x", 200)), 0o755))
	must(t, os.WriteFile(filepath.Join(src, "d", strings.Repeat("x", 200), strings.Repeat("y", 200)), []byte("long"), 0o640))
	must(t, os.WriteFile(filepath.Join(src, "d/data"), bytes.Repeat([]byte{1}, 70_000), 0o640))
	must(t, os.Truncate(filepath.Join(src, "d/data"), 300_000))
	must(t, os.Link(filepath.Join(src, "d/data"), filepath.Join(src, "d/hard")))
	must(t, os.Symlink("data", filepath.Join(src, "d/soft")))
	for _, format := range []string{"--format=gnu", "--format=pax", "--format=gnu --sparse", "--format=pax --sparse"} {
		out, err := exec.Command("tar", append(strings.Fields(format), "-cf", "-", "-C", src, "d")...).Output()
		must(t, err)
		f := New(Options{})
		if err := f.ImportTar("/", bytes.NewReader(out)); err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		data, err := f.ReadFile("/d/soft")
		must(t, err)
		if len(data) != 300_000 || data[69_999] != 1 || data[70_000] != 0 {
			t.Errorf("%s: another content", format)
		}
		if i, err := f.Stat("/d/hard"); err != nil || i.Nlink() != 2 || i.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v %v", format, i, err)
		}
		var b bytes.Buffer
		must(t, f.ExportTar("/d", &b))
		dst := t.TempDir()
		cmd := exec.Command("tar", "-xf", "-", "-C", dst)
		cmd.Stdin = &b
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: tar -x: %v: %s", format, err, msg)
		}
		if msg, err := exec.Command("diff", "-r", filepath.Join(src, "d"), filepath.Join(dst, "d")).CombinedOutput(); err != nil {
			t.Errorf("%s: diff: %s", format, msg)
		}
	}
}
