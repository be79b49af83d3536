package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// unpackTo extracts an archive into dir/fs, next to a canary file.
func unpackTo(t testing.TB, dir string, archive []byte, limits Limits) error {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, "fs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "canary"), []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "fs"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, _, err = extractLayer(t.Context(), root, bytes.NewReader(archive), limits)
	return err
}

// checkUnharmed checks that nothing outside of fs was touched.
func checkUnharmed(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("beside the layer: %v, %v", entries, err)
	}
	path := filepath.Join(dir, "canary")
	b, err := os.ReadFile(path)
	if err != nil || string(b) != "alive" {
		t.Fatalf("the canary: %q, %v", b, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Nlink != 1 || st.Mode != unix.S_IFREG|0o600 || st.Uid != uint32(os.Getuid()) {
		t.Fatalf("the canary: %+v, %v", st, err)
	}
}

// hostileArchives returns archives that try to write outside, by what they try.
func hostileArchives(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"DotDot":            archive(t, file("../canary", "dead")),
		"DeepDotDot":        archive(t, dir("a"), file("a/../../canary", "dead")),
		"LinkToParent":      archive(t, link("up", ".."), file("up/canary", "dead")),
		"LinkToFile":        archive(t, link("c", "../canary"), file("c", "dead")),
		"LinkChain":         archive(t, link("a", "b"), link("b", ".."), file("a/canary", "dead")),
		"LinkThroughDirs":   archive(t, dir("d"), link("d/up", "../.."), file("d/up/canary", "dead")),
		"HardLinkOut":       archive(t, hardLink("c", "../canary"), file("c", "dead")),
		"HardLinkThrough":   archive(t, link("up", ".."), hardLink("c", "up/canary"), file("c", "dead")),
		"HardLinkToLink":    archive(t, link("l", "../canary"), hardLink("c", "l"), file("c", "dead")),
		"DirOverLink":       archive(t, link("up", ".."), tar.Header{Name: "up", Typeflag: tar.TypeDir, Mode: 0o777}, file("up/canary", "dead")),
		"ModeThroughLink":   archive(t, link("up", ".."), tar.Header{Name: "up/canary", Typeflag: tar.TypeDir, Mode: 0o777}),
		"DirThenLink":       archive(t, tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o777}, link("d", "..")),
		"OwnerThroughLink":  archive(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../canary", Uid: 1234}),
		"WhiteoutOut":       archive(t, file(".wh...", "")),
		"WhiteoutOutDeep":   archive(t, link("up", ".."), file("up/.wh.canary", "")),
		"OpaqueOut":         archive(t, link("up", ".."), file("up/.wh..wh..opq", "")),
		"WhiteoutDirectory": archive(t, file(".wh.x/y", "dead")),
		"FIFOOverLink":      archive(t, link("f", "../canary"), tar.Header{Name: "f", Typeflag: tar.TypeFifo}),
		"LinkLoop":          archive(t, link("a", "b"), link("b", "a"), file("a/x", "dead")),
		"RootIsAFile":       archive(t, file(".", "dead"), file("/.", "dead")),
		"RootIsALink":       archive(t, link(".", ".."), file("canary", "dead")),
		"LongName":          archive(t, file(strings.Repeat("a/", 3000)+"x", "dead")),
		"LongPart":          archive(t, file(strings.Repeat("a", 300), "dead")),
	}
}

func TestNothingLeadsOut(t *testing.T) {
	for name, b := range hostileArchives(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := unpackTo(t, dir, b, Limits{Files: 10_000})
			checkUnharmed(t, dir)
			t.Log(err)
		})
	}
}

