package guest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func newWatching() *fileWatch {
	return &fileWatch{f: func(atoll.FileEvent) error { return nil }, files: make(map[string]fileState)}
}

// A few bytes from the guest stand for a path of 64 KB: it is those that count.
func TestWatchKeepsNoMoreThanItsBound(t *testing.T) {
	w := newWatching()
	base := strings.Repeat("a/", 30000)
	kept := 0
	for i := range 4 * maxWatchedBytes / len(base) {
		w.rememberFile(w.files, &watchEvent{kind: watchExisting, path: fmt.Sprintf("%s%06d", base, i)})
		if n := measureNames(w.files); n > maxWatchedBytes {
			t.Fatalf("%d bytes are kept of %d names", n, len(w.files))
		}
		kept = max(kept, len(w.files))
	}
	if !w.overflow || len(w.files) > 0 || kept < maxWatchedBytes/len(base)/2 {
		t.Errorf("blind %v, %d names known, %d at most", w.overflow, len(w.files), kept)
	}
}

// What is known counts together with what a new connection tells.
func TestWatchCountsBothConnections(t *testing.T) {
	w := newWatching()
	base, now := strings.Repeat("a/", 30000), make(map[string]fileState)
	half := maxWatchedBytes / len(base) * 2 / 3
	for i := range half {
		w.rememberFile(w.files, &watchEvent{kind: watchExisting, path: fmt.Sprintf("%s%06d", base, i)})
	}
	if w.overflow {
		t.Fatal("two thirds are too much")
	}
	for i := range half {
		w.rememberFile(now, &watchEvent{kind: watchExisting, path: fmt.Sprintf("%s%06d", base, i)})
	}
	if !w.overflow || len(w.files)+len(now) > 0 {
		t.Errorf("blind %v, %d and %d names", w.overflow, len(w.files), len(now))
	}
}

// What comes and goes takes no more than what there is.
func TestWatchForgetsWhatIsRemoved(t *testing.T) {
	w := newWatching()
	name := strings.Repeat("a", 60000)
	for range 3 * maxWatchedBytes / len(name) {
		w.rememberFile(w.files, &watchEvent{kind: watchCreated, path: name})
		w.rememberFile(w.files, &watchEvent{kind: watchWritten, path: name})
		w.rememberFile(w.files, &watchEvent{kind: watchRemoved, path: name})
		w.rememberFile(w.files, &watchEvent{kind: watchRemoved, path: name})
	}
	if w.overflow || w.bytes != 0 || len(w.files) != 0 {
		t.Errorf("blind %v, %d bytes of %d names", w.overflow, w.bytes, len(w.files))
	}
}
