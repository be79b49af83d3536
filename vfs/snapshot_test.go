package vfs

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// moment is a snapshot and what was there when it was made.
type moment struct {
	s     *Snapshot
	usage Usage
	tree  map[string]string
}

// lineage is a family of file systems and what they were.
type lineage struct {
	family  []*FS
	moments []moment
	store   *Memory
	open    []*File
}

func (l *lineage) pick(t *rapid.T) int { return rapid.IntRange(0, len(l.family)-1).Draw(t, "fs") }

func (l *lineage) moment(t *rapid.T) (moment, bool) {
	if len(l.moments) == 0 {
		return moment{}, false
	}
	return rapid.SampledFrom(l.moments).Draw(t, "moment"), true
}

// same expects that f is what was there at a moment.
func (m moment) same(t *rapid.T, what string, f *FS) {
	t.Helper()
	if d := cmp.Diff(m.tree, dump(t, f)); d != "" {
		t.Fatalf("%s is not what was there:\n%s", what, d)
	}
	if u := f.Usage(); u != m.usage {
		t.Fatalf("%s: usage %+v, was %+v", what, u, m.usage)
	}
	must(t, f.verify())
}

func (l *lineage) change(t *rapid.T) { changeRandomly(t, l.family[l.pick(t)]) }

func (l *lineage) snapshot(t *rapid.T) {
	f := l.family[l.pick(t)]
	s := f.Snapshot()
	l.moments = append(l.moments, moment{s, s.Usage(), dump(t, f)})
}

// files opens and closes files, so that some lose their names while open.
func (l *lineage) files(t *rapid.T) {
	if len(l.open) > 3 || len(l.open) > 0 && rapid.Bool().Draw(t, "close") {
		must(t, l.open[0].Close())
		l.open = l.open[1:]
		return
	}
	w, err := l.family[l.pick(t)].OpenFile(absolute().Draw(t, "p"), os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		l.open = append(l.open, w)
		w.WriteAt([]byte("through an open file"), 10)
	}
}

func (l *lineage) restore(t *rapid.T) {
	if m, ok := l.moment(t); ok {
		f := l.family[l.pick(t)]
		f.Restore(m.s)
		m.same(t, "restored", f)
	}
}

func (l *lineage) fork(t *rapid.T) {
	f := l.family[l.pick(t)]
	m := moment{nil, f.Snapshot().Usage(), dump(t, f)}
	g := f.Fork()
	m.same(t, "fork", g)
	if len(l.family) < 5 {
		l.family = append(l.family, g)
	}
}

func (l *lineage) save(t *rapid.T) {
	m, ok := l.moment(t)
	if !ok {
		return
	}
	id, err := m.s.Save(l.store)
	must(t, err)
	g, err := Load(l.store, id, Options{})
	must(t, err)
	m.same(t, "loaded", g)
	again, err := g.Save(l.store)
	must(t, err)
	if again != id {
		t.Fatalf("saved as %s, then as %s", id, again)
	}
	l.family[l.pick(t)] = g
}

func (l *lineage) diff(t *rapid.T) {
	if a, ok := l.moment(t); ok {
		b, _ := l.moment(t)
		sameDiff(t, a, b)
	}
}

// check looks at everything again.
func (l *lineage) check(t *rapid.T) {
	for _, f := range l.family {
		must(t, f.verify())
	}
	for _, m := range l.moments {
		if d := cmp.Diff(m.tree, dump(t, New(Options{Base: m.s}))); d != "" {
			t.Fatalf("a snapshot has changed:\n%s", d)
		}
	}
}

// TestSnapshotsAreIsolated changes a family of forks at random. No snapshot
// may ever change, and each way back from one must give the same tree.
func TestSnapshotsAreIsolated(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		base := New(Options{})
		for range 5 {
			changeRandomly(t, base)
		}
		l := &lineage{family: []*FS{New(Options{}), New(Options{Base: base.Snapshot()})}, store: new(Memory)}
		t.Repeat(map[string]func(*rapid.T){
			"change": l.change, "change2": l.change, "change3": l.change,
			"snapshot": l.snapshot, "restore": l.restore, "fork": l.fork,
			"save": l.save, "diff": l.diff, "files": l.files, "files2": l.files, "": l.check,
		})
	})
}

// sameDiff compares Diff with a comparison of everything.
func sameDiff(t *rapid.T, a, b moment) {
	essence := func(m map[string]string, p string) string {
		w := strings.Fields(m[p])
		if len(w) == 0 {
			return ""
		}
		if w[0][0] == 'd' {
			return w[0] + w[4]
		}
		return w[0] + w[4] + w[5] + strings.Join(w[9:], " ")
	}
	var want []Change
	for p := range a.tree {
		if _, ok := b.tree[p]; !ok {
			want = append(want, Change{Deleted, p})
		} else if essence(a.tree, p) != essence(b.tree, p) {
			want = append(want, Change{Modified, p})
		}
	}
	for p := range b.tree {
		if _, ok := a.tree[p]; !ok {
			want = append(want, Change{Added, p})
		}
	}
	order := func(x, y Change) int { return strings.Compare(x.Path, y.Path) }
	got := Diff(a.s, b.s)
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("Diff is wrong:\n%s", d)
	}
}

