package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestErrnoMatchesHost compares each sentence with the host's.
func TestErrnoMatchesHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, to compare with")
	}
	host := map[Errno]syscall.Errno{
		ENOENT: syscall.ENOENT, EEXIST: syscall.EEXIST, ENOTDIR: syscall.ENOTDIR, EISDIR: syscall.EISDIR,
		ENOTEMPTY: syscall.ENOTEMPTY, EACCES: syscall.EACCES, EPERM: syscall.EPERM, EINVAL: syscall.EINVAL,
		ELOOP: syscall.ELOOP, ENAMETOOLONG: syscall.ENAMETOOLONG, ENOSPC: syscall.ENOSPC, EFBIG: syscall.EFBIG,
		EDQUOT: syscall.EDQUOT, EBADF: syscall.EBADF, EROFS: syscall.EROFS, EXDEV: syscall.EXDEV, EMLINK: syscall.EMLINK,
		ESPIPE: syscall.ESPIPE, EPIPE: syscall.EPIPE, ENXIO: syscall.ENXIO, EIO: syscall.EIO, EBUSY: syscall.EBUSY,
		ENODEV: syscall.ENODEV, EAGAIN: syscall.EAGAIN, EINTR: syscall.EINTR, ECHILD: syscall.ECHILD, ESRCH: syscall.ESRCH,
		ENOEXEC: syscall.ENOEXEC, ENOTTY: syscall.ENOTTY, EMFILE: syscall.EMFILE, ENFILE: syscall.ENFILE,
		ENOMEM: syscall.ENOMEM, E2BIG: syscall.E2BIG, ERANGE: syscall.ERANGE, EDOM: syscall.EDOM, ENOSYS: syscall.ENOSYS,
		ENOTSUP: syscall.ENOTSUP, ETXTBSY: syscall.ETXTBSY,
	}
	for e := ENOENT; e <= ETXTBSY; e++ {
		h, ok := host[e]
		if !ok {
			t.Errorf("reason %d is not compared", e)
			continue
		}
		if want := h.Error(); !strings.EqualFold(e.Error(), want) || e.Error()[0] < 'A' || e.Error()[0] > 'Z' {
			t.Errorf("%q, the host says %q", e.Error(), want)
		}
		for _, target := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission} {
			if errors.Is(e, target) != errors.Is(h, target) && e != EROFS && e != ENOTEMPTY {
				t.Errorf("%v is %v: %v, for the host %v", e, target, errors.Is(e, target), errors.Is(h, target))
			}
		}
	}
}

func TestErrorsMatchPortableErrors(t *testing.T) {
	f := New(Options{})
	must(t, f.Mkdir("/d", 0o755))
	must(t, f.WriteFile("/d/f", nil, 0o644))
	_, missing := f.Stat("/nothing")
	_, notDir := f.Stat("/d/f/x")
	for _, c := range []struct {
		err    error
		target error
		text   string
	}{
		{missing, fs.ErrNotExist, "stat /nothing: No such file or directory"},
		{missing, atoll.ErrNotFound, "stat /nothing: No such file or directory"},
		{f.Mkdir("/d", 0), fs.ErrExist, "mkdir /d: File exists"},
		{f.Mkdir("/d", 0), atoll.ErrExists, "mkdir /d: File exists"},
		{notDir, atoll.ErrInvalid, "stat /d/f/x: Not a directory"},
		{f.Rename("/d", "/d/x"), EINVAL, "rename /d /d/x: Invalid argument"},
		{f.Rmdir("/d"), ENOTEMPTY, "rmdir /d: Directory not empty"},
	} {
		if !errors.Is(c.err, c.target) || c.err.Error() != c.text {
			t.Errorf("%v is not %v with the text %q", c.err, c.target, c.text)
		}
	}
}

