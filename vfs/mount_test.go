package vfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// newMounted returns a tree with a directory of the host at /m.
func newMounted(t *testing.T, m Mount) (*FS, string) {
	t.Helper()
	if !HostMounts() {
		t.Skip("needs a host whose directories can be mounted")
	}
	dir := t.TempDir()
	h, err := OpenHost(dir)
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	f := New(Options{})
	m.Target, m.Host = "/m", h
	must(t, f.Mount(m))
	return f, dir
}

func wantReason(t *testing.T, what string, err error, want Errno) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// TestMountTruncatesFileOpenedForReading empties a file of the host through a
// handle that cannot write, as open(2) does.
func TestMountTruncatesFileOpenedForReading(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	must(t, os.WriteFile(dir+"/file", []byte("content"), 0o644))
	file, err := f.OpenFile("/m/file", os.O_RDONLY|os.O_TRUNC, 0)
	must(t, err)
	defer file.Close()
	_, err = file.Write([]byte("x"))
	wantReason(t, "Write", err, EBADF)
	wantReason(t, "Truncate", file.Truncate(1), EINVAL)
	b, err := os.ReadFile(dir + "/file")
	if must(t, err); len(b) > 0 {
		t.Errorf("the file holds %q", b)
	}
}

func TestMountShowsHostDirectory(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	must(t, os.WriteFile(filepath.Join(dir, "host"), []byte("of the host"), 0o644))
	b, err := f.ReadFile("/m/host")
	must(t, err)
	if string(b) != "of the host" {
		t.Errorf("inside: %q", b)
	}
	must(t, f.WriteFile("/m/inside", []byte("of the sandbox"), 0o640))
	b, err = os.ReadFile(filepath.Join(dir, "inside"))
	must(t, err)
	info, err := os.Stat(filepath.Join(dir, "inside"))
	must(t, err)
	if string(b) != "of the sandbox" || info.Mode() != 0o640 {
		t.Errorf("on the host: %q, %v", b, info.Mode())
	}
	if u := f.Usage(); u.Bytes != 0 || u.Nodes != 1 {
		t.Errorf("a mount is charged: %+v", u)
	}
	full, err := f.Resolve("/m/../m/./host")
	must(t, err)
	if full != "/m/host" {
		t.Errorf("Resolve: %q", full)
	}
}

func TestMountPointStays(t *testing.T) {
	if !HostMounts() {
		t.Skip("needs a host whose directories can be mounted")
	}
	h, err := OpenHost(t.TempDir())
	must(t, err)
	defer h.Close()
	f := New(Options{})
	before := f.Snapshot()
	must(t, f.Mount(Mount{Target: "/a/b/m", Host: h}))
	must(t, f.WriteFile("/a/b/m/f", []byte("1"), 0o644))
	wantReason(t, "Rename of what is above", f.Rename("/a", "/x"), EBUSY)
	wantReason(t, "Rename of the mount", f.Rename("/a/b/m", "/x"), EBUSY)
	wantReason(t, "Rename over the mount", f.Rename("/a/b/m/f", "/a/b/m"), EXDEV)
	wantReason(t, "Rmdir", f.Rmdir("/a/b/m"), EBUSY)
	wantReason(t, "RemoveAll of the mount", f.RemoveAll("/a/b/m"), EBUSY)
	wantReason(t, "RemoveAll of what is above", f.RemoveAll("/a"), EBUSY)
	wantReason(t, "Unlink", f.Unlink("/a/b/m"), EISDIR)
	wantReason(t, "Mkdir", f.Mkdir("/a/b/m", 0o755), EEXIST)
	wantReason(t, "a mount in a mount", f.Mount(Mount{Target: "/a/b/m/n", Host: h}), EBUSY)
	wantReason(t, "a mount on a mount", f.Mount(Mount{Target: "/a/b/m", Host: h}), EBUSY)
	f.Restore(before)
	if b, err := f.ReadFile("/a/b/m/f"); err != nil || string(b) != "1" {
		t.Errorf("after Restore: %q, %v", b, err)
	}
	if _, err := f.Fork().Stat("/a/b/m/f"); !errors.Is(err, ENOENT) {
		t.Errorf("a fork sees the mount: %v", err)
	}
}

