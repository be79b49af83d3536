package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func Example() {
	f := vfs.New(vfs.Options{})
	check(f.MkdirAll("/home/me", 0o755))
	check(f.WriteFile("/home/me/notes", []byte("remember\n"), 0o644))

	before := f.Snapshot()
	check(f.RemoveAll("/home"))
	f.Restore(before)

	data, err := f.ReadFile("/home/me/notes")
	fmt.Printf("%s%v\n", data, err)
	// Output:
	// remember
	// <nil>
}

func ExampleFS_OpenFile() {
	f := vfs.New(vfs.Options{})
	log, err := f.OpenFile("/log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check(err)
	fmt.Fprintln(log, "first")
	fmt.Fprintln(log, "second")
	check(log.Close())

	data, _ := f.ReadFile("/log")
	fmt.Printf("%s", data)
	// Output:
	// first
	// second
}

func ExampleQuota() {
	f := vfs.New(vfs.Options{Quota: vfs.Quota{File: 10}})
	check(f.WriteFile("/small", []byte("fits"), 0o644))
	err := f.WriteFile("/small", []byte("this does not fit"), 0o644)
	fmt.Println(err, errors.Is(err, atoll.ErrQuota))

	data, _ := f.ReadFile("/small")
	fmt.Printf("%s\n", data)
	// Output:
	// write /small: File too large true
	// fits
}

func ExampleFS_Fork() {
	f := vfs.New(vfs.Options{})
	check(f.WriteFile("/x", []byte("both"), 0o644))
	g := f.Fork()
	check(g.WriteFile("/x", []byte("only the fork"), 0o644))

	a, _ := f.ReadFile("/x")
	b, _ := g.ReadFile("/x")
	fmt.Printf("%s, %s\n", a, b)
	// Output: both, only the fork
}

func ExampleDiff() {
	f := vfs.New(vfs.Options{})
	check(f.WriteFile("/a", []byte("1"), 0o644))
	check(f.WriteFile("/b", []byte("2"), 0o644))
	before := f.Snapshot()
	check(f.WriteFile("/a", []byte("changed"), 0o644))
	check(f.Rename("/b", "/c"))
	for _, c := range vfs.Diff(before, f.Snapshot()) {
		fmt.Println(c.Kind, c.Path)
	}
	// Output:
	// M /a
	// D /b
	// A /c
}

func ExampleOptions_base() {
	image := vfs.New(vfs.Options{})
	check(image.MkdirAll("/etc", 0o755))
	check(image.WriteFile("/etc/motd", []byte("hello\n"), 0o644))
	base := image.Snapshot()

	// Any number of file systems can share it, and none is charged for it.
	f := vfs.New(vfs.Options{Base: base})
	data, _ := f.ReadFile("/etc/motd")
	fmt.Printf("%s%d nodes\n", data, f.Usage().Nodes)
	// Output:
	// hello
	// 0 nodes
}

func ExampleFS_IO() {
	f := vfs.New(vfs.Options{})
	check(f.MkdirAll("/src/cmd", 0o755))
	check(f.WriteFile("/src/cmd/main.go", nil, 0o644))
	names, _ := fs.Glob(f.IO(), "src/*/*.go")
	fmt.Println(names)
	// Output: [src/cmd/main.go]
}

func ExampleFS_ImportTar() {
	f := vfs.New(vfs.Options{})
	check(f.MkdirAll("/from/dir", 0o755))
	check(f.WriteFile("/from/dir/file", []byte("content"), 0o644))

	var archive bytes.Buffer
	check(f.ExportTar("/from/dir", &archive))
	check(f.ImportTar("/to", &archive))

	data, _ := f.ReadFile("/to/dir/file")
	fmt.Printf("%s\n", data)
	// Output: content
}

func ExampleFS_Save() {
	store := new(vfs.Memory) // or one from OpenDir
	f := vfs.New(vfs.Options{})
	check(f.WriteFile("/x", []byte("kept"), 0o644))
	id, err := f.Save(store)
	check(err)

	g, err := vfs.Load(store, id, vfs.Options{})
	check(err)
	data, _ := g.ReadFile("/x")
	fmt.Printf("%s\n", data)
	// Output: kept
}

func ExampleKeys() {
	store := new(vfs.Memory)
	f := vfs.New(vfs.Options{})
	check(f.WriteFile("/old", make([]byte, 5000), 0o644))
	_, err := f.Save(store)
	check(err)
	check(f.Unlink("/old"))
	id, err := f.Save(store)
	check(err)

	// Delete what the last state doesn't need.
	keep := map[vfs.Key]bool{}
	needed, err := vfs.Keys(store, id)
	check(err)
	for _, k := range needed {
		keep[k] = true
	}
	all, err := store.Keys()
	check(err)
	gone := 0
	for _, k := range all {
		if !keep[k] {
			check(store.Delete(k))
			gone++
		}
	}
	fmt.Println(gone, "blobs deleted")
	// Output: 3 blobs deleted
}

// A directory of the host is seen in a tree; links in it lead to places of
// the tree, never of the host.
func ExampleFS_Mount() {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	host, err := vfs.OpenHost(dir)
	check(err)
	defer host.Close()
	f := vfs.New(vfs.Options{})
	check(f.Mount(vfs.Mount{Target: "/work", Host: host, Limit: 1 << 20}))
	check(f.WriteFile("/work/note", []byte("on the host"), 0o644))
	check(f.Symlink("/etc/passwd", "/work/link"))

	b, err := os.ReadFile(filepath.Join(dir, "note"))
	fmt.Printf("%s %v\n", b, err)
	_, err = f.ReadFile("/work/link")
	fmt.Println(err)
	// Output:
	// on the host <nil>
	// read /work/link: No such file or directory
}

// To follow a tree, compare each state with the next.
func ExampleFS_Observe() {
	f := vfs.New(vfs.Options{})
	seen, changed := f.Observe()
	check(f.WriteFile("/new", nil, 0o644))
	<-changed
	now, _ := f.Observe()
	for _, c := range vfs.Diff(seen, now) {
		fmt.Println(c.Kind, c.Path)
	}
	// Output: A /new
}
