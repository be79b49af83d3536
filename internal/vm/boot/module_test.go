package boot

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// modulesDir makes a directory of modules; the map has the .modinfo of each path.
func modulesDir(t *testing.T, builtin []string, modules map[string]string) Kernel {
	t.Helper()
	dir := t.TempDir()
	var order []string
	for path, info := range modules {
		data := elfFile{machine: amd64, modinfo: strings.ReplaceAll(info, "|", "\x00") + "\x00"}.bytes()
		plain, ending, _ := strings.Cut(path, ".ko")
		order = append(order, plain+".ko")
		writeFile(t, filepath.Join(dir, path), packModule(t, ending, data))
	}
	slices.Sort(order)
	writeFile(t, filepath.Join(dir, "modules.order"), []byte(strings.Join(order, "\n")+"\n"))
	writeFile(t, filepath.Join(dir, "modules.builtin"), []byte(strings.Join(builtin, "\n")+"\n"))
	return Kernel{Path: "/boot/vmlinuz-test", Modules: dir, Release: "test"}
}

func packModule(t *testing.T, ending string, data []byte) []byte {
	t.Helper()
	switch ending {
	case ".gz":
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(data)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	case ".zst":
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(data, nil)
	case ".xz":
		cmd := exec.CommandContext(t.Context(), "xz", "--check=crc32", "--lzma2=dict=1MiB", "-c")
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.Output()
		if err != nil {
			testenv.Skip(t, "gnu", "no xz: %v", err)
		}
		return out
	}
	return data
}