// TestMountRenameNamesFirstFault has faults in both names of a rename; as in a
// Unix kernel the first one is reported, also where only the second name is in a
// mount.
func TestMountRenameNamesFirstFault(t *testing.T) {
	f, _ := newMounted(t, Mount{})
	must(t, f.Symlink("/absent", "/m/dangling"))
	long := "/m/" + strings.Repeat("n", 300) + "/x"
	wantReason(t, "below a dangling link", f.Rename("/m/dangling/x", long), ENOENT)
	wantReason(t, "a missing name", f.Rename("/m/absent", long), ENAMETOOLONG)
}

func TestReadOnlyMountRefusesEveryChange(t *testing.T) {
	f, dir := newMounted(t, Mount{ReadOnly: true})
	must(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("1"), 0o644))
	must(t, os.Symlink("f", filepath.Join(dir, "l")))
	must(t, f.WriteFile("/own", []byte("2"), 0o644))
	open := func(flag int) error {
		_, err := f.OpenFile("/m/f", flag, 0)
		return err
	}
	for what, err := range map[string]error{
		"create": f.WriteFile("/m/new", nil, 0o644), "write": f.WriteFile("/m/f", []byte("x"), 0o644), "open": open(os.O_WRONLY),
		"open rw": open(os.O_RDWR), "truncating open": open(os.O_TRUNC), "append": open(os.O_WRONLY | os.O_APPEND),
		"truncate": f.Truncate("/m/f", 0), "mkdir": f.Mkdir("/m/n", 0o755), "symlink": f.Symlink("x", "/m/n"), "unlink": f.Unlink("/m/f"),
		"rmdir": f.Rmdir("/m/d"), "remove": f.Remove("/m/f"), "remove all": f.RemoveAll("/m/d"), "rename": f.Rename("/m/f", "/m/g"),
		"link": f.Link("/m/f", "/m/g"), "chmod": f.Chmod("/m/f", 0o600), "chown": f.Chown("/m/f", 0, 0), "lchown": f.Lchown("/m/l", 0, 0),
		"times": f.Chtimes("/m/f", time.Now(), time.Now()), "link times": f.Lchtimes("/m/l", time.Now(), time.Now()),
		"mknod": f.Mknod("/m/n", 0o644, 0), "import": f.ImportTar("/m", tarOf(t, "x")), "import above": f.ImportTar("/", tarOf(t, "m/x")),
		"chmod of the top": f.Chmod("/m", 0o700),
	} {
		wantReason(t, what, err, EROFS)
	}
	names, err := os.ReadDir(dir)
	must(t, err)
	if len(names) != 3 {
		t.Errorf("the directory has %d names", len(names))
	}
}

func tarOf(t *testing.T, names ...string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o644, Size: 3}
		if name, target, ok := strings.Cut(name, "->"); ok {
			h = &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
		}
		must(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := io.WriteString(w, "new")
			must(t, err)
		}
	}
	must(t, w.Close())
	return &b
}

