package regex

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestWordListAgreesWithAutomaton compares both ways to match a list of words.
func TestWordListAgreesWithAutomaton(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	letters := []string{"a", "b", "A", "_", "-", "é", " ", "ab"}
	random := func(n int, more ...string) string {
		var s strings.Builder
		from := slices.Concat(letters, more)
		for range r.IntN(n) {
			s.WriteString(from[r.IntN(len(from))])
		}
		return s.String()
	}
	for range 400 {
		o := Options{
			Syntax: Fixed, Dialect: Grep, Lines: r.IntN(2) == 0, Bytes: r.IntN(3) == 0,
			IgnoreCase: r.IntN(2) == 0, Whole: r.IntN(4) == 0,
		}
		o.Word = !o.Whole && r.IntN(3) == 0
		if o.IgnoreCase {
			letters[5] = "c"
		} else {
			letters[5] = "é"
		}
		words := make([]string, minWords+r.IntN(20))
		for i := range words {
			words[i] = random(5)
			if words[i] == "" && r.IntN(20) > 0 {
				words[i] = "ba"
			}
		}
		pattern := strings.Join(words, "\n")
		list, err := Compile(pattern, o)
		if err != nil || list.words == nil {
			t.Fatalf("%q, %+v: no list: %v", pattern, o, err)
		}
		automaton, err := compileTrees(pattern, o, newAccount(nil), newAccount(nil))
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			text := []byte(random(20, "\n", "x", "\xff", "\xc3", "É"))
			from, flags := 0, Flags(r.IntN(4))
			var a, b [2]int
			okA, okB := list.MatchFlags(text, from, a[:], flags, nil), automaton.MatchFlags(text, from, b[:], flags, nil)
			if okA != okB || a != b {
				t.Fatalf("%q in %q, %+v, flags %d: list %v %v, automaton %v %v", pattern, text, o, flags, okA, a, okB, b)
			}
			if list.Match(text, 0, nil, nil) != automaton.Match(text, 0, nil, nil) {
				t.Fatalf("%q in %q, %+v: they differ without groups", pattern, text, o)
			}
			if !o.Lines {
				continue
			}
			if x, y := list.Scan(text, 0, nil), automaton.Scan(text, 0, nil); lineOf(text, x) != lineOf(text, y) {
				t.Fatalf("%q in %q, %+v: Scan: list %d, automaton %d", pattern, text, o, x, y)
			}
		}
	}
}

// lineOf returns the number of the line that contains a position, or -1.
func lineOf(text []byte, at int) int {
	if at < 0 {
		return -1
	}
	return strings.Count(string(text[:at]), "\n")
}
