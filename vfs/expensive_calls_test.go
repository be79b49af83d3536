package vfs

import (
	"fmt"
	"strings"
	"testing"
)

// costlyCall is one of the most expensive calls that the default quota allows.
type costlyCall struct {
	name    string
	prepare func() *FS
	call    func(f *FS) error
}

func costlyCalls(tb testing.TB) []costlyCall {
	wide := func() *FS {
		f := New(Options{})
		must(tb, f.Mkdir("/d", 0o755))
		for i := range 9990 {
			must(tb, f.WriteFile(fmt.Sprintf("/d/%0200d", i), []byte("x"), 0o644))
		}
		f.Snapshot()
		return f
	}
	bomb := func() *FS {
		f := New(Options{})
		must(tb, f.MkdirAll(strings.Repeat("/d", 2000), 0o755))
		must(tb, f.Symlink(strings.Repeat("./", 2000)+"f", "/l0"))
		for i := range 39 {
			down, up := strings.Repeat("d/", 800), strings.Repeat("../", 800)
			must(tb, f.Symlink(down+up+fmt.Sprint("l", i), fmt.Sprint("/l", i+1)))
		}
		return f
	}
	return []costlyCall{
		{"RemoveAll", wide, func(f *FS) error { return f.RemoveAll("/d") }},
		{"ReadDir", wide, func(f *FS) error { _, err := f.ReadDir("/d"); return err }},
		{"Resolve", wide, func(f *FS) error { _, err := f.Resolve("/d/" + fmt.Sprintf("%0200d", 9000)); return err }},
		{"MkdirAll", func() *FS { return New(Options{}) }, func(f *FS) error { return f.MkdirAll(strings.Repeat("/e", 2000), 0o755) }},
		{"WriteFile", wide, func(f *FS) error { return f.WriteFile("/big", make([]byte, DefaultFile), 0o644) }},
		{"Links", bomb, func(f *FS) error { _, _ = f.Stat("/l39"); return nil }},
		{"LinksMkdir", bomb, func(f *FS) error { _ = f.MkdirAll("/l39/x", 0o755); return nil }},
	}
}

// TestCostlyCallsFinish performs the most expensive calls. A deadline can't
// interrupt a call, so each must end by itself.
func TestCostlyCallsFinish(t *testing.T) {
	for _, c := range costlyCalls(t) {
		f := c.prepare()
		mustFinish(t, c.name, func() { must(t, c.call(f)) })
	}
}

// BenchmarkCostlyCalls measures the longest time that a call holds the lock.
func BenchmarkCostlyCalls(b *testing.B) {
	for _, c := range costlyCalls(b) {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				f := c.prepare()
				b.StartTimer()
				must(b, c.call(f))
			}
		})
	}
}
