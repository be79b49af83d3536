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
	{"WatchReportsChanges", watchReportsChanges},
	{"WatchReportsEveryChange", watchReportsEveryChange},
	{"WatchSeesRestore", watchSeesRestore},
	{"WatchReportsMountChanges", watchReportsMountChanges},
	{"WatchEndsWithContext", watchEndsWithContext},
	{"WatchReturnsItsReason", watchReturnsItsReason},
}

// runningWatch is a watch in progress.
type runningWatch struct {
	e      *env
	cancel context.CancelFunc
	events chan atoll.FileEvent
	ended  chan error
}

// startWatch starts a watch, waits until it is ready, and stops it with the
// test. Each event blocks until the test receives it: the listener is slow.
func (e *env) startWatch(sb atoll.Sandbox, dir string) *runningWatch {
	e.Helper()
	ctx, cancel := context.WithCancel(e.newContext())
	w := &runningWatch{e: e, cancel: cancel, events: make(chan atoll.FileEvent), ended: make(chan error, 1)}
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
	wantEqual(e, "the first event", ev, atoll.FileEvent{Op: atoll.FileReady, Path: dir, Dir: true})
	return w
}

// next waits for an event.
func (w *runningWatch) next() atoll.FileEvent {
	w.e.Helper()
	select {
	case ev := <-w.events:
		return ev
	case err := <-w.ended:
		w.e.Fatalf("the watch ended: %v", err)
	case <-time.After(hangTimeout):
		w.e.Fatal("the watch reports no more events")
	}
	return atoll.FileEvent{}
}

// waitForEvents receives events until all wanted ones, each as "op path", have
// come.
func (w *runningWatch) waitForEvents(want ...string) {
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

// waitForEnd waits until the watch ends and returns its error.
func (w *runningWatch) waitForEnd() error {
	w.e.Helper()
	for {
		select {
		case <-w.events:
		case err := <-w.ended:
			return err
		case <-time.After(hangTimeout):
			w.e.Fatal("the watch does not end")
		}
	}
}

func watchReportsChanges(e *env) {
	if !e.features.Watch {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	e.runShell(sb, "mkdir -p /tmp/w/old /tmp/beside; echo 1 > /tmp/w/old/f; ln -s old /tmp/w/l")
	w := e.startWatch(sb, "/tmp/w")
	e.runShell(sb, "mkdir -p /tmp/w/new/er; echo 1 > /tmp/w/new/er/f; echo beside > /tmp/beside/f")
	w.waitForEvents("create /tmp/w/new", "create /tmp/w/new/er", "create /tmp/w/new/er/f")
	e.runShell(sb, "echo 2 >> /tmp/w/old/f")
	w.waitForEvents("write /tmp/w/old/f")
	e.runShell(sb, "chmod 600 /tmp/w/new/er/f")
	w.waitForEvents("write /tmp/w/new/er/f")
	e.runShell(sb, "mv /tmp/w/old /tmp/w/moved")
	w.waitForEvents("remove /tmp/w/old", "remove /tmp/w/old/f", "create /tmp/w/moved", "create /tmp/w/moved/f")
	e.runShell(sb, "echo 3 > /tmp/w/moved/f")
	w.waitForEvents("write /tmp/w/moved/f")
	if err := atoll.WriteFile(e.newContext(), sb, "/tmp/w/by-the-host", []byte("x"), 0o644); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	w.waitForEvents("create /tmp/w/by-the-host")
	e.runShell(sb, "rm -r /tmp/w/new /tmp/w/l; mv /tmp/beside/f /tmp/w/beside; mv /tmp/w/by-the-host /tmp/beside/")
	w.waitForEvents("remove /tmp/w/new", "remove /tmp/w/new/er", "remove /tmp/w/new/er/f", "remove /tmp/w/l", "create /tmp/w/beside", "remove /tmp/w/by-the-host")
	e.runShell(sb, "rm /tmp/w/moved/f; mkdir /tmp/w/moved/f; touch /tmp/w/last")
	for {
		ev := w.next()
		if ev.Path == "/tmp/w/last" {
			break
		}
		if ev.Path == "/tmp/w/moved/f" {
			wantEqual(e, "Dir of "+string(ev.Op), ev.Dir, ev.Op == atoll.FileCreated)
		}
		if filepath.Dir(ev.Path) == "/tmp/beside" {
			e.Errorf("the watch reports %s", ev.Path)
		}
	}
}

func watchReportsEveryChange(e *env) {
	if !e.features.Watch {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	e.runShell(sb, "mkdir /tmp/w")
	w := e.startWatch(sb, "/tmp/w")
	e.runShell(sb, "i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir -p /tmp/w/d$((i%7)); echo $i > /tmp/w/d$((i%7))/f$i; done")
	var want []string
	for i := 1; i <= 300; i++ {
		want = append(want, fmt.Sprintf("create /tmp/w/d%d/f%d", i%7, i))
	}
	w.waitForEvents(want...)
}

func watchSeesRestore(e *env) {
	if !e.features.Watch || !e.features.Snapshot {
		return // other laws check the refusal
	}
	sb := e.newSandbox()
	e.runShell(sb, "mkdir /tmp/w; echo 1 > /tmp/w/a; echo 1 > /tmp/w/b")
	if _, err := atoll.Snapshot(e.newContext(), sb, "point"); err != nil {
		e.Fatalf("Snapshot: %v", err)
	}
	e.runShell(sb, "rm /tmp/w/a; echo 2 > /tmp/w/b; echo 2 > /tmp/w/c")
	w := e.startWatch(sb, "/tmp/w")
	if err := atoll.Restore(e.newContext(), sb, "point"); err != nil {
		e.Fatalf("Restore: %v", err)
	}
	w.waitForEvents("create /tmp/w/a", "write /tmp/w/b", "remove /tmp/w/c")
	e.runShell(sb, "echo 3 > /tmp/w/d")
	w.waitForEvents("create /tmp/w/d")
}

// watchReportsMountChanges also accepts a refusal: not every host can report
// changes.
func watchReportsMountChanges(e *env) {
	if !e.features.Watch || !e.features.Mounts {
		return // other laws check the refusal
	}
	dir := e.hostDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "old"), 0o777), os.Chmod(filepath.Join(dir, "old"), 0o777)); err != nil {
		e.Fatal(err)
	}
	sb := e.createWithMount(dir, nil)
	enough := errors.New("enough")
	err := atoll.Watch(e.newContext(), sb, mountTarget, func(atoll.FileEvent) error { return enough })
	if errors.Is(err, atoll.ErrUnsupported) {
		return
	}
	e.wantError(err, enough, "Watch")
	inside, root := e.startWatch(sb, mountTarget), e.startWatch(sb, "/")
	outer := e.startWatch(sb, mountTarget+"/old")
	both := func(want ...string) {
		e.Helper()
		inside.waitForEvents(want...)
		root.waitForEvents(want...)
	}
	e.runShell(sb, "mkdir -p /share/new/er; echo 1 > /share/new/er/f")
	both("create /share/new", "create /share/new/er", "create /share/new/er/f")
	e.writeHostFile(filepath.Join(dir, "new", "er", "f"), "changed by the host")
	both("write /share/new/er/f")
	e.writeHostFile(filepath.Join(dir, "old", "g"), "made by the host")
	both("create /share/old/g")
	outer.waitForEvents("create /share/old/g")
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "old", "moved")); err != nil {
		e.Fatal(err)
	}
	moved := []string{"create /share/old/moved", "create /share/old/moved/er", "create /share/old/moved/er/f"}
	both(append(moved, "remove /share/new", "remove /share/new/er", "remove /share/new/er/f")...)
	outer.waitForEvents(moved...)
	e.writeHostFile(filepath.Join(dir, "old", "moved", "er", "f"), "changed again")
	both("write /share/old/moved/er/f")
	outer.waitForEvents("write /share/old/moved/er/f")
	e.runShell(sb, "touch /tmp/own")
	root.waitForEvents("create /tmp/own")
	e.runShell(sb, "rm -r /share/old")
	both("remove /share/old/moved/er/f", "remove /share/old")
	e.wantError(outer.waitForEnd(), atoll.ErrNotFound, "the watch of a removed directory")
}

