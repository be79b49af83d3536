package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"pgregory.net/rapid"
)

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustFinish fails if f has not returned after a minute.
func mustFinish(t fataler, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// dump describes the content of a file system, without access times.
func dump(t fataler, f *FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	todo := []string{"/"}
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		i, err := f.Lstat(p)
		must(t, err)
		line := fmt.Sprintf("%v %d %d %d %d:%d %x %d %d %d", i.Mode(), i.Ino(), i.Size(), i.Nlink(), i.Uid(), i.Gid(), i.Rdev(),
			i.ModTime().UnixNano(), i.Ctime().UnixNano(), i.BirthTime().UnixNano())
		switch {
		case i.IsDir():
			entries, err := f.ReadDir(p)
			must(t, err)
			for _, e := range entries {
				todo = append(todo, path.Join(p, e.Name()))
			}
		case i.Mode()&fs.ModeSymlink != 0:
			target, err := f.Readlink(p)
			must(t, err)
			line += " -> " + target
		case i.Mode().IsRegular():
			data, err := f.ReadFile(p)
			must(t, err)
			line += " " + digest(data)
		}
		out[p] = line
	}
	return out
}

func digest(b []byte) string {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return fmt.Sprintf("%d:%x", len(b), h)
}

// paths draws paths that meet each other often.
func paths() *rapid.Generator[string] {
	name := rapid.SampledFrom([]string{
		"a", "b", "c", "a", "b", "c", "a", "b", "c", "..", ".", strings.Repeat("n", 255), strings.Repeat("n", 256),
	})
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(name, 1, 4).Draw(t, "parts")
		p := strings.Join(parts, rapid.SampledFrom([]string{"/", "/", "/", "//"}).Draw(t, "sep"))
		return p + rapid.SampledFrom([]string{"", "", "", "", "/", "/."}).Draw(t, "end")
	})
}

func absolute() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 40).Draw(t, "root") == 0 {
			return rapid.SampledFrom([]string{"/", "//", ""}).Draw(t, "odd")
		}
		return "/" + paths().Draw(t, "path")
	})
}

// sizes are around those of blocks.
var sizes = []int64{0, 1, 10, 1000, 40_000, 50_000, 60_000, blockSize - 1, blockSize, blockSize + 1, 2*blockSize + 100}

// scribbled is what scribble needs of a file system.
type scribbled interface {
	MkdirAll(string, fs.FileMode) error
	WriteFile(string, []byte, fs.FileMode) error
	RemoveAll(string) error
	Rename(string, string) error
	Link(string, string) error
	Symlink(string, string) error
	Truncate(string, int64) error
	Chmod(string, fs.FileMode) error
	Chtimes(string, time.Time, time.Time) error
	Mknod(string, fs.FileMode, uint32) error
	OpenFile(string, int, fs.FileMode) (*File, error)
}

// changeRandomly does something random to a file system. Errors are fine.
func changeRandomly(t *rapid.T, f scribbled) {
	p := absolute().Draw(t, "p")
	q := absolute().Draw(t, "q")
	size := int(rapid.SampledFrom(sizes).Draw(t, "size"))
	data := []byte(strings.Repeat(string(rune('a'+size%26)), size))
	switch rapid.IntRange(0, 12).Draw(t, "op") {
	case 0, 1:
		f.MkdirAll(p, 0o755)
	case 2, 3:
		f.WriteFile(p, data, 0o644)
	case 4:
		f.RemoveAll(p)
	case 5:
		f.Rename(p, q)
	case 6:
		f.Link(p, q)
	case 7:
		f.Symlink(p, q)
	case 8:
		f.Truncate(p, int64(size))
	case 9:
		f.Chmod(p, 0o700)
	case 10:
		f.Chtimes(p, time.Time{}, time.Unix(int64(size), 5))
	case 11:
		f.Mknod(p, fs.ModeNamedPipe|0o600, 0)
	case 12:
		w, err := f.OpenFile(p, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return
		}
		w.WriteAt(data, int64(rapid.SampledFrom(sizes).Draw(t, "off")))
		w.Close()
	}
}
