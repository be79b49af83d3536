package ext4

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// withMounted mounts a file system, read-only, in a mount namespace of the test's
// thread, and hands its directory to look. "loop" of a kernel is what it needs,
// and root.
func withMounted(t *testing.T, file string, flags uintptr, look func(dir string)) {
	t.Helper()
	testenv.Real(t, "root")
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root mounts")
	}
	dir := t.TempDir()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		done <- inMount(file, dir, flags, look)
	}()
	if err := <-done; errors.Is(err, errNoLoop) {
		testenv.Skip(t, "loop", "%v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

var errNoLoop = errors.New("no loop devices")

func inMount(file, dir string, flags uintptr, look func(dir string)) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("%w: unshare: %w", errNoLoop, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	dev, err := attachLoop(file)
	if err != nil {
		return err
	}
	defer dev.Close()
	if err := unix.Mount(dev.Name(), dir, "ext4", flags, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	look(dir)
	return unix.Unmount(dir, 0)
}

// attachLoop gives a file a loop device until nothing has it open.
func attachLoop(file string) (*os.File, error) {
	ctl, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoLoop, err)
	}
	defer ctl.Close()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoLoop, err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoLoop, err)
		}
		c := unix.LoopConfig{Fd: uint32(f.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(dev.Fd()), &c); err == nil {
			return dev, nil
		}
		_ = dev.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("%w: %w", errNoLoop, err)
		}
	}
}

// describeTree describes each file of a directory by all that can be seen of it.
func describeTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	first := make(map[uint64]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, dir)
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		s := fmt.Sprintf("%o %d:%d %v", st.Mode, st.Uid, st.Gid, info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			h := sha256.New()
			n, err := io.Copy(h, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			s += fmt.Sprintf(" %d %x links %d", n, h.Sum(nil), st.Nlink)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			s += " -> " + to
		case info.Mode()&fs.ModeDevice != 0:
			s += fmt.Sprintf(" dev %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
		case info.IsDir():
			s += fmt.Sprintf(" links %d", st.Nlink)
		}
		if !info.IsDir() && st.Nlink > 1 {
			if first[st.Ino] == "" {
				first[st.Ino] = name
			}
			s += " same as " + first[st.Ino]
		}
		names := make([]byte, 4096)
		if n, err := unix.Llistxattr(path, names); err == nil {
			list := strings.Split(string(names[:n]), "\x00")
			slices.Sort(list)
			for _, x := range list {
				v := make([]byte, 8192)
				if n, err := unix.Lgetxattr(path, x, v); x != "" && err == nil {
					s += fmt.Sprintf(" %s=%q", x, v[:n])
				}
			}
		}
		m[name] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// compareTrees reports where two directories differ.
func compareTrees(t *testing.T, got, want map[string]string) {
	t.Helper()
	n := 0
	for name, w := range want {
		if got[name] != w {
			if n++; n < 20 {
				t.Errorf("%s:\n got %s\nwant %s", name, got[name], w)
			}
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is not to be there", name)
		}
	}
}

// createTree makes a tree of whatever there is.
func createTree(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewSource(1))
	write := func(name string, size int, mode os.FileMode) string {
		b := make([]byte, size)
		r.Read(b)
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, b, 0o600))
		must(os.Chmod(path, mode))
		return path
	}
	must(os.MkdirAll(filepath.Join(dir, "a/deep/er"), 0o755))
	must(os.Mkdir(filepath.Join(dir, "many"), 0o711))
	for i := range 3000 {
		write(fmt.Sprintf("many/file-with-a-name-%d", i), i%7*1000, 0o644)
	}
	write("setuid", 100, 0o755|os.ModeSetuid|os.ModeSetgid)
	write("empty", 0, 0o000)
	write("block", 4096, 0o444)
	write("large", 150<<20, 0o640)
	owned := write("owned", 5000, 0o600)
	must(os.Chown(owned, 70_000, 4_000_000_000))
	must(os.Chtimes(owned, time.Time{}, time.Unix(4_000_000_000, 123_456_789)))
	old := write("old", 1, 0o600)
	must(os.Chtimes(old, time.Time{}, time.Unix(-1_000_000_000, 5)))
	must(os.Link(owned, filepath.Join(dir, "a/deep/hard")))
	must(os.Symlink("../owned", filepath.Join(dir, "a/short")))
	must(os.Symlink(strings.Repeat("x/", 29)+"x", filepath.Join(dir, "fast59")))
	must(os.Symlink(strings.Repeat("x/", 30), filepath.Join(dir, "slow60")))
	must(os.Symlink(strings.Repeat("long/", 300), filepath.Join(dir, "slow")))
	must(os.Lchown(filepath.Join(dir, "slow"), 12, 13))
	must(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o622))
	must(unix.Mknod(filepath.Join(dir, "char"), unix.S_IFCHR|0o600, int(unix.Mkdev(5, 1))))
	must(unix.Mknod(filepath.Join(dir, "wide"), unix.S_IFBLK|0o640, int(unix.Mkdev(300, 70_000))))
	must(os.Chmod(filepath.Join(dir, "a"), 0o755|os.ModeSticky|os.ModeSetgid))
	must(unix.Setxattr(owned, "user.small", []byte("value"), 0))
	must(unix.Setxattr(owned, "user.none", nil, 0))
	must(unix.Setxattr(old, "user.big", bytes.Repeat([]byte("v"), 1000), 0))
	must(unix.Setxattr(old, "trusted.a", []byte("1"), 0))
	must(unix.Setxattr(old, "user.abc", []byte("12345"), 0))
	must(unix.Setxattr(filepath.Join(dir, "setuid"), "security.capability", []byte("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0))
	must(unix.Setxattr(filepath.Join(dir, "many"), "user.dir", []byte("d"), 0))
	long := strings.Repeat("n", 255)
	write(long, 10, 0o600)
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	must(err)
	for i := range int64(1500) { // more extents than a block of them has
		_, err := sparse.WriteAt([]byte("here"), i*(256<<10)+i%3*5000)
		must(err)
	}
	must(errors.Join(sparse.Truncate(1<<30), sparse.Close()))
	must(os.Chtimes(filepath.Join(dir, "many"), time.Time{}, time.Unix(1_600_000_000, 1)))
}

// TestDirectory copies a tree into a file system and compares it, mounted, file
// by file.
func TestDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root makes files of all kinds")
	}
	tree := t.TempDir()
	createTree(t, tree)
	load := func(w *Writer) error {
		d, err := os.Open(tree)
		if err != nil {
			return err
		}
		defer d.Close()
		return w.AddDir(t.Context(), d, Tree{})
	}
	o := Options{Size: 1 << 30}
	name, u := buildFS(t, o, load)
	t.Logf("%+v", u)
	runFsck(t, name)
	want := describeTree(t, tree)
	withMounted(t, name, unix.MS_RDONLY, func(dir string) { compareTrees(t, describeTree(t, dir), want) })
	again, _ := buildFS(t, o, load)
	if out, err := exec.Command("cmp", name, again).CombinedOutput(); err != nil {
		t.Errorf("the same tree is another file system: %s", out)
	}
}

