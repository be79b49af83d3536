package vfs

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// TestEveryWriteAndTruncate cuts and writes at the edges of blocks that are owned,
// shared with a snapshot, or still in a store, and compares with a slice.
func TestEveryWriteAndTruncate(t *testing.T) {
	lengths := []int{0, 1, 1000, 40_000, blockSize - 1, blockSize, blockSize + 1, 2*blockSize + 500}
	offsets := []int{0, 1, 500, 50_000, blockSize - 1, blockSize, blockSize + 1, 2 * blockSize}
	cuts := []int{-1, 0, 1000, 50_000, blockSize, blockSize + 1}
	counts := []int{0, 1, 1000, blockSize, blockSize + 1}
	prepare := map[string]func(f *FS) *FS{
		"owned":    func(f *FS) *FS { return f },
		"shared":   func(f *FS) *FS { f.Snapshot(); return f },
		"unloaded": saveAndLoad,
	}
	for name, prep := range prepare {
		for _, length := range lengths {
			for _, cut := range cuts {
				for _, off := range offsets {
					for _, n := range counts {
						truncateAndWrite(t, name, prep, [4]int{length, cut, off, n})
					}
				}
			}
		}
	}
}

func truncateAndWrite(t *testing.T, name string, prep func(*FS) *FS, c [4]int) {
	t.Helper()
	length, cut, off, n := c[0], c[1], c[2], c[3]
	f := New(Options{})
	ref := numberedBytes(1, length)
	must(t, f.WriteFile("/f", ref, 0o644))
	f = prep(f)
	if cut >= 0 {
		must(t, f.Truncate("/f", int64(cut)))
		ref = resize(ref, cut)
	}
	writeBoth(t, f, &ref, off, n)
	if got, err := f.ReadFile("/f"); err != nil || !bytes.Equal(got, ref) {
		t.Fatalf("%s file of %d bytes, cut to %d, %d written at %d: %v, first other byte %d",
			name, length, cut, n, off, err, firstDifference(got, ref))
	}
}

func saveAndLoad(f *FS) *FS {
	s := new(Memory)
	id, err := f.Save(s)
	if err == nil {
		f, err = Load(s, id, Options{})
	}
	if err != nil {
		panic(err)
	}
	return f
}

// resize returns b with another length, filled with zeros.
func resize(b []byte, n int) []byte {
	return append(bytes.Clone(b[:min(n, len(b))]), make([]byte, max(n-len(b), 0))...)
}

func writeBoth(t *testing.T, f *FS, ref *[]byte, off, n int) {
	t.Helper()
	p := numberedBytes(2, n)
	w, err := f.OpenFile("/f", os.O_WRONLY, 0)
	must(t, err)
	defer w.Close()
	_, err = w.WriteAt(p, int64(off))
	must(t, err)
	if n > 0 {
		*ref = resize(*ref, max(len(*ref), off+n))
		copy((*ref)[off:], p)
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestInodeNumbersAreReused keeps the table as small as what is in it.
func TestInodeNumbersAreReused(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/open", nil, 0o644))
	r, err := f.Open("/open")
	must(t, err)
	must(t, f.Unlink("/open"))
	for i := range 5000 {
		if i == 2500 {
			must(t, r.Close())
		}
		must(t, f.WriteFile(fmt.Sprint("/", i), nil, 0o644))
		if i >= 10 {
			must(t, f.Unlink(fmt.Sprint("/", i-10)))
		}
	}
	for p, number := range f.tree.table.allPages {
		if number > 0 {
			t.Errorf("page %d holds %d inodes; there are 11", number, p.used)
		}
	}
}
