package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// reasonOf returns the errno of an error of the host or of the file system under test.
func reasonOf(t interface{ Fatalf(string, ...any) }, err error) Errno {
	if err == nil {
		return 0
	}
	var own Errno
	if errors.As(err, &own) {
		return own
	}
	var n syscall.Errno
	if !errors.As(err, &n) {
		t.Fatalf("error without a number: %v", err)
	}
	for e, s := range map[Errno]syscall.Errno{
		ENOENT: syscall.ENOENT, EEXIST: syscall.EEXIST, ENOTDIR: syscall.ENOTDIR,
		EISDIR: syscall.EISDIR, ENOTEMPTY: syscall.ENOTEMPTY, EPERM: syscall.EPERM,
		EINVAL: syscall.EINVAL, ELOOP: syscall.ELOOP, ENAMETOOLONG: syscall.ENAMETOOLONG,
		EBADF: syscall.EBADF, EBUSY: syscall.EBUSY, ENXIO: syscall.ENXIO, EXDEV: syscall.EXDEV,
	} {
		if s == n {
			return e
		}
	}
	t.Fatalf("unexpected error of the host: %v", err)
	return 0
}

// inChroot runs a test on a thread whose root is an empty directory, so that
// the host walks absolute links and ".." as the file system under test does.
func inChroot(t *testing.T, test func(t *testing.T)) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a temporary directory the root of a thread")
	}
	dir := t.TempDir()
	t.Run("chroot", func(t *testing.T) {
		runtime.LockOSThread() // and never unlocked: the thread ends with the test
		if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
			t.Skipf("needs CAP_SYS_ADMIN: unshare: %v", err)
		}
		if err := syscall.Chroot(dir); err != nil {
			t.Skipf("needs CAP_SYS_CHROOT: chroot: %v", err)
		}
		syscall.Umask(0)
		test(t)
	})
}

// node is what both worlds must agree on for one path.
type node struct {
	Mode   fs.FileMode
	Size   int64
	Nlink  int
	Target string
	Data   string // a digest of the content
	Same   string // the first path with the same inode
}