func TestResolve(t *testing.T) {
	k := modulesDir(t, []string{"kernel/fs/ext4/ext4.ko", "kernel/lib/crc.ko"}, map[string]string{
		"kernel/a/virtio_ring.ko":     "depends=|license=GPL",
		"kernel/a/virtio.ko.zst":      "depends=virtio-ring",
		"kernel/b/virtio-blk.ko.xz":   "license=GPL|depends=virtio,virtio_ring,crc",
		"kernel/c/fs-with-soft.ko.gz": "depends=|softdep=pre: helper-of absent crc32c post: later|softdep=post: later",
		"kernel/c/helper_of.ko":       "depends=virtio_ring",
		"kernel/c/crc32c_generic.ko":  "alias=crypto-crc32c",
		"kernel/c/later.ko":           "depends=",
		"kernel/d/nobody_wants_it.ko": "depends=missing",
		"kernel/e/round.ko":           "depends=about",
		"kernel/e/about.ko":           "depends=round",
		"kernel/e/needs_what_isnt.ko": "depends=missing",
	})
	c, err := readModuleIndex(k)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.resolveModules([]string{"virtio_blk", "ext4", "fs_with_soft"}, []string{"virtio", "not-there"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, strings.Join(append([]string{m.name}, m.needs...), " "))
	}
	want := []string{"virtio_ring", "virtio virtio_ring", "virtio_blk virtio virtio_ring", "helper_of virtio_ring", "crc32c_generic", "fs_with_soft helper_of crc32c_generic"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for name, says := range map[string]string{"missing": "no module missing", "needs_what_isnt": "no module missing", "round": "needs itself"} {
		if _, err := c.resolveModules([]string{name}, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %q", name, err, says)
		}
	}
	if _, err := c.resolveModules([]string{"missing"}, nil); !errors.Is(err, atoll.ErrUnavailable) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(k.Modules, "kernel/c/later.ko"), elfFile{machine: arm64, modinfo: "depends=\x00"}.bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.resolveModules([]string{"later"}, nil); err == nil || !strings.Contains(err.Error(), "want one for x86_64") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(k.Modules, "kernel/c/later.ko")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.resolveModules([]string{"later"}, nil); err == nil || !strings.Contains(err.Error(), "neither plain nor as .zst") {
		t.Error(err)
	}
}

// TestListsStayInside reads lists with paths outside of the directory.
func TestListsStayInside(t *testing.T) {
	k := modulesDir(t, nil, nil)
	writeFile(t, filepath.Join(k.Modules, "modules.order"), []byte("../../../etc/passwd.ko\n/etc/shadow.ko\n"))
	c, err := readModuleIndex(k)
	if err != nil || len(c.files) != 0 {
		t.Errorf("%v, %v", c, err)
	}
}

func TestArchive(t *testing.T) {
	var out bytes.Buffer
	err := writeCPIO(&out, []entry{{"init", modeProgram, []byte("12345")}, {"d", modeDir, nil}, {"d/f", modeFile, []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	want := "070701" + "00000001" + "000081ed" + "00000000" + "00000000" + "00000001" + "00000000" + "00000005" + "00000000" + "00000000" + "00000000" + "00000000" + "00000005" + "00000000" + "init\x00\x00" + "12345\x00\x00\x00" +
		"070701" + "00000002" + "000041ed" + "00000000" + "00000000" + "00000002" + "00000000" + "00000000" + "00000000" + "00000000" + "00000000" + "00000000" + "00000002" + "00000000" + "d\x00" +
		"070701" + "00000003" + "000081a4" + "00000000" + "00000000" + "00000001" + "00000000" + "00000001" + "00000000" + "00000000" + "00000000" + "00000000" + "00000004" + "00000000" + "d/f\x00\x00\x00" + "x\x00\x00\x00" +
		"070701" + "00000004" + "00000000" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000" + "00000000" + "00000000" + "00000000" + "00000000" + "0000000b" + "00000000" + "TRAILER!!!\x00\x00\x00\x00"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

// newSources returns a kernel and a guest that can be prepared without those of a distribution.
func newSources(t *testing.T) (Kernel, Options) {
	t.Helper()
	modules := map[string]string{}
	for _, name := range needed {
		modules["kernel/"+name+".ko"] = "depends="
	}
	k := modulesDir(t, nil, modules)
	b := append(elfFile{machine: amd64, notes: pvhNotes()}.bytes(), make([]byte, 1000)...)
	k.Path = filepath.Join(t.TempDir(), "vmlinuz")
	writeFile(t, k.Path, bzImage("test", packLZ4(t, b), len(b)))
	guest := filepath.Join(t.TempDir(), "guest")
	writeFile(t, guest, elfFile{machine: amd64, modinfo: "one"}.bytes())
	return k, Options{Guest: guest}
}

func TestPrepare(t *testing.T) {
	k, o := newSources(t)
	dir := filepath.Join(t.TempDir(), "new/boot")
	first, err := Prepare(t.Context(), k, o, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Has("virtio-blk") || first.Has("virtiofs") {
		t.Errorf("%+v", first)
	}
	elsewhere, err := Prepare(t.Context(), k, o, t.TempDir(), nil)
	if err != nil || elsewhere.Digest != first.Digest || filepath.Base(elsewhere.Initrd) != filepath.Base(first.Initrd) {
		t.Errorf("the same sources make %+v and %+v, %v", first, elsewhere, err)
	}
	writeFile(t, o.Guest, elfFile{machine: amd64, modinfo: "two"}.bytes())
	second, err := Prepare(t.Context(), k, o, dir, nil)
	if err != nil || second.Digest == first.Digest || second.Initrd == first.Initrd || second.Kernel != first.Kernel {
		t.Errorf("another guest makes %+v after %+v, %v", second, first, err)
	}
	if err := os.Remove(second.Initrd); err != nil {
		t.Fatal(err)
	}
	if third, err := Prepare(t.Context(), k, o, dir, nil); err != nil || third.Digest != second.Digest {
		t.Errorf("what was removed: %+v, %v", third, err)
	} else if _, err := os.Stat(third.Initrd); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestPrepareRemovesUnusedFiles(t *testing.T) {
	k, o := newSources(t)
	dir := t.TempDir()
	old, err := Prepare(t.Context(), k, o, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-unusedAfter - time.Hour)
	names, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, o.Guest, elfFile{machine: amd64, modinfo: "two"}.bytes())
	now, err := Prepare(t.Context(), k, o, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old.Initrd); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old initramfs: %v", err)
	}
	for _, path := range []string{now.Kernel, now.Initrd} { // the kernel is old, but used
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestPrepareSaysWhatIsMissing(t *testing.T) {
	k, o := newSources(t)
	dynamic := filepath.Join(t.TempDir(), "dynamic")
	writeFile(t, dynamic, elfFile{machine: amd64, interp: "/lib64/ld.so"}.bytes())
	for _, c := range []struct {
		name, want string
		k          Kernel
		o          Options
	}{
		{"Guest", "no such file", k, Options{Guest: "/nowhere"}},
		{"Static", "CGO_ENABLED=0", k, Options{Guest: dynamic}},
		{"Module", "no module unheard_of", k, Options{Guest: o.Guest, RequiredModules: []string{"unheard-of"}}},
		{"Modules", "modules.order", Kernel{Path: k.Path, Modules: "/nowhere", Release: "x"}, o},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Prepare(t.Context(), c.k, c.o, t.TempDir(), nil); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, not %q", err, c.want)
			}
		})
	}
}
