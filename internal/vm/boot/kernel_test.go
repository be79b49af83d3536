package boot

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// elfFile describes an ELF file: with notes like a kernel, with a section .modinfo like a module,
// or with a dynamic linker.
type elfFile struct {
	machine uint16
	notes   []byte
	interp  string
	modinfo string
}

func (p elfFile) bytes() []byte {
	const head, segment, section = 64, 56, 64
	var data []byte
	kind := uint32(0)
	switch {
	case p.notes != nil:
		data, kind = p.notes, 4
	case p.interp != "":
		data, kind = []byte(p.interp), 3
	default:
		data = []byte(p.modinfo)
	}
	names := []byte("\x00.modinfo\x00.shstrtab\x00")
	at := uint64(head + segment)
	out := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	le := binary.LittleEndian
	out = le.AppendUint16(out, 2)
	out = le.AppendUint16(out, p.machine)
	out = le.AppendUint32(out, 1)
	out = le.AppendUint64(out, 0)
	out = le.AppendUint64(out, head)                                    // program headers
	out = le.AppendUint64(out, at+uint64(len(data))+uint64(len(names))) // sections
	out = le.AppendUint32(out, 0)
	for _, v := range []uint16{head, segment, 1, section, 3, 2} {
		out = le.AppendUint16(out, v)
	}
	out = le.AppendUint32(out, kind)
	out = le.AppendUint32(out, 4)
	for _, v := range []uint64{at, 0, 0, uint64(len(data)), uint64(len(data)), 4} {
		out = le.AppendUint64(out, v)
	}
	out = append(append(out, data...), names...)
	for _, s := range [][4]uint64{{0, 0, 0, 0}, {1, 1, at, uint64(len(data))}, {10, 3, at + uint64(len(data)), uint64(len(names))}} {
		out = le.AppendUint32(out, uint32(s[0]))
		out = le.AppendUint32(out, uint32(s[1]))
		for _, v := range []uint64{0, 0, s[2], s[3], 0, 1, 0} {
			out = le.AppendUint64(out, v)
		}
	}
	return out
}

const amd64, arm64 = 62, 183

// pvhNotes returns the notes of a kernel: another one before the PVH entry.
func pvhNotes() []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(nil, 4)
	out = le.AppendUint32(out, 5)
	out = le.AppendUint32(out, 1)
	out = append(out, "GNU\x00\x01\x02\x03\x04\x05\x00\x00\x00"...)
	out = le.AppendUint32(out, 4)
	out = le.AppendUint32(out, 8)
	out = le.AppendUint32(out, pvhEntry)
	return append(out, "Xen\x00\x00\x00\x00\x01\x00\x00\x00\x00"...)
}

// bzImage returns a bzImage with a compressed kernel.
func bzImage(release string, payload []byte, size int) []byte {
	image := make([]byte, 5*512+len(payload)+4)
	le := binary.LittleEndian
	image[offSetupSectors] = 4
	le.PutUint16(image[offBootFlag:], 0xaa55)
	copy(image[offMagic:], "HdrS")
	le.PutUint16(image[offVersion:], 0x20f)
	le.PutUint16(image[offXLoadFlags:], kernel64)
	le.PutUint16(image[offReleaseAt:], 0x400)
	copy(image[0x600:], release+" (builder@host) #1 SMP\x00")
	le.PutUint32(image[offPayloadSize:], uint32(len(payload)+4))
	copy(image[5*512:], payload)
	le.PutUint32(image[5*512+len(payload):], uint32(size))
	return image
}

func packGzip(t *testing.T, in []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(in); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()[:out.Len()-4] // its last 4 bytes are the size, which bzImage appends
}

func packZstd(t *testing.T, in []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(in, nil)
}

func packLZ4(t *testing.T, in []byte) []byte {
	out := []byte{0x02, 0x21, 0x4c, 0x18}
	for block := range slices.Chunk(in, 8<<20) {
		packed := make([]byte, lz4.CompressBlockBound(len(block)))
		n, err := lz4.CompressBlock(block, packed, nil)
		if err != nil || n == 0 {
			t.Fatalf("lz4: %d, %v", n, err)
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(n)), packed[:n]...)
	}
	return out
}

// packXZ compresses as kernel builds do, with the filter for x86 code.
func packXZ(t *testing.T, in []byte) []byte {
	testenv.Real(t, "gnu")
	cmd := exec.CommandContext(t.Context(), "xz", "--check=crc32", "--x86", "--lzma2=dict=32MiB", "-c")
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		testenv.Skip(t, "gnu", "no xz: %v", err)
	}
	return out
}