func hostTree(t *rapid.T) map[string]node {
	out := map[string]node{}
	first := map[uint64]string{}
	err := filepath.WalkDir("/", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		st := i.Sys().(*syscall.Stat_t)
		n := node{Mode: i.Mode(), Nlink: int(st.Nlink)}
		if first[st.Ino] == "" {
			first[st.Ino] = p
		}
		n.Same = first[st.Ino]
		switch {
		case i.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			n.Size, n.Data = i.Size(), digest(data)
		case i.Mode()&fs.ModeSymlink != 0:
			n.Target, err = os.Readlink(p)
			n.Size = i.Size()
		}
		out[p] = n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func virtualTree(t *rapid.T, f *FS) map[string]node {
	out := map[string]node{}
	first := map[uint64]string{}
	var walk func(p string, i Info)
	walk = func(p string, i Info) {
		n := node{Mode: i.Mode(), Nlink: i.Nlink()}
		if first[i.Ino()] == "" {
			first[i.Ino()] = p
		}
		n.Same = first[i.Ino()]
		out[p] = n
		switch {
		case i.Mode().IsRegular():
			data, err := f.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			n.Size, n.Data = i.Size(), digest(data)
		case i.Mode()&fs.ModeSymlink != 0:
			target, err := f.Readlink(p)
			if err != nil {
				t.Fatal(err)
			}
			n.Target, n.Size = target, i.Size()
		case i.IsDir():
			entries, err := f.ReadDir(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				ei, _ := e.Info()
				walk(filepath.Join(p, e.Name()), ei.(Info))
			}
		}
		out[p] = n
	}
	root, err := f.Lstat("/")
	if err != nil {
		t.Fatal(err)
	}
	walk("/", root)
	return out
}

// twin is one file opened in both worlds.
type twin struct {
	v *File
	h *os.File
}

// worlds is a file system and a directory of the host that get the same
// calls.
type worlds struct {
	f    *FS
	open []twin

	mounted bool // the host has a mount too
}

func (w *worlds) agree(t *rapid.T, what string, host, own error) bool {
	t.Helper()
	h, o := reasonOf(t, host), reasonOf(t, own)
	if h != o {
		t.Fatalf("%s: host %v, vfs %v", what, host, own)
	}
	return h == 0
}

func (w *worlds) changeNames(t *rapid.T) {
	p := absolute().Draw(t, "p")
	q := absolute().Draw(t, "q")
	mode := rapid.SampledFrom([]fs.FileMode{0o755, 0o644, 0, 0o777}).Draw(t, "mode")
	switch op := rapid.SampledFrom([]string{
		"mkdir", "mkdir", "unlink", "rmdir", "rename", "rename", "link", "symlink", "chmod", "truncate", "readlink", "stat", "lstat", "resolve",
	}).Draw(t, "op"); op {
	case "mkdir":
		w.agree(t, op, syscall.Mkdir(p, uint32(mode)), w.f.Mkdir(p, mode))
	case "unlink":
		w.agree(t, op, syscall.Unlink(p), w.f.Unlink(p))
	case "rmdir":
		w.agree(t, op, syscall.Rmdir(p), w.f.Rmdir(p))
	case "rename":
		if w.mounted && (strings.Contains(p, "..") || strings.Contains(q, "..")) {
			return // the host has EXDEV before the EBUSY of a last ".." that leads out of a mount
		}
		w.agree(t, op, syscall.Rename(p, q), w.f.Rename(p, q))
	case "link":
		w.agree(t, op, syscall.Link(p, q), w.f.Link(p, q))
	case "symlink":
		target := rapid.OneOf(absolute(), paths()).Draw(t, "target")
		w.agree(t, op, syscall.Symlink(target, q), w.f.Symlink(target, q))
	case "chmod":
		w.agree(t, op, syscall.Chmod(p, uint32(unixMode(mode|fs.ModeSticky))), w.f.Chmod(p, mode|fs.ModeSticky))
	case "truncate":
		size := rapid.SampledFrom(append(sizes, -1)).Draw(t, "size")
		w.agree(t, op, syscall.Truncate(p, size), w.f.Truncate(p, size))
	case "readlink":
		buf := make([]byte, 4096)
		n, herr := syscall.Readlink(p, buf)
		target, err := w.f.Readlink(p)
		if w.agree(t, op, herr, err) && string(buf[:n]) != target {
			t.Fatalf("readlink %q: host %q, vfs %q", p, buf[:n], target)
		}
	case "stat", "lstat":
		w.stat(t, op, p)
	case "resolve":
		w.resolve(t, p)
	}
}

func (w *worlds) stat(t *rapid.T, op, p string) {
	host, own := os.Stat, w.f.Stat
	if op == "lstat" {
		host, own = os.Lstat, w.f.Lstat
	}
	hi, herr := host(p)
	i, err := own(p)
	if w.agree(t, op+" "+p, herr, err) && hi.Mode() != i.Mode() {
		t.Fatalf("%s %q: host %v, vfs %v", op, p, hi.Mode(), i.Mode())
	}
}

// resolve asks the host for the path of an open descriptor.
func (w *worlds) resolve(t *rapid.T, p string) {
	full, err := w.f.Resolve(p)
	hi, herr := os.Stat(p)
	if !w.agree(t, "resolve "+p, herr, err) {
		return
	}
	again, err := os.Lstat(full)
	if err != nil || !os.SameFile(hi, again) {
		t.Fatalf("resolve %q = %q, which is another file: %v", p, full, err)
	}
	if strings.Contains(full+"/", "/../") || strings.Contains(full+"/", "/./") || strings.Contains(full, "//") {
		t.Fatalf("resolve %q = %q is not clean", p, full)
	}
}

func (w *worlds) openFile(t *rapid.T) {
	p := absolute().Draw(t, "p")
	flag := rapid.SampledFrom([]int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR}).Draw(t, "access")
	host := 0
	for _, f := range []struct{ own, host int }{
		{os.O_CREATE, os.O_CREATE},
		{os.O_CREATE, os.O_CREATE},
		{os.O_EXCL, os.O_EXCL},
		{os.O_TRUNC, os.O_TRUNC},
		{os.O_APPEND, os.O_APPEND},
		{O_NOFOLLOW, syscall.O_NOFOLLOW},
		{O_DIRECTORY, syscall.O_DIRECTORY},
	} {
		if rapid.IntRange(0, 3).Draw(t, "flag") == 0 {
			flag |= f.own
			host |= f.host
		}
	}
	host |= flag & (os.O_WRONLY | os.O_RDWR)
	if host&os.O_EXCL != 0 && host&os.O_CREATE == 0 {
		return // undefined
	}
	h, herr := os.OpenFile(p, host, 0o640)
	v, err := w.f.OpenFile(p, flag, 0o640)
	if w.agree(t, fmt.Sprintf("open %q %#x", p, host), herr, err) {
		w.open = append(w.open, twin{v, h})
	}
}

func (w *worlds) useFile(t *rapid.T) {
	if len(w.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.open)-1).Draw(t, "file")
	tw := w.open[i]
	off := rapid.SampledFrom(sizes).Draw(t, "off")
	data := bytes.Repeat([]byte{byte(off) | 1}, int(rapid.SampledFrom(sizes).Draw(t, "n")))
	switch op := rapid.SampledFrom([]string{"write", "writeat", "read", "readat", "truncate", "seek", "readdir", "stat", "close"}).Draw(t, "op"); op {
	case "write":
		_, herr := tw.h.Write(data)
		_, err := tw.v.Write(data)
		w.agree(t, op, herr, err)
	case "writeat":
		if tw.v.flag&os.O_APPEND != 0 {
			return // package os refuses it without asking the host
		}
		_, herr := tw.h.WriteAt(data, off)
		_, err := tw.v.WriteAt(data, off)
		if len(data) > 0 {
			w.agree(t, op, herr, err)
		}
	case "read", "readat":
		w.read(t, tw, op, len(data), off)
	case "truncate":
		w.agree(t, op, tw.h.Truncate(off), tw.v.Truncate(off))
	case "seek":
		if hi, err := tw.h.Stat(); err != nil || hi.IsDir() {
			return // offsets in directories are the host's own
		}
		whence := rapid.IntRange(0, 2).Draw(t, "whence")
		hn, herr := tw.h.Seek(off-5, whence)
		n, err := tw.v.Seek(off-5, whence)
		if w.agree(t, op, herr, err) && hn != n {
			t.Fatalf("seek: host %d, vfs %d", hn, n)
		}
	case "readdir":
		w.readDir(t, tw)
	case "stat":
		hi, herr := tw.h.Stat()
		i, err := tw.v.Stat()
		if w.agree(t, op, herr, err) && (hi.Mode() != i.Mode() || int(hi.Sys().(*syscall.Stat_t).Nlink) != i.Nlink()) {
			t.Fatalf("stat: host %v %d, vfs %v %d", hi.Mode(), hi.Sys().(*syscall.Stat_t).Nlink, i.Mode(), i.Nlink())
		}
	case "close":
		w.agree(t, op, tw.h.Close(), tw.v.Close())
		w.open = slices.Delete(w.open, i, i+1)
	}
}