func watchEndsWithContext(e *env) {
	if !e.features.Watch {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	for range 3 {
		w := e.startWatch(sb, "/tmp")
		w.cancel()
		e.wantError(w.waitForEnd(), context.Canceled, "Watch")
	}
	ctx, cancel := context.WithTimeout(e.newContext(), 50*time.Millisecond)
	defer cancel()
	err := atoll.Watch(ctx, sb, "/tmp", func(atoll.FileEvent) error { return nil })
	e.wantError(err, context.DeadlineExceeded, "Watch past its deadline")
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

func watchReturnsItsReason(e *env) {
	if !e.features.Watch {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	e.runShell(sb, "mkdir -p /tmp/w/sub; touch /tmp/file")
	own := errors.New("of the listener")
	e.wantError(atoll.Watch(e.newContext(), sb, "/tmp/w", func(atoll.FileEvent) error { return own }), own, "an error of the listener")
	none := func(atoll.FileEvent) error { return nil }
	e.wantError(atoll.Watch(e.newContext(), sb, "/tmp/missing", none), atoll.ErrNotFound, "a directory that is not there")
	e.wantError(atoll.Watch(e.newContext(), sb, "/tmp/file", none), atoll.ErrInvalid, "a file")
	e.wantError(atoll.Watch(e.newContext(), sb, "relative", none), atoll.ErrInvalid, "a relative path")
	w := e.startWatch(sb, "/tmp/w/sub")
	e.runShell(sb, "rm -r /tmp/w")
	e.wantError(w.waitForEnd(), atoll.ErrNotFound, "a directory that was removed")
	w = e.startWatch(sb, "/tmp")
	if err := sb.Destroy(e.newContext()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	e.wantError(w.waitForEnd(), atoll.ErrNotFound, "a sandbox that was destroyed")
	e.wantError(atoll.Watch(e.newContext(), sb, "/tmp", none), atoll.ErrNotFound, "a watch of what was destroyed")
}
