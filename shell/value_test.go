package shell

import (
	"fmt"
	"slices"
	"testing"
)

func TestArrayIsAMapInOrder(t *testing.T) {
	a := &array{}
	model := map[int64]string{}
	seed := uint32(1)
	next := func(n uint32) int64 {
		seed = seed*1664525 + 1013904223
		return int64(seed >> 8 % n)
	}
	for step := range 20000 {
		i := next(200)
		if step > 10000 {
			i = next(100000) * 7
		}
		if next(3) == 0 {
			a.removeIndex(i)
			delete(model, i)
		} else {
			s := fmt.Sprint(step)
			a.set(i, s)
			model[i] = s
		}
		if a.len() != len(model) {
			t.Fatalf("step %d: %d elements, want %d", step, a.len(), len(model))
		}
	}
	var keys []int64
	a.eachElement(func(i int64, s string) bool {
		if model[i] != s {
			t.Fatalf("[%d] = %q, want %q", i, s, model[i])
		}
		keys = append(keys, i)
		return true
	})
	if len(keys) != len(model) || !slices.IsSorted(keys) {
		t.Fatalf("%d keys, want %d in order", len(keys), len(model))
	}
	if len(keys) > 0 && a.maxIndex() != keys[len(keys)-1] {
		t.Fatalf("top %d, want %d", a.maxIndex(), keys[len(keys)-1])
	}
}

func TestPlainIntReadsWhatItPrints(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 9, 10, -10, 123456789012345678} {
		if got, ok := plainInt(fmt.Sprint(n)); !ok || got != n {
			t.Errorf("%d: %d %v", n, got, ok)
		}
	}
	for _, s := range []string{"01", "+1", " 1", "1 ", "-", "0x1", "1e3", "99999999999999999999"} {
		if _, ok := plainInt(s); ok {
			t.Errorf("%q is taken for a plain number", s)
		}
	}
}

func TestSpansBehaveAsSets(t *testing.T) {
	a := spans{{0, 3}, {6, 8}, {10, 10}}
	b := spans{{2, 6}, {10, 12}}
	if got, want := fmt.Sprint(unionSpans(a, b)), "[{0 8} {10 12}]"; got != want {
		t.Errorf("union %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(subtractSpans(a, b)), "[{0 1} {7 8}]"; got != want {
		t.Errorf("minus %s, want %s", got, want)
	}
}