// TestMountNeverLeadsToTheHost plants every kind of link in a mount: all of
// them lead to places of the tree, none to the file of the host with that
// path.
func TestMountNeverLeadsToTheHost(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	outside := t.TempDir()
	canary := filepath.Join(outside, "canary")
	must(t, os.WriteFile(canary, []byte("secret"), 0o644))
	up, err := filepath.Rel(dir, outside)
	must(t, err)
	for name, target := range map[string]string{
		"abs": canary, "absdir": outside, "rel": filepath.Join(up, "canary"), "reldir": up, "proc": "/proc/self/root" + canary,
		"chain": "absdir/canary", "deep": "d/../" + up + "/canary", "cwd": "/proc/self/cwd", "root": "/",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	for _, p := range []string{
		"/m/abs", "/m/absdir/canary", "/m/rel", "/m/reldir/canary", "/m/proc", "/m/chain", "/m/deep", "/m/root" + canary, "/m/" + up + "/canary",
		"/m/d/../../" + canary,
	} {
		if b, err := f.ReadFile(p); err == nil {
			t.Errorf("ReadFile %s: %q", p, b)
		}
		if _, err := f.Stat(p); err == nil {
			t.Errorf("Stat %s succeeds", p)
		}
		if w, err := f.OpenFile(p, os.O_WRONLY, 0); err == nil {
			w.Close()
			t.Errorf("OpenFile %s for writing succeeds", p)
		}
		_ = f.WriteFile(p, []byte("evil"), 0o644) // may make a file of the tree
		_ = f.Truncate(p, 1)
		_ = f.Chmod(p, 0o777)
		_ = f.RemoveAll(p)
		_ = f.Link(p, "/m/hard")
		_ = f.Rename("/m/d", p)
		_ = f.ImportTar(filepath.Dir(p), tarOf(t, "canary"))
		var b bytes.Buffer
		_ = f.ExportTar(p, &b)
		if bytes.Contains(b.Bytes(), []byte("secret")) {
			t.Errorf("ExportTar %s gives the secret", p)
		}
	}
	for _, p := range []string{"/m/absdir", "/m/reldir", "/m/cwd"} {
		list, _ := f.ReadDir(p) // those of the tree, if anything
		for _, d := range list {
			if info, err := d.Info(); err == nil && info.Size() == 6 {
				t.Errorf("ReadDir %s lists %s", p, d.Name())
			}
		}
	}
	b, err := os.ReadFile(canary)
	must(t, err)
	info, err := os.Stat(canary)
	must(t, err)
	if string(b) != "secret" || info.Mode() != 0o644 {
		t.Errorf("the canary is now %q, %v", b, info.Mode())
	}
	list, err := os.ReadDir(outside)
	must(t, err)
	if len(list) != 1 {
		t.Errorf("outside there are %d files", len(list))
	}
}

// TestMountRace swaps a directory for a link to the outside as fast as it can
// while calls walk through it.
func TestMountRace(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o644))
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "d", "f"), []byte("inside"), 0o644))
	must(t, os.Symlink(outside, filepath.Join(dir, "l")))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, m := range [][2]string{{"d", "e"}, {"l", "d"}, {"d", "l"}, {"e", "d"}} {
				_ = os.Rename(filepath.Join(dir, m[0]), filepath.Join(dir, m[1]))
			}
		}
	})
	for i := range 1000 {
		if b, err := f.ReadFile("/m/d/f"); err == nil && string(b) != "inside" && string(b) != "written" {
			t.Fatalf("read %q", b)
		}
		_ = f.WriteFile("/m/d/f", []byte("written"), 0o644)
		_ = f.WriteFile(fmt.Sprintf("/m/d/%d", i), nil, 0o644)
		_ = f.Mkdir("/m/d/dir", 0o755)
		_ = f.Symlink("x", "/m/d/sym")
		_ = f.Chmod("/m/d/f", 0o600)
		_ = f.Unlink("/m/d/f")
		_ = f.RemoveAll("/m/d/dir")
	}
	close(stop)
	wg.Wait()
	list, err := os.ReadDir(outside)
	must(t, err)
	b, err := os.ReadFile(filepath.Join(outside, "f"))
	if err != nil || len(list) != 1 || string(b) != "secret" {
		t.Errorf("outside there are %v, the file holds %q, %v", list, b, err)
	}
}

func TestMountLimit(t *testing.T) {
	f, dir := newMounted(t, Mount{Limit: 1000})
	must(t, os.WriteFile(filepath.Join(dir, "others"), make([]byte, 400), 0o644))
	must(t, f.WriteFile("/m/a", make([]byte, 600), 0o644))
	err := f.WriteFile("/m/b", []byte("x"), 0o644)
	if !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := f.Stat("/m/b"); !errors.Is(err, ENOENT) {
		t.Errorf("what did not fit left a name: %v", err)
	}
	wantReason(t, "Truncate", f.Truncate("/m/a", 601), EDQUOT)
	must(t, f.Truncate("/m/a", 500))
	must(t, f.WriteFile("/m/b", make([]byte, 100), 0o644))
	must(t, f.Unlink("/m/a"))
	must(t, f.WriteFile("/m/b", make([]byte, 300), 0o644)) // beside the old one, for a moment
	must(t, f.Rename("/m/b", "/m/others"))
	must(t, f.WriteFile("/m/c", make([]byte, 700), 0o644))

	// What is unlinked stays charged while it is open.
	w, err := f.OpenFile("/m/c", os.O_RDWR, 0)
	must(t, err)
	must(t, f.Unlink("/m/c"))
	wantReason(t, "beside what is open without a name", f.WriteFile("/m/d", make([]byte, 700), 0o644), EDQUOT)
	must(t, w.Close())
	must(t, f.WriteFile("/m/d", make([]byte, 700), 0o644))

	wantReason(t, "an archive", f.ImportTar("/m/in", tarOf(t, "x")), EDQUOT)
	if n, err := os.ReadDir(filepath.Join(dir, "in")); err != nil || len(n) != 0 {
		t.Errorf("what did not fit left %v, %v", n, err)
	}
}

