// Package suggest suggests a known name for an unknown one.
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// The largest edit distance of a suggestion, and the longest name that is compared: the comparison
// costs the product of both lengths.
const (
	maxDistance   = 2
	maxNameLength = 64
)

// Hint returns ` (did you mean "NAME"?)` with the most similar known name, or "" if none is similar.
func Hint(name string, known []string) string {
	if len(name) > maxNameLength {
		return ""
	}
	best, at := maxDistance+1, ""
	for _, k := range known {
		d := editDistance(name, k)
		if d <= maxDistance && sameLetters(name, k) {
			d = 0 // transposed letters are the most likely typo
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

// sameLetters reports whether two words differ only in the order of their letters.
func sameLetters(a, b string) bool {
	return slices.Equal(slices.Sorted(strings.SplitSeq(a, "")), slices.Sorted(strings.SplitSeq(b, "")))
}

// editDistance returns the Levenshtein distance of two words.
func editDistance(a, b string) int {
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
