// Package musthave is for tests that need what not every machine has.
package musthave

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Skip skips a test for want of something, or fails it where $ATOLL_MUST, a list
// with commas, names that: on machines that are known to have it.
func Skip(t testing.TB, what, format string, args ...any) {
	t.Helper()
	if Named(what) {
		t.Fatalf(format+" (and ATOLL_MUST names "+what+")", args...)
	}
	t.Skipf(format, args...)
}

// Named reports whether $ATOLL_MUST names something.
func Named(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("ATOLL_MUST"), ","), what)
}

// Program returns the path of a program that a variable of the environment
// names, as scripts/agents and scripts/mcp-clients set them; see Skip.
func Program(t testing.TB, name, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if _, err := os.Stat(path); err != nil {
		Skip(t, name, `no %s: $%s does not name its program (eval "$(scripts/agents)", eval "$(scripts/mcp-clients)"): %v`, name, variable, err)
	}
	return path
}
