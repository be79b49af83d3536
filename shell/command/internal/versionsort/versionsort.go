// Package versionsort orders names that contain numbers, like sort -V and ls -v.
package versionsort

import "github.com/atoll-sandbox/atoll/shell/command/internal/number"

// Compare returns a negative number, zero or a positive number as a sorts before, with or after b.
func Compare(a, b []byte) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return int(number.FromBool(len(a) > 0) - number.FromBool(len(b) > 0))
	case a[0] == '.' && b[0] != '.':
		return -1
	case b[0] == '.' && a[0] != '.':
		return 1
	case a[0] == '.':
		for _, dots := range []string{".", ".."} {
			x, y := string(a) == dots, string(b) == dots
			if x || y {
				return int(number.FromBool(!x) - number.FromBool(!y))
			}
		}
	}
	x, y := stemLength(a), stemLength(b)
	c := compareRevisions(a[:x], b[:y])
	if c != 0 || x == len(a) && y == len(b) {
		return c
	}
	return compareRevisions(a, b)
}

// stemLength returns the length of a name without its suffixes.
func stemLength(s []byte) int {
	alpha := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '~' }
	for i := 0; ; i++ {
		stem := i
		for i+1 < len(s) && s[i] == '.' && alpha(s[i+1]) {
			for i += 2; i < len(s) && (alpha(s[i]) || s[i] >= '0' && s[i] <= '9'); i++ {
			}
		}
		if i >= len(s) {
			return stem
		}
	}
}

func weightAt(s []byte, i int) int {
	if i >= len(s) {
		return -1
	}
	switch c := s[i]; {
	case c >= '0' && c <= '9':
		return 0
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		return int(c)
	case c == '~':
		return -2
	default:
		return int(c) + 256
	}
}

func compareRevisions(a, b []byte) int {
	digit := func(s []byte, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		for i < len(a) && !digit(a, i) || j < len(b) && !digit(b, j) {
			if c := weightAt(a, i) - weightAt(b, j); c != 0 {
				return c
			}
			i, j = i+1, j+1
		}
		for i < len(a) && a[i] == '0' {
			i++
		}
		for j < len(b) && b[j] == '0' {
			j++
		}
		first := 0
		for digit(a, i) && digit(b, j) {
			if first == 0 {
				first = int(a[i]) - int(b[j])
			}
			i, j = i+1, j+1
		}
		switch {
		case digit(a, i):
			return 1
		case digit(b, j):
			return -1
		case first != 0:
			return first
		}
	}
	return 0
}
