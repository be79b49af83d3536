package vfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestOverQuotaChangesNothing tries each call that would pass a limit.
func TestOverQuotaChangesNothing(t *testing.T) {
	const bytes, size, nodes = 3000, 2000, 6
	open := func(f *FS, flag int) *File {
		w, err := f.OpenFile("/d/file", flag, 0)
		must(t, err)
		return w
	}
	long := strings.Repeat("n", 33)
	for name, c := range map[string]struct {
		do   func(f *FS) error
		want Errno
	}{
		"WriteBeyondFile":   {func(f *FS) error { _, err := open(f, os.O_WRONLY).WriteAt(make([]byte, 1001), 1000); return err }, EFBIG},
		"WriteBeyondBytes":  {func(f *FS) error { _, err := open(f, os.O_RDWR).WriteAt(make([]byte, 501), 1000); return err }, ENOSPC},
		"AppendBeyondBytes": {func(f *FS) error { _, err := open(f, os.O_WRONLY|os.O_APPEND).Write(make([]byte, 501)); return err }, ENOSPC},
		"WriteAtTheEnd":     {func(f *FS) error { _, err := open(f, os.O_WRONLY).WriteAt([]byte{1}, 1<<62); return err }, EFBIG},
		"WriteWrapsAround":  {func(f *FS) error { _, err := open(f, os.O_WRONLY).WriteAt([]byte{1, 2}, 1<<63-2); return err }, EFBIG},
		"FileTruncate":      {func(f *FS) error { return open(f, os.O_WRONLY).Truncate(1501) }, ENOSPC},
		"TruncateToTB":      {func(f *FS) error { return f.Truncate("/d/file", 1<<40) }, EFBIG},
		"TruncateBytes":     {func(f *FS) error { return f.Truncate("/d/file", 1501) }, ENOSPC},
		"WriteFileOld":      {func(f *FS) error { return f.WriteFile("/d/file", make([]byte, 1501), 0) }, ENOSPC},
		"WriteFileNew":      {func(f *FS) error { return f.WriteFile("/d/new", make([]byte, 501), 0) }, ENOSPC},
		"WriteFileBig":      {func(f *FS) error { return f.WriteFile("/d/new", make([]byte, 2001), 0) }, EFBIG},
		"SymlinkBytes":      {func(f *FS) error { return f.Symlink(strings.Repeat("x/", 63), "/d/l") }, ENOSPC},
		"SymlinkPath":       {func(f *FS) error { return f.Symlink(strings.Repeat("x", 128), "/d/l") }, ENAMETOOLONG},
		"MkdirAllNodes":     {func(f *FS) error { return f.MkdirAll("/d/x/y", 0o755) }, ENOSPC},
		"MkdirAllName":      {func(f *FS) error { return f.MkdirAll("/d/"+long, 0o755) }, ENAMETOOLONG},
		"CreateName":        {func(f *FS) error { return f.WriteFile("/"+long, nil, 0) }, ENAMETOOLONG},
		"CreatePath":        {func(f *FS) error { return f.WriteFile(strings.Repeat("/.", 64), nil, 0) }, ENAMETOOLONG},
		"RenameName":        {func(f *FS) error { return f.Rename("/d/file", "/"+long) }, ENAMETOOLONG},
		"ImportNodes": {func(f *FS) error {
			return f.ImportTar("/", archive(t, file("a", ""), file("b", "")))
		}, ENOSPC},
		"ImportBytes": {func(f *FS) error {
			return f.ImportTar("/", archive(t, file("d/file", strings.Repeat("x", 1501))))
		}, ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(Options{Quota: Quota{Bytes: bytes, File: size, Nodes: nodes, Name: 32, Path: 128}})
			must(t, f.Mkdir("/d", 0o755))
			must(t, f.WriteFile("/d/file", numberedBytes(1, 1000), 0o644))
			must(t, f.WriteFile("/pad", make([]byte, 1800), 0o644))
			must(t, f.Symlink(strings.Repeat("p", 100), "/link"))
			must(t, f.Link("/pad", "/pad2"))
			before, usage := dump(t, f), f.Usage()
			err := c.do(f)
			if !errors.Is(err, c.want) || !errors.Is(err, atoll.ErrQuota) {
				t.Errorf("got %v, want %v, which is ErrQuota", err, c.want)
			}
			if d := cmp.Diff(before, dump(t, f)); d != "" {
				t.Errorf("something has changed:\n%s", d)
			}
			if f.Usage() != usage {
				t.Errorf("usage is %+v, was %+v", f.Usage(), usage)
			}
		})
	}
}

