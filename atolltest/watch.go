package atolltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var watchLaws = []law{
	{"WatchTellsChanges", watchTellsChanges},
	{"WatchLeavesNothingOut", watchLeavesNothingOut},
	{"WatchSeesRestore", watchSeesRestore},
	{"WatchTellsMountChanges", watchTellsMountChanges},
	{"WatchEndsWithContext", watchEndsWithContext},
	{"WatchEndsWithItsReason", watchEndsWithItsReason},
}

// watching is a watch under way.
type watching struct {
	e      *env
	cancel context.CancelFunc
	events chan atoll.FileEvent
	ended  chan error
}

// watch begins a watch that has told that it is ready, and is ended with the
// test. Events wait until the test takes them: the watch has a slow listener.
func (e *env) watch(sb atoll.Sandbox, dir string) *watching {
	e.Helper()
	ctx, cancel := context.WithCancel(e.ctx())
	w := &watching{e: e, cancel: cancel, events: make(chan atoll.FileEvent), ended: make(chan error, 1)}
	go func() {
		w.ended <- atoll.Watch(ctx, sb, dir, func(ev atoll.FileEvent) error {
			select {
			case w.events <- ev:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	e.Cleanup(cancel)
	ev := w.next()
	eq(e, "the first event", ev, atoll.FileEvent{Op: atoll.FileReady, Path: dir, Dir: true})
	return w
}

// next waits for an event.
func (w *watching) next() atoll.FileEvent {
	w.e.Helper()
	select {
	case ev := <-w.events:
		return ev
	case err := <-w.ended:
		w.e.Fatalf("the watch ended: %v", err)
	case <-time.After(patience):
		w.e.Fatal("a watch that tells nothing more")
	}
	return atoll.FileEvent{}
}

// until takes events until all that are wanted have come, each as "op path".
func (w *watching) until(want ...string) {
	w.e.Helper()
	open := make(map[string]bool)
	for _, s := range want {
		open[s] = true
	}
	for len(open) > 0 {
		ev := w.next()
		delete(open, fmt.Sprintf("%s %s", ev.Op, ev.Path))
	}
}

// end waits for the reason that the watch ends for.
func (w *watching) end() error {
	w.e.Helper()
	for {
		select {
		case <-w.events:
		case err := <-w.ended:
			return err
		case <-time.After(patience):
			w.e.Fatal("a watch that does not end")
		}
	}
}

func watchTellsChanges(e *env) {
	if !e.features.Watch {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	e.sh(sb, "mkdir -p /tmp/w/old /tmp/beside; echo 1 > /tmp/w/old/f; ln -s old /tmp/w/l")
	w := e.watch(sb, "/tmp/w")
	e.sh(sb, "mkdir -p /tmp/w/new/er; echo 1 > /tmp/w/new/er/f; echo beside > /tmp/beside/f")
	w.until("create /tmp/w/new", "create /tmp/w/new/er", "create /tmp/w/new/er/f")
	e.sh(sb, "echo 2 >> /tmp/w/old/f")
	w.until("write /tmp/w/old/f")
	e.sh(sb, "chmod 600 /tmp/w/new/er/f")
	w.until("write /tmp/w/new/er/f")
	e.sh(sb, "mv /tmp/w/old /tmp/w/moved")
	w.until("remove /tmp/w/old", "remove /tmp/w/old/f", "create /tmp/w/moved", "create /tmp/w/moved/f")
	e.sh(sb, "echo 3 > /tmp/w/moved/f")
	w.until("write /tmp/w/moved/f")
	if err := atoll.WriteFile(e.ctx(), sb, "/tmp/w/by-the-host", []byte("x"), 0o644); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	w.until("create /tmp/w/by-the-host")
	e.sh(sb, "rm -r /tmp/w/new /tmp/w/l; mv /tmp/beside/f /tmp/w/beside; mv /tmp/w/by-the-host /tmp/beside/")
	w.until("remove /tmp/w/new", "remove /tmp/w/new/er", "remove /tmp/w/new/er/f", "remove /tmp/w/l", "create /tmp/w/beside", "remove /tmp/w/by-the-host")
	e.sh(sb, "rm /tmp/w/moved/f; mkdir /tmp/w/moved/f; touch /tmp/w/last")
	for {
		ev := w.next()
		if ev.Path == "/tmp/w/last" {
			break
		}
		if ev.Path == "/tmp/w/moved/f" {
			eq(e, "Dir of "+string(ev.Op), ev.Dir, ev.Op == atoll.FileCreated)
		}
		if filepath.Dir(ev.Path) == "/tmp/beside" {
			e.Errorf("the watch tells of %s", ev.Path)
		}
	}
}

func watchLeavesNothingOut(e *env) {
	if !e.features.Watch {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	e.sh(sb, "mkdir /tmp/w")
	w := e.watch(sb, "/tmp/w")
	e.sh(sb, "i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir -p /tmp/w/d$((i%7)); echo $i > /tmp/w/d$((i%7))/f$i; done")
	var want []string
	for i := 1; i <= 300; i++ {
		want = append(want, fmt.Sprintf("create /tmp/w/d%d/f%d", i%7, i))
	}
	w.until(want...)
}

func watchSeesRestore(e *env) {
	if !e.features.Watch || !e.features.Snapshot {
		return // other laws have seen the refusal
	}
	sb := e.sandbox()
	e.sh(sb, "mkdir /tmp/w; echo 1 > /tmp/w/a; echo 1 > /tmp/w/b")
	if _, err := atoll.Snapshot(e.ctx(), sb, "point"); err != nil {
		e.Fatalf("Snapshot: %v", err)
	}
	e.sh(sb, "rm /tmp/w/a; echo 2 > /tmp/w/b; echo 2 > /tmp/w/c")
	w := e.watch(sb, "/tmp/w")
	if err := atoll.Restore(e.ctx(), sb, "point"); err != nil {
		e.Fatalf("Restore: %v", err)
	}
	w.until("create /tmp/w/a", "write /tmp/w/b", "remove /tmp/w/c")
	e.sh(sb, "echo 3 > /tmp/w/d")
	w.until("create /tmp/w/d")
}

// watchTellsMountChanges takes a clear refusal too: not every host can tell.
func watchTellsMountChanges(e *env) {
	if !e.features.Watch || !e.features.Mounts {
		return // other laws have seen the refusal
	}
	dir := e.hostDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "old"), 0o777), os.Chmod(filepath.Join(dir, "old"), 0o777)); err != nil {
		e.Fatal(err)
	}
	sb := e.mounted(dir, nil)
	enough := errors.New("enough")
	err := atoll.Watch(e.ctx(), sb, share, func(atoll.FileEvent) error { return enough })
	if errors.Is(err, atoll.ErrUnsupported) {
		return
	}
	e.want(err, enough, "Watch")
	inside, root := e.watch(sb, share), e.watch(sb, "/")
	outer := e.watch(sb, share+"/old")
	both := func(want ...string) {
		e.Helper()
		inside.until(want...)
		root.until(want...)
	}
	e.sh(sb, "mkdir -p /share/new/er; echo 1 > /share/new/er/f")
	both("create /share/new", "create /share/new/er", "create /share/new/er/f")
	e.put(filepath.Join(dir, "new", "er", "f"), "changed by the host")
	both("write /share/new/er/f")
	e.put(filepath.Join(dir, "old", "g"), "made by the host")
	both("create /share/old/g")
	outer.until("create /share/old/g")
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "old", "moved")); err != nil {
		e.Fatal(err)
	}
	moved := []string{"create /share/old/moved", "create /share/old/moved/er", "create /share/old/moved/er/f"}
	both(append(moved, "remove /share/new", "remove /share/new/er", "remove /share/new/er/f")...)
	outer.until(moved...)
	e.put(filepath.Join(dir, "old", "moved", "er", "f"), "changed again")
	both("write /share/old/moved/er/f")
	outer.until("write /share/old/moved/er/f")
	e.sh(sb, "touch /tmp/own")
	root.until("create /tmp/own")
	e.sh(sb, "rm -r /share/old")
	both("remove /share/old/moved/er/f", "remove /share/old")
	e.want(outer.end(), atoll.ErrNotFound, "the watch of a directory that was removed")
}

func watchEndsWithContext(e *env) {
	if !e.features.Watch {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	for range 3 {
		w := e.watch(sb, "/tmp")
		w.cancel()
		e.want(w.end(), context.Canceled, "Watch")
	}
	ctx, cancel := context.WithTimeout(e.ctx(), 50*time.Millisecond)
	defer cancel()
	err := atoll.Watch(ctx, sb, "/tmp", func(atoll.FileEvent) error { return nil })
	e.want(err, context.DeadlineExceeded, "Watch past its deadline")
	eq(e, "afterwards", e.sh(sb, "echo works"), "works\n")
}

func watchEndsWithItsReason(e *env) {
	if !e.features.Watch {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	e.sh(sb, "mkdir -p /tmp/w/sub; touch /tmp/file")
	own := errors.New("of the listener")
	e.want(atoll.Watch(e.ctx(), sb, "/tmp/w", func(atoll.FileEvent) error { return own }), own, "an error of the listener")
	none := func(atoll.FileEvent) error { return nil }
	e.want(atoll.Watch(e.ctx(), sb, "/tmp/missing", none), atoll.ErrNotFound, "a directory that is not there")
	e.want(atoll.Watch(e.ctx(), sb, "/tmp/file", none), atoll.ErrInvalid, "a file")
	e.want(atoll.Watch(e.ctx(), sb, "relative", none), atoll.ErrInvalid, "a relative path")
	w := e.watch(sb, "/tmp/w/sub")
	e.sh(sb, "rm -r /tmp/w")
	e.want(w.end(), atoll.ErrNotFound, "a directory that was removed")
	w = e.watch(sb, "/tmp")
	if err := sb.Destroy(e.ctx()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	e.want(w.end(), atoll.ErrNotFound, "a sandbox that was destroyed")
	e.want(atoll.Watch(e.ctx(), sb, "/tmp", none), atoll.ErrNotFound, "a watch of what was destroyed")
}