func TestOpenFilesKeepTheOldTreeAfterRestore(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/a", []byte("old"), 0o644))
	s := f.Snapshot()
	must(t, f.WriteFile("/a", []byte("new"), 0o644))
	w, err := f.OpenFile("/a", os.O_RDWR, 0)
	must(t, err)
	f.Restore(s)
	if got, err := io.ReadAll(w); err != nil || string(got) != "new" {
		t.Errorf("the open file reads %q, %v", got, err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, EBADF) {
		t.Errorf("write after Restore: %v, want EBADF", err)
	}
	if err := w.Truncate(0); !errors.Is(err, EBADF) {
		t.Errorf("truncate after Restore: %v, want EBADF", err)
	}
	must(t, w.Close())
	if got, err := f.ReadFile("/a"); err != nil || string(got) != "old" {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	must(t, f.verify())
}

func TestRestoreIsExactNotMerged(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/kept", []byte("1"), 0o600))
	s := f.Snapshot()
	before := dump(t, f)
	must(t, f.WriteFile("/added", nil, 0o644))
	must(t, f.Chmod("/kept", 0o777))
	must(t, f.Unlink("/kept"))
	f.Restore(s)
	if d := cmp.Diff(before, dump(t, f)); d != "" {
		t.Error(d)
	}
}

func TestBaseIsNotCharged(t *testing.T) {
	b := New(Options{})
	must(t, b.MkdirAll("/usr/bin", 0o755))
	must(t, b.WriteFile("/usr/bin/tool", make([]byte, 5000), 0o755))
	f := New(Options{Base: b.Snapshot(), Quota: Quota{Bytes: 6000, Nodes: 2}})
	check := func(what string, bytes int64, nodes int) {
		t.Helper()
		if u := f.Usage(); u.Bytes != bytes || u.Nodes != nodes {
			t.Errorf("%s: %d bytes and %d nodes are charged, want %d and %d", what, u.Bytes, u.Nodes, bytes, nodes)
		}
		must(t, f.verify())
	}
	check("new", 0, 0)
	must(t, f.Chmod("/usr/bin/tool", 0o700))
	check("changed mode", 0, 0)
	must(t, f.Link("/usr/bin/tool", "/tool"))
	check("second name", 0, 1)
	must(t, f.Truncate("/tool", 5001))
	check("changed content", 5001, 1)
	if err := f.WriteFile("/other", make([]byte, 1000), 0o644); !errors.Is(err, ENOSPC) {
		t.Errorf("write over the quota: %v", err)
	}
	must(t, f.Unlink("/tool"))
	check("name gone", 5001, 0)
	must(t, f.Unlink("/usr/bin/tool"))
	check("file gone", 0, 0)
	f.Restore(f.base)
	check("back to the base", 0, 0)
}

func TestHeldBytesCountsSnapshotsOnly(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/a", make([]byte, 10*blockSize), 0o644))
	x := f.Snapshot()
	if n := HeldBytes(f, x); n != 0 {
		t.Errorf("nothing changed, %d bytes held", n)
	}
	w, err := f.OpenFile("/a", os.O_WRONLY, 0)
	must(t, err)
	_, err = w.WriteAt([]byte("x"), 3*blockSize)
	must(t, err)
	if n := HeldBytes(f, x, x); n != blockSize {
		t.Errorf("one block changed, %d bytes held", n)
	}
	must(t, f.Unlink("/a"))
	must(t, w.Close())
	if n := HeldBytes(f, x); n != 10*blockSize {
		t.Errorf("the file is gone, %d bytes held", n)
	}
	if n := x.Usage().Bytes; n != 10*blockSize {
		t.Errorf("the snapshot says %d bytes", n)
	}
}

func TestDiffFindsChangesBehindHardLinks(t *testing.T) {
	f := New(Options{})
	must(t, f.MkdirAll("/a/b", 0o755))
	must(t, f.MkdirAll("/c/d", 0o755))
	must(t, f.WriteFile("/a/b/x", []byte("1"), 0o644))
	must(t, f.Link("/a/b/x", "/c/d/y"))
	before := f.Snapshot()
	must(t, f.WriteFile("/a/b/x", []byte("2"), 0o644))
	want := []Change{{Modified, "/a/b/x"}, {Modified, "/c/d/y"}}
	if d := cmp.Diff(want, Diff(before, f.Snapshot())); d != "" {
		t.Error(d)
	}
}

// A file without a name is in no snapshot, so neither are its charges.
func TestSnapshotsOmitUnlinkedFiles(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/a", make([]byte, 1000), 0o644))
	r, err := f.Open("/a")
	must(t, err)
	must(t, f.Unlink("/a"))
	s := f.Snapshot()
	g := f.Fork()
	if u := f.Usage(); u.Bytes != 1000 || u.Nodes != 1 || u.Files != 1 {
		t.Errorf("usage with the file open: %+v", u)
	}
	for name, u := range map[string]Usage{"snapshot": s.Usage(), "fork": g.Usage()} {
		if u.Bytes != 0 || u.Nodes != 0 || u.Files != 0 {
			t.Errorf("%s: usage %+v", name, u)
		}
	}
	f.Restore(s)
	must(t, r.Close())
	if u := f.Usage(); u.Bytes != 0 || u.Nodes != 0 || u.Files != 0 {
		t.Errorf("usage in the end: %+v", u)
	}
	must(t, f.verify())
}