// TestTimes checks which times each call sets. The letters are atime, mtime
// and ctime of the file, then of its directory.
func TestTimes(t *testing.T) {
	clock := time.Unix(1000, 0)
	open := func(f *FS, flag int) *File {
		w, err := f.OpenFile("/d/f", flag, 0o644)
		must(t, err)
		return w
	}
	for name, c := range map[string]struct {
		do   func(f *FS) error
		want string
	}{
		"Nothing":        {func(f *FS) error { _, err := f.Stat("/d/f"); return err }, "--- ---"},
		"Read":           {func(f *FS) error { _, err := f.ReadFile("/d/f"); return err }, "a-- ---"},
		"FileRead":       {func(f *FS) error { _, err := open(f, os.O_RDONLY).Read(make([]byte, 1)); return err }, "a-- ---"},
		"Write":          {func(f *FS) error { _, err := open(f, os.O_WRONLY).Write([]byte("x")); return err }, "-mc ---"},
		"WriteNothing":   {func(f *FS) error { _, err := open(f, os.O_WRONLY).Write(nil); return err }, "--- ---"},
		"WriteFile":      {func(f *FS) error { return f.WriteFile("/d/f", nil, 0) }, "-mc ---"},
		"OpenTrunc":      {func(f *FS) error { open(f, os.O_WRONLY|os.O_TRUNC); return nil }, "-mc ---"},
		"Truncate":       {func(f *FS) error { return f.Truncate("/d/f", 1) }, "-mc ---"},
		"Chmod":          {func(f *FS) error { return f.Chmod("/d/f", 0) }, "--c ---"},
		"Chown":          {func(f *FS) error { return f.Chown("/d/f", 1, -1) }, "--c ---"},
		"ChtimesNothing": {func(f *FS) error { return f.Chtimes("/d/f", time.Time{}, time.Time{}) }, "--c ---"},
		"Chtimes":        {func(f *FS) error { return f.Chtimes("/d/f", time.Unix(5, 0), time.Unix(6, 0)) }, "amc ---"},
		"Link":           {func(f *FS) error { return f.Link("/d/f", "/x") }, "--c ---"},
		"LinkBeside":     {func(f *FS) error { return f.Link("/d/f", "/d/x") }, "--c -mc"},
		"RenameBeside":   {func(f *FS) error { must(t, f.Rename("/d/f", "/d/x")); return f.Link("/d/x", "/d/f") }, "--c -mc"},
		"CreateBeside":   {func(f *FS) error { return f.WriteFile("/d/x", nil, 0) }, "--- -mc"},
		"MkdirBeside":    {func(f *FS) error { return f.Mkdir("/d/x", 0) }, "--- -mc"},
		"UnlinkBeside":   {func(f *FS) error { return f.Unlink("/d/g") }, "--- -mc"},
		"Existing":       {func(f *FS) error { open(f, os.O_CREATE|os.O_RDWR); return nil }, "--- ---"},
	} {
		f := New(Options{Now: func() time.Time { clock = clock.Add(time.Second); return clock }})
		must(t, f.Mkdir("/d", 0o755))
		must(t, f.WriteFile("/d/f", []byte("data"), 0o644))
		must(t, f.WriteFile("/d/g", nil, 0o644))
		file, dir := stat(t, f, "/d/f"), stat(t, f, "/d")
		must(t, c.do(f))
		if got := changedTimes(file, stat(t, f, "/d/f")) + " " + changedTimes(dir, stat(t, f, "/d")); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if !stat(t, f, "/d/f").BirthTime().Equal(file.BirthTime()) {
			t.Errorf("%s: the birth has changed", name)
		}
	}
}

func stat(t *testing.T, f *FS, path string) Info {
	t.Helper()
	i, err := f.Stat(path)
	must(t, err)
	return i
}

// changedTimes returns which times differ, by the letters a, m and c.
func changedTimes(x, y Info) string {
	out := []byte("amc")
	for i, same := range []bool{x.Atime().Equal(y.Atime()), x.ModTime().Equal(y.ModTime()), x.Ctime().Equal(y.Ctime())} {
		if same {
			out[i] = '-'
		}
	}
	return string(out)
}

func TestSecondReadLeavesTheAccessTime(t *testing.T) {
	now := time.Unix(1000, 0)
	f := New(Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	must(t, f.WriteFile("/f", []byte("data"), 0o644))
	atime := func() time.Time {
		_, err := f.ReadFile("/f")
		must(t, err)
		i, err := f.Stat("/f")
		must(t, err)
		return i.Atime()
	}
	first := atime()
	if second := atime(); !second.Equal(first) {
		t.Errorf("the second read set the time from %v to %v", first, second)
	}
	must(t, f.WriteFile("/f", []byte("more"), 0o644))
	if third := atime(); !third.After(first) {
		t.Errorf("after a change it is still %v", third)
	}
}

func TestExtremeTimes(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/f", nil, 0o644))
	for _, c := range []struct{ set, want time.Time }{
		{time.Unix(0, 0), time.Unix(0, 0)},
		{time.Unix(-5e9, 7), time.Unix(-5e9, 7)},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 1<<63-1)},
		{time.Date(-9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, -1<<63)},
	} {
		must(t, f.Chtimes("/f", c.set, c.set))
		if i, _ := f.Stat("/f"); !i.ModTime().Equal(c.want) || !i.Atime().Equal(c.want) {
			t.Errorf("set %v, got %v, want %v", c.set, i.ModTime(), c.want)
		}
	}
}

