package vfs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counting is a store that counts what it is asked.
type counting struct {
	Memory
	gets, puts int
}

func (c *counting) Get(k Key) ([]byte, error) { c.gets++; return c.Memory.Get(k) }
func (c *counting) Put(k Key, b []byte) error { c.puts++; return c.Memory.Put(k, b) }

// numberedBytes returns data of a length that is unlike that of another n.
func numberedBytes(n, length int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d.", n), length/9+1)[:length]
}

func stores(t *testing.T) map[string]interface {
	Store
	Delete(Key) error
	Keys() ([]Key, error)
} {
	d, err := OpenDir(filepath.Join(t.TempDir(), "blobs"))
	must(t, err)
	t.Cleanup(func() { d.Close() })
	synced, err := OpenDir(t.TempDir())
	must(t, err)
	synced.Fsync = true
	t.Cleanup(func() { synced.Close() })
	return map[string]interface {
		Store
		Delete(Key) error
		Keys() ([]Key, error)
	}{"Memory": new(Memory), "Dir": d, "DirWithFsync": synced}
}

func TestSaveAndLoad(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			f := newPopulated(t)
			must(t, f.WriteFile("/a/data", numberedBytes(1, 3*blockSize+5000), 0o640))
			must(t, f.Mknod("/a/null", fs.ModeDevice|fs.ModeCharDevice|0o666, 0x103))
			w, err := f.OpenFile("/a/sparse", os.O_CREATE|os.O_WRONLY, 0o600)
			must(t, err)
			_, err = w.WriteAt(numberedBytes(2, 2000), 5*blockSize)
			must(t, err)
			must(t, w.Truncate(100*blockSize))
			must(t, w.Close())
			id, err := f.Save(s)
			must(t, err)
			g, err := Load(s, id, Options{})
			must(t, err)
			if d := cmp.Diff(dump(t, f), dump(t, g)); d != "" {
				t.Error(d)
			}
			if f.Usage() != g.Usage() {
				t.Errorf("usage %+v, was %+v", g.Usage(), f.Usage())
			}
			must(t, g.verify())
			again, err := g.Save(s)
			must(t, err)
			if again != id {
				t.Errorf("saved again as %s instead of %s", again, id)
			}
		})
	}
}

func TestSaveIsIncremental(t *testing.T) {
	f := New(Options{})
	for i := range 200 {
		must(t, f.WriteFile(fmt.Sprintf("/f%03d", i), numberedBytes(i, 50_000), 0o644))
	}
	s := new(counting)
	_, err := f.Save(s)
	must(t, err)
	s.puts = 0
	_, err = f.Save(s)
	must(t, err)
	if s.puts != 0 {
		t.Errorf("saving what is saved put %d blobs", s.puts)
	}
	must(t, f.WriteFile("/f100", numberedBytes(1000, 50_000), 0o644))
	_, err = f.Save(s)
	must(t, err)
	if s.puts != 3 { // the block, the page with its inode, the root
		t.Errorf("saving one changed file put %d blobs", s.puts)
	}
	other := new(counting)
	_, err = f.Save(other)
	must(t, err)
	if other.puts < 200 {
		t.Errorf("another store got only %d blobs", other.puts)
	}
}

