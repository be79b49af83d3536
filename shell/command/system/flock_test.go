package system_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestFlock compares flock with the real one.
func TestFlock(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"flock f echo hi", "flock -n f flock -n f echo no", "flock -n f flock -n -E 7 f echo no", "flock -s f flock -s -n f echo both", "flock -s f flock -n f echo no", "flock -w 0.1 f flock -w 0.1 f echo no",
		"flock -o f flock -n f echo no", "flock f false", "flock f nope-command", "flock f", "flock", "flock -x -n f echo x", "flock nodir/f echo x", "flock -w x f true",
	} {
		cases = append(cases, commandtest.Case{Run: run, Loose: true})
	}
	commandtest.Compare(t, cases)
	commandtest.New(t, "/w").MustEndInTime("", "flock", "f", "flock", "f", "true")
}
