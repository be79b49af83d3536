package atomicfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// alone fails the test if there is anything else in a file's directory.
func alone(t *testing.T, name string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(list) != 1 || list[0].Name() != filepath.Base(name) {
		t.Errorf("left in the directory: %v, %v", list, err)
	}
}

func TestReplace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, c := range []struct {
		text string
		perm fs.FileMode
	}{{"first", 0o600}, {"", 0o644}, {"third", 0o444}, {"fourth", 0o640}} {
		if err := atomicfile.Replace(name, []byte(c.text), c.perm); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err != nil || string(b) != c.text {
			t.Errorf("%q, %v; want %q", b, err, c.text)
		}
		info, err := os.Stat(name)
		if err != nil || runtime.GOOS != "windows" && info.Mode() != c.perm {
			t.Errorf("mode %v, %v; want %v", info.Mode(), err, c.perm)
		}
	}
	alone(t, name)
	if err := atomicfile.Replace(filepath.Join(name, "beneath"), nil, 0o600); err == nil {
		t.Error("a file was made beneath another")
	}
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.MkdirAll(filepath.Join(dir, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Replace(dir, nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	alone(t, dir)
}

// TestReadersFindAWhole has many write a file that others read.
func TestReadersFindAWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	text := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 100_000) }
	if err := atomicfile.Replace(name, text(0), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5 {
				if err := atomicfile.Replace(name, text(i), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				b, err := os.ReadFile(name)
				if err != nil || len(b) != 100_000 || bytes.Count(b, b[:1]) != len(b) {
					t.Errorf("%d bytes, %v", len(b), err)
				}
			}
		})
	}
	wg.Wait()
	alone(t, name)
}

func TestCreate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	var wg sync.WaitGroup
	made := make(chan string, 4)
	for _, text := range []string{"one", "two", "three", "four"} {
		wg.Go(func() {
			switch err := atomicfile.Create(name, []byte(text), 0o600); {
			case err == nil:
				made <- text
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(name)
	if len(made) != 1 || err != nil || string(b) != <-made {
		t.Errorf("%d were first; the file holds %q, %v", len(made), b, err)
	}
	alone(t, name)
}
