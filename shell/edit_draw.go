package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// screenPos is a position on the screen, relative to the start of the prompt.
type screenPos struct{ row, col int }

// next returns the position after a character at s.
func (s screenPos) next(r rune, columns int) screenPos {
	switch {
	case r == '\n':
		return screenPos{s.row + 1, 0}
	case r < ' ' || r == 127:
		return s.advance(1, columns).advance(1, columns) // ^X
	}
	return s.advance(kernel.Columns(r), columns)
}

// advance returns the position after n columns that stay on one row.
func (s screenPos) advance(n, columns int) screenPos {
	if s.col+n > columns {
		s = screenPos{s.row + 1, 0}
	}
	s.col += n
	return s
}

// promptEnd returns the position after a prompt; escape sequences have no
// width.
func promptEnd(prompt string, columns int) screenPos {
	var s screenPos
	for i := 0; i < len(prompt); {
		if n := escapeLen(prompt[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(prompt[i:])
		if r >= ' ' || r == '\n' {
			s = s.next(r, columns)
		}
		i += n
	}
	return s
}

// escapeLen returns the length of the escape sequence at the start of s; 0 if
// there is none.
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

// screenWidth returns the number of columns, at least 4.
func (e *editor) screenWidth() int { return max(4, e.columns()) }

// canAppend reports whether it is enough to write a character that was
// appended, without redrawing the line.
func (e *editor) canAppend(r rune) bool {
	if r < ' ' || r == 127 || kernel.Columns(r) == 0 {
		return false
	}
	w := e.screenWidth()
	s := promptEnd(e.prompt, w)
	for _, c := range e.text {
		s = s.next(c, w)
	}
	return s.row == e.cursorRow && s.col < w
}

// redraw draws the prompt, the line and the cursor.
func (e *editor) redraw() {
	var b strings.Builder
	w := e.screenWidth()
	if e.cursorRow > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(e.cursorRow) + "A")
	}
	b.WriteString("\r\x1b[J" + e.prompt)
	s := promptEnd(e.prompt, w)
	cursor := s
	for i, r := range e.text {
		if i == e.cursor {
			cursor = s
		}
		switch {
		case r < ' ' && r != '\n' || r == 127:
			b.WriteString("^" + string(r^0x40))
		case r < 0x80 || r >= 0xa0: // a terminal may interpret the C1 controls between them
			b.WriteRune(r)
		}
		s = s.next(r, w)
	}
	if e.cursor == len(e.text) {
		cursor = s
	}
	if s.col == w { // a terminal wraps only at the next character
		b.WriteString("\n")
		s = screenPos{s.row + 1, 0}
	}
	if cursor.col == w {
		cursor = screenPos{cursor.row + 1, 0}
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
	e.cursorRow = cursor.row
	e.charge(b.Len() / 8)
	e.write(b.String())
}

// moveToEnd moves the cursor to the end of the line.
func (e *editor) moveToEnd() {
	if e.cursor < len(e.text) {
		e.cursor = len(e.text)
		e.redraw()
	}
}
