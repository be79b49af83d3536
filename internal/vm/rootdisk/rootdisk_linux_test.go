package rootdisk

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/vm/qcow2"
)

// runProgram runs a program that must succeed, and returns its output.
func runProgram(t testing.TB, word string, args ...string) string {
	t.Helper()
	testenv.Real(t, word)
	path, err := exec.LookPath(args[0])
	if err != nil {
		if path = "/usr/sbin/" + args[0]; exec.Command(path, "-V").Run() != nil {
			testenv.Skip(t, word, "no %s: apt install qemu-utils e2fsprogs", args[0])
		}
	}
	out, err := exec.Command(path, args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkDisk converts a disk to a raw file by QEMU, and checks it with e2fsck.
func checkDisk(t testing.TB, disk string) string {
	t.Helper()
	runProgram(t, "qemu", "qemu-img", "check", "-f", "qcow2", disk)
	to := filepath.Join(t.TempDir(), "raw")
	runProgram(t, "qemu", "qemu-img", "convert", "-f", "qcow2", "-O", "raw", disk, to)
	runProgram(t, "e2fsprogs", "e2fsck", "-fn", to)
	return to
}

// debugfs runs a request of debugfs on a file system.
func debugfs(t testing.TB, fs, request string) string {
	t.Helper()
	return runProgram(t, "e2fsprogs", "debugfs", "-R", request, fs)
}

func archive(t testing.TB, files map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// newImages returns a store with one image.
func newImages(t testing.TB, ref string, files map[string]string) *image.Store {
	t.Helper()
	images := &image.Store{Dir: filepath.Join(t.TempDir(), "images")}
	if _, err := images.ImportImage(t.Context(), ref, archive(t, files), nil); err != nil {
		t.Fatal(err)
	}
	return images
}

func TestUse(t *testing.T) {
	images := newImages(t, "a:1", map[string]string{"etc/name": "one", "big": strings.Repeat("x", 20<<20)})
	s := &Store{Dir: t.TempDir()}
	if _, err := s.AcquireBase(t.Context(), "sb-1", Source{Images: images, Ref: "b:1"}, nil); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("an image that is not there: %v", err)
	}
	var seen []atoll.Progress
	b, err := s.AcquireBase(t.Context(), "sb-1", Source{Images: images, Ref: "a:1"}, func(p atoll.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 3 || seen[len(seen)-1].Message != "done" {
		t.Errorf("progress: %+v", seen)
	}
	if b.Used < 20<<20 || !strings.HasPrefix(b.Digest, "sha256:") {
		t.Errorf("%+v", b)
	}
	info, err := os.Stat(b.Path)
	if err != nil || info.Size() != VirtualSize {
		t.Fatalf("%v, %v", info, err)
	}
	runProgram(t, "e2fsprogs", "e2fsck", "-fn", b.Path)
	if got := debugfs(t, b.Path, "cat /etc/name"); !strings.Contains(got, "one") {
		t.Errorf("%q", got)
	}
	// An existing disk is not made again.
	seen = nil
	other, err := s.AcquireBase(t.Context(), "sb-2", Source{Images: images, Ref: "a:1"}, func(p atoll.Progress) { seen = append(seen, p) })
	if err != nil || other.Path != b.Path || len(seen) > 0 {
		t.Errorf("%+v, %v, %v", other, err, seen)
	}
	if _, err := s.Share(t.Context(), "sb-1", "sb-3"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Release("sb-1"), s.Release("sb-2"), s.Release("sb-2"), s.CollectGarbage(t.Context(), nil)); err != nil {
		t.Error(err)
	}
	if used, err := s.BaseOf("sb-3"); err != nil || used.Path != b.Path || used.Used != b.Used {
		t.Errorf("%+v, %v", used, err)
	}
	if _, err := os.Stat(b.Path); err != nil {
		t.Errorf("one in use is gone: %v", err)
	}
	if users, err := s.Users(); err != nil || fmt.Sprint(users) != "[sb-3]" {
		t.Errorf("%v, %v", users, err)
	}
	if err := errors.Join(s.Release("sb-3"), s.CollectGarbage(t.Context(), images)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.Path); err != nil {
		t.Errorf("that of an image that is there is gone: %v", err)
	}
	if err := s.CollectGarbage(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(s.pathTo(basesDir)); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := s.BaseOf("sb-3"); !errors.Is(err, atoll.ErrNotFound) {
		t.Error(err)
	}
	for _, user := range []string{"", "a/b", "../a", ".a"} {
		if _, err := s.AcquireBase(t.Context(), user, Source{Images: images, Ref: "a:1"}, nil); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("user %q: %v", user, err)
		}
	}
}

func TestManyUseAtOnce(t *testing.T) {
	images := newImages(t, "a:1", map[string]string{"big": strings.Repeat("x", 20<<20)})
	at := t.TempDir()
	var made sync.Map
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := &Store{Dir: at} // as in another process
			_, err := s.AcquireBase(t.Context(), fmt.Sprint("sb-", i), Source{Images: images, Ref: "a:1"}, func(atoll.Progress) { made.Store(i, true) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	made.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d made it", n)
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := &Store{Dir: t.TempDir()}
	one, err := s.AcquireBase(t.Context(), "sb-1", Source{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	same, err := s.AcquireBase(t.Context(), "sb-2", Source{Dir: dir}, nil)
	if err != nil || same.Path != one.Path {
		t.Errorf("the same is another: %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0o640); err != nil {
		t.Fatal(err)
	}
	other, err := s.AcquireBase(t.Context(), "sb-2", Source{Dir: dir}, nil)
	if err != nil || other.Path == one.Path {
		t.Errorf("what has changed is the same: %v", err)
	}
	if got := debugfs(t, other.Path, "stat /link"); !strings.Contains(got, `Fast link dest: "/etc/passwd"`) {
		t.Error(got)
	}
	if _, err := s.AcquireBase(t.Context(), "sb-3", Source{Dir: dir + "/none"}, nil); !errors.Is(err, atoll.ErrNotFound) {
		t.Error(err)
	}
}

// TestHostIsFull makes disks where there is no space.
func TestHostIsFull(t *testing.T) {
	testenv.Real(t, "root")
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root mounts")
	}
	big := make([]byte, 40<<20) // no zeros, which would become holes
	for i := range big {
		big[i] = byte(i%251 + 1)
	}
	images := newImages(t, "a:1", map[string]string{"big": string(big)})
	small := newImages(t, "b:1", map[string]string{"small": "x"})
	dir := t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the mount disappears with the thread
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("small", dir, "tmpfs", 0, "size=8m")); err != nil {
			t.Error(err)
			return
		}
		s := &Store{Dir: dir}
		if _, err := s.AcquireBase(t.Context(), "sb-1", Source{Images: images, Ref: "a:1"}, nil); !errors.Is(err, atoll.ErrQuota) || !strings.Contains(err.Error(), "the host's disk is full") {
			t.Errorf("an image that is too large: %v", err)
		}
		if left, err := filepath.Glob(dir + "/*/*"); err != nil || len(left) != 2 { // locks
			t.Errorf("left: %v, %v", left, err)
		}
		b, err := s.AcquireBase(t.Context(), "sb-1", Source{Images: small, Ref: "b:1"}, nil)
		if err != nil {
			t.Errorf("one that fits: %v", err)
			return
		}
		for i := range 1000 {
			file := filepath.Join(dir, fmt.Sprint(i))
			if err = s.CreateRootDisk(file, b, 1<<30); err == nil {
				err = s.CreateWorkspaceDisk(file+".work", 0, 1, 1)
			}
			if err != nil {
				break
			}
		}
		if !errors.Is(err, atoll.ErrQuota) {
			t.Errorf("no room for another disk: %v", err)
		}
	}()
	<-done
}

// TestKilledMaker continues where a process was killed that made a base disk.
func TestKilledMaker(t *testing.T) {
	images := newImages(t, "a:1", map[string]string{"etc/name": "one"})
	s := &Store{Dir: t.TempDir()}
	root, err := images.Resolve(t.Context(), "a:1")
	if err != nil {
		t.Fatal(err)
	}
	half := s.pathTo(basesDir, freshName+baseKey(root.Layers))
	if err := errors.Join(os.MkdirAll(s.pathTo(basesDir), 0o700), os.WriteFile(half, bytes.Repeat([]byte("garbage"), 1<<20), 0o600), os.WriteFile(half+"x", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	b, err := s.AcquireBase(t.Context(), "sb-1", Source{Images: images, Ref: "a:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	runProgram(t, "e2fsprogs", "e2fsck", "-fn", b.Path)
	if err := s.CollectGarbage(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.pathTo(basesDir)); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestKilledUser sweeps unfinished files of uses, but not while other processes are active.
func TestKilledUser(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	if err := s.RemoveUnfinished(); err != nil {
		t.Errorf("where nothing was made: %v", err)
	}
	unlock, err := s.lockBases(t.Context(), filelock.Shared)
	if err != nil {
		t.Fatal(err)
	}
	half, whole := s.pathTo(usesDir, ".new-1234"), s.pathTo(usesDir, "sb-1.json")
	for _, name := range []string{half, whole} {
		if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveUnfinished(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(half); err != nil {
		t.Errorf("Sweep removed a file in use: %v", err)
	}
	unlock()
	if err := s.RemoveUnfinished(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(s.pathTo(usesDir)); err != nil || len(left) != 1 || left[0].Name() != "sb-1.json" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestCollectMeanwhile removes unused disks while others begin to use them.
func TestCollectMeanwhile(t *testing.T) {
	images := newImages(t, "a:1", map[string]string{"etc/name": "one"})
	s := &Store{Dir: t.TempDir()}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			user := fmt.Sprint("sb-", i)
			for range 15 {
				b, err := s.AcquireBase(t.Context(), user, Source{Images: images, Ref: "a:1"}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(b.Path); err != nil {
					t.Errorf("in use, and gone: %v", err)
				}
				if err := s.Release(user); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 30 {
		if err := s.CollectGarbage(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

// debugfsStat matches mode and owner in the output of debugfs.
var debugfsStat = regexp.MustCompile(`(?s)Mode:\s+(\d+).*User:\s+(\d+)\s+Group:\s+(\d+)`)

// TestOrdinaryUser makes a base disk of an image as an unprivileged user: owners, modes and
// capabilities are still the image's.
func TestOrdinaryUser(t *testing.T) {
	ref := "a:1"
	if dir := os.Getenv("ATOLL_ORDINARY"); dir != "" {
		f, err := os.Open(filepath.Join(dir, "archive"))
		if err != nil {
			t.Fatal(err)
		}
		images := &image.Store{Dir: filepath.Join(dir, "images")}
		if _, err := images.ImportImage(t.Context(), ref, f, nil); err != nil {
			t.Fatal(err)
		}
		b, err := (&Store{Dir: filepath.Join(dir, "disks")}).AcquireBase(t.Context(), "sb-1", Source{Images: images, Ref: ref}, nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("base %s\n", b.Path)
		return
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	capability := "\x01\x00\x00\x02\x00\x20\x00\x00" + strings.Repeat("\x00", 12)
	for _, h := range []tar.Header{
		{Name: "closed/", Typeflag: tar.TypeDir, Mode: 0o000, Uid: 5, Gid: 6},
		{Name: "closed/shadow", Typeflag: tar.TypeReg, Mode: 0o000, Gid: 42},
		{Name: "ping", Typeflag: tar.TypeReg, Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": capability}},
		{Name: "plain", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "sudo", Typeflag: tar.TypeReg, Mode: 0o4111},
		{Name: "hers", Typeflag: tar.TypeReg, Mode: 0o600, Uid: 1000, Gid: 1001},
		{Name: "also", Typeflag: tar.TypeLink, Linkname: "hers"},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "x", Uid: 1000},
		{Name: "was", Typeflag: tar.TypeReg, Mode: 0o600, Uid: 1000},
		{Name: "was", Typeflag: tar.TypeReg, Mode: 0o600},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []uint32{0, 65534} {
		t.Run(fmt.Sprint(uid), func(t *testing.T) {
			if os.Geteuid() != 0 {
				testenv.Skip(t, "root", "only root becomes another user")
			}
			dir, err := os.MkdirTemp("", "ordinary") // t.TempDir belongs to root
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(filepath.Join(dir, "archive"), b.Bytes(), 0o644)); err != nil {
				t.Fatal(err)
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "test")
			if err := copyFile(program, self); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "-test.run=^TestOrdinaryUser$", "-test.v")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "ATOLL_ORDINARY="+dir, "TMPDIR="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			out, err := cmd.CombinedOutput()
			_, path, ok := strings.Cut(string(out), "base ")
			path, _, _ = strings.Cut(path, "\n")
			if err != nil || !ok {
				t.Fatalf("%v: %s", err, out)
			}
			for name, want := range map[string]string{
				"closed": "0000 5 6", "closed/shadow": "0000 0 42", "ping": "0755 0 0", "plain": "0644 0 0", "sudo": "04111 0 0",
				"hers": "0600 1000 1001", "also": "0600 1000 1001", "link": "0777 1000 0", "was": "0600 0 0",
			} {
				found := debugfsStat.FindStringSubmatch(debugfs(t, path, "stat /"+name))
				if got := strings.Join(found[min(1, len(found)):], " "); got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
			if got := debugfs(t, path, "ea_list /ping"); !strings.Contains(got, "security.capability (20)") {
				t.Errorf("capabilities: %s", got)
			}
		})
	}
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

func TestDisks(t *testing.T) {
	images := newImages(t, "a:1", map[string]string{"etc/name": "one"})
	s := &Store{Dir: t.TempDir()}
	b, err := s.AcquireBase(t.Context(), "sb-1", Source{Images: images, Ref: "a:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, free := range []int64{0, 5 << 20, 1 << 30, 40 << 30} {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			root, work := filepath.Join(t.TempDir(), "root"), filepath.Join(t.TempDir(), "work")
			if err := s.CreateRootDisk(root, b, free); err != nil {
				t.Fatal(err)
			}
			if err := s.CreateWorkspaceDisk(work, free, 1000, 1001); err != nil {
				t.Fatal(err)
			}
			for _, disk := range []string{root, work} {
				chain, err := s.Chain(disk)
				if err != nil || chain[0].Size != VirtualSize {
					t.Errorf("%+v, %v", chain, err)
				}
				t.Logf("%+v", chain[0])
				fs := checkDisk(t, disk)
				var size, blocks int64
				for line := range strings.Lines(debugfs(t, fs, "stats -h")) {
					fmt.Sscanf(line, "Free blocks: %d", &blocks)
					fmt.Sscanf(line, "Block count: %d", &size)
				}
				if have := (blocks - min(size/50, 4096)) * 4096; have < free || free > 0 && have > free+4<<20 {
					t.Errorf("room for %d, not %d", have, free)
				}
			}
			if got := debugfs(t, checkDisk(t, work), "stat /"); !strings.Contains(got, "User:  1000   Group:  1001") {
				t.Error(got)
			}
		})
	}
	// A store that was moved finds its disks; a header that names another file is refused.
	if err := s.CreateRootDisk(s.pathTo("root.qcow2"), b, 0); err != nil {
		t.Fatal(err)
	}
	moved := &Store{Dir: filepath.Join(t.TempDir(), "moved")}
	if err := os.Rename(s.Dir, moved.Dir); err != nil {
		t.Fatal(err)
	}
	if chain, err := moved.Chain(moved.pathTo("root.qcow2")); err != nil || len(chain) != 2 || chain[1].File != moved.pathTo(basesDir, filepath.Base(b.Path)) {
		t.Errorf("%+v, %v", chain, err)
	}
	if err := os.Truncate(moved.pathTo(basesDir, filepath.Base(b.Path)), VirtualSize/2); err != nil {
		t.Fatal(err)
	}
	if chain, err := moved.Chain(moved.pathTo("root.qcow2")); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("with a truncated base: %+v, %v", chain, err)
	}
	if err := os.Truncate(moved.pathTo(basesDir, filepath.Base(b.Path)), VirtualSize); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"/etc/passwd", "/dev/vda", filepath.Join(t.TempDir(), "x.ext4")} {
		lies := filepath.Join(t.TempDir(), "root.qcow2")
		if err := qcow2.Create(lies, qcow2.Options{Backing: moved.pathTo(basesDir, filepath.Base(b.Path)), Format: qcow2.Raw}); err != nil {
			t.Fatal(err)
		}
		head, err := os.ReadFile(lies)
		if err != nil {
			t.Fatal(err)
		}
		copy(head[128:], other)
		head[18], head[19] = 0, byte(len(other))
		if err := os.WriteFile(lies, head, 0o600); err != nil {
			t.Fatal(err)
		}
		if chain, err := moved.Chain(lies); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("over %s: %+v, %v", other, chain, err)
		}
	}
	s, b.Path = moved, moved.pathTo(basesDir, filepath.Base(b.Path))
	if err := s.CreateRootDisk(filepath.Join(t.TempDir(), "x"), b, 70<<30); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("more than there is: %v", err)
	}
}