// TestWorksOn has the kernel change a file system, as a VM does.
func TestWorksOn(t *testing.T) {
	name, _ := buildFS(t, Options{Size: 3 << 30}, func(w *Writer) error {
		return w.AddTar(t.Context(), archive(t, file("a/b", strings.Repeat("x", 140<<20)), dir("c")))
	})
	withMounted(t, name, 0, func(dir string) {
		for i := range 2000 {
			if err := os.WriteFile(filepath.Join(dir, "c", fmt.Sprint(i)), bytes.Repeat([]byte("y"), i*100), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Mkdir(dir+"/d", 0o700), os.RemoveAll(dir+"/a"), os.WriteFile(dir+"/d/big", make([]byte, 300<<20), 0o600)); err != nil {
			t.Error(err)
		}
	})
	runFsck(t, name)
	// It can grow, too, though nothing of ours needs that.
	if err := os.Truncate(name, 5<<30); err != nil {
		t.Fatal(err)
	}
	withMounted(t, name, 0, func(dir string) {
		d, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		blocks := uint64(5 << 30 / BlockSize)
		const resize = 0x40086610 // EXT4_IOC_RESIZE_FS
		if err := ioctl(d, resize, &blocks); errors.Is(err, unix.EPERM) {
			t.Log("growing needs CAP_SYS_RESOURCE, which is missing here")
			return
		} else if err != nil {
			t.Error(err)
		}
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(d.Fd()), &st); err != nil || st.Blocks < 48*(100<<20)/BlockSize {
			t.Errorf("%d blocks, %v", st.Blocks, err)
		}
	})
	runFsck(t, name)
}