func TestModesAndOwners(t *testing.T) {
	f := New(Options{Uid: 1000, Gid: 100})
	special := fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	must(t, f.WriteFile("/f", nil, special|0o751))
	must(t, f.Mkdir("/shared", 0o770|fs.ModeSticky))
	must(t, f.Chown("/shared", 5, 6))
	must(t, f.Chmod("/shared", 0o770|fs.ModeSetgid))
	must(t, f.Mkdir("/shared/sub", 0o700))
	must(t, f.WriteFile("/shared/f", nil, 0o600))
	must(t, f.Symlink("f", "/link"))
	must(t, f.Lchown("/link", 7, 8))
	must(t, f.Chmod("/link", 0o4))
	must(t, f.Mknod("/null", fs.ModeDevice|fs.ModeCharDevice|0o666, 0x103))
	for p, want := range map[string]string{
		"/":           "drwxr-xr-x 1000:100 0",
		"/f":          "-------r-- 1000:100 0", // through the link; the special bits are cleared too
		"/shared":     "dgrwxrwx--- 5:6 0",
		"/shared/sub": "dgrwx------ 1000:6 0",
		"/shared/f":   "-rw------- 1000:6 0",
		"/link":       "Lrwxrwxrwx 7:8 0",
		"/null":       "Dcrw-rw-rw- 1000:100 259",
	} {
		i, err := f.Lstat(p)
		must(t, err)
		if got := fmt.Sprintf("%v %d:%d %d", i.Mode(), i.Uid(), i.Gid(), i.Rdev()); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
	for _, mode := range []fs.FileMode{fs.ModeDir, fs.ModeSymlink, fs.ModeIrregular, fs.ModeSocket | fs.ModeNamedPipe} {
		if err := f.Mknod("/odd", mode, 0); err == nil {
			t.Errorf("mknod of %v succeeded", mode)
		}
	}
	if _, err := f.Open("/null"); !errors.Is(err, ENXIO) {
		t.Errorf("open of a device: %v", err)
	}
}

func TestUnlinkedFilesLiveUntilClosed(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/a", []byte("old"), 0o644))
	r, err := f.OpenFile("/a", os.O_RDWR, 0)
	must(t, err)
	must(t, f.Unlink("/a"))
	must(t, f.WriteFile("/a", []byte("other"), 0o644))
	f.Snapshot()
	_, err = r.WriteAt([]byte("new"), 0)
	must(t, err)
	if got, err := io.ReadAll(r); err != nil || string(got) != "new" {
		t.Errorf("read %q, %v", got, err)
	}
	i, err := r.Stat()
	must(t, err)
	j, err := f.Stat("/a")
	must(t, err)
	if i.Nlink() != 0 || i.Ino() == j.Ino() {
		t.Errorf("links %d, inodes %d and %d", i.Nlink(), i.Ino(), j.Ino())
	}
	must(t, r.Close())
	if err := r.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, EBADF) {
		t.Errorf("read after Close: %v", err)
	}
	must(t, f.verify())
}

func TestRemovedOpenDirectoriesAreEmpty(t *testing.T) {
	f := New(Options{})
	must(t, f.MkdirAll("/a/b/c", 0o755))
	must(t, f.WriteFile("/a/b/f", nil, 0o644))
	d, err := f.Open("/a/b")
	must(t, err)
	must(t, f.RemoveAll("/a"))
	if entries, err := d.ReadDir(-1); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	must(t, d.Close())
	if u := f.Usage(); u.Nodes != 0 || u.Dirs != 0 || u.Files != 0 {
		t.Errorf("usage %+v", u)
	}
}

func TestReadDirInPartsSeesEachNameOnce(t *testing.T) {
	f := New(Options{})
	const n = 1000
	for i := range n {
		must(t, f.WriteFile(fmt.Sprintf("/f%04d", i*7919%n), nil, 0o644))
	}
	d, err := f.Open("/")
	must(t, err)
	var names []string
	for i := 0; ; i++ {
		entries, err := d.ReadDir(7)
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		must(t, f.Unlink(names[len(names)-1]))            // what was seen may go
		must(t, f.WriteFile(fmt.Sprint("/a", i), nil, 0)) // what comes before is not seen
	}
	if len(names) != n || !slices.IsSorted(names) {
		t.Errorf("%d names, sorted: %v", len(names), slices.IsSorted(names))
	}
	must(t, f.verify())
}

