package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// watchEvents starts a watch that ends with the test, and returns its events.
func watchEvents(t *testing.T, sb atoll.Sandbox, dir string) <-chan atoll.FileEvent {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan atoll.FileEvent)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := atoll.Watch(ctx, sb, dir, func(ev atoll.FileEvent) error {
			select {
			case told <- ev:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	if ev := <-told; ev.Op != atoll.FileReady {
		t.Fatalf("the first event is %v", ev)
	}
	return told
}

// waitForEvent reads events until the wanted one arrives.
func waitForEvent(t *testing.T, told <-chan atoll.FileEvent, op atoll.FileOp, path string) {
	t.Helper()
	for {
		select {
		case ev := <-told:
			if ev.Op == op && ev.Path == path {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("%s %s is not reported", op, path)
		}
	}
}

// TestWatchSeesAnotherProcess changes a stored sandbox through another driver, as another process does: the watch
// reports it when the sandbox is next used here, and does not lock the sandbox.
func TestWatchSeesAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	here := &virtual.Driver{Dir: dir}
	sb, err := here.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := atoll.WriteFile(t.Context(), sb, "/w/old", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	told := watchEvents(t, sb, "/w")
	other, err := (&virtual.Driver{Dir: dir}).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atoll.Execute(t.Context(), other, "echo 2 > /w/new; rm /w/old; mkdir /w/d; echo 3 > /w/d/f"); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitForEvent(t, told, atoll.FileCreated, "/w/d/f")
	if err := atoll.WriteFile(t.Context(), sb, "/w/new", []byte("4"), 0o644); err != nil {
		t.Fatal(err)
	}
	waitForEvent(t, told, atoll.FileWritten, "/w/new")
}

// TestWatchersOfASharedMount lets sandboxes write to one directory at the same time, each with a watch: all of them
// report every file.
func TestWatchersOfASharedMount(t *testing.T) {
	needMounts(t)
	const boxes, files = 4, 40
	dir := t.TempDir()
	d := virtual.New()
	var told []<-chan atoll.FileEvent
	var all []atoll.Sandbox
	for range boxes {
		sb := newMountedSandbox(t, d, mountSpecOf(dir))
		all = append(all, sb)
	}
	for _, sb := range all {
		err := atoll.Watch(t.Context(), sb, compatDir, func(atoll.FileEvent) error { return context.Canceled })
		if errors.Is(err, atoll.ErrUnsupported) {
			skipLacking(t, "needs a host that tells of changes")
		}
		told = append(told, watchEvents(t, sb, compatDir))
	}
	var wg sync.WaitGroup
	for i, sb := range all {
		wg.Go(func() {
			script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); mkdir -p d$((i%%5)); echo %d > d$((i%%5))/f%d.$i; done`, files, i, i)
			if r, err := atoll.Execute(t.Context(), sb, script); err != nil || !r.Success {
				t.Errorf("%s %v", r.Stderr, err)
			}
		})
	}
	for i := range told {
		wg.Go(func() {
			want := map[string]bool{}
			for b := range boxes {
				for f := 1; f <= files; f++ {
					want[fmt.Sprintf("%s/d%d/f%d.%d", compatDir, f%5, b, f)] = true
				}
			}
			for len(want) > 0 {
				select {
				case ev := <-told[i]:
					delete(want, ev.Path)
				case <-t.Context().Done():
					t.Errorf("%d files are not reported", len(want))
					return
				}
			}
		})
	}
	wg.Wait()
	list, err := filepath.Glob(filepath.Join(dir, "*", "f*"))
	if err != nil || len(list) != boxes*files {
		t.Errorf("%d files are there, %v", len(list), err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