// TestMountWalkIsBounded plants links whose targets go down and up as often as
// fits, each to the next: following them fails soon.
func TestMountWalkIsBounded(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	deep := strings.Repeat("d/", 250)
	must(t, f.MkdirAll("/m/"+deep, 0o755))
	must(t, f.Symlink("d", "/m/l0"))
	must(t, f.Symlink("d", "/m/k0"))
	for i := range 30 {
		must(t, os.Symlink(strings.Repeat(deep+strings.Repeat("../", 250), 3)+fmt.Sprint("l", i), fmt.Sprintf("%s/l%d", dir, i+1)))
		must(t, os.Symlink(deep+strings.Repeat("../d/", 400)+strings.Repeat("../", 250)+fmt.Sprint("k", i), fmt.Sprintf("%s/k%d", dir, i+1)))
	}
	for _, p := range []string{"/m/l30", "/m/k30"} {
		_, err := f.Stat(p)
		wantReason(t, "Stat "+p, err, ELOOP)
		_, err = f.Resolve(p)
		wantReason(t, "Resolve "+p, err, ELOOP)
	}
	if _, err := f.Stat("/m/" + deep); err != nil {
		t.Errorf("a plain deep path: %v", err)
	}
	full, err := f.Resolve("/m/" + deep + strings.Repeat("../d/", 3))
	if err != nil || full+"/" != "/m/"+deep {
		t.Errorf("a deep path with some dots: %q, %v", full, err)
	}
}

func TestMountLimitIsShared(t *testing.T) {
	f, _ := newMounted(t, Mount{Limit: 1000})
	g := New(Options{})
	m := f.Mounts()[0]
	m.Target = "/elsewhere"
	must(t, g.Mount(m))
	must(t, f.WriteFile("/m/a", make([]byte, 900), 0o644))
	wantReason(t, "the other", g.WriteFile("/elsewhere/b", make([]byte, 200), 0o644), EDQUOT)
	must(t, g.Unlink("/elsewhere/a"))
	must(t, g.WriteFile("/elsewhere/b", make([]byte, 200), 0o644))
}

func TestMountDropsSpecialBits(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	w, err := f.OpenFile("/m/f", os.O_WRONLY|os.O_CREATE, 0o777|fs.ModeSetuid|fs.ModeSetgid)
	must(t, err)
	must(t, w.Close())
	must(t, f.Mkdir("/m/d", 0o777|fs.ModeSetgid|fs.ModeSticky))
	for name, want := range map[string]fs.FileMode{"f": 0o777, "d": fs.ModeDir | fs.ModeSticky | 0o777} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s: %v, want %v", name, info.Mode(), want)
		}
	}
	wantReason(t, "Chmod", f.Chmod("/m/f", 0o755|fs.ModeSetuid), EPERM)
	wantReason(t, "Chown", f.Chown("/m/f", 1234, 0), EPERM)
	must(t, f.Chown("/m/f", 0, 0))
	wantReason(t, "Mknod of a pipe", f.Mknod("/m/p", fs.ModeNamedPipe|0o600, 0), EPERM)
	wantReason(t, "Mknod of a device", f.Mknod("/m/n", fs.ModeDevice|fs.ModeCharDevice|0o600, 0x103), EPERM)
	must(t, f.Mknod("/m/plain", 0o600, 0))
}