func TestExtract(t *testing.T) {
	kernel := elfFile{machine: amd64, notes: pvhNotes()}.bytes()
	large := append(slices.Clone(kernel), bytes.Repeat([]byte("\xe8\x01\x02\x03\x04 call\n"), 1<<20)...) // more than one block
	for name, pack := range map[string]func(*testing.T, []byte) []byte{"gzip": packGzip, "zstd": packZstd, "lz4": packLZ4, "xz": packXZ} {
		t.Run(name, func(t *testing.T) {
			image := bzImage("6.1.0", pack(t, large), len(large))
			got, err := extractVmlinux(image)
			if err != nil || !bytes.Equal(got, large) {
				t.Fatalf("%d bytes, not the %d that were packed: %v", len(got), len(large), err)
			}
			broken := slices.Clone(image)
			for i := range 8 {
				broken[(5*512+len(image))/2+i] ^= 0x55
			}
			if got, err := extractVmlinux(broken); err == nil && bytes.Equal(got, large) {
				t.Error("damage is not seen")
			}
			if _, err := extractVmlinux(image[:len(image)-100]); err == nil || !strings.Contains(err.Error(), "ends within") {
				t.Errorf("a file that ends early: %v", err)
			}
		})
	}
	t.Run("Plain", func(t *testing.T) {
		if got, err := extractVmlinux(kernel); err != nil || !bytes.Equal(got, kernel) {
			t.Error(err)
		}
	})
}

func TestExtractSaysWhatIsWrong(t *testing.T) {
	packed := func(p elfFile) []byte {
		b := p.bytes()
		return bzImage("6.1.0", packLZ4(t, append(b, make([]byte, 1000)...)), len(b)+1000)
	}
	old := packed(elfFile{machine: amd64, notes: pvhNotes()})
	for name, c := range map[string]struct {
		image []byte
		want  string
	}{
		"NoPVH":     {packed(elfFile{machine: amd64, notes: []byte{1, 0, 0, 0}}), "no PVH entry"},
		"HugeNote":  {packed(elfFile{machine: amd64, notes: append(bytes.Repeat([]byte{0xff}, 8), 18, 0, 0, 0, 'X')}), "no PVH entry"},
		"OtherKind": {packed(elfFile{machine: arm64, notes: pvhNotes()}), "want one for x86_64"},
		"NotELF":    {bzImage("6.1.0", packLZ4(t, make([]byte, 5000)), 5000), "no ELF file"},
		"Unknown":   {bzImage("6.1.0", []byte("LZMA what is this"), 100), "begins with 4c 5a 4d 41"},
		"Huge":      {bzImage("6.1.0", packLZ4(t, make([]byte, 5000)), 1<<31), "2147483648 bytes"},
		"ThirtyTwo": {patchBytes(old, offXLoadFlags, 0), "32 bits"},
		"Old":       {patchBytes(old, offVersion, 0), "2.6.26"},
		"NoKernel":  {bytes.Repeat([]byte("text "), 1000), "neither a bzImage nor an ELF"},
		"Empty":     {nil, "too short"},
		"ForARM":    {patchBytes(make([]byte, 5000), 0x38, 'A', 'R', 'M', 0x64), "64-bit ARM"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := extractVmlinux(c.image); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, not %q", err, c.want)
			}
		})
	}
}

func patchBytes(b []byte, at int, to ...byte) []byte {
	b = slices.Clone(b)
	copy(b[at:], to)
	return b
}

func FuzzExtract(f *testing.F) {
	f.Add(bzImage("6.1.0", []byte{0x02, 0x21, 0x4c, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}, 100))
	f.Add(bzImage("6.1.0", []byte{0x1f, 0x8b, 8, 0}, 100))
	f.Add(bzImage("6.1.0", []byte{0xfd, '7', 'z', 'X', 'Z', 0}, 100))
	f.Add(bzImage("6.1.0", []byte{0x28, 0xb5, 0x2f, 0xfd}, 100))
	f.Add(elfFile{machine: amd64, notes: pvhNotes()}.bytes())
	f.Fuzz(func(t *testing.T, image []byte) {
		if len(image) > offPayloadSize+4 {
			return // the sizes after it would be tested only
		}
		_, _ = extractVmlinux(image)
		_ = checkStatic(image)
	})
}

