package qcow2

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// runTool runs a program of QEMU.
func runTool(t testing.TB, args ...string) []byte {
	t.Helper()
	testenv.Real(t, "qemu")
	path, err := exec.LookPath(args[0])
	if err != nil {
		testenv.Skip(t, "qemu", "no %s: apt install qemu-utils", args[0])
	}
	out, err := exec.Command(path, args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// checkImage checks a file with qemu-img.
func checkImage(t testing.TB, file string) {
	t.Helper()
	runTool(t, "qemu-img", "check", "-f", "qcow2", file)
}

// readWhole reads a chain with QEMU.
func readWhole(t testing.TB, file, format string) []byte {
	t.Helper()
	to := filepath.Join(t.TempDir(), "raw")
	runTool(t, "qemu-img", "convert", "-f", format, "-O", "raw", file, to)
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func allowAll(f string) (string, bool) { return f, true }

func readInfo(t testing.TB, file string, v any) {
	t.Helper()
	if err := json.Unmarshal(runTool(t, "qemu-img", "info", "--output=json", file), v); err != nil {
		t.Fatal(err)
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	content := bytes.Repeat([]byte("atoll "), 1<<20)
	content = content[:len(content)/512*512]
	if err := os.WriteFile(base, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"Empty":    {Size: 64 << 30},
		"Over":     {Backing: base, Format: Raw},
		"Longer":   {Backing: base, Format: Raw, Size: 64 << 20},
		"Patched":  {Backing: base, Format: Raw, Patches: []Patch{{1024, []byte("one")}, {65536 - 3, []byte("across")}, {1027, []byte("two")}, {5 << 20, make([]byte, 100)}}},
		"Nothing":  {Size: 512},
		"PatchedN": {Size: 100 << 20, Patches: []Patch{{99 << 20, []byte("end")}, {0, bytes.Repeat([]byte("x"), 200_000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "disk")
			if err := Create(file, o); err != nil {
				t.Fatal(err)
			}
			checkImage(t, file)
			var info struct {
				Size    int64  `json:"virtual-size"`
				Format  string `json:"format"`
				Backing string `json:"backing-filename"`
				Kind    string `json:"backing-filename-format"`
			}
			readInfo(t, file, &info)
			l, err := Stat(file, Qcow2)
			if err != nil || l.Size != info.Size || info.Backing != o.Backing || info.Kind != o.Format {
				t.Errorf("%+v, %+v, %v", info, l, err)
			}
			if err := Create(file, o); !errors.Is(err, atoll.ErrExists) {
				t.Errorf("twice: %v", err)
			}
			if info.Size > 1<<30 {
				return
			}
			want := make([]byte, info.Size)
			if o.Backing != "" {
				copy(want, content)
			}
			for _, p := range o.Patches {
				copy(want[p.Offset:], p.Data)
			}
			if !bytes.Equal(readWhole(t, file, Qcow2), want) {
				t.Error("QEMU reads something else")
			}
		})
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, o := range map[string]Options{
		"Odd":      {Size: 1000},
		"Giant":    {Size: 65 << 40},
		"NoSize":   {},
		"Beyond":   {Size: 512, Patches: []Patch{{500, make([]byte, 13)}}},
		"NoFormat": {Backing: os.Args[0]},
		"Dir":      {Backing: dir, Format: Raw},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if err := Create(file, o); !errors.Is(err, atoll.ErrInvalid) {
				t.Errorf("%v", err)
			}
			if _, err := os.Lstat(file); err == nil {
				t.Error("a file is left")
			}
		})
	}
}

// TestChain writes to layers with QEMU, and flattens them here.
func TestChain(t *testing.T) {
	if _, err := exec.LookPath("qemu-io"); err != nil {
		testenv.Skip(t, "qemu", "no qemu-io: apt install qemu-utils")
	}
	dir := t.TempDir()
	base, disk := filepath.Join(dir, "base"), filepath.Join(dir, "disk")
	f, err := os.Create(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(1<<30), f.Close()); err != nil {
		t.Fatal(err)
	}
	runTool(t, "qemu-io", "-f", "raw", "-c", "write -P 1 0 10M", "-c", "write -P 2 700M 1M", base)
	if err := Create(disk, Options{Backing: base, Format: Raw}); err != nil {
		t.Fatal(err)
	}
	runTool(t, "qemu-io", "-f", "qcow2", "-c", "write -P 3 1M 300k", "-c", "write -z 2M 1M", "-c", "write -P 4 600M 1k", disk)
	if err := Freeze(disk, filepath.Join(dir, "disk.1")); err != nil {
		t.Fatal(err)
	}
	runTool(t, "qemu-io", "-f", "qcow2", "-c", "write -P 5 1100k 10k", "-c", "write -z 700M 512k", disk)
	// An interrupted Freeze is continued.
	if err := os.Link(disk, filepath.Join(dir, "disk.2")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(disk+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Freeze(disk, filepath.Join(dir, "disk.2")); err != nil {
		t.Fatal(err)
	}
	runTool(t, "qemu-io", "-f", "qcow2", "-c", "write -P 6 1100k 1k", disk)
	if err := Freeze(disk, filepath.Join(dir, "disk.1")); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	checkImage(t, disk)
	chain, err := ReadChain(disk, Qcow2, func(f string) (string, bool) { return f, filepath.Dir(f) == dir })
	if err != nil || len(chain) != 4 || chain[3].Format != Raw || chain[3].File != base || chain[0].Size != 1<<30 || chain[3].Used < 11<<20 {
		t.Fatalf("%+v, %v", chain, err)
	}
	flat := filepath.Join(dir, "flat")
	if err := Flatten(t.Context(), flat, chain); err != nil {
		t.Fatal(err)
	}
	checkImage(t, flat)
	runTool(t, "qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", disk, flat)
	if l, err := Stat(flat, Qcow2); err != nil || l.Used > 12<<20 {
		t.Errorf("%+v, %v", l, err)
	}
	twin := filepath.Join(dir, "copy")
	if err := Copy(t.Context(), twin, disk); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(twin)
	if b, _ := os.ReadFile(disk); !bytes.Equal(a, b) {
		t.Error("the copy is another")
	}
}

// TestFlattenMuch writes a file that needs more than one block of reference counts.
func TestFlattenMuch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk")
	err := create(file, header{size: 5 << 30}, func(w *writer) error {
		for n := range int64(33_000) {
			t := w.tables[n/inTable]
			if t == nil {
				t = make([]byte, clusterSize)
				w.tables[n/inTable] = t
			}
			be.PutUint64(t[n%inTable*8:], uint64(w.next)*clusterSize|copied)
			w.next++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, file)
}

// TestHostileHeaders reads files with hostile headers.
func TestHostileHeaders(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	own := func(f string) (string, bool) { return f, f == filepath.Join(dir, "mine") }
	disk := func(t *testing.T, change func(b []byte)) string {
		file := filepath.Join(t.TempDir(), "disk")
		if err := Create(file, Options{Backing: secret, Format: Raw}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		change(b)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, change := range map[string]func(b []byte){
		"OtherFile":    func([]byte) {},
		"ExternalData": func(b []byte) { b[79] = 4 },
		"Corrupt":      func(b []byte) { b[79] = 2 },
		"NotKnown":     func(b []byte) { b[72] = 1 },
		"Encrypted":    func(b []byte) { b[35] = 2 },
		"Version2":     func(b []byte) { b[7] = 2 },
		"NoFormat":     func(b []byte) { b[104] = 0 },
		"LongName":     func(b []byte) { b[18] = 0xff },
		"NameBeyond":   func(b []byte) { b[9] = 0xff },
		"Clusters":     func(b []byte) { b[23] = 60 },
		"Size":         func(b []byte) { b[24] = 0x7f },
		"Tables":       func(b []byte) { b[36] = 0xff },
		"NoTable":      func(b []byte) { clear(b[40:48]) },
		"Relative":     func(b []byte) { copy(b[128:], "../x") },
		"Empty":        func(b []byte) { clear(b) },
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := ReadChain(disk(t, change), Qcow2, own); !errors.Is(err, atoll.ErrInvalid) {
				t.Errorf("%v, %v", c, err)
			}
		})
	}
	t.Run("Loop", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(file, make([]byte, 512), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Create(file+".2", Options{Backing: file, Format: Raw}); err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(file + ".2")
		b = bytes.Replace(b, []byte("\x00\x03raw"), []byte("\x00\x05qcow2"), 1)
		_ = os.WriteFile(file, b, 0o600) // its own backing file
		if c, err := ReadChain(file, Qcow2, allowAll); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%v, %v", c, err)
		}
	})
	t.Run("Link", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "disk")
		if err := os.Symlink(secret, file); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadChain(file, Raw, allowAll); err == nil {
			t.Error("a link was followed")
		}
		if err := Copy(t.Context(), file+".copy", file); err == nil {
			t.Error("a link was copied")
		}
	})
}

// TestTruncatedFiles reads files that end too early, as after a copy that was interrupted.
func TestTruncatedFiles(t *testing.T) {
	const size = 1 << 30
	data := bytes.Repeat([]byte("data"), clusterSize)
	file := filepath.Join(t.TempDir(), "disk")
	if err := Create(file, Options{Size: size, Patches: []Patch{{0, data}, {700 << 20, data}}}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	over := filepath.Join(t.TempDir(), "over")
	if err := Create(over, Options{Backing: file, Format: Qcow2, Size: size}); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadChain(over, Qcow2, allowAll); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{headerSize, clusterSize, 2 * clusterSize, 3 * clusterSize, 6 * clusterSize, 11 * clusterSize} {
		if left >= len(whole) {
			t.Fatalf("the file has only %d bytes", len(whole))
		}
		if err := os.WriteFile(file, whole[:left], 0o600); err != nil {
			t.Fatal(err)
		}
		for _, top := range []string{file, over} {
			if _, err := ReadChain(top, Qcow2, allowAll); !errors.Is(err, atoll.ErrInvalid) {
				t.Errorf("with %d of %d bytes: %v", left, len(whole), err)
			}
		}
	}
}

// FuzzHeader reads any file: there is no crash, memory is bounded, and a chain can be read or is
// refused.
func FuzzHeader(f *testing.F) {
	file := filepath.Join(f.TempDir(), "seed")
	if err := Create(file, Options{Size: 1 << 20, Patches: []Patch{{0, []byte("x")}}}); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed[:4096], uint16(3), byte(1))
	f.Fuzz(func(t *testing.T, head []byte, at uint16, v byte) {
		b := append([]byte(nil), seed...)
		copy(b[:4096], head)
		b[int(at)%len(b)] ^= v
		file := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		chain, err := ReadChain(file, Qcow2, func(string) (string, bool) { return "", false })
		if err != nil {
			return
		}
		d, err := openDisk(chain)
		if err != nil {
			return
		}
		defer d.close()
		buf := make([]byte, clusterSize)
		for range 16 {
			_, _ = d.read(buf, rand.Int64N(chain[0].Size+1)/512*512)
		}
	})
}
