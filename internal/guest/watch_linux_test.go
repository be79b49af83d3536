package guest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// follower keeps a picture of a directory by what a watch tells.
type follower struct {
	t      testing.TB
	events chan atoll.FileEvent
	ended  chan error
	cancel context.CancelFunc
	seen   map[string]bool // names, and whether they are directories
}

// follow begins a watch that is ready.
func follow(t testing.TB, l *Link, dir string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &follower{t: t, events: make(chan atoll.FileEvent), ended: make(chan error, 1), cancel: cancel, seen: make(map[string]bool)}
	go func() {
		w.ended <- l.Watch(ctx, dir, func(e atoll.FileEvent) error {
			select {
			case w.events <- e:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	t.Cleanup(cancel)
	if e := w.next(); e != (atoll.FileEvent{Op: atoll.FileReady, Path: dir, Dir: true}) {
		t.Fatalf("the first event is %v", e)
	}
	return w
}

func (w *follower) next() atoll.FileEvent {
	w.t.Helper()
	select {
	case e := <-w.events:
		return e
	case err := <-w.ended:
		w.t.Fatalf("the watch ended: %v", err)
	case <-w.t.Context().Done():
		w.t.Fatal("the test is over")
	}
	return atoll.FileEvent{}
}

// until takes events until all that are wanted have come.
func (w *follower) until(want ...string) {
	w.t.Helper()
	open := make(map[string]bool)
	for _, s := range want {
		open[s] = true
	}
	for len(open) > 0 {
		e := w.next()
		delete(open, fmt.Sprintf("%s %s", e.Op, e.Path))
	}
}

func (w *follower) end() error {
	for {
		select {
		case <-w.events:
		case err := <-w.ended:
			return err
		}
	}
}

func TestWatch(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	must(t, os.Mkdir(dir+"/w", 0o755))
	must(t, os.WriteFile(dir+"/w/f", []byte("1"), 0o600))
	w := follow(t, l.Link, dir+"/w")
	must(t, l.Mkdir(t.Context(), dir+"/w/a/b/c", 0o755))
	must(t, l.WriteFile(t.Context(), dir+"/w/a/b/c/f", strings.NewReader("x"), 0o600))
	w.until("create "+dir+"/w/a", "create "+dir+"/w/a/b", "create "+dir+"/w/a/b/c", "create "+dir+"/w/a/b/c/f")
	must(t, l.WriteFile(t.Context(), dir+"/w/f", strings.NewReader("2"), 0o600))
	w.until("write " + dir + "/w/f")
	must(t, os.Rename(dir+"/w/a", dir+"/w/z"))
	w.until("remove "+dir+"/w/a/b/c/f", "remove "+dir+"/w/a", "create "+dir+"/w/z", "create "+dir+"/w/z/b/c/f")
	must(t, os.WriteFile(dir+"/w/z/b/c/f", []byte("more"), 0o600))
	w.until("write " + dir + "/w/z/b/c/f")
	must(t, os.RemoveAll(dir+"/w"))
	w.until("remove "+dir+"/w/f", "remove "+dir+"/w/z/b/c/f")
	want(t, w.end(), atoll.ErrNotFound, "a directory that was removed")
}

func TestWatchTellsNothingOfUnreadyFiles(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	w := follow(t, l.Link, dir)
	for i := range 20 {
		must(t, l.WriteFile(t.Context(), fmt.Sprintf("%s/%d", dir, i), strings.NewReader("x"), 0o600))
	}
	must(t, os.WriteFile(dir+"/last", nil, 0o600))
	for e := w.next(); e.Path != dir+"/last"; e = w.next() {
		if strings.HasSuffix(e.Path, ".tmp") {
			t.Errorf("told: %v", e)
		}
	}
}

func TestWatchEnds(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	own := errors.New("of the listener")
	none := func(atoll.FileEvent) error { return nil }
	ctx := t.Context()
	want(t, l.Watch(ctx, dir, func(atoll.FileEvent) error { return own }), own, "a listener's error")
	want(t, l.Watch(ctx, dir+"/missing", none), atoll.ErrNotFound, "a directory that is not there")
	want(t, l.Watch(ctx, dir+"/file", none), atoll.ErrInvalid, "a file")
	want(t, l.Watch(ctx, "relative", none), atoll.ErrInvalid, "a relative path")
	want(t, l.Watch(ctx, "/proc", none), atoll.ErrDenied, "a watch of /proc")
	for range 2 * maxWatches { // none is left behind
		w := follow(t, l.Link, dir)
		w.cancel()
		want(t, w.end(), context.Canceled, "a context that is done")
		l.settle()
	}
}

func TestWatchesAreBounded(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	for range maxWatches {
		follow(t, l.Link, dir)
	}
	want(t, l.Watch(t.Context(), dir, nil), atoll.ErrQuota, "one too many")
}

// TestWatchOutlivesItsConnection changes files while there is no connection, as
// a driver does that goes back to a snapshot.
func TestWatchOutlivesItsConnection(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	for _, name := range []string{"kept", "changed", "gone", "dir/f", "kind"} {
		must(t, os.MkdirAll(filepath.Dir(dir+"/"+name), 0o755))
		must(t, os.WriteFile(dir+"/"+name, []byte(name), 0o600))
	}
	w := follow(t, l.Link, dir)
	must(t, os.WriteFile(dir+"/later", nil, 0o600))
	w.until("create " + dir + "/later")
	pause, paused := make(chan struct{}), make(chan struct{})
	l.BeforeOp = func(string) error {
		close(paused)
		<-pause
		return nil
	}
	l.settle()
	<-paused
	must(t, os.WriteFile(dir+"/changed", []byte("another content"), 0o600))
	must(t, os.Remove(dir+"/gone"))
	must(t, os.RemoveAll(dir+"/dir"))
	must(t, os.Remove(dir+"/kind"))
	must(t, os.Mkdir(dir+"/kind", 0o755))
	must(t, os.WriteFile(dir+"/new", nil, 0o600))
	l.BeforeOp = nil
	close(pause)
	got := make(map[string]bool)
	for len(got) < 7 {
		e := w.next()
		got[fmt.Sprintf("%s %s", e.Op, strings.TrimPrefix(e.Path, dir))] = true
	}
	for _, e := range []string{"write /changed", "remove /gone", "remove /dir", "remove /dir/f", "remove /kind", "create /kind", "create /new"} {
		if !got[e] {
			t.Errorf("%s is missing in %v", e, slices.Sorted(maps.Keys(got)))
		}
	}
	must(t, os.WriteFile(dir+"/after", nil, 0o600))
	w.until("create " + dir + "/after")
	l.BeforeOp = func(string) error { return atoll.ErrNotFound }
	l.settle()
	want(t, w.end(), atoll.ErrNotFound, "a sandbox that is gone")
}

// TestWatchOverflow makes more changes than the kernel keeps, while the
// listener is slow: nothing is left out.
func TestWatchOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 40,000 files")
	}
	l, dir := linked(t, &Server{}), t.TempDir()
	must(t, os.WriteFile(dir+"/gone", nil, 0o600))
	const n = 20_000
	long := strings.Repeat("long", 50) // so that soon no more fits on the way to the listener
	name := func(i int) string { return fmt.Sprintf("%s/d%d/%d%s", dir, i%20, i, long) }
	for i := range 20 {
		must(t, os.Mkdir(filepath.Dir(name(i)), 0o755))
	}
	w := follow(t, l.Link, dir)
	wanted := []string{"remove " + dir + "/gone"}
	for i := range n {
		must(t, os.WriteFile(name(i), []byte("x"), 0o600))
		wanted = append(wanted, "create "+name(i))
	}
	must(t, os.Remove(dir+"/gone"))
	w.until(wanted...)
}

// TestWatchIsThePicture changes files at random and compares what a watch has
// told with what there is.
func TestWatchIsThePicture(t *testing.T) {
	l, top := linked(t, &Server{}), t.TempDir()
	round := 0
	rapidtest.Check(t, func(rt *rapid.T) {
		round++
		dir := fmt.Sprintf("%s/%d", top, round)
		must(t, os.Mkdir(dir, 0o755))
		w := follow(t, l.Link, dir)
		defer func() { // the next round has a watch of its own, of which there are few
			w.cancel()
			l.settle()
		}()
		names := rapid.SampledFrom([]string{"a", "b", "a/a", "a/b", "b/a", "b/b", "a/a/a", "b/a/b"})
		name := func(rt *rapid.T) string { return dir + "/" + names.Draw(rt, "name") }
		rt.Repeat(map[string]func(*rapid.T){
			"write":  func(rt *rapid.T) { _ = os.WriteFile(name(rt), []byte("x"), 0o600) },
			"mkdir":  func(rt *rapid.T) { _ = os.MkdirAll(name(rt), 0o700) },
			"remove": func(rt *rapid.T) { _ = os.RemoveAll(name(rt)) },
			"move":   func(rt *rapid.T) { _ = os.Rename(name(rt), name(rt)) },
			"link":   func(rt *rapid.T) { _ = os.Symlink("..", name(rt)) },
			"":       func(*rapid.T) {},
		})
		w.compare(rt, dir)
	})
}

// compare makes a last file and, when that is told, another, so that all of
// what was told with the first has come; then it compares.
func (w *follower) compare(rt *rapid.T, dir string) {
	must(w.t, os.WriteFile(dir+"/last", nil, 0o600))
	for marked := false; !w.has(dir + "/marker"); {
		if w.has(dir+"/last") && !marked {
			marked = true
			must(w.t, os.WriteFile(dir+"/marker", nil, 0o600))
		}
		switch e := w.next(); e.Op {
		case atoll.FileCreated:
			if w.has(e.Path) {
				rt.Fatalf("%s was there: %v", e.Path, w.seen)
			}
			w.seen[e.Path] = e.Dir
		case atoll.FileRemoved:
			if d, ok := w.seen[e.Path]; !ok || d != e.Dir {
				rt.Fatalf("%v was not there: %v", e, w.seen)
			}
			delete(w.seen, e.Path)
		case atoll.FileWritten:
			if !w.has(e.Path) {
				rt.Fatalf("%v was not there: %v", e, w.seen)
			}
		}
	}
	there := make(map[string]bool)
	must(w.t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if name != dir {
			there[name] = d.IsDir()
		}
		return err
	}))
	if !maps.Equal(there, w.seen) {
		rt.Fatalf("there is %v, and told was %v", there, w.seen)
	}
}

func (w *follower) has(name string) bool { _, ok := w.seen[name]; return ok }

func FuzzSights(f *testing.F) {
	var b bytes.Buffer
	w := watchEventWriter{w: &b}
	for _, e := range []watchEvent{{kind: watchExisting, path: "a/b"}, {kind: watchReady}, {kind: watchCreated, dir: true, stamp: 7, path: "a/c"}} {
		must(f, w.write(e))
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		r := watchEventReader{r: bufio.NewReader(bytes.NewReader(data))}
		for {
			e, err := r.read()
			if err != nil {
				return
			}
			if strings.HasPrefix(e.path, "/") || strings.Contains("/"+e.path+"/", "/../") {
				t.Fatalf("a path that leads out: %q", e.path)
			}
		}
	})
}
