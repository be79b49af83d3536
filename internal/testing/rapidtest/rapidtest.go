// Package rapidtest runs random tests that can be repeated.
package rapidtest

import (
	"flag"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// Check is rapid.Check, whose cases are drawn from the seed in $ATOLL_RAPID_SEED, a
// number other than 0. If it is unset, they differ from run to run. .ci/run sets it, so
// that its result depends on the change alone.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	const variable = "ATOLL_RAPID_SEED"
	if seed := os.Getenv(variable); seed != "" {
		if err := flag.Set("rapid.seed", seed); err != nil {
			t.Fatalf("$%s is %q: want a number: %v", variable, seed, err)
		}
	}
	rapid.Check(t, property)
}