func TestReleases(t *testing.T) {
	sorted := []string{"5.10.0-9-amd64", "6.1.0-2-cloud-amd64", "6.1.0-10-cloud-amd64", "6.1.0-56-cloud-amd64", "6.8.0-31-generic", "6.17.2-200.fc42.x86_64", "7.0.0"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := compareReleases(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
}

// newTree makes a /boot and a /lib/modules with kernels.
func newTree(t *testing.T, releases ...string) (pattern string) {
	t.Helper()
	root := t.TempDir()
	for _, r := range releases {
		writeFile(t, filepath.Join(root, "boot/vmlinuz-"+r), bzImage(r, nil, 0))
		writeFile(t, filepath.Join(root, "lib/modules", r, "modules.builtin"), nil)
	}
	return filepath.Join(root, "boot/vmlinuz-*")
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	pattern := newTree(t, "6.1.0-9-cloud-amd64", "6.1.0-10-cloud-amd64", "5.10.0-99-amd64")
	k, err := findNewest([]string{pattern, "/nowhere/*"})
	if err != nil || k.Release != "6.1.0-10-cloud-amd64" || filepath.Base(k.Modules) != k.Release {
		t.Errorf("%+v, %v", k, err)
	}
	named, err := FindKernel(k.Path, "")
	if err != nil || named != k {
		t.Errorf("by its name: %+v, %v", named, err)
	}
	other := t.TempDir()
	if _, err := FindKernel(k.Path, other); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), other) {
		t.Errorf("modules that are not there: %v", err)
	}
	writeFile(t, filepath.Join(other, "modules.builtin"), nil)
	if got, err := FindKernel(k.Path, other); err != nil || got.Modules != other {
		t.Errorf("modules that are named: %+v, %v", got, err)
	}
	if _, err := findNewest([]string{"/nowhere/*"}); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("no kernel: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "vmlinuz-1")
	writeFile(t, bad, []byte("text"))
	if _, err := findNewest([]string{filepath.Dir(bad) + "/*"}); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), bad) {
		t.Errorf("no kernel that is one: %v", err)
	}
	for _, path := range []string{bad, filepath.Join(other, "missing")} {
		if _, err := FindKernel(path, ""); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	elf := filepath.Join(t.TempDir(), "vmlinux")
	writeFile(t, elf, append(append(elfFile{machine: amd64, notes: pvhNotes()}.bytes(), make([]byte, 1000)...), "Linux version %s\x00Linux version 6.1.0-9-cloud-amd64 (debian)\x00"...))
	if k, err := FindKernel(elf, other); err != nil || k.Release != "6.1.0-9-cloud-amd64" {
		t.Errorf("an ELF file: %+v, %v", k, err)
	}
	for _, release := range []string{"../../etc", "a b", ""} {
		writeFile(t, bad, bzImage(release, nil, 0))
		if k, err := FindKernel(bad, other); err == nil {
			t.Errorf("release %q: %+v", release, k)
		}
	}
}

// TestRealKernel prepares the kernel of scripts/machine.
func TestRealKernel(t *testing.T) {
	testenv.Real(t, "qemu")
	path := os.Getenv("ATOLL_MACHINE_KERNEL")
	if path == "" {
		testenv.Skip(t, "qemu", `no kernel for VMs: $ATOLL_MACHINE_KERNEL is empty (eval "$(scripts/machine)")`)
	}
	k, err := FindKernel(path, os.Getenv("ATOLL_MACHINE_MODULES"))
	if err != nil {
		t.Fatal(err)
	}
	guest := filepath.Join(t.TempDir(), "guest")
	writeFile(t, guest, elfFile{machine: amd64}.bytes())
	dir := t.TempDir()
	var said []string
	f, err := Prepare(t.Context(), k, Options{Guest: guest}, dir, func(s string) { said = append(said, s) })
	if err != nil {
		t.Fatal(err)
	}
	if len(said) == 0 {
		t.Error("nothing is said of what takes long")
	}
	b, err := os.ReadFile(f.Kernel)
	if err != nil || checkVmlinux(b) != nil || !bytes.Contains(b, []byte("Linux version "+k.Release)) {
		t.Errorf("%s is no kernel %s: %v", f.Kernel, k.Release, err)
	}
	list := listArchive(t, f.Initrd)
	for _, want := range []string{"/init", "/modules/virtio.ko", "/modules/virtio_blk.ko", "/modules/nf_tables.ko"} {
		if !slices.Contains(list, want) {
			t.Errorf("no %s in %q", want, list)
		}
	}
	again, err := Prepare(t.Context(), k, Options{Guest: guest}, dir, func(s string) { t.Errorf("made again: %s", s) })
	if err != nil || again.Digest != f.Digest || again.Initrd != f.Initrd {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// listArchive returns the names of a cpio archive.
func listArchive(t *testing.T, path string) (names []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "cpio", "-it", "--quiet")
	cmd.Stdin = f
	out, err := cmd.Output()
	if err := errors.Join(err, f.Close()); err != nil {
		testenv.Skip(t, "gnu", "no cpio: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		names = append(names, "/"+strings.TrimSpace(line))
	}
	return names
}
