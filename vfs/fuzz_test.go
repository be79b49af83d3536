package vfs

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// smallQuota is a quota that fuzzing reaches.
func smallQuota() Quota { return Quota{Bytes: 1 << 20, File: 300_000, Nodes: 50, Path: 1024} }

// FuzzImportTar unpacks anything beside files that must not change.
func FuzzImportTar(f *testing.F) {
	f.Add(archive(f, file("a/b", "content"), linkTo("l", "../.."), file("l/x", "y")).Bytes())
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "a"}, file("../x", "")).Bytes())
	f.Add(archive(f, file(strings.Repeat("long/", 50)+"x", "pax"), tar.Header{Typeflag: tar.TypeFifo, Name: "p"}).Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := New(Options{Quota: smallQuota()})
		must(t, fsys.MkdirAll("/w/in", 0o755))
		must(t, fsys.WriteFile("/secret", []byte("s"), 0o600))
		must(t, fsys.Symlink("/", "/w/out"))
		outside := dump(t, fsys)
		for p := range outside {
			if p == "/w" || strings.HasPrefix(p, "/w/") {
				delete(outside, p)
			}
		}
		usage := fsys.Usage()
		err := fsys.ImportTar("/w", bytes.NewReader(data))
		must(t, fsys.verify())
		after := dump(t, fsys)
		for p, was := range outside {
			if after[p] != was {
				t.Fatalf("%s was %s and is %s", p, was, after[p])
			}
			delete(after, p)
		}
		for p := range after {
			if p != "/w" && !strings.HasPrefix(p, "/w/") {
				t.Fatalf("%s was made outside", p)
			}
		}
		u := fsys.Usage()
		if err != nil && u != usage {
			t.Fatalf("failed with %v, but usage is %+v", err, u)
		}
		if u.Bytes > u.Quota.Bytes || u.Nodes > u.Quota.Nodes {
			t.Fatalf("usage %+v", u)
		}
		if err == nil {
			roundTrip(t, fsys)
		}
	})
}

// roundTrip exports, imports and saves what is there.
func roundTrip(t *testing.T, f *FS) {
	var b bytes.Buffer
	must(t, f.ExportTar("/w", &b))
	g := New(Options{Quota: Quota{Nodes: -1, Bytes: -1, Path: -1}})
	err := g.ImportTar("/", &b)
	if err != nil && !errors.Is(err, EINVAL) {
		t.Fatalf("what was exported can't be imported: %v", err)
	}
	s := new(Memory)
	id, err := f.Save(s)
	must(t, err)
	h, err := Load(s, id, Options{})
	must(t, err)
	must(t, h.verify())
	if h.Usage().Bytes != f.Usage().Bytes {
		t.Fatalf("usage %+v, was %+v", h.Usage(), f.Usage())
	}
}

// oneBlob is a store that has one root and gives any page the same content.
type oneBlob struct{ root, page []byte }

func (o oneBlob) Get(k Key) ([]byte, error) {
	for _, b := range [][]byte{o.root, o.page} {
		if sha256.Sum256(b) == k {
			return b, nil
		}
	}
	return nil, fs.ErrNotExist
}
func (oneBlob) Put(Key, []byte) error { return errors.ErrUnsupported }
func (oneBlob) Has(Key) (bool, error) { return false, nil }

// pageOf returns the only page of a saved tree.
func pageOf(f *testing.F, fsys *FS) []byte {
	s := new(Memory)
	id, err := fsys.Save(s)
	must(f, err)
	keys, err := Keys(s, id)
	must(f, err)
	return s.blobs[keys[1]]
}

