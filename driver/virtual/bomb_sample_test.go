package virtual_test

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// sampleRand returns the random numbers of a test: others on each day, or those of
// $ATOLL_BOMBS_SEED. A test that fails logs the seed.
func sampleRand(t *testing.T) *rand.Rand {
	t.Helper()
	text := os.Getenv("ATOLL_BOMBS_SEED")
	if text == "" {
		text = time.Now().UTC().Format("20060102")
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("$ATOLL_BOMBS_SEED is %q: want a number", text)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the same commands again: ATOLL_BOMBS_SEED=%d", seed)
		}
	})
	name := fnv.New64()
	_, _ = name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed, name.Sum64()))
}

// sampleCases returns n elements of a list of commands, others on each day, in the order of the list, or
// all of them if $ATOLL_BOMBS is "all".
func sampleCases[T any](t *testing.T, list []T, n int) []T {
	t.Helper()
	switch v := os.Getenv("ATOLL_BOMBS"); v {
	case "all":
		return list
	case "":
	default:
		t.Fatalf(`$ATOLL_BOMBS is %q: want "all" or nothing`, v)
	}
	r := sampleRand(t)
	var sample []T
	for i, left := 0, min(n, len(list)); left > 0; i++ {
		if r.IntN(len(list)-i) < left {
			sample = append(sample, list[i])
			left--
		}
	}
	return sample
}