func TestMountLimitsOpenFiles(t *testing.T) {
	f, _ := newMounted(t, Mount{})
	must(t, f.WriteFile("/m/f", nil, 0o644))
	var open []*File
	for range maxOpen {
		w, err := f.Open("/m/f")
		must(t, err)
		open = append(open, w)
	}
	_, err := f.Open("/m/f")
	wantReason(t, "one more", err, ENFILE)
	for _, w := range open {
		must(t, w.Close())
	}
	w, err := f.Open("/m/f")
	must(t, err)
	must(t, w.Close())
}

func TestMissingHostDirectoryIsNamed(t *testing.T) {
	if !HostMounts() {
		t.Skip("needs a host whose directories can be mounted")
	}
	dir := filepath.Join(t.TempDir(), "gone")
	_, err := OpenHost(dir)
	if !errors.Is(err, atoll.ErrNotFound) || !strings.Contains(fmt.Sprint(err), dir) {
		t.Errorf("OpenHost: %v", err)
	}
	must(t, os.Mkdir(dir, 0o755))
	h, err := OpenHost(dir)
	must(t, err)
	defer h.Close()
	must(t, os.Remove(dir))
	if err := h.Check(); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Check: %v", err)
	}
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("again"), 0o644))
	must(t, h.Check())
	f := New(Options{})
	must(t, f.Mount(Mount{Target: "/m", Host: h}))
	if b, err := f.ReadFile("/m/f"); err != nil || string(b) != "again" {
		t.Errorf("the directory that took its place: %q, %v", b, err)
	}
}

// TestExportTarOfMount moves a tree by archive into a mount, out of it, and as a
// part of the whole.
func TestExportTarOfMount(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	src := New(Options{})
	must(t, src.MkdirAll("/t/d/e", 0o750))
	must(t, src.WriteFile("/t/d/f", bytes.Repeat([]byte("x"), 100_000), 0o640))
	must(t, src.Link("/t/d/f", "/t/hard"))
	must(t, src.Symlink("d/f", "/t/soft"))
	must(t, src.Symlink("/no/where", "/t/d/dangling"))
	must(t, src.Chtimes("/t/d/f", time.Time{}, time.Unix(1_000_000_000, 0)))
	must(t, src.Chtimes("/t/d/e", time.Time{}, time.Unix(1_100_000_000, 0)))
	list := func(f *FS, top string) map[string]string {
		out := map[string]string{}
		var b bytes.Buffer
		must(t, f.ExportTar(top, &b))
		for tr := tar.NewReader(&b); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				return out
			}
			must(t, err)
			data, err := io.ReadAll(tr)
			must(t, err)
			when := h.ModTime.Unix()
			if h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeDir && when > 1_200_000_000 {
				when = 0
			}
			out[h.Name] = fmt.Sprintf("%c %o %s %d %s", h.Typeflag, h.Mode, h.Linkname, when, digest(data))
		}
	}
	want := list(src, "/t")
	var b bytes.Buffer
	must(t, src.ExportTar("/t", &b))
	must(t, f.ImportTar("/m/in", bytes.NewReader(b.Bytes())))
	if d := cmp.Diff(want, list(f, "/m/in/t")); d != "" {
		t.Errorf("into a mount and out of it (-want +got):\n%s", d)
	}
	all := list(f, "/")
	for name, w := range want {
		if got := all["./m/in/"+name]; strings.ReplaceAll(got, "m/in/", "") != w {
			t.Errorf("the export of all has %s as %q, want %q", name, got, w)
		}
	}
	var whole bytes.Buffer
	must(t, f.ExportTar("/", &whole))
	must(t, f.RemoveAll("/m/in"))
	must(t, f.ImportTar("/", bytes.NewReader(trimDotSlash(t, whole.Bytes()))))
	if d := cmp.Diff(want, list(f, "/m/in/t")); d != "" {
		t.Errorf("through an export of all (-want +got):\n%s", d)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "in", "t", ".atoll-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// trimDotSlash returns an archive without the "./" of its names.
func trimDotSlash(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for tr := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			must(t, w.Close())
			return out.Bytes()
		}
		must(t, err)
		if h.Name == "./" {
			continue
		}
		h.Name, h.Linkname = strings.TrimPrefix(h.Name, "./"), strings.TrimPrefix(h.Linkname, "./")
		must(t, w.WriteHeader(h))
		_, err = io.Copy(w, tr)
		must(t, err)
	}
}

