package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// spot is a place on the screen, from where the prompt begins.
type spot struct{ row, col int }

// after returns the place after a character that stands at s.
func (s spot) after(r rune, columns int) spot {
	switch {
	case r == '\n':
		return spot{s.row + 1, 0}
	case r < ' ' || r == 127:
		return s.wide(1, columns).wide(1, columns) // ^X
	}
	return s.wide(kernel.Columns(r), columns)
}

// wide returns the place after n columns that are not parted.
func (s spot) wide(n, columns int) spot {
	if s.col+n > columns {
		s = spot{s.row + 1, 0}
	}
	s.col += n
	return s
}

// promptEnd returns the place after a prompt, in which escape sequences take
// no room.
func promptEnd(prompt string, columns int) spot {
	var s spot
	for i := 0; i < len(prompt); {
		if n := escapeLen(prompt[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(prompt[i:])
		if r >= ' ' || r == '\n' {
			s = s.after(r, columns)
		}
		i += n
	}
	return s
}

// escapeLen returns how long the escape sequence is that s begins with.
func escapeLen(s string) int {
	if len(s) < 2 || s[0] != 27 {
		return 0
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return len(s)
	case ']':
		if i := strings.IndexByte(s, 7); i >= 0 {
			return i + 1
		}
		if i := strings.Index(s, "\x1b\\"); i > 0 {
			return i + 2
		}
		return len(s)
	}
	return 2
}

// width returns the columns of the screen.
func (e *editor) width() int { return max(4, e.columns()) }

// fits reports whether a character that was added at the end only needs to
// be written.
func (e *editor) fits(r rune) bool {
	if r < ' ' || r == 127 || kernel.Columns(r) == 0 {
		return false
	}
	w := e.width()
	s := promptEnd(e.prompt, w)
	for _, c := range e.text {
		s = s.after(c, w)
	}
	return s.row == e.row && s.col < w
}

// draw shows the prompt and the line again, with the cursor in its place.
func (e *editor) draw() {
	var b strings.Builder
	w := e.width()
	if e.row > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(e.row) + "A")
	}
	b.WriteString("\r\x1b[J" + e.prompt)
	s := promptEnd(e.prompt, w)
	cursor := s
	for i, r := range e.text {
		if i == e.at {
			cursor = s
		}
		switch {
		case r < ' ' && r != '\n' || r == 127:
			b.WriteString("^" + string(r^0x40))
		case r < 0x80 || r >= 0xa0: // what is between, a terminal may obey
			b.WriteRune(r)
		}
		s = s.after(r, w)
	}
	if e.at == len(e.text) {
		cursor = s
	}
	if s.col == w { // the screen goes to the next line only with the next character
		b.WriteString("\n")
		s = spot{s.row + 1, 0}
	}
	if cursor.col == w {
		cursor = spot{cursor.row + 1, 0}
	}
	if up := s.row - cursor.row; up > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(up) + "A")
	}
	if cursor != s {
		b.WriteString("\r")
		if cursor.col > 0 {
			b.WriteString("\x1b[" + strconv.Itoa(cursor.col) + "C")
		}
	}
	e.row = cursor.row
	e.spend(b.Len() / 8)
	e.write(b.String())
}

// end moves the cursor behind the line.
func (e *editor) end() {
	if e.at < len(e.text) {
		e.at = len(e.text)
		e.draw()
	}
}