func TestLoadReadsBlocksWhenNeeded(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/big", numberedBytes(1, 20*blockSize), 0o644))
	must(t, f.WriteFile("/other", numberedBytes(2, blockSize), 0o644))
	s := new(counting)
	id, err := f.Save(s)
	must(t, err)
	s.gets = 0
	g, err := Load(s, id, Options{})
	must(t, err)
	if s.gets != 2 {
		t.Errorf("Load read %d blobs, want the root and one page", s.gets)
	}
	r, err := g.OpenFile("/big", os.O_RDWR, 0)
	must(t, err)
	p := make([]byte, 100)
	for range 3 {
		_, err = r.ReadAt(p, 7*blockSize)
		must(t, err)
	}
	if s.gets != 3 {
		t.Errorf("reading one block three times read %d blobs", s.gets-2)
	}
	_, err = r.WriteAt(make([]byte, blockSize), 2*blockSize)
	must(t, err)
	must(t, g.WriteFile("/other", []byte("new"), 0o644))
	must(t, r.Truncate(10*blockSize))
	if s.gets != 3 {
		t.Errorf("replacing whole blocks read %d blobs", s.gets-3)
	}
	_, err = r.WriteAt([]byte("x"), 3*blockSize+5)
	must(t, err)
	must(t, r.Truncate(8*blockSize+1))
	if s.gets != 5 {
		t.Errorf("changing a part of two blocks read %d blobs", s.gets-3)
	}
	want := numberedBytes(1, 20*blockSize)
	clear(want[2*blockSize : 3*blockSize])
	want[3*blockSize+5] = 'x'
	if got, err := g.ReadFile("/big"); err != nil || !bytes.Equal(got, want[:8*blockSize+1]) {
		t.Errorf("the content is another one: %v", err)
	}
}

// TestBadBlobsAreErrors damages each blob in turn. Nothing may ever be read
// that was not written.
func TestBadBlobsAreErrors(t *testing.T) {
	content := numberedBytes(1, 2*blockSize+3000)
	for name, damage := range map[string]func(*Memory, Key){
		"Missing": func(m *Memory, k Key) { must(t, m.Delete(k)) },
		"Changed": func(m *Memory, k Key) {
			b := bytes.Clone(m.blobs[k])
			b[len(b)/2] ^= 1
			must(t, m.Put(k, b))
		},
		"Cut":    func(m *Memory, k Key) { must(t, m.Put(k, m.blobs[k][:len(m.blobs[k])-1])) },
		"Longer": func(m *Memory, k Key) { must(t, m.Put(k, append(bytes.Clone(m.blobs[k]), 0))) },
	} {
		f := New(Options{})
		must(t, f.WriteFile("/f", content, 0o644))
		s := new(Memory)
		id, err := f.Save(s)
		must(t, err)
		keys, err := Keys(s, id)
		must(t, err)
		if len(keys) != 5 {
			t.Fatalf("%d blobs, want root, page and three blocks", len(keys))
		}
		for i, k := range keys {
			whole := s.blobs[k]
			damage(s, k)
			g, err := Load(s, id, Options{})
			if i < 2 {
				if err == nil || i == 1 && (!errors.Is(err, EIO) || errors.Is(err, fs.ErrNotExist)) {
					t.Errorf("%s: Load with blob %d: %v", name, i, err)
				}
			} else {
				must(t, err)
				badBlock(t, name, g, int64(i-2))
			}
			must(t, s.Put(k, whole))
		}
	}
}

// badBlock expects that a block of /f can't be used, but all others can.
func badBlock(t *testing.T, name string, f *FS, bad int64) {
	t.Helper()
	if _, err := f.ReadFile("/f"); !errors.Is(err, EIO) {
		t.Errorf("%s: ReadFile: %v, want EIO", name, err)
	}
	r, err := f.OpenFile("/f", os.O_RDWR, 0)
	must(t, err)
	defer r.Close()
	p := make([]byte, 10)
	for i := range int64(3) {
		_, err := r.ReadAt(p, i*blockSize+100)
		if i == bad != errors.Is(err, EIO) {
			t.Errorf("%s: block %d: %v", name, i, err)
		}
	}
	if _, err := r.WriteAt(p, bad*blockSize+100); !errors.Is(err, EIO) {
		t.Errorf("%s: a write into the bad block: %v", name, err)
	}
	if err := r.Truncate(bad*blockSize + 1); !errors.Is(err, EIO) {
		t.Errorf("%s: a cut through the bad block: %v", name, err)
	}
	if err := f.Truncate("/f", bad*blockSize+1); !errors.Is(err, EIO) {
		t.Errorf("%s: a cut through the bad block: %v", name, err)
	}
	if err := f.ExportTar("/f", new(bytes.Buffer)); !errors.Is(err, EIO) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: an export: %v", name, err)
	}
}

