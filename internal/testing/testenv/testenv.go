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
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
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
	fmt.Printf("skipped: every test of this package is of the real tier (ATOLL_TEST=all): needs %s\n", what)
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
		Skip(t, name, `no %s: $%s does not name its program (eval "$(scripts/agents)", eval "$(scripts/mcp-clients)", eval "$(scripts/browser)"): %v`, name, variable, err)
	}
	return path
}
