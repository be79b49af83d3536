package output

import (
	"strings"
	"unicode"
)

// Clean replaces control characters in text, so that it is safe for a terminal and a table
// cell.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r) {
			return '·'
		}
		return r
	}, s)
}

// CleanLines makes text safe for a terminal, line by line. Each line but the first starts with
// indent.
func CleanLines(text, indent string) string {
	list := strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n")
	for i, l := range list {
		list[i] = Clean(l)
	}
	return strings.Join(list, "\n"+indent)
}