// FuzzLoadPage loads a tree of one page. What is accepted must be a sound
// tree that can be used and saved.
func FuzzLoadPage(f *testing.F) {
	fsys := New(Options{})
	f.Add(pageOf(f, fsys))
	must(f, fsys.MkdirAll("/a/b", 0o755))
	must(f, fsys.WriteFile("/a/f", numberedBytes(1, 2000), 0o644))
	must(f, fsys.WriteFile("/a/small", []byte("small"), 0o644))
	must(f, fsys.Link("/a/f", "/a/b/hard"))
	must(f, fsys.Symlink("../f", "/a/b/soft"))
	must(f, fsys.Mknod("/null", fs.ModeDevice|0o666, 3))
	f.Add(pageOf(f, fsys))
	f.Fuzz(func(t *testing.T, page []byte) {
		var root encoder
		root.putBytes([]byte(rootMagic))
		root.putUint(1)
		root.putUint(0)
		sum := sha256.Sum256(page)
		root.putBytes(sum[:])
		s := oneBlob{root.buf, page}
		id := Key(sha256.Sum256(root.buf)).String()
		fsys, err := Load(&s, id, Options{})
		if err != nil {
			return
		}
		must(t, fsys.verify())
		todo := []string{"/"}
		for len(todo) > 0 {
			p := todo[0]
			todo = todo[1:]
			if _, err := fsys.ReadFile(p); errors.Is(err, ENOENT) {
				t.Fatal(err)
			}
			entries, _ := fsys.ReadDir(p)
			for _, e := range entries {
				if e.IsDir() {
					todo = append(todo, joinName(p, e.Name()))
				}
			}
		}
		fsys.WriteFile("/new", []byte("x"), 0o644)
		must(t, fsys.RemoveAll("/"))
		must(t, fsys.verify())
	})
}

