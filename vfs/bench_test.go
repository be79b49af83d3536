package vfs

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// newTreeOf returns a file system of n files of 1 kB, 100 in a directory.
func newTreeOf(tb testing.TB, n int) *FS {
	tb.Helper()
	f := New(Options{Quota: Quota{Nodes: -1, Bytes: -1}})
	data := make([]byte, 1024)
	for i := range n {
		dir := fmt.Sprintf("/dir%03d", i/100)
		if i%100 == 0 {
			if err := f.Mkdir(dir, 0o755); err != nil {
				tb.Fatal(err)
			}
		}
		if err := f.WriteFile(fmt.Sprintf("%s/file%05d", dir, i), data, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return f
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		New(Options{})
	}
}

func BenchmarkNewOnBase(b *testing.B) {
	base := newTreeOf(b, 10_000).Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		New(Options{Base: base})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	f := newTreeOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		f.Snapshot()
	}
}

func BenchmarkRestore(b *testing.B) {
	f := newTreeOf(b, 10_000)
	s := f.Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		f.Restore(s)
	}
}

func BenchmarkFork(b *testing.B) {
	f := newTreeOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		f.Fork()
	}
}

func benchFirstWrite(b *testing.B, size int) {
	f := newTreeOf(b, 10_000)
	if err := f.WriteFile("/dir050/target", make([]byte, size), 0o644); err != nil {
		b.Fatal(err)
	}
	w, err := f.OpenFile("/dir050/target", os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		f.Snapshot()
		if _, err := w.WriteAt(p, int64(size/2)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFirstWriteAfterSnapshotSmall(b *testing.B) { benchFirstWrite(b, 1024) }
func BenchmarkFirstWriteAfterSnapshotBlock(b *testing.B) { benchFirstWrite(b, 64<<10) }
func BenchmarkFirstWriteAfterSnapshot10MB(b *testing.B)  { benchFirstWrite(b, 10<<20) }

func BenchmarkFirstCreateAfterSnapshot(b *testing.B) {
	f := newTreeOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		f.Snapshot()
		if err := f.WriteFile("/dir050/new", nil, 0o644); err != nil {
			b.Fatal(err)
		}
		if err := f.Unlink("/dir050/new"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFirstCreateAfterSnapshotInBigDir(b *testing.B) {
	f := New(Options{Quota: Quota{Nodes: -1}})
	for i := range 10_000 {
		if err := f.WriteFile(fmt.Sprintf("/file%05d", i), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		f.Snapshot()
		if err := f.WriteFile("/new", nil, 0o644); err != nil {
			b.Fatal(err)
		}
		if err := f.Unlink("/new"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteInPlace(b *testing.B) {
	f := newTreeOf(b, 10_000)
	w, err := f.OpenFile("/dir050/file05000", os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.WriteAt(p, 200); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend100(b *testing.B) {
	f := New(Options{})
	w, err := f.OpenFile("/log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 100)
	b.SetBytes(100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Write(p); err != nil {
			if err := w.Truncate(0); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkRead64K(b *testing.B) {
	f := New(Options{})
	if err := f.WriteFile("/data", make([]byte, 10<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	r, err := f.Open("/data")
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 64<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if n, _ := r.Read(p); n == 0 {
			if _, err := r.Seek(0, 0); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkWrite10MB(b *testing.B) {
	f := New(Options{})
	p := make([]byte, 64<<10)
	b.SetBytes(10 << 20)
	b.ReportAllocs()
	for b.Loop() {
		w, err := f.Create("/data")
		if err != nil {
			b.Fatal(err)
		}
		for range 160 {
			if _, err := w.Write(p); err != nil {
				b.Fatal(err)
			}
		}
		w.Close()
	}
}

func BenchmarkCreateUnlink(b *testing.B) {
	f := newTreeOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		w, err := f.OpenFile("/dir050/new", os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			b.Fatal(err)
		}
		w.Close()
		if err := f.Unlink("/dir050/new"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStat(b *testing.B) {
	f := newTreeOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Stat("/dir050/file05042"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenClose(b *testing.B) {
	f := newTreeOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		r, err := f.Open("/dir050/file05042")
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

func BenchmarkReadDir100(b *testing.B) {
	f := newTreeOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.ReadDir("/dir050"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiffOneFileOf10000(b *testing.B) {
	f := newTreeOf(b, 10_000)
	x := f.Snapshot()
	if err := f.WriteFile("/dir050/file05042", []byte("changed"), 0o644); err != nil {
		b.Fatal(err)
	}
	y := f.Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		if len(Diff(x, y)) != 1 {
			b.Fatal("not one change")
		}
	}
}

func benchSave(b *testing.B, s Store, f *FS, path string, size int) {
	if _, err := f.Save(s); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, size)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		copy(data, fmt.Sprint(i))
		if err := f.WriteFile(path, data, 0o644); err != nil {
			b.Fatal(err)
		}
		if _, err := f.Save(s); err != nil {
			b.Fatal(err)
		}
	}
}

func benchDir(b *testing.B) *Dir {
	d, err := OpenDir(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

// One changed file of 10 kB in 10 MB.
func BenchmarkSaveOneOf1000Dir(b *testing.B) {
	benchSave(b, benchDir(b), big1000(b), "/dir005/file00542", 10<<10)
}

func BenchmarkSaveOneOf1000Memory(b *testing.B) {
	benchSave(b, new(Memory), big1000(b), "/dir005/file00542", 10<<10)
}

func BenchmarkSaveOneOf10000Dir(b *testing.B) {
	benchSave(b, benchDir(b), newTreeOf(b, 10_000), "/dir050/file05042", 1024)
}

func big1000(b *testing.B) *FS {
	f := newTreeOf(b, 1000)
	for i := range 1000 {
		data := make([]byte, 10<<10)
		copy(data, fmt.Sprint("file ", i))
		if err := f.WriteFile(fmt.Sprintf("/dir%03d/file%05d", i/100, i), data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

func BenchmarkSaveFirst1000Dir(b *testing.B) {
	f := big1000(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		d, err := OpenDir(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := f.Save(d); err != nil {
			b.Fatal(err)
		}
		d.Close()
	}
}

func BenchmarkLoad10000(b *testing.B) {
	d := benchDir(b)
	id, err := newTreeOf(b, 10_000).Save(d)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(d, id, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHeap reports what things cost in memory.
func BenchmarkHeap(b *testing.B) {
	base := newTreeOf(b, 300).Snapshot()
	report := func(unit string, n int, mk func() any) {
		keep := make([]any, n)
		before := heapBytes()
		for i := range keep {
			keep[i] = mk()
		}
		b.ReportMetric(float64(heapBytes()-before)/float64(n), unit)
		runtime.KeepAlive(keep)
	}
	for b.Loop() {
		report("B/empty", 1000, func() any { return New(Options{}) })
		report("B/on-base", 1000, func() any { return New(Options{Base: base}) })
		report("B/fork", 1000, func() any { return New(Options{Base: base}).Fork() })
		report("B/first-file", 1000, func() any {
			f := New(Options{Base: base})
			if err := f.WriteFile("/dir001/x", []byte("x"), 0o644); err != nil {
				b.Fatal(err)
			}
			return f
		})
		report("B/10000-files", 1, func() any { return newTreeOf(b, 10_000) })
	}
	b.ReportMetric(0, "ns/op")
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestSnapshotCostDoesNotGrow checks that taking, restoring and forking
// allocate the same with 10,000 files as with none; BenchmarkSnapshot,
// BenchmarkRestore and BenchmarkFork measure their time.
func TestSnapshotCostDoesNotGrow(t *testing.T) {
	countAllocs := func(f *FS) float64 {
		s := f.Snapshot()
		return testing.AllocsPerRun(100, func() {
			f.Snapshot()
			f.Restore(s)
			f.Fork()
		})
	}
	small, big := countAllocs(New(Options{})), countAllocs(newTreeOf(t, 10_000))
	if big > small {
		t.Errorf("%v allocations with 10,000 files, %v with none", big, small)
	}
}

// BenchmarkMount does on a directory of the host what the others do in
// memory, five directories deep.
func BenchmarkMount(b *testing.B) {
	if !HostMounts() {
		b.Skip("needs a host whose directories can be mounted")
	}
	h, err := OpenHost(b.TempDir())
	must(b, err)
	defer h.Close()
	f := New(Options{})
	must(b, f.Mount(Mount{Target: "/m", Host: h}))
	must(b, f.MkdirAll("/m/a/b/c/d", 0o755))
	data := make([]byte, 64<<10)
	must(b, f.WriteFile("/m/a/b/c/d/file", data, 0o644))
	for i := range 100 {
		must(b, f.WriteFile(fmt.Sprintf("/m/a/file%02d", i), nil, 0o644))
	}
	for name, do := range map[string]func() error{
		"Stat": func() error { _, err := f.Stat("/m/a/b/c/d/file"); return err },
		"StatMissing": func() error {
			if _, err := f.Stat("/m/a/b/c/d/none"); err == nil {
				return EEXIST
			}
			return nil
		},
		"Read64K": func() error { _, err := f.ReadFile("/m/a/b/c/d/file"); return err },
		"CreateUnlink": func() error {
			if err := f.Mknod("/m/a/b/c/d/new", 0o644, 0); err != nil {
				return err
			}
			return f.Unlink("/m/a/b/c/d/new")
		},
		"ReadDir100": func() error { _, err := f.ReadDir("/m/a"); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(b, do())
			}
		})
	}
}