func TestImportIntoAMountStaysInside(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("kept"), 0o644))
	must(t, os.Mkdir(filepath.Join(dir, "in"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "beside"), 0o755))
	must(t, os.Symlink(outside, filepath.Join(dir, "in", "out")))
	must(t, os.Symlink("../beside", filepath.Join(dir, "in", "side")))
	must(t, os.Symlink(outside+"/f", filepath.Join(dir, "in", "file")))
	must(t, f.Symlink("/", "/up"))
	for what, r := range map[string]io.Reader{
		"an absolute link": tarOf(t, "out/f"), "a relative link": tarOf(t, "side/x"), "a link of its own": tarOf(t, "l->"+outside, "l/x"),
		"a link beside": tarOf(t, "m->../beside", "m/x"), "dot-dot": tarOf(t, "../beside/x"),
	} {
		wantReason(t, what, f.ImportTar("/m/in", r), EINVAL)
	}
	must(t, f.ImportTar("/m/in", tarOf(t, "file")))
	if b, err := os.ReadFile(filepath.Join(dir, "in", "file")); err != nil || string(b) != "new" {
		t.Errorf("a file over a link: %q, %v", b, err)
	}
	wantReason(t, "through a link of the tree above the mount", f.ImportTar("/", tarOf(t, "up/m/x")), EINVAL)
	if b, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(b) != "kept" {
		t.Errorf("outside: %q, %v", b, err)
	}
	if list, err := os.ReadDir(filepath.Join(dir, "beside")); err != nil || len(list) != 0 {
		t.Errorf("beside: %v, %v", list, err)
	}
}

// TestMountLimitCountsNames fills a mount with names, which take room on the
// host too.
func TestMountLimitCountsNames(t *testing.T) {
	f, dir := newMounted(t, Mount{Limit: 1})
	var err error
	n := 0
	for ; err == nil && n < 5000; n++ {
		switch n % 3 {
		case 0:
			err = f.Mkdir(fmt.Sprintf("/m/%d", n), 0o755)
		case 1:
			err = f.Symlink("x", fmt.Sprintf("/m/%d", n))
		case 2:
			err = f.Mknod(fmt.Sprintf("/m/%d", n), 0o644, 0)
		}
	}
	if !errors.Is(err, EDQUOT) || n > 1100 {
		t.Errorf("after %d names: %v", n, err)
	}
	list, err := os.ReadDir(dir)
	must(t, err)
	must(t, f.Remove("/m/"+list[0].Name()))
	must(t, f.Mkdir("/m/again", 0o755))
}

// TestMountTooDeepToCountIsFull moves deep trees into deep trees, where no
// path reaches what is in them any more.
func TestMountTooDeepToCountIsFull(t *testing.T) {
	f, _ := newMounted(t, Mount{Limit: 1 << 20})
	deep := strings.Repeat("/d", 200)
	must(t, f.MkdirAll("/m/a"+deep, 0o755))
	must(t, f.MkdirAll("/m/b"+deep, 0o755))
	must(t, f.WriteFile("/m/b"+deep+"/f", make([]byte, 1<<19), 0o644))
	must(t, f.Rename("/m/b", "/m/a"+deep+"/b"))
	for _, m := range f.mounts {
		m.host.use.invalidateCount()
	}
	wantReason(t, "WriteFile", f.WriteFile("/m/c", []byte("x"), 0o644), EDQUOT)
	wantReason(t, "Export", f.ExportTar("/", io.Discard), EFBIG)
	must(t, f.RemoveAll("/m/a"))
	must(t, f.WriteFile("/m/c", make([]byte, 1<<20), 0o644))
	if err := f.MkdirAll("/m/e"+strings.Repeat("/d", 300), 0o755); !errors.Is(err, ENAMETOOLONG) {
		t.Errorf("MkdirAll of 300 directories: %v", err)
	}
}

