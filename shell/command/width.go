package command

import (
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// runeWidth returns how many columns of a terminal a character takes.
func runeWidth(r rune) int { return kernel.Columns(r) }

// textWidth returns how many columns of a terminal a text takes.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		if r < utf8.RuneSelf {
			n += int(b2i(r >= ' ' && r < 0x7f))
			continue
		}
		n += runeWidth(r)
	}
	return n
}
