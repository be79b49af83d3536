package guest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func newWatching() *watching {
	return &watching{f: func(atoll.FileEvent) error { return nil }, known: make(map[string]glimpse)}
}

// A few bytes from the guest stand for a path of 64 KB: it is those that count.
func TestWatchKeepsNoMoreThanItsBound(t *testing.T) {
	w := newWatching()
	base := strings.Repeat("a/", 30000)
	kept := 0
	for i := range 4 * maxKnownBytes / len(base) {
		w.note(w.known, &sight{kind: sightHave, path: fmt.Sprintf("%s%06d", base, i)})
		if n := weight(w.known); n > maxKnownBytes {
			t.Fatalf("%d bytes are kept of %d names", n, len(w.known))
		}
		kept = max(kept, len(w.known))
	}
	if !w.blind || len(w.known) > 0 || kept < maxKnownBytes/len(base)/2 {
		t.Errorf("blind %v, %d names known, %d at most", w.blind, len(w.known), kept)
	}
}

// What is known counts together with what a new connection tells.
func TestWatchCountsBothConnections(t *testing.T) {
	w := newWatching()
	base, now := strings.Repeat("a/", 30000), make(map[string]glimpse)
	half := maxKnownBytes / len(base) * 2 / 3
	for i := range half {
		w.note(w.known, &sight{kind: sightHave, path: fmt.Sprintf("%s%06d", base, i)})
	}
	if w.blind {
		t.Fatal("two thirds are too much")
	}
	for i := range half {
		w.note(now, &sight{kind: sightHave, path: fmt.Sprintf("%s%06d", base, i)})
	}
	if !w.blind || len(w.known)+len(now) > 0 {
		t.Errorf("blind %v, %d and %d names", w.blind, len(w.known), len(now))
	}
}

// What comes and goes takes no more than what there is.
func TestWatchForgetsWhatIsRemoved(t *testing.T) {
	w := newWatching()
	name := strings.Repeat("a", 60000)
	for range 3 * maxKnownBytes / len(name) {
		w.note(w.known, &sight{kind: sightCreated, path: name})
		w.note(w.known, &sight{kind: sightWritten, path: name})
		w.note(w.known, &sight{kind: sightRemoved, path: name})
		w.note(w.known, &sight{kind: sightRemoved, path: name})
	}
	if w.blind || w.bytes != 0 || len(w.known) != 0 {
		t.Errorf("blind %v, %d bytes of %d names", w.blind, w.bytes, len(w.known))
	}
}
