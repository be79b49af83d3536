package vfs

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// TestObserveMissesNothing changes files at random and follows by Observe: a
// channel that is still open means that nothing has changed.
func TestObserveMissesNothing(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		f := New(Options{})
		points := []*Snapshot{f.Snapshot()}
		seen, wake := f.Observe()
		t.Repeat(map[string]func(*rapid.T){
			"change":   func(t *rapid.T) { changeRandomly(t, f) },
			"snapshot": func(t *rapid.T) { points = append(points, f.Snapshot()) },
			"restore":  func(t *rapid.T) { f.Restore(rapid.SampledFrom(points).Draw(t, "point")) },
			"look":     func(*rapid.T) { seen, wake = f.Observe() },
			"": func(t *rapid.T) {
				select {
				case <-wake:
				default:
					// Taking a snapshot would begin a new epoch, which hides what
					// an epoch that continues would miss.
					now := &Snapshot{table: f.tree.table, payer: f.tree.payer, used: f.tree.used, quota: f.quota}
					if d := Diff(seen, now); len(d) > 0 {
						t.Fatalf("no observer was notified of %v", d)
					}
				}
			},
		})
	})
}

func TestObserversShareAChange(t *testing.T) {
	f := New(Options{})
	must(t, f.WriteFile("/f", []byte("1"), 0o644))
	_, one := f.Observe()
	_, two := f.Observe()
	must(t, f.WriteFile("/f", []byte("2"), 0o644))
	<-one
	<-two
	must(t, f.WriteFile("/f", []byte("3"), 0o644))
	_, three := f.Observe()
	select {
	case <-three:
		t.Error("an observer is woken by what came before it")
	default:
	}
	f.Restore(f.Snapshot())
	<-three
}