func TestUnmountClosesWhatIsOpen(t *testing.T) {
	f, _ := newMounted(t, Mount{})
	must(t, f.WriteFile("/m/f", []byte("1"), 0o644))
	w, err := f.OpenFile("/m/f", os.O_RDWR, 0)
	must(t, err)
	d, err := f.Open("/m")
	must(t, err)
	f.Unmount()
	if _, err := w.Write([]byte("2")); err == nil {
		t.Error("Write after Unmount succeeds")
	}
	must(t, w.Close())
	must(t, d.Close())
	if _, err := f.Stat("/m/f"); !errors.Is(err, ENOENT) {
		t.Errorf("Stat after Unmount: %v", err)
	}
	if len(f.Mounts()) != 0 {
		t.Error("it is still mounted")
	}
}

// TestMountUsageStaysExact changes a mount with a limit at random: the usage
// counted on the way equals that of a full walk.
func TestMountUsageStaysExact(t *testing.T) {
	f, dir := newMounted(t, Mount{Limit: 1 << 30})
	h := f.mounts[0].host
	rapidtest.Check(t, func(t *rapid.T) {
		names, top, err := h.list(".")
		must(t, err)
		for _, name := range names {
			must(t, top.RemoveAll(name))
		}
		must(t, top.Close())
		h.use.invalidateCount()
		var open []*File
		defer func() {
			for _, w := range open {
				w.Close()
			}
		}()
		t.Repeat(map[string]func(*rapid.T){
			"scribble": func(t *rapid.T) { changeRandomly(t, moved{f}) },
			"open": func(t *rapid.T) {
				p := "/m" + absolute().Draw(t, "p")
				if w, err := f.OpenFile(p, os.O_RDWR|os.O_CREATE, 0o644); err == nil {
					open = append(open, w)
				}
			},
			"close": func(*rapid.T) {
				if len(open) > 0 {
					must(t, open[0].Close())
					open = open[1:]
				}
			},
			"write": func(t *rapid.T) {
				if len(open) > 0 {
					_, err := open[0].WriteAt(make([]byte, 100), rapid.SampledFrom(sizes).Draw(t, "off"))
					must(t, err)
				}
			},
			"": func(t *rapid.T) {
				h.use.mu.Lock()
				defer h.use.mu.Unlock()
				if !h.use.known {
					return
				}
				bytes, names := h.use.bytes, h.use.names
				h.countFiles()
				if bytes != h.use.bytes || names < h.use.names || names > h.use.names+2 {
					t.Fatalf("%d bytes and %d names were counted, there are %d and %d in %s", bytes, names, h.use.bytes, h.use.names, dir)
				}
			},
		})
	})
}

// moved is a tree whose calls are made beneath /m.
type moved struct{ f *FS }

func (m moved) MkdirAll(p string, perm fs.FileMode) error { return m.f.MkdirAll("/m"+p, perm) }
func (m moved) WriteFile(p string, b []byte, perm fs.FileMode) error {
	return m.f.WriteFile("/m"+p, b, perm)
}
func (m moved) RemoveAll(p string) error                      { return m.f.RemoveAll("/m" + p) }
func (m moved) Rename(p, q string) error                      { return m.f.Rename("/m"+p, "/m"+q) }
func (m moved) Link(p, q string) error                        { return m.f.Link("/m"+p, "/m"+q) }
func (m moved) Symlink(target, p string) error                { return m.f.Symlink(target, "/m"+p) }
func (m moved) Truncate(p string, n int64) error              { return m.f.Truncate("/m"+p, n) }
func (m moved) Chmod(p string, mode fs.FileMode) error        { return m.f.Chmod("/m"+p, mode|0o700) }
func (m moved) Chtimes(p string, a, t time.Time) error        { return m.f.Chtimes("/m"+p, a, t) }
func (m moved) Mknod(p string, d fs.FileMode, r uint32) error { return m.f.Mknod("/m"+p, d, r) }
func (m moved) OpenFile(p string, flag int, perm fs.FileMode) (*File, error) {
	return m.f.OpenFile("/m"+p, flag, perm)
}
