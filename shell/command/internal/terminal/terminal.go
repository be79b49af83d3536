// Package terminal measures terminals and text on them.
package terminal

import (
	"strconv"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
)

// Width returns the number of columns of a process's terminal: $COLUMNS, that of the terminal, or 80.
func Width(p *kernel.Proc) int {
	if n, err := strconv.Atoi(p.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if y := p.Terminal(); y != nil {
		return int(y.Size().Cols)
	}
	return 80
}

// Height returns the number of rows of a process's terminal: $LINES, that of the terminal, or 24.
func Height(p *kernel.Proc) int {
	if n, err := strconv.Atoi(p.Getenv("LINES")); err == nil && n > 0 {
		return n
	}
	if y := p.Terminal(); y != nil {
		return int(y.Size().Rows)
	}
	return 24
}

// RuneWidth returns how many columns a character takes.
func RuneWidth(r rune) int { return kernel.Columns(r) }

// TextWidth returns how many columns a text takes.
func TextWidth(s string) int {
	n := 0
	for _, r := range s {
		if r < utf8.RuneSelf {
			n += int(number.FromBool(r >= ' ' && r < 0x7f))
			continue
		}
		n += RuneWidth(r)
	}
	return n
}
