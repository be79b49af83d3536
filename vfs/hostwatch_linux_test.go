package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// startWatch begins a watch of /m.
func startWatch(t fataler, f *FS) *MountWatch {
	t.Helper()
	list, err := f.WatchMounts("/")
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("%d watches", len(list))
	}
	return list[0]
}

// replay applies the events of a watch to the set of known paths, until the
// file called last is there.
func replay(t fataler, w *MountWatch, known map[string]bool, last string) {
	t.Helper()
	for !known[last] {
		list, err := w.Next()
		must(t, err)
		for _, c := range list {
			switch {
			case c.Kind == Deleted:
				delete(known, c.Path)
			case c.Kind == Added || known[c.Path]:
				known[c.Path] = true
			default:
				t.Fatalf("%s is written, but was never there", c.Path)
			}
		}
	}
}

// pathsBelow returns the paths below a directory, as a watch calls them.
func pathsBelow(t fataler, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if p != dir {
			all["/m"+p[len(dir):]] = true
		}
		return err
	}))
	return all
}

// TestMountWatchReportsTree changes a directory of the host at random:
// replaying the events of the watch yields the tree.
func TestMountWatchReportsTree(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	rapidtest.Check(t, func(t *rapid.T) {
		list, err := os.ReadDir(dir)
		must(t, err)
		for _, d := range list {
			must(t, os.RemoveAll(filepath.Join(dir, d.Name())))
		}
		must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
		w := startWatch(t, f)
		defer w.Close()
		known := pathsBelow(t, dir)
		path := func() string {
			return filepath.Join(dir, filepath.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path")...))
		}
		look := func(name string) {
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
			replay(t, w, known, "/m/"+name)
		}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "op") { // errors are fine
			case 0:
				os.Mkdir(path(), 0o755)
			case 1:
				os.MkdirAll(path(), 0o755)
			case 2:
				os.WriteFile(path(), []byte("x"), 0o644)
			case 3:
				os.RemoveAll(path())
			case 4:
				os.Rename(path(), path())
			case 5:
				os.Symlink(path(), path())
			case 6:
				look(fmt.Sprintf("look%d", i))
			}
		}
		look("last")
		if d := cmp.Diff(pathsBelow(t, dir), known); d != "" {
			t.Fatalf("what is known differs from what is there (-there +known):\n%s", d)
		}
	})
}

// TestMountWatchSurvivesOverflow makes more changes than the host queues.
func TestMountWatchSurvivesOverflow(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	for i := range 50 {
		must(t, os.Mkdir(fmt.Sprintf("%s/d%d", dir, i), 0o755))
	}
	w := startWatch(t, f)
	defer w.Close()
	known := pathsBelow(t, dir)
	for i := range 9000 {
		must(t, os.WriteFile(fmt.Sprintf("%s/d%d/f%d", dir, i%50, i), []byte("x"), 0o644)) // two events each
	}
	must(t, os.RemoveAll(dir+"/d7"))
	must(t, os.Rename(dir+"/d8", dir+"/d9/moved"))
	must(t, os.WriteFile(dir+"/zzz", nil, 0o644))
	replay(t, w, known, "/m/zzz")
	want := pathsBelow(t, dir)
	if !maps.Equal(want, known) {
		t.Errorf("%d files are there, %d are known", len(want), len(known))
	}
}

// TestMountWatchFollowsNoLink plants links to a directory outside the mount:
// the watch does not report what happens there.
func TestMountWatchFollowsNoLink(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	outside := t.TempDir()
	must(t, os.Mkdir(outside+"/d", 0o755))
	must(t, os.Symlink(outside, dir+"/before"))
	w := startWatch(t, f)
	defer w.Close()
	known := pathsBelow(t, dir)
	must(t, os.Symlink(outside, dir+"/after"))
	must(t, os.Symlink(outside+"/d", dir+"/deep"))
	must(t, os.WriteFile(outside+"/secret", nil, 0o644))
	must(t, os.WriteFile(outside+"/d/secret", nil, 0o644))
	must(t, os.WriteFile(dir+"/last", nil, 0o644))
	replay(t, w, known, "/m/last")
	for p := range known {
		if strings.Contains(p, "secret") {
			t.Errorf("the watch tells of %s", p)
		}
	}
}

func TestMountWatchEnds(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	must(t, f.MkdirAll("/m/a/b", 0o755))
	list, err := f.WatchMounts("/m/a/b")
	must(t, err)
	must(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "x")))
	must(t, os.RemoveAll(filepath.Join(dir, "x")))
	for err == nil {
		_, err = list[0].Next()
	}
	wantReason(t, "Next after the directory has gone", err, ENOENT)
	must(t, list[0].Close())
	w := startWatch(t, f)
	ended := make(chan error)
	go func() {
		_, err := w.Next()
		ended <- err
	}()
	must(t, w.Close())
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Next of a closed watch: %v", err)
	}
	if _, err := f.WatchMounts("/m/missing"); !errors.Is(err, ENOENT) {
		t.Errorf("WatchMounts of what is not there: %v", err)
	}
}