// TestDeepTreesAreHarmless wraps a directory into others until it is far
// deeper than any path. No operation may need a stack or a path as deep.
func TestDeepTreesAreHarmless(t *testing.T) {
	mustFinish(t, "an operation on a deep tree", func() { useDeepTree(t) })
}

func useDeepTree(t *testing.T) {
	t.Helper()
	const wraps, each = 200, 15
	name := "/" + strings.Repeat("d", 255)
	outer := strings.Repeat(name, each)
	f := New(Options{})
	must(t, f.Mkdir("/in", 0o755))
	must(t, f.Mkdir("/old", 0o755))
	for range wraps {
		must(t, f.MkdirAll("/new"+outer, 0o755))
		must(t, f.Rename("/old", "/new"+outer+"/x"))
		must(t, f.Rename("/new", "/old"))
	}
	before := f.Snapshot()
	if err := f.ExportTar("/old", io.Discard); !errors.Is(err, ENAMETOOLONG) {
		t.Errorf("export: %v", err)
	}
	if err := f.Rename("/old", "/old"+outer+"/y"); !errors.Is(err, EINVAL) {
		t.Errorf("rename into itself: %v", err)
	}
	s := new(Memory)
	id, err := f.Save(s)
	must(t, err)
	g, err := Load(s, id, Options{})
	must(t, err)
	must(t, f.RemoveAll("/old"))
	must(t, g.RemoveAll("/old"))
	if n := len(Diff(before, f.Snapshot())); n != 18 {
		t.Errorf("%d changes", n) // the root of the removed tree and what a path can reach
	}
	must(t, f.verify())
	must(t, g.verify())
}

func TestRenameErrors(t *testing.T) {
	f := New(Options{})
	must(t, f.MkdirAll("/a/b/c", 0o755))
	must(t, f.Mkdir("/empty", 0o755))
	must(t, f.WriteFile("/a/f", nil, 0o644))
	for _, c := range []struct {
		old, new string
		want     Errno
	}{
		{"/a", "/a/b/c/d", EINVAL},
		{"/a", "/a/x", EINVAL},
		{"/a/b", "/a", ENOTEMPTY},
		{"/a/f", "/a", ENOTEMPTY},
		{"/empty", "/a", ENOTEMPTY},
		{"/empty", "/a/f", ENOTDIR},
		{"/a/f", "/empty", EISDIR},
		{"/a/f", "/x/", ENOTDIR},
		{"/a/f/", "/x", ENOTDIR},
		{"/", "/x", EBUSY},
		{"/a/.", "/x", EBUSY},
		{"/a", "/empty/..", EBUSY},
		{"/no", "/x", ENOENT},
		{"/no", "/a/.", EBUSY},
		{"/a/f", "/no/x", ENOENT},
	} {
		if err := f.Rename(c.old, c.new); !errors.Is(err, c.want) {
			t.Errorf("rename %s %s: %v, want %v", c.old, c.new, err, c.want)
		}
	}
	must(t, f.Rename("/a", "/empty/")) // onto an empty directory, with a slash
	must(t, f.verify())
}

func TestFortySymlinksAreFollowed(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/l0", nil, 0o644))
	for i := range 41 {
		must(t, f.Symlink(fmt.Sprint("l", i), fmt.Sprint("/l", i+1)))
	}
	if _, err := f.Stat("/l40"); err != nil {
		t.Errorf("40 links: %v", err)
	}
	if _, err := f.Stat("/l41"); !errors.Is(err, ELOOP) {
		t.Errorf("41 links: %v, want ELOOP", err)
	}
}

func TestRemoveAll(t *testing.T) {
	f := newPopulated(t)
	must(t, f.RemoveAll("/missing"))
	must(t, f.RemoveAll("/missing/deep"))
	must(t, f.RemoveAll("/a/dirlink"))
	if _, err := f.Stat("/a/b/big"); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if err := f.RemoveAll("/a/."); !errors.Is(err, EINVAL) {
		t.Errorf("of a dot: %v", err)
	}
	if err := f.RemoveAll("/a/hello/x"); !errors.Is(err, ENOTDIR) {
		t.Errorf("beneath a file: %v", err)
	}
	must(t, f.RemoveAll("/"))
	if u := f.Usage(); u.Nodes != 0 || u.Bytes != 0 {
		t.Errorf("usage %+v", u)
	}
	must(t, f.verify())
}

