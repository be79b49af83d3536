package vt

import (
	"strconv"

	"github.com/atoll-sandbox/atoll"
)

// begin takes a terminal out of whatever it is in: a sequence, the alternate
// screen, modes.
const begin = "\x18\x1b\\\x1b[?1049l\x1b[!p\x1b[?7h\x1b[?6l\x1b[4l\x1b[20l\x1b[m\x1b[r\x1b(B\x1b)B\x0f\x1b[H\x1b[2J"

// Snapshot returns bytes that put a terminal of the same size into the state of
// this one: both screens, cursors, attributes, modes, title. With history, what
// is above the screen too, in place of what that terminal has there.
func (m *Model) Snapshot(history bool) []byte {
	w := &painter{m: m, b: make([]byte, 0, 4<<10)}
	w.add(begin)
	if history {
		w.add("\x1b[3J")
		w.history()
	}
	w.screen(&m.main, history && len(m.back.lines) > 0)
	w.saved(&m.main)
	if m.cur == &m.alt {
		w.add("\x1b[?1049h\x1b[?6l\x1b[m\x1b(B\x1b)B\x0f\x1b[2J\x1b[H")
		w.screen(&m.alt, false)
		w.saved(&m.alt)
	}
	w.add("\x1b[?6l")
	w.modes()
	if m.modes.origin {
		w.add("\x1b[?6h")
	}
	w.place(m.x, m.y, m.pending, m.modes.origin)
	w.finish()
	return w.b
}

// Paint returns bytes that show as much of the screen as fits into a window of
// another size, whatever that window showed before. What a row was painted with
// last is in rows, which has one entry for each; nil: nothing was painted.
func (m *Model) Paint(size atoll.Size, rows []string) ([]byte, []string) {
	height, cols := fit(size)
	w := &painter{m: m}
	if rows == nil {
		w.add(begin)
		w.modes()
		rows = make([]string, height)
	}
	w.add("\x1b[?25l\x1b[?7l")
	first := max(0, min(m.y-height+1, m.rows-height))
	left := 0
	if m.x >= cols {
		left = m.x - cols + 1
	}
	for i := range height {
		text := ""
		if y := first + i; y < m.rows {
			cells := m.row(y).cells[left:]
			cells = cells[:min(len(cells), cols)]
			text = string(m.marks.appendLine(nil, trim(cells)))
		}
		if text != rows[i] {
			rows[i] = text
			w.at(0, i)
			w.add(text + "\x1b[K")
		}
	}
	w.at(m.x-left, m.y-first)
	w.modes()
	w.finish()
	return w.b, rows
}

// painter collects what a terminal is to be sent.
type painter struct {
	m *Model
	b []byte
}

func (w *painter) add(s string) { w.b = append(w.b, s...) }

func (w *painter) at(x, y int) {
	w.b = strconv.AppendInt(append(w.b, "\x1b["...), int64(y+1), 10)
	w.b = strconv.AppendInt(append(w.b, ';'), int64(x+1), 10)
	w.b = append(w.b, 'H')
}

// history writes the lines above the screen; the rows of the screen follow.
func (w *painter) history() {
	s := &w.m.back
	for i := range s.lines {
		p := s.at(i)
		w.b = append(w.b, p.text...)
		next := i+1 < len(s.lines) && s.at(i+1).wrapped || i+1 == len(s.lines) && w.m.main.lines[0].wrapped
		w.endLine(next, p.cols)
	}
}

// endLine goes to the next line: by a newline, or where that one goes on from
// this one by filling this one up.
func (w *painter) endLine(wraps bool, cols int) {
	if !wraps {
		w.add("\r\n")
		return
	}
	for range w.m.cols - cols {
		w.b = append(w.b, ' ')
	}
}

// screen writes the rows of a screen from where the cursor is, its tabs and
// margins. goesOn says that there are lines above it.
func (w *painter) screen(s *screen, goesOn bool) {
	for y := range s.lines {
		l := &s.lines[y]
		wrapped := l.wrapped && (y > 0 || goesOn)
		cells := l.kept()
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

// saved makes the terminal save what a screen has saved.
func (w *painter) saved(s *screen) {
	v := s.saved
	if v.origin {
		w.add("\x1b[?6h")
		v.y = min(max(v.y, s.top), s.bottom) // restored, it would be there
	}
	w.placeOn(s, v.x, v.y, v.pending, v.origin)
	w.pen(v.pen, v.sets)
	w.add("\x1b7")
}

func (w *painter) pen(s style, c charsets) {
	w.add("\x1b[m")
	if s != (style{}) {
		w.b = s.append(w.b)
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

func (w *painter) place(x, y int, pending, origin bool) { w.placeOn(w.m.cur, x, y, pending, origin) }

// placeOn puts the cursor somewhere. Where the next character is to wrap, that
// is by writing the last one again.
func (w *painter) placeOn(s *screen, x, y int, pending, origin bool) {
	row := y
	if origin {
		row -= s.top
	}
	if !pending {
		w.at(x, row)
		return
	}
	cells := s.lines[y].cells
	if cells[x].w == rest {
		x--
	}
	w.at(x, row)
	w.add("\x1b(B\x1b)B\x0f")
	w.b = w.m.marks.appendLine(w.b, cells[x:])
}

// modes sets and resets all modes but those that the position depends on.
func (w *painter) modes() {
	m := &w.m.modes
	for _, n := range []int{1, 12, 66, 1004, 2004} {
		w.mode("?", n, *m.flag(n))
	}
	w.mode("?", 1000, false)
	if m.mouse != 0 {
		w.mode("?", m.mouse, true)
	}
	w.mode("?", 1006, false)
	if m.coding != 0 {
		w.mode("?", m.coding, true)
	}
	w.b = append(w.b, "\x1b["...)
	w.b = append(w.b, '0'+m.shape)
	w.add(" q\x1b]2;" + w.m.title + "\a")
}

func (w *painter) mode(private string, n int, on bool) {
	w.b = strconv.AppendInt(append(w.b, "\x1b["+private...), int64(n), 10)
	w.b = append(w.b, "lh"[btoi(on)])
}

func btoi(on bool) int {
	if on {
		return 1
	}
	return 0
}

// finish sets what would have been in the way before.
func (w *painter) finish() {
	m := &w.m.modes
	w.mode("", 4, m.insert)
	w.mode("", 20, m.newline)
	w.mode("?", 7, m.wrap)
	w.mode("?", 25, m.cursor)
	w.pen(w.m.pen, w.m.sets)
}

// Leave takes somebody's own terminal out of what it was shown: the cursor is on
// the last line.
const Leave = "\x18\x1b\\\x1b[?1049l\x1b[!p\x1b[?7h\x1b[?1000l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b(B\x0f\x1b[m\x1b[r\x1b[0 q\x1b[?25h\x1b[999;1H"