// TestFills has the kernel fill a file system that was fitted, to the last byte
// that was promised.
func TestFills(t *testing.T) {
	const free = 50 << 20
	name, _ := buildFS(t, Options{}, func(w *Writer) error {
		return w.AddTar(t.Context(), archive(t, file("a", strings.Repeat("x", 10<<20))))
	})
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	patches, _, err := Shrink(f, free)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patches {
		if _, err := f.WriteAt(p.Data, p.Offset); err != nil {
			t.Fatal(err)
		}
	}
	withMounted(t, name, 0, func(dir string) {
		b, total := make([]byte, 1<<20), 0
		out, err := os.Create(dir + "/full")
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		// Data that is not written yet has more room reserved than it needs, and the
		// kernel counts free blocks roughly: it refuses a write too early, once in a
		// while. The disk is full when three writes in a row fail after a sync.
		for refused := 0; refused < 3; {
			n, err := out.Write(b)
			total += n
			if n > 0 {
				refused = 0
			}
			if errors.Is(err, unix.ENOSPC) {
				refused++
				err = unix.Syncfs(int(out.Fd()))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if total < free || total > free+8<<20 {
			t.Errorf("%d bytes fit in", total)
		}
	})
	runFsck(t, name)
}

// TestLayers lays directories over one another as overlayfs does.
func TestLayers(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root makes whiteouts that others don't need")
	}
	base := t.TempDir()
	lower, upper, merged := base+"/lower", base+"/upper", base+"/merged"
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"lower/keep", "lower/gone", "lower/hidden/below", "lower/mixed", "upper/hidden", "upper/mixed", "upper/file-now-dir", "merged"} {
		must(os.MkdirAll(filepath.Join(base, d), 0o755))
	}
	for _, f := range []string{"lower/keep/a", "lower/gone/b", "lower/hidden/below/c", "lower/mixed/old", "lower/mixed/both", "lower/file-now-dir", "lower/one", "upper/hidden/new", "upper/mixed/both", "upper/mixed/new"} {
		must(os.WriteFile(filepath.Join(base, f), []byte(f), 0o644))
	}
	must(os.Link(lower+"/one", lower+"/two"), unix.Mknod(upper+"/gone", unix.S_IFCHR, 0), unix.Mknod(upper+"/one", unix.S_IFCHR, 0),
		unix.Mknod(upper+"/mixed/old", unix.S_IFCHR, 0), unix.Setxattr(upper+"/hidden", "trusted.overlay.opaque", []byte("y"), 0))
	name, _ := buildFS(t, Options{}, func(w *Writer) error {
		for _, l := range []string{lower, upper} {
			d, err := os.Open(l)
			if err != nil {
				return err
			}
			defer d.Close()
			if err := w.AddDir(t.Context(), d, Tree{Overlay: true}); err != nil {
				return err
			}
		}
		return nil
	})
	runFsck(t, name)
	var want map[string]string
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
			done <- err
			return
		}
		err := unix.Mount("overlay", merged, "overlay", unix.MS_RDONLY, "lowerdir="+upper+":"+lower)
		if err == nil {
			want = describeTree(t, merged)
			err = unix.Unmount(merged, 0)
		}
		done <- err
	}()
	must(<-done)
	withMounted(t, name, unix.MS_RDONLY, func(dir string) {
		got := describeTree(t, dir)
		for _, m := range []map[string]string{got, want} { // how overlayfs counts links is its own
			for k, v := range m {
				i := strings.Index(v, " links ")
				if i > 0 {
					m[k] = v[:i]
				}
			}
		}
		for k, v := range want {
			want[k] = strings.ReplaceAll(v, ` trusted.overlay.opaque="y"`, "")
		}
		compareTrees(t, got, want)
	})
}

// TestHundredThousand has as many files in one directory.
func TestHundredThousand(t *testing.T) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for i := range 100_000 {
		if err := tw.WriteHeader(&tar.Header{Name: fmt.Sprintf("d/a-name-of-some-length-%d", i), Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	name, _ := buildFS(t, Options{}, func(w *Writer) error { return w.AddTar(t.Context(), &b) })
	runFsck(t, name)
	withMounted(t, name, 0, func(dir string) {
		list, err := os.ReadDir(dir + "/d")
		if err != nil || len(list) != 100_000 {
			t.Fatalf("%d files, %v", len(list), err)
		}
		for i := 0; i < 100_000; i += 1111 {
			if err := os.Remove(fmt.Sprintf("%s/d/a-name-of-some-length-%d", dir, i)); err != nil {
				t.Error(err)
			}
		}
		if err := os.WriteFile(dir+"/d/new", []byte("x"), 0o600); err != nil {
			t.Error(err)
		}
	})
	runFsck(t, name)
}

func ioctl(f *os.File, request uintptr, arg *uint64) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(arg))); e != 0 {
		return e
	}
	return nil
}