func (w *worlds) read(t *rapid.T, tw twin, op string, n int, off int64) {
	a, b := make([]byte, n), make([]byte, n)
	var hn, vn int
	var herr, err error
	if op == "read" {
		hn, herr = tw.h.Read(a)
		vn, err = tw.v.Read(b)
	} else {
		hn, herr = tw.h.ReadAt(a, off)
		vn, err = tw.v.ReadAt(b, off)
	}
	if herr != nil && err != nil && herr.Error() == "EOF" && err.Error() == "EOF" {
		herr, err = nil, nil
	}
	if n == 0 {
		return // package os asks the host only sometimes
	}
	if reasonOf(t, err) == EISDIR && herr != nil {
		return // the host has EINVAL for some offsets in directories
	}
	if w.agree(t, op, herr, err) && !bytes.Equal(a[:hn], b[:vn]) {
		t.Fatalf("%s: host read %d, vfs %d bytes, or others", op, hn, vn)
	}
}

func (w *worlds) readDir(t *rapid.T, tw twin) {
	if _, err := tw.h.Seek(0, 0); err != nil {
		return
	}
	if _, err := tw.v.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	hn, herr := tw.h.Readdirnames(-1)
	entries, err := tw.v.ReadDir(-1)
	if errors.Is(herr, fs.ErrNotExist) {
		herr = nil // the host returns ENOENT for a removed directory
	}
	if !w.agree(t, "readdir", herr, err) {
		return
	}
	slices.Sort(hn)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(hn, names) {
		t.Fatalf("readdir: host %q, vfs %q", hn, names)
	}
}

func emptyHost(t *rapid.T) {
	entries, err := os.ReadDir("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll("/" + e.Name()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod("/", 0o755); err != nil {
		t.Fatal(err)
	}
}

// reload saves the file system and continues with the loaded one, whose blocks are read when
// they are needed.
func (w *worlds) reload(t *rapid.T) {
	for _, tw := range w.open {
		w.agree(t, "close", tw.h.Close(), tw.v.Close())
	}
	w.open = nil
	s := new(Memory)
	id, err := w.f.Save(s)
	must(t, err)
	w.f, err = Load(s, id, Options{})
	must(t, err)
}

func (w *worlds) compare(t *rapid.T) {
	if d := cmp.Diff(hostTree(t), virtualTree(t, w.f)); d != "" {
		t.Fatalf("trees differ (-host +vfs):\n%s", d)
	}
	must(t, w.f.verify())
}

// TestBehavesAsHost makes the same calls here and on the host. Every
// error and both trees must be equal all the time, also through snapshots,
// saving and loading.
func TestBehavesAsHost(t *testing.T) {
	inChroot(t, func(t *testing.T) {
		rapidtest.Check(t, func(t *rapid.T) {
			emptyHost(t)
			w := &worlds{f: New(Options{})}
			defer func() {
				for _, tw := range w.open {
					tw.h.Close()
				}
			}()
			t.Repeat(map[string]func(*rapid.T){
				"names": w.changeNames, "names2": w.changeNames, "names3": w.changeNames,
				"open": w.openFile, "file": w.useFile, "file2": w.useFile, "file3": w.useFile,
				"snapshot": func(t *rapid.T) { w.f.Snapshot() },
				"reload":   w.reload,
				"":         w.checkQuickly,
			})
			w.compare(t)
		})
	})
}

// checkQuickly compares everything after some of the calls only: reading every file each time
// would load what should stay lazy.
func (w *worlds) checkQuickly(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "compare") == 0 {
		w.compare(t)
		return
	}
	must(t, w.f.verify())
}
