package vt

import (
	"strconv"

	"github.com/atoll-sandbox/atoll"
)

// resetSequence resets a terminal: it ends any pending sequence, leaves the alternate
// screen and resets modes.
const resetSequence = "\x18\x1b\\\x1b[?1049l\x1b[!p\x1b[?7h\x1b[?6l\x1b[4l\x1b[20l\x1b[m\x1b[r\x1b(B\x1b)B\x0f\x1b[H\x1b[2J"

// Snapshot returns bytes that put a terminal of the same size into the state of
// this one: both screens, cursors, attributes, modes, title. history includes the
// scrollback, which replaces that of the terminal.
func (e *Emulator) Snapshot(history bool) []byte {
	w := &painter{m: e, b: make([]byte, 0, 4<<10)}
	w.add(resetSequence)
	if history {
		w.add("\x1b[3J")
		w.paintHistory()
	}
	w.paintScreen(&e.main, history && len(e.history.lines) > 0)
	w.paintSavedCursor(&e.main)
	if e.current == &e.alt {
		w.add("\x1b[?1049h\x1b[?6l\x1b[m\x1b(B\x1b)B\x0f\x1b[2J\x1b[H")
		w.paintScreen(&e.alt, false)
		w.paintSavedCursor(&e.alt)
	}
	w.add("\x1b[?6l")
	w.paintModes()
	if e.modes.origin {
		w.add("\x1b[?6h")
	}
	w.placeCursor(e.x, e.y, e.pending, e.modes.origin)
	w.paintFinalModes()
	return w.b
}

// Paint returns bytes that show the part of the screen that fits into a window of
// another size. rows holds the last painted text of each row of the window
// and is updated; nil: nothing was painted yet.
func (e *Emulator) Paint(size atoll.Size, rows []string) ([]byte, []string) {
	height, cols := clampSize(size)
	w := &painter{m: e}
	if rows == nil {
		w.add(resetSequence)
		w.paintModes()
		rows = make([]string, height)
	}
	w.add("\x1b[?25l\x1b[?7l")
	first := max(0, min(e.y-height+1, e.rows-height))
	left := 0
	if e.x >= cols {
		left = e.x - cols + 1
	}
	for i := range height {
		text := ""
		if y := first + i; y < e.rows {
			cells := e.rowAt(y).cells[left:]
			cells = cells[:min(len(cells), cols)]
			text = string(e.marks.appendLine(nil, trimBlanks(cells)))
		}
		if text != rows[i] {
			rows[i] = text
			w.moveTo(0, i)
			w.add(text + "\x1b[K")
		}
	}
	w.moveTo(e.x-left, e.y-first)
	w.paintModes()
	w.paintFinalModes()
	return w.b, rows
}

// painter builds terminal output.
type painter struct {
	m *Emulator
	b []byte
}

func (w *painter) add(s string) { w.b = append(w.b, s...) }

func (w *painter) moveTo(x, y int) {
	w.b = strconv.AppendInt(append(w.b, "\x1b["...), int64(y+1), 10)
	w.b = strconv.AppendInt(append(w.b, ';'), int64(x+1), 10)
	w.b = append(w.b, 'H')
}

// paintHistory writes the lines above the screen; the rows of the screen follow.
func (w *painter) paintHistory() {
	s := &w.m.history
	for i := range s.lines {
		p := s.lineAt(i)
		w.b = append(w.b, p.text...)
		next := i+1 < len(s.lines) && s.lineAt(i+1).wrapped || i+1 == len(s.lines) && w.m.main.lines[0].wrapped
		w.endLine(next, p.cols)
	}
}

// endLine moves to the next line: by a newline, or by filling up the line if the next one
// continues it.
func (w *painter) endLine(wraps bool, cols int) {
	if !wraps {
		w.add("\r\n")
		return
	}
	for range w.m.cols - cols {
		w.b = append(w.b, ' ')
	}
}