func TestUnreferencedBlobsCanBeDeleted(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			f := New(Options{})
			must(t, f.WriteFile("/kept", numberedBytes(1, 2*blockSize), 0o644))
			must(t, f.WriteFile("/gone", numberedBytes(2, 2*blockSize), 0o644))
			_, err := f.Save(s)
			must(t, err)
			must(t, f.Unlink("/gone"))
			id, err := f.Save(s)
			must(t, err)
			needed, err := Keys(s, id)
			must(t, err)
			keep := map[Key]bool{}
			for _, k := range needed {
				keep[k] = true
			}
			all, err := s.Keys()
			must(t, err)
			if len(all) != 8 || len(needed) != 4 {
				t.Errorf("%d blobs, %d needed", len(all), len(needed))
			}
			for _, k := range all {
				if !keep[k] {
					must(t, s.Delete(k))
					must(t, s.Delete(k))
				}
			}
			g, err := Load(s, id, Options{})
			must(t, err)
			if d := cmp.Diff(dump(t, f), dump(t, g)); d != "" {
				t.Error(d)
			}
			// What was deleted is put again when it is needed again.
			must(t, f.WriteFile("/back", numberedBytes(2, 2*blockSize), 0o644))
			id, err = f.Save(s)
			must(t, err)
			g, err = Load(s, id, Options{})
			must(t, err)
			if d := cmp.Diff(dump(t, f), dump(t, g)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLoadSharesTheBase(t *testing.T) {
	b := New(Options{})
	for i := range 100 {
		must(t, b.WriteFile(fmt.Sprintf("/tool%02d", i), numberedBytes(i, 3000), 0o755))
	}
	base := b.Snapshot()
	f := New(Options{Base: base})
	must(t, f.WriteFile("/mine", numberedBytes(7, 3000), 0o644))
	s := new(counting)
	_, err := base.Save(s) // with the charges of b, which are not those of f
	must(t, err)
	id, err := f.Save(s)
	must(t, err)
	s.gets = 0
	g, err := Load(s, id, Options{Base: base})
	must(t, err)
	if s.gets > 3 { // the root, the page of the root directory, that of the new file
		t.Errorf("%d blobs were read", s.gets)
	}
	if g.table().get(50) != base.table.get(50) {
		t.Error("the base is not shared")
	}
	if f.Usage() != g.Usage() || g.Usage().Nodes != 1 {
		t.Errorf("usage is %+v, was %+v", g.Usage(), f.Usage())
	}
	if d := cmp.Diff(dump(t, f), dump(t, g)); d != "" {
		t.Error(d)
	}
	must(t, g.verify())
	again, err := g.Save(s)
	must(t, err)
	if again != id {
		t.Errorf("saved again as %s instead of %s", again, id)
	}
}

// TestLoadOnBaseWithOtherKinds has a directory that looks as in the base,
// down to its times, but has a file where the base has a directory.
func TestLoadOnBaseWithOtherKinds(t *testing.T) {
	clock := func() time.Time { return time.Unix(1000, 0) }
	b := New(Options{Now: clock})
	must(t, b.MkdirAll("/d", 0o755))
	for i := range 100 {
		must(t, b.Mkdir(fmt.Sprint("/d/", i), 0o755))
	}
	base := b.Snapshot()
	f := New(Options{Base: base, Now: clock})
	must(t, f.Rmdir("/d/60"))
	must(t, f.WriteFile("/d/60", []byte("x"), 0o644))
	s := new(Memory)
	id, err := f.Save(s)
	must(t, err)
	g, err := Load(s, id, Options{Base: base})
	must(t, err)
	must(t, g.verify())
	if d := cmp.Diff(dump(t, f), dump(t, g)); d != "" {
		t.Error(d)
	}
	must(t, New(Options{Base: base}).verify())
}

func (f *FS) table() *table { return &f.tree.table }

func TestSaveWithoutStoreIsInvalid(t *testing.T) {
	if _, err := New(Options{}).Save(nil); !errors.Is(err, EINVAL) {
		t.Errorf("Save: %v", err)
	}
	if _, err := Load(nil, "", Options{}); !errors.Is(err, EINVAL) {
		t.Errorf("Load: %v", err)
	}
	s := new(Memory)
	id, err := New(Options{Store: s}).Save(nil)
	must(t, err)
	_, err = Load(nil, id, Options{Store: s})
	must(t, err)
	for _, id := range []string{"", "xyz", id[:10], id + "00"} {
		if _, err := Load(s, id, Options{}); !errors.Is(err, EINVAL) {
			t.Errorf("Load of id %q: %v", id, err)
		}
	}
}

// TestDirLeavesNoPartOfABlob makes writing fail and looks at what is left.
func TestDirLeavesNoPartOfABlob(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	must(t, err)
	defer d.Close()
	k := Key{1, 2, 3}
	dir, name := blobPath(k)
	// A directory in the place of the blob makes the rename fail.
	must(t, d.root.MkdirAll(name+"/x", 0o700))
	if err := d.Put(k, []byte("data")); err == nil {
		t.Fatal("Put over a directory succeeded")
	}
	left, err := fs.ReadDir(d.root.FS(), dir)
	must(t, err)
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	// An empty file is not a blob.
	must(t, d.root.RemoveAll(name))
	must(t, d.root.WriteFile(name, nil, 0o600))
	if has, err := d.Has(k); has || err != nil {
		t.Errorf("Has of an empty file: %v, %v", has, err)
	}
	must(t, d.Put(k, []byte("data")))
	if b, err := d.Get(k); err != nil || string(b) != "data" {
		t.Errorf("Get: %q, %v", b, err)
	}
}

// TestLoadRefusesUnsoundTrees damages a tree before it is saved.
func TestLoadRefusesUnsoundTrees(t *testing.T) {
	for name, damage := range map[string]func(at func(string) *inode){
		"Nothing":          nil,
		"TooManyLinks":     func(at func(string) *inode) { at("/d/f").nlink = 2 },
		"DirectoryLinks":   func(at func(string) *inode) { at("/d").nlink = 2 },
		"OtherParent":      func(at func(string) *inode) { at("/d/e").parent = rootIno },
		"NoParent":         func(at func(string) *inode) { at("/d/e").parent = 0 },
		"RootParent":       func(at func(string) *inode) { at("/").parent = at("/d").ino },
		"RootIsAFile":      func(at func(string) *inode) { at("/").mode = 0 },
		"DirectoryTwice":   func(at func(string) *inode) { at("/").dir.insertName(nil, "again", at("/d").ino) },
		"DirectoryInSelf":  func(at func(string) *inode) { at("/d/e").dir.insertName(nil, "up", at("/d").ino) },
		"RootInside":       func(at func(string) *inode) { at("/d").dir.insertName(nil, "root", rootIno) },
		"NameLeadsNowhere": func(at func(string) *inode) { at("/d").dir.insertName(nil, "gone", 77) },
		"NoName":           func(at func(string) *inode) { at("/d").dir.leaves[0].entries[0].name = "" },
		"NameWithSlash":    func(at func(string) *inode) { at("/d").dir.leaves[0].entries[0].name = "a/b" },
		"NameWithZero":     func(at func(string) *inode) { at("/d").dir.leaves[0].entries[0].name = "a\x00b" },
		"DotDot":           func(at func(string) *inode) { at("/d").dir.leaves[0].entries[0].name = ".." },
		"NamesOutOfOrder":  func(at func(string) *inode) { at("/d").dir.leaves[0].entries[0].name = "z" },
		"NameTwice":        func(at func(string) *inode) { at("/d").dir.leaves[0].entries[0].name = "f" },
		"Unreachable":      func(at func(string) *inode) { at("/d").dir.removeName(at("/d").dir.leaves[0].owner, "l") },
		"Nameless": func(at func(string) *inode) {
			at("/d/l").nlink = 0
			at("/d").dir.removeName(at("/d").dir.leaves[0].owner, "l")
		},
		"OddMode":         func(at func(string) *inode) { at("/d/f").mode |= fs.ModeAppend },
		"TwoKinds":        func(at func(string) *inode) { at("/d").mode |= fs.ModeSymlink },
		"BlockBeyondSize": func(at func(string) *inode) { at("/d/f").size, at("/d/f").bytes = 4000, 4000 },
		"TooManyBlocks":   func(at func(string) *inode) { at("/d/f").blocks = make([]*block, 5) },
		"ChargedLess":     func(at func(string) *inode) { at("/d/f").bytes = 1 },
		"ChargedTwice":    func(at func(string) *inode) { at("/d/f").paid = 2 },
		"EmptyLink":       func(at func(string) *inode) { at("/d/l").target = "" },
		"LinkWithZero":    func(at func(string) *inode) { at("/d/l").target = "\x00" },
		"LinkWithSize":    func(at func(string) *inode) { at("/d/l").size = 1 },
		"DirectorySize":   func(at func(string) *inode) { at("/d").size = 1 },
		"PipeWithSize":    func(at func(string) *inode) { at("/d/p").size = 1 },
	} {
		f := New(Options{})
		must(t, f.MkdirAll("/d/e", 0o755))
		must(t, f.WriteFile("/d/f", numberedBytes(1, 5000), 0o644))
		must(t, f.Symlink("f", "/d/l"))
		must(t, f.Mknod("/d/p", fs.ModeNamedPipe|0o600, 0))
		s := new(Memory)
		if damage != nil {
			damage(func(path string) *inode {
				in, e := f.tree.lookupExisting(&f.quota, path, false)
				if e != 0 {
					t.Fatal(path, e)
				}
				return in
			})
		}
		id, err := f.Save(s)
		must(t, err)
		_, err = Load(s, id, Options{})
		if (damage == nil) != (err == nil) || err != nil && !errors.Is(err, EIO) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLoadChecksTheLengthOfBlocks has a manifest that names a blob of another
// length, with the right hash.
func TestLoadChecksTheLengthOfBlocks(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/f", numberedBytes(1, 5000), 0o644))
	s := new(Memory)
	short := numberedBytes(2, 4000)
	key := Key(sha256.Sum256(short))
	must(t, s.Put(key, short))
	in := f.tree.table.get(2)
	in.blocks[0].saved.Store(&savedBlock{key: key})
	id, err := f.Save(s)
	must(t, err)
	g, err := Load(s, id, Options{})
	must(t, err)
	if _, err := g.ReadFile("/f"); !errors.Is(err, EIO) {
		t.Errorf("ReadFile: %v, want EIO", err)
	}
}

func TestSweepLeavesOnlyWhatIsKept(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	must(t, err)
	defer d.Close()
	f := New(Options{})
	must(t, f.WriteFile("/old", numberedBytes(1, 5000), 0o644))
	_, err = f.Save(d)
	must(t, err)
	must(t, f.WriteFile("/old", numberedBytes(2, 5000), 0o644))
	id, err := f.Save(d)
	must(t, err)
	dir, _ := blobPath(Key{7})
	must(t, d.root.MkdirAll(dir, 0o700))
	for name, age := range map[string]time.Duration{"tmp-dead": 2 * abandoned, "tmp-alive": abandoned / 2} {
		must(t, d.root.WriteFile(dir+"/"+name, []byte("part"), 0o600))
		then := time.Now().Add(-age)
		must(t, d.root.Chtimes(dir+"/"+name, then, then))
	}
	needed, err := Keys(d, id)
	must(t, err)
	must(t, d.Sweep(func(k Key) bool { return slices.Contains(needed, k) }))
	left, err := d.Keys()
	must(t, err)
	if len(left) != len(needed) {
		t.Errorf("%d blobs are left, %d are needed", len(left), len(needed))
	}
	for name, want := range map[string]bool{"tmp-dead": false, "tmp-alive": true} {
		if _, err := d.root.Stat(dir + "/" + name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	g, err := Load(d, id, Options{})
	must(t, err)
	if d := cmp.Diff(dump(t, f), dump(t, g)); d != "" {
		t.Error(d)
	}
}