func TestMkdirAll(t *testing.T) {
	f := New(Options{})
	must(t, f.MkdirAll("/a/b/../c//d/.", 0o700))
	must(t, f.MkdirAll("/a/b/c", 0o755))
	must(t, f.MkdirAll("/", 0o755))
	must(t, f.Symlink("/a", "/l"))
	must(t, f.Symlink("nowhere", "/dangling"))
	must(t, f.MkdirAll("/l/b/x", 0o755))
	for _, p := range []string{"/a/b", "/a/c/d", "/a/b/c", "/a/b/x"} {
		if i, err := f.Stat(p); err != nil || !i.IsDir() {
			t.Errorf("%s: %v", p, err)
		}
	}
	must(t, f.WriteFile("/file", nil, 0o644))
	for p, want := range map[string]Errno{"/file": ENOTDIR, "/file/x": ENOTDIR, "/dangling": EEXIST, "/dangling/x": EEXIST, "": ENOENT} {
		if err := f.MkdirAll(p, 0o755); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", p, err, want)
		}
	}
	if _, err := f.Lstat("/nowhere"); !errors.Is(err, ENOENT) {
		t.Errorf("made through a link: %v", err)
	}
}

// TestConcurrentUse has many goroutines do everything at the same time.
func TestConcurrentUse(t *testing.T) {
	f := New(Options{})
	for i := range 100 {
		must(t, f.WriteFile(fmt.Sprint("/f", i), numberedBytes(i, 1000*i), 0o644))
	}
	store := new(Memory)
	log, err := f.OpenFile("/log", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	must(t, err)
	var wg sync.WaitGroup
	jobs := []func(i int) error{
		func(i int) error { _, err := log.Write([]byte("12345678\n")); return err },
		func(i int) error { _, err := log.ReadAt(make([]byte, 100), 0); return notEOF(err) },
		func(i int) error { return f.WriteFile(fmt.Sprint("/f", i%100), numberedBytes(i, 500*i), 0o644) },
		func(i int) error {
			data, err := f.ReadFile(fmt.Sprint("/f", i%100))
			if err == nil && len(data) > 9 && string(data[:9]) != string(data[len(data)/9*9-9:len(data)/9*9]) {
				err = errors.New("a file was seen half written")
			}
			return err
		},
		func(i int) error { f.Snapshot(); return nil },
		func(i int) error { return f.Fork().WriteFile("/f1", nil, 0o644) },
		func(i int) error { _, err := f.Save(store); return err },
		func(i int) error { return f.ExportTar("/", io.Discard) },
		func(i int) error { return f.ImportTar("/in", archive(t, file(fmt.Sprint("x", i), "data"))) },
		func(i int) error { _, err := f.ReadDir("/"); return err },
		func(i int) error { return f.Chmod("/f3", fs.FileMode(i)&0o777) },
		func(i int) error { return f.MkdirAll(fmt.Sprint("/d/", i, "/x"), 0o755) },
		func(i int) error { return f.RemoveAll(fmt.Sprint("/d/", i-1)) },
		func(i int) error { f.Usage(); _, err := f.Stat("/f2"); return err },
		func(i int) error {
			return fs.WalkDir(f.Snapshot().IO(), ".", func(string, fs.DirEntry, error) error { return nil })
		},
	}
	for _, job := range jobs {
		wg.Go(func() {
			for i := range 40 {
				if err := job(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, f.verify())
	if i, _ := f.Stat("/log"); i.Size() != 40*9 {
		t.Errorf("appended 40 times 9 bytes, got %d", i.Size())
	}
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// TestConcurrentUseLoadedLazily has many goroutines need the same blocks at the same time,
// in a file system and its forks.
func TestConcurrentUseLoadedLazily(t *testing.T) {
	f := New(Options{})
	want := numberedBytes(1, 10*blockSize)
	must(t, f.WriteFile("/f", want, 0o644))
	s := new(Memory)
	id, err := f.Save(s)
	must(t, err)
	g, err := Load(s, id, Options{})
	must(t, err)
	var wg sync.WaitGroup
	for range 8 {
		h := g.Fork()
		wg.Go(func() {
			got, err := h.ReadFile("/f")
			if err != nil || string(got) != string(want) {
				t.Errorf("another content, %v", err)
			}
			if err := h.Truncate("/f", 5); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