// paintScreen writes the rows of a screen from the cursor on, its tab stops and
// margins. goesOn means that there are lines above it.
func (w *painter) paintScreen(s *screen, goesOn bool) {
	for y := range s.lines {
		l := &s.lines[y]
		wrapped := l.wrapped && (y > 0 || goesOn)
		cells := l.printedCells()
		if wrapped && len(cells) == 0 {
			cells = l.cells[:1] // else it would not wrap
		}
		w.b = w.m.marks.appendLine(w.b, cells)
		if y+1 < len(s.lines) {
			w.endLine(s.lines[y+1].wrapped, len(cells))
		}
	}
	w.add("\x1b[3g")
	for x, stop := range s.tabs {
		if stop {
			w.b = strconv.AppendInt(append(w.b, "\x1b["...), int64(x+1), 10)
			w.add("G\x1bH")
		}
	}
	w.b = strconv.AppendInt(append(w.b, "\x1b["...), int64(s.top+1), 10)
	w.b = strconv.AppendInt(append(w.b, ';'), int64(s.bottom+1), 10)
	w.add("r")
}

// paintSavedCursor sets the saved cursor of a screen.
func (w *painter) paintSavedCursor(s *screen) {
	v := s.saved
	if v.origin {
		w.add("\x1b[?6h")
		v.y = min(max(v.y, s.top), s.bottom) // restored, it would be there
	}
	w.placeCursorOn(s, v.x, v.y, v.pending, v.origin)
	w.paintPen(v.pen, v.sets)
	w.add("\x1b7")
}

func (w *painter) paintPen(s style, c charsets) {
	w.add("\x1b[m")
	if s != (style{}) {
		w.b = s.appendSequence(w.b)
	}
	for i, drawing := range c.lines {
		set := byte('B')
		if drawing {
			set = '0'
		}
		w.b = append(w.b, 0x1b, "()"[i], set)
	}
	shift := byte(0x0f)
	if c.shifted {
		shift = 0x0e
	}
	w.b = append(w.b, shift)
}

func (w *painter) placeCursor(x, y int, pending, origin bool) {
	w.placeCursorOn(w.m.current, x, y, pending, origin)
}

// placeCursorOn moves the cursor. If a wrap is pending, it writes the last character
// of the row again.
func (w *painter) placeCursorOn(s *screen, x, y int, pending, origin bool) {
	row := y
	if origin {
		row -= s.top
	}
	if !pending {
		w.moveTo(x, row)
		return
	}
	cells := s.lines[y].cells
	if cells[x].w == rest {
		x--
	}
	w.moveTo(x, row)
	w.add("\x1b(B\x1b)B\x0f")
	w.b = w.m.marks.appendLine(w.b, cells[x:])
}

// paintModes sets and resets all modes except those that the position depends on.
func (w *painter) paintModes() {
	m := &w.m.modes
	for _, n := range []int{1, 12, 66, 1004, 2004} {
		w.paintMode("?", n, *m.modeFlag(n))
	}
	w.paintMode("?", 1000, false)
	if m.mouse != 0 {
		w.paintMode("?", m.mouse, true)
	}
	w.paintMode("?", 1006, false)
	if m.coding != 0 {
		w.paintMode("?", m.coding, true)
	}
	w.b = append(w.b, "\x1b["...)
	w.b = append(w.b, '0'+m.shape)
	w.add(" q\x1b]2;" + w.m.title + "\a")
}

func (w *painter) paintMode(private string, n int, on bool) {
	w.b = strconv.AppendInt(append(w.b, "\x1b["+private...), int64(n), 10)
	w.b = append(w.b, "lh"[btoi(on)])
}

func btoi(on bool) int {
	if on {
		return 1
	}
	return 0
}

// paintFinalModes sets the modes that would disturb earlier output.
func (w *painter) paintFinalModes() {
	m := &w.m.modes
	w.paintMode("", 4, m.insert)
	w.paintMode("", 20, m.newline)
	w.paintMode("?", 7, m.wrap)
	w.paintMode("?", 25, m.cursor)
	w.paintPen(w.m.pen, w.m.sets)
}

// ResetSequence resets a user's terminal after it has shown another one: the cursor moves to
// the last line.
const ResetSequence = "\x18\x1b\\\x1b[?1049l\x1b[!p\x1b[?7h\x1b[?1000l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b(B\x0f\x1b[m\x1b[r\x1b[0 q\x1b[?25h\x1b[999;1H"
