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
	"github.com/atoll-sandbox/atoll/internal/musthave"
)

// modulesDir makes a directory of modules: what each says of itself by its path.
func modulesDir(t *testing.T, builtin []string, modules map[string]string) Kernel {
	t.Helper()
	dir := t.TempDir()
	var order []string
	for path, info := range modules {
		data := program{machine: amd64, modinfo: strings.ReplaceAll(info, "|", "\x00") + "\x00"}.bytes()
		plain, ending, _ := strings.Cut(path, ".ko")
		order = append(order, plain+".ko")
		write(t, filepath.Join(dir, path), pack(t, ending, data))
	}
	slices.Sort(order)
	write(t, filepath.Join(dir, "modules.order"), []byte(strings.Join(order, "\n")+"\n"))
	write(t, filepath.Join(dir, "modules.builtin"), []byte(strings.Join(builtin, "\n")+"\n"))
	return Kernel{Path: "/boot/vmlinuz-test", Modules: dir, Release: "test"}
}

func pack(t *testing.T, ending string, data []byte) []byte {
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
			musthave.Skip(t, "gnu", "no xz: %v", err)
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
	c, err := readCatalogue(k)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.resolve([]string{"virtio_blk", "ext4", "fs_with_soft"}, []string{"virtio", "not-there"})
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
		if _, err := c.resolve([]string{name}, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %q", name, err, says)
		}
	}
	if _, err := c.resolve([]string{"missing"}, nil); !errors.Is(err, atoll.ErrUnavailable) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(k.Modules, "kernel/c/later.ko"), program{machine: arm64, modinfo: "depends=\x00"}.bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.resolve([]string{"later"}, nil); err == nil || !strings.Contains(err.Error(), "want one for x86_64") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(k.Modules, "kernel/c/later.ko")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.resolve([]string{"later"}, nil); err == nil || !strings.Contains(err.Error(), "neither plain nor as .zst") {
		t.Error(err)
	}
}

// TestListsStayInside reads lists that name files elsewhere.
func TestListsStayInside(t *testing.T) {
	k := modulesDir(t, nil, nil)
	write(t, filepath.Join(k.Modules, "modules.order"), []byte("../../../etc/passwd.ko\n/etc/shadow.ko\n"))
	c, err := readCatalogue(k)
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

// prepared is a kernel that can be prepared without one of a distribution.
func prepared(t *testing.T) (Kernel, Options) {
	t.Helper()
	modules := map[string]string{}
	for _, name := range needed {
		modules["kernel/"+name+".ko"] = "depends="
	}
	k := modulesDir(t, nil, modules)
	b := append(program{machine: amd64, notes: pvhNotes()}.bytes(), make([]byte, 1000)...)
	k.Path = filepath.Join(t.TempDir(), "vmlinuz")
	write(t, k.Path, bzImage("test", packLZ4(t, b), len(b)))
	guest := filepath.Join(t.TempDir(), "guest")
	write(t, guest, program{machine: amd64, modinfo: "one"}.bytes())
	return k, Options{Guest: guest}
}

func TestPrepare(t *testing.T) {
	k, o := prepared(t)
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
	write(t, o.Guest, program{machine: amd64, modinfo: "two"}.bytes())
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

func TestPrepareRemovesWhatNobodyUses(t *testing.T) {
	k, o := prepared(t)
	dir := t.TempDir()
	old, err := Prepare(t.Context(), k, o, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-unused - time.Hour)
	names, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	write(t, o.Guest, program{machine: amd64, modinfo: "two"}.bytes())
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
	k, o := prepared(t)
	dynamic := filepath.Join(t.TempDir(), "dynamic")
	write(t, dynamic, program{machine: amd64, interp: "/lib64/ld.so"}.bytes())
	for _, c := range []struct {
		name, want string
		k          Kernel
		o          Options
	}{
		{"Guest", "no such file", k, Options{Guest: "/nowhere"}},
		{"Static", "CGO_ENABLED=0", k, Options{Guest: dynamic}},
		{"Module", "no module unheard_of", k, Options{Guest: o.Guest, Want: []string{"unheard-of"}}},
		{"Modules", "modules.order", Kernel{Path: k.Path, Modules: "/nowhere", Release: "x"}, o},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Prepare(t.Context(), c.k, c.o, t.TempDir(), nil); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, not %q", err, c.want)
			}
		})
	}
}