// FuzzLoadRoot reads the list of pages.
func FuzzLoadRoot(f *testing.F) {
	page := pageOf(f, New(Options{}))
	sum := sha256.Sum256(page)
	root := append([]byte(rootMagic), 1, 0)
	f.Add(append(root, sum[:]...))
	f.Add(append(append(append([]byte(rootMagic), 2, 0), sum[:]...), append([]byte{1}, sum[:]...)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := oneBlob{data, page}
		id := Key(sha256.Sum256(data)).String()
		fsys, err := Load(&s, id, Options{})
		if err != nil {
			return
		}
		must(t, fsys.verify())
		if _, err := Keys(&s, id); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzWalk resolves a path in a tree of links, and compares with a walk that
// looks only at one name at a time.
func FuzzWalk(f *testing.F) {
	f.Add("/a/b/../c", "..", "/a", "b/c")
	f.Add("//l1/./l2/../l3/", "a/../l2", "/l3", "/")
	f.Add("/l1", "l2", "l3", "l1")
	f.Add("/a/l1/x", "/l2", ".", "nothing")
	f.Fuzz(func(t *testing.T, path, one, two, three string) {
		fsys := New(Options{})
		must(t, fsys.MkdirAll("/a/b/c", 0o755))
		must(t, fsys.WriteFile("/a/f", nil, 0o644))
		for i, target := range []string{one, two, three} {
			for _, dir := range []string{"", "/a", "/a/b"} {
				if err := fsys.Symlink(target, dir+"/l"+string(rune('1'+i))); err != nil {
					return
				}
			}
		}
		got, err := fsys.Resolve("/" + path)
		want, e := slowResolve(fsys, "/"+path)
		if e != 0 {
			if !errors.Is(err, e) {
				t.Fatalf("Resolve(%q) = %q, %v; want %v", path, got, err, e)
			}
			return
		}
		if err != nil || got != want {
			t.Fatalf("Resolve(%q) = %q, %v; want %q", path, got, err, want)
		}
		x, err := fsys.Stat("/" + path)
		must(t, err)
		y, err := fsys.Lstat(want)
		must(t, err)
		if x.Ino() != y.Ino() {
			t.Fatalf("Stat(%q) is not %q", path, want)
		}
	})
}

// slowResolve asks the file system only about names in clean paths.
func slowResolve(f *FS, path string) (string, Errno) {
	if len(path) >= DefaultPath {
		return "", ENAMETOOLONG
	}
	rest := strings.Split(path, "/")
	done := []string{}
	hops := 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		here, err := f.Lstat("/" + strings.Join(done, "/"))
		switch {
		case err != nil:
			return "", ENOENT
		case !here.IsDir():
			return "", ENOTDIR
		case name == "" || name == ".":
			continue
		case name == "..":
			done = done[:max(len(done)-1, 0)]
			continue
		case len(name) > DefaultName:
			return "", ENAMETOOLONG
		case strings.IndexByte(name, 0) >= 0:
			return "", EINVAL
		}
		full := "/" + strings.Join(append(done[:len(done):len(done)], name), "/")
		i, err := f.Lstat(full)
		switch {
		case err != nil:
			return "", ENOENT
		case i.Mode()&fs.ModeSymlink == 0:
			done = append(done[:len(done):len(done)], name)
			continue
		}
		if hops++; hops > DefaultLinks {
			return "", ELOOP
		}
		target, err := f.Readlink(full)
		if err != nil {
			return "", ENOENT
		}
		if target[0] == '/' {
			done = nil
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return "/" + strings.Join(done, "/"), 0
}

// script reads calls from bytes.
type script struct {
	data      []byte
	fs        *FS
	snapshots []*Snapshot
	open      []*File
}

func (s *script) next() int {
	if len(s.data) == 0 {
		return 0
	}
	c := s.data[0]
	s.data = s.data[1:]
	return int(c)
}

// step makes one call. Errors are fine.
func (s *script) step() {
	names := []string{"/", "/a", "/b", "/a/a", "/a/b", "/a/../b", "/l", "/l/x", "/b/", "", "/a/a/a"}
	op, p, q, n := s.next(), names[s.next()%len(names)], names[s.next()%len(names)], s.next()*5000
	switch op % 14 {
	case 0:
		s.fs.Mkdir(p, 0o755)
	case 1:
		s.fs.Rename(p, q)
	case 2:
		s.fs.Link(p, q)
	case 3:
		s.fs.Symlink(p, q)
	case 4:
		s.fs.WriteFile(p, make([]byte, n), 0o644)
	case 5:
		s.fs.Remove(p)
	case 6:
		s.fs.RemoveAll(p)
	case 7:
		s.fs.Truncate(p, int64(n))
	case 8:
		if w, err := s.fs.OpenFile(p, os.O_RDWR|os.O_CREATE, 0o644); err == nil {
			s.open = append(s.open, w)
		}
	case 11:
		s.snapshots = append(s.snapshots[max(len(s.snapshots)-4, 0):], s.fs.Snapshot())
	case 12:
		s.fs.Restore(s.snapshots[n%len(s.snapshots)])
	case 13:
		var b bytes.Buffer
		if s.fs.ExportTar(p, &b) == nil {
			s.fs.ImportTar(q, &b)
		}
	default:
		s.file(op%14 == 9, n)
	}
}

// file writes to an open file, or closes one.
func (s *script) file(write bool, n int) {
	switch {
	case len(s.open) == 0:
	case write:
		s.open[n%len(s.open)].WriteAt(make([]byte, n/7), int64(n))
	default:
		s.open[0].Close()
		s.open = s.open[1:]
	}
}

// FuzzOperations reads the input as a list of calls.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d"))
	f.Add([]byte("mkdir rename unlink write snapshot restore"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &script{data: data, fs: New(Options{Quota: smallQuota()})}
		s.snapshots = []*Snapshot{s.fs.Snapshot()}
		for range min(len(s.data), 300) {
			s.step()
			if u := s.fs.Usage(); u.Bytes > u.Quota.Bytes || u.Nodes > u.Quota.Nodes || u.Bytes < 0 || u.Nodes < 0 {
				t.Fatalf("usage %+v", u)
			}
		}
		must(t, s.fs.verify())
		for _, w := range s.open {
			must(t, w.Close())
		}
		if len(s.fs.tree.open)+len(s.fs.tree.orphans) != 0 {
			t.Fatal("something is still open")
		}
		must(t, s.fs.verify())
	})
}

func TestImportReadsToTheEndOnly(t *testing.T) {
	b := archive(t, file("a", "x"))
	b.WriteString("what follows is not ours")
	if err := New(Options{}).ImportTar("/", b); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(b); !strings.HasSuffix(string(rest), "not ours") {
		t.Errorf("read on to %q", rest)
	}
	if err := New(Options{}).ImportTar("/f", strings.NewReader("")); err != nil && !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an empty stream: %v", err)
	}
}