func TestNodesQuotaCountsEveryName(t *testing.T) {
	f := New(Options{Quota: Quota{Nodes: 5}})
	must(t, f.Mkdir("/d", 0o755))
	must(t, f.WriteFile("/f", nil, 0o644))
	must(t, f.Symlink("f", "/l"))
	must(t, f.Link("/f", "/f2"))
	must(t, f.Mknod("/p", fs.ModeNamedPipe, 0))
	for name, err := range map[string]error{
		"mkdir": f.Mkdir("/x", 0), "file": f.WriteFile("/x", nil, 0), "symlink": f.Symlink("x", "/x"),
		"link": f.Link("/f", "/x"), "mknod": f.Mknod("/x", fs.ModeNamedPipe, 0),
	} {
		if !errors.Is(err, ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, f.Rename("/f", "/x")) // no new name
	must(t, f.Unlink("/f2"))
	must(t, f.Link("/x", "/f"))
}

func TestOpenFilesStayChargedUntilClosed(t *testing.T) {
	f := New(Options{Quota: Quota{Bytes: 1000, Nodes: 1}})
	must(t, f.WriteFile("/a", make([]byte, 900), 0o644))
	w, err := f.OpenFile("/a", os.O_RDWR, 0)
	must(t, err)
	must(t, f.Unlink("/a"))
	if err := f.WriteFile("/b", nil, 0o644); !errors.Is(err, ENOSPC) {
		t.Errorf("a name more than the quota: %v", err)
	}
	if _, err := w.WriteAt(make([]byte, 101), 900); !errors.Is(err, ENOSPC) {
		t.Errorf("more than the quota in a file without a name: %v", err)
	}
	_, err = w.WriteAt([]byte("x"), 950)
	must(t, err)
	if u := f.Usage(); u.Bytes != 951 || u.Nodes != 1 {
		t.Errorf("usage %+v", u)
	}
	must(t, w.Close())
	if u := f.Usage(); u.Bytes != 0 || u.Nodes != 0 || u.Files != 0 {
		t.Errorf("usage after Close %+v", u)
	}
	must(t, f.WriteFile("/b", make([]byte, 1000), 0o644))
}

func TestQuotaDefaultsAndNone(t *testing.T) {
	want := Quota{Bytes: 100 << 20, File: 10 << 20, Nodes: 10_000, Name: 255, Path: 4096, Links: 40}
	if q := New(Options{}).Usage().Quota; q != want {
		t.Errorf("defaults: %+v", q)
	}
	f := New(Options{Quota: Quota{Bytes: -1, File: -1, Nodes: -1, Name: -1, Path: -1, Links: -1}})
	must(t, f.WriteFile("/"+strings.Repeat("n", 10_000), nil, 0o644))
	must(t, f.WriteFile("/sparse", nil, 0o644))
	if err := f.Truncate("/sparse", maxFile+1); !errors.Is(err, EFBIG) {
		t.Errorf("beyond the biggest file: %v", err)
	}
	before := heapBytes()
	must(t, f.Truncate("/sparse", maxFile))
	w, err := f.OpenFile("/sparse", os.O_RDWR, 0)
	must(t, err)
	_, err = w.WriteAt([]byte("x"), maxFile-1)
	must(t, err)
	if grown := int64(heapBytes()) - int64(before); grown > 16<<20 {
		t.Errorf("a hole of %d bytes takes %d bytes of memory", int64(maxFile), grown)
	}
	p := make([]byte, 2)
	if _, err := w.ReadAt(p, maxFile-2); err != nil || p[0] != 0 || p[1] != 'x' {
		t.Errorf("read %q, %v", p, err)
	}
	must(t, f.Symlink("a0", "/a1"))
	must(t, f.WriteFile("/a0", nil, 0o644))
	for i := range 500 {
		must(t, f.Symlink(fmt.Sprintf("a%d", i+1), fmt.Sprintf("/a%d", i+2)))
	}
	if _, err := f.Stat("/a500"); err != nil {
		t.Errorf("500 links without a limit: %v", err)
	}
}

func longName(i int) string { return fmt.Sprintf("%0255d", i) }

func openAppend(f *FS, path string) (*File, error) {
	return f.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}

// wastefulNames are ways to fill a file system with little content. Each is
// called with 0 to 9999.
func wastefulNames() map[string]func(f *FS, i int) error {
	return map[string]func(f *FS, i int) error{
		"LongNames":     func(f *FS, i int) error { return f.WriteFile("/"+longName(i), nil, 0o644) },
		"NamesBackward": func(f *FS, i int) error { return f.WriteFile("/"+longName(100_000-i), nil, 0o644) },
		"TinyFiles":     func(f *FS, i int) error { return f.WriteFile(fmt.Sprint("/", i), []byte("x"), 0o644) },
		"HardLinks": func(f *FS, i int) error {
			if i == 0 {
				return f.WriteFile("/f", nil, 0o644)
			}
			return f.Link("/f", "/"+longName(i))
		},
		"Directories": func(f *FS, i int) error { return f.Mkdir("/"+longName(i), 0o755) },
		"Deep": func(f *FS, i int) error {
			if i%1000 == 0 {
				return f.MkdirAll(fmt.Sprintf("/%d%s", i, strings.Repeat("/d", 999)), 0o755)
			}
			return nil
		},
	}
}

// wastefulContent are ways to fill a file system with odd content.
func wastefulContent(t *testing.T) map[string]func(f *FS, i int) error {
	writeAt := func(f *FS, off int64) error {
		w, err := f.OpenFile("/f", os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer w.Close()
		_, err = w.WriteAt([]byte("x"), off)
		return err
	}
	return map[string]func(f *FS, i int) error{
		"LongLinks": func(f *FS, i int) error { return f.Symlink(strings.Repeat("x", 4000), fmt.Sprint("/", i)) },
		"GrownFiles": func(f *FS, i int) error {
			w, err := openAppend(f, fmt.Sprint("/", i))
			if err != nil {
				return err
			}
			defer w.Close()
			for range 9 {
				if _, err := w.Write(make([]byte, 15)); err != nil {
					return err
				}
			}
			return nil
		},
		"OneByteABlock":    func(f *FS, i int) error { return writeAt(f, int64(i)*blockSize) },
		"LastByteOfABlock": func(f *FS, i int) error { return writeAt(f, int64(i+1)*blockSize-1) },
		"GrownAndCut": func(f *FS, i int) error {
			p := fmt.Sprint("/", i)
			if err := f.WriteFile(p, make([]byte, 60_000), 0o644); err != nil {
				return err
			}
			return f.Truncate(p, 1)
		},
		"MadeAndGone": func(f *FS, i int) error {
			if err := f.Mkdir("/"+longName(i), 0o755); err != nil {
				return err
			}
			if i%50 == 0 {
				return nil
			}
			return f.Rmdir("/" + longName(i))
		},
		"BigRecords": func(f *FS, i int) error {
			if i >= 50 {
				return nil
			}
			return f.ImportTar("/", archive(t, tar.Header{
				Typeflag: tar.TypeSymlink, Name: fmt.Sprint(i, strings.Repeat("é", 60)), Linkname: strings.Repeat("é", 60),
				PAXRecords: map[string]string{"ATOLL.x": strings.Repeat("x", 900_000)},
			}))
		},
	}
}

// TestQuotaBoundsMemory fills file systems in the most wasteful ways. The
// heap may not pass twice the bytes charged and a kilobyte a name.
func TestQuotaBoundsMemory(t *testing.T) {
	ways := wastefulNames()
	maps.Copy(ways, wastefulContent(t))
	for name, fill := range ways {
		t.Run(name, func(t *testing.T) {
			before := heapBytes()
			f := New(Options{})
			var err error
			for i := 0; i < 10_000 && err == nil; i++ {
				err = fill(f, i)
			}
			if err != nil && !errors.Is(err, atoll.ErrQuota) {
				t.Fatal(err)
			}
			u := f.Usage()
			got := int64(heapBytes()) - int64(before)
			if most := 2*u.Bytes + 1024*int64(u.Nodes) + 100_000; got > most {
				t.Errorf("%d bytes of heap for %d bytes and %d nodes charged, at most %d are fair", got, u.Bytes, u.Nodes, most)
			}
			runtime.KeepAlive(f)
		})
	}
}

// TestQuotaIsNeverExceeded does random things within narrow limits.
func TestQuotaIsNeverExceeded(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		f := New(Options{Quota: Quota{Bytes: 3 * blockSize, File: 2 * blockSize, Nodes: 6, Name: 255}})
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) { changeRandomly(t, f) },
			"import": func(t *rapid.T) {
				var b bytes.Buffer
				must(t, f.ExportTar("/", &b))
				f.ImportTar("/a", &b)
			},
			"": func(t *rapid.T) {
				must(t, f.verify())
				u := f.Usage()
				if u.Bytes > u.Quota.Bytes || u.Nodes > u.Quota.Nodes || u.Bytes < 0 || u.Nodes < 0 {
					t.Fatalf("usage %+v", u)
				}
				for p := range dump(t, f) {
					if i, err := f.Stat(p); err == nil && i.Size() > u.Quota.File {
						t.Fatalf("%s has %d bytes", p, i.Size())
					}
				}
			},
		})
	})
}
