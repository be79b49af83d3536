// Package spell guesses what was meant by a name that is not there.
package spell

import (
	"fmt"
	"slices"
	"strings"
)

// far is how many letters may be wrong, and long how many a name may have:
// looking costs the product of both lengths.
const (
	far  = 2
	long = 64
)

// Hint returns " (did you mean "NAME"?)" with the known name that is nearest, or
// nothing if none is near.
func Hint(name string, known []string) string {
	if len(name) > long {
		return ""
	}
	best, at := far+1, ""
	for _, k := range known {
		d := distance(name, k)
		if d <= far && sameLetters(name, k) {
			d = 0 // letters in another order are the likeliest slip
		}
		if d < best && d < len(k) {
			best, at = d, k
		}
	}
	if at == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", at)
}

// sameLetters reports whether two words differ only in the order of letters.
func sameLetters(a, b string) bool {
	return slices.Equal(slices.Sorted(strings.SplitSeq(a, "")), slices.Sorted(strings.SplitSeq(b, "")))
}

// distance is the number of letters to add, drop or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := prev
			if a[i] != b[j] {
				d = 1 + min(prev, row[j], row[j+1])
			}
			prev, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
