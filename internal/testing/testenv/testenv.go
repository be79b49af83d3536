// Package testenv decides which tests run on a machine.
//
// Tests have two tiers. The logic tier is what "go test ./..." and "make test"
// run: it needs Go and nothing else, and takes minutes. The real tier runs when
// $ATOLL_TEST is "all", as "make test-all" sets it: it adds the tests against real
// programs, sandboxes, engines, clusters and virtual machines, and repeats
// random tests more often. docs/testing.md lists which law each tier checks.
package testenv

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// All reports whether the real tier runs, too.
func All() bool { return os.Getenv("ATOLL_TEST") == "all" }

// Real skips a test in the logic tier. what names the real thing that the test
// needs, in the words of $ATOLL_MUST: "docker", "namespace", "gnu".
func Real(t testing.TB, what string) {
	t.Helper()
	if !All() {
		t.Skipf("real tier only (ATOLL_TEST=all): needs %s", what)
	}
}

// Main runs the tests of a package that has only tests of the real tier, and
// returns their exit code for os.Exit. In the logic tier it prints what the tests
// need, runs none of them and returns 0.
func Main(m *testing.M, what string, run func(*testing.M) int) int {
	if All() || isListing() {
		defer func() { _ = os.RemoveAll(builtDir) }() // it is temporary
		return run(m)
	}
	fmt.Fprintf(os.Stdout, "skipped: every test of this package is of the real tier (ATOLL_TEST=all): needs %s\n", what)
	return 0
}

// isListing reports whether the test binary only lists its tests.
func isListing() bool {
	return slices.ContainsFunc(os.Args[1:], func(a string) bool { return strings.HasPrefix(a, "-test.list") })
}

// Rounds returns how often a test repeats itself: logic times in the logic tier
// and under -short, all times in the real tier, and the number in an environment
// variable where that is set. An empty variable is never set.
func Rounds(t testing.TB, logic, all int, variable string) int {
	t.Helper()
	if s := os.Getenv(variable); variable != "" && s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("$%s is %q: want a number above 0", variable, s)
		}
		return n
	}
	if All() && !testing.Short() {
		return all
	}
	return logic
}

// Skip skips a test because the machine lacks something. In the real tier it
// fails the test if $ATOLL_MUST, a list with commas, names what is missing: a
// machine that has it must not skip it.
func Skip(t testing.TB, what, format string, args ...any) {
	t.Helper()
	if Named(what) {
		t.Fatalf(format+" (and ATOLL_MUST names "+what+")", args...)
	}
	t.Skipf(format, args...)
}

// Logic marks a test that does the same in both tiers: the real tier leaves it out if
// $ATOLL_LOGIC is "passed", as .ci/run sets it once the logic tier has passed.
func Logic(t testing.TB) {
	t.Helper()
	if All() && os.Getenv("ATOLL_LOGIC") == "passed" {
		t.Skip("passed in the logic tier")
	}
}

// Named reports whether the real tier runs and $ATOLL_MUST names something.
func Named(what string) bool {
	return All() && slices.Contains(strings.Split(os.Getenv("ATOLL_MUST"), ","), what)
}

// Program returns the path of a real program that an environment variable names,
// as scripts/agents and scripts/mcp-clients set them. In the logic tier it skips
// the test; without the program, see Skip.
func Program(t testing.TB, name, variable string) string {
	t.Helper()
	Real(t, name)
	path := os.Getenv(variable)
	if _, err := os.Stat(path); err != nil {
		Skip(t, name, `no %s: $%s does not name its program (eval "$(scripts/agents)", eval "$(scripts/mcp-clients)", eval "$(scripts/browser)", eval "$(scripts/oidc)", eval "$(scripts/s3)"): %v`, name, variable, err)
	}
	return path
}

// Sample returns n cases of a list in the order of the list: others on each day, or
// those that the seed in an environment variable draws (the variable's name with _SEED),
// or all of them if the variable is "all". A test that fails logs the seed.
func Sample[T any](t testing.TB, list []T, n int, variable string) []T {
	t.Helper()
	if WantsAll(t, variable) {
		return list
	}
	r := Random(t, variable+"_SEED")
	var sample []T
	for i, left := 0, min(n, len(list)); left > 0; i++ {
		if r.IntN(len(list)-i) < left {
			sample = append(sample, list[i])
			left--
		}
	}
	return sample
}

// Random returns the random numbers of a test: others on each day, or those of the
// seed in an environment variable.
func Random(t testing.TB, variable string) *rand.Rand {
	t.Helper()
	name := fnv.New64()
	_, _ = name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(Seed(t, variable), name.Sum64()))
}

// Seed returns the seed of a test that draws a sample: the number in an
// environment variable, or the day as 20060102, so that each day draws another
// sample. A test that fails logs it.
func Seed(t testing.TB, variable string) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		text = time.Now().UTC().Format("20060102")
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("$%s is %q: want a number", variable, text)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the same sample again: %s=%d", variable, seed)
		}
	})
	return seed
}

// WantsAll reports whether an environment variable asks for all cases where a
// test draws a sample: it is "all", or empty or unset for a sample.
func WantsAll(t testing.TB, variable string) bool {
	t.Helper()
	switch v := os.Getenv(variable); v {
	case "all":
		return true
	case "":
		return false
	default:
		t.Fatalf(`$%s is %q: want "all" or nothing`, variable, v)
		return false
	}
}
