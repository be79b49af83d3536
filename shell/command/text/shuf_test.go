package text_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestShuf(t *testing.T) {
	commandtest.Compare(t, []commandtest.Case{
		{Run: "shuf -i 1-20", Mixed: true},
		{Run: "shuf -e a b c d", Mixed: true},
		{Run: "shuf", Stdin: "x\ny\nz", Mixed: true},
		{Run: "shuf -n 0", Stdin: "x\n"},
		{Run: "shuf -i 5-5"},
		{Run: "shuf -i 5-4"},
		{Run: "shuf -i 5-3"},
		{Run: "shuf -i x"},
		{Run: "shuf -n x"},
		{Run: "shuf -e -i 1-2"},
		{Run: "shuf a b"},
		{Run: "shuf nofile"},
		{Run: "shuf -r -n 3 -e a"},
		{Run: "shuf -r", Stdin: ""},
		{Run: "shuf -i 1-3 x"},
		{Run: "shuf -e a -o out"},
		{Run: "shuf -i 7-7 -o out"},
		{Run: "shuf -rn2 -e"},
	})
}

// TestShufPicksAll checks that a shuffled range is complete and differs from run
// to run.
func TestShufPicksAll(t *testing.T) {
	s := commandtest.New(t, "/w")
	a, b := s.Exec("", "shuf", "-i", "1-1000"), s.Exec("", "shuf", "-i", "1-1000")
	if a.Stdout == b.Stdout {
		t.Error("two shuffles came out equal")
	}
	seen := map[string]bool{}
	for _, l := range strings.Fields(a.Stdout) {
		seen[l] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d different lines, want 1000", len(seen))
	}
	if o := s.Exec("", "shuf", "-i", "1-1000000000000", "-n", "3"); len(strings.Fields(o.Stdout)) != 3 {
		t.Errorf("%+v", o)
	}
}