// TestLinksAreFollowedInside checks that links are resolved as in the image.
func TestLinksAreFollowedInside(t *testing.T) {
	dir := t.TempDir()
	err := unpackTo(t, dir, archive(t,
		link("lib", "/usr/lib"), file("lib/a", "a"),
		link("up", "../../.."), file("up/b", "b"),
		link("etc", "usr/lib/.."), file("etc/c", "c"),
		hardLink("d", "lib/a"),
	), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"usr/lib/a": "a", "b": "b", "usr/c": "c", "d": "a"} {
		if b, err := os.ReadFile(filepath.Join(dir, "fs", name)); string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	checkUnharmed(t, dir)
}

// TestLinkBomb has links whose resolution takes twice as long with each: without a limit it would
// not end.
func TestLinkBomb(t *testing.T) {
	entries := []tar.Header{dir("l0")}
	for i := range 60 {
		entries = append(entries, link("l"+string(rune('1'+i)), "l"+string(rune('0'+i))+"/../l"+string(rune('0'+i))))
	}
	err := unpackTo(t, t.TempDir(), archive(t, append(entries, file("l"+string(rune('0'+60))+"/x", "x"))...), Limits{})
	if !errors.Is(err, atoll.ErrInvalid) {
		t.Error(err)
	}
}

func TestEntriesKeepWhatTheyAre(t *testing.T) {
	at := t.TempDir()
	when := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	err := unpackTo(t, at, archive(t,
		tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o1751, ModTime: when, Uid: 7, Gid: 8},
		tar.Header{
			Name: "d/suid", Linkname: "x", Mode: 0o4711, ModTime: when, Uid: 7, Gid: 8,
			PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b", "SCHILY.xattr.security.capability": "\x01", "SCHILY.xattr.user.overlay.redirect": "/x", "SCHILY.xattr.trusted.overlay.redirect": "/x"},
		},
		tar.Header{Name: "d/fifo", Typeflag: tar.TypeFifo, Mode: 0o640},
		tar.Header{Name: "d/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		tar.Header{Name: "d/disk", Typeflag: tar.TypeBlock, Devmajor: 8},
		tar.Header{Name: "d/hidden", Typeflag: tar.TypeChar},
		link("d/link", "suid"), hardLink("d/hard", "d/suid"),
		tar.Header{Name: "closed", Typeflag: tar.TypeDir, Mode: 0o100}, file("closed/x", "x"),
	), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer removeTree(at + "/fs")
	var st unix.Stat_t
	if err := unix.Lstat(at+"/fs/d", &st); err != nil || st.Mode&0o7777 != 0o1751 || st.Mtim.Sec != when.Unix() {
		t.Errorf("%+v, %v", st, err)
	}
	if err := unix.Lstat(at+"/fs/d/suid", &st); err != nil || st.Mode&0o7777 != 0o4711 || st.Mtim.Sec != when.Unix() || st.Nlink != 2 {
		t.Errorf("%+v, %v", st, err)
	}
	if os.Getuid() == 0 && (st.Uid != 7 || st.Gid != 8) {
		t.Errorf("owner %d:%d", st.Uid, st.Gid)
	}
	buf := make([]byte, 1000)
	n, err := unix.Llistxattr(at+"/fs/d/suid", buf)
	if names := strings.Trim(string(buf[:max(n, 0)]), "\x00"); err != nil || names != "user.a" {
		t.Errorf("attributes: %q, %v", names, err)
	}
	entries, err := os.ReadDir(at + "/fs/d")
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"fifo", "hard", "link", "suid"}) {
		t.Errorf("%v, %v", names, err)
	}
}

func TestHolesStayHoles(t *testing.T) {
	at := t.TempDir()
	if err := unpackTo(t, at, archive(t, file("hole", strings.Repeat("\x00", 4<<20)+"end")), Limits{}); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(at+"/fs/hole", &st); err != nil || st.Size != 4<<20+3 || st.Blocks*512 > 1<<20 {
		t.Errorf("%+v, %v", st, err)
	}
	b, err := os.ReadFile(at + "/fs/hole")
	if err != nil || !bytes.HasSuffix(b, []byte("\x00end")) {
		t.Errorf("its end is lost: %v", err)
	}
}

// TestLayersAreStackedByOverlayfs mounts layers as a driver does, in a separate user and mount
// namespace.
func TestLayersAreStackedByOverlayfs(t *testing.T) {
	testenv.Real(t, "namespace")
	s := &Store{Dir: t.TempDir()}
	h := newRegistry(t)
	root := pull(t, s, h.push(t, "stack", imageOf(t,
		archive(t, file("keep", "1"), file("gone", "1"), file("dir/a", "1"), file("dir/b", "1"), file("whole/a", "1"), file("early/a", "1"), file("both", "1")),
		archive(t, file(".wh.gone", ""), file("dir/.wh.a", ""), file("whole/.wh..wh..opq", ""), file("whole/b", "2"),
			file(".wh.early", ""), dir("early"), file("early/b", "2"), file("both", "2"), file(".wh.both", "")),
	)))
	script := `mount -t tmpfs tmpfs "$1" && mount -t overlay overlay -o "userxattr,lowerdir=$2" "$1" && cd "$1" && find . -type f | sort | tr '\n' ' '`
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", script, "sh", t.TempDir(), strings.Join(root.Layers, ":"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		testenv.Skip(t, "namespace", "no overlayfs in user namespaces here: %v: %s", err, out)
	}
	if got, want := strings.TrimSpace(string(out)), "./both ./dir/b ./early/b ./keep ./whole/b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestAnyUser unpacks as an unprivileged user.
func TestAnyUser(t *testing.T) {
	if os.Getenv("ATOLL_IMAGE_CHILD") == "" && os.Getuid() == 0 {
		dir := t.TempDir()
		for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		self := filepath.Join(dir, "test")
		b, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(self, b, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", self, "-test.v",
			"-test.run=^(TestAnyUser|TestEntriesKeep.*|TestNothingLeadsOut|TestPull|TestUseKeeps.*|TestLayersAre.*|TestLinksAre.*)$")
		cmd.Env = append(os.Environ(), "ATOLL_IMAGE_CHILD=1", "TMPDIR="+dir, "HOME="+dir)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func FuzzExtract(f *testing.F) {
	for _, b := range hostileArchives(f) {
		f.Add(b)
	}
	f.Add(archive(f, dir("a"), file("a/b", "c"), hardLink("d", "a/b"), link("e", "a"), file("e/f", "g"), file(".wh.h", ""), file("a/.wh..wh..opq", "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		_ = unpackTo(t, dir, b, Limits{Bytes: 1 << 20, Files: 100}) // any error is fine
		checkUnharmed(t, dir)
		err := filepath.WalkDir(filepath.Join(dir, "fs"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeDevice == 0 {
				return nil // directories without permissions
			}
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil || st.Rdev != 0 {
				t.Errorf("a device: %s %+v", path, st)
			}
			return nil
		})
		if err := errors.Join(err, removeTree(filepath.Join(dir, "fs"))); err != nil {
			t.Fatal(err)
		}
	})
}
