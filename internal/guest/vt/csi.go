package vt

import (
	"fmt"
	"strconv"
)

// doControl executes a control character.
func (m *Model) doControl(b byte) {
	m.last = 0
	switch b {
	case '\a':
	case '\b':
		m.pending = false
		m.x = max(m.x-1, 0)
	case '\t':
		m.nextTab(1)
	case '\n', '\v', '\f':
		m.lineFeed()
		if m.modes.newline {
			m.x = 0
		}
	case '\r':
		m.x, m.pending = 0, false
	case 0x0e, 0x0f:
		m.sets.shifted = b == 0x0e
	default:
		return
	}
	m.passBytes([]byte{b})
}

// nextTab moves the cursor to the nth next tab stop.
func (m *Model) nextTab(n int) {
	if m.pending {
		return
	}
	for ; n > 0 && m.x < m.cols-1; n-- {
		for m.x++; m.x < m.cols-1 && !m.current.tabs[m.x]; m.x++ {
		}
	}
}

func (m *Model) previousTab(n int) {
	m.pending = false
	for ; n > 0 && m.x > 0; n-- {
		for m.x--; m.x > 0 && !m.current.tabs[m.x]; m.x-- {
		}
	}
}

// moveTo moves the cursor; in origin mode y counts from the top margin.
func (m *Model) moveTo(x, y int) {
	m.pending = false
	m.x = min(max(x, 0), m.cols-1)
	if m.modes.origin {
		m.y = min(max(m.current.top+y, m.current.top), m.current.bottom)
		return
	}
	m.y = min(max(y, 0), m.rows-1)
}

// moveUp moves the cursor up by n rows, at most to the margin. moveDown is its counterpart.
func (m *Model) moveUp(n int) {
	m.pending = false
	stop := 0
	if m.y >= m.current.top {
		stop = m.current.top
	}
	m.y = max(m.y-n, stop)
}

func (m *Model) moveDown(n int) {
	m.pending = false
	stop := m.rows - 1
	if m.y <= m.current.bottom {
		stop = m.current.bottom
	}
	m.y = min(m.y+n, stop)
}

func (m *Model) moveRight(n int) {
	m.pending = false
	m.x = min(max(m.x+n, 0), m.cols-1)
}

// originRow returns the row that positions count from.
func (m *Model) originRow() int {
	if m.modes.origin {
		return m.current.top
	}
	return 0
}

// doCSI executes a control sequence and forwards it if viewers' terminals may
// get it.
func (m *Model) doCSI(final byte) {
	last := m.last
	m.last = 0
	q := &m.seq
	known := false
	switch {
	case q.prefix == 0 && q.inter == 0:
		known = m.doMove(final, q.paramOr(0, 1)) || m.doEdit(final, q.paramOr(0, 1)) || m.doOther(final)
		if final == 'b' && last != 0 {
			m.repeatLast(last, q.paramOr(0, 1))
		}
	case q.prefix == '?' && q.inter == 0 && (final == 'h' || final == 'l'):
		m.setModes(final == 'h')
	case q.prefix == '?' && q.inter == 0 && (final == 'J' || final == 'K'): // selective: there is no protection
		q.prefix = 0
		known = m.doEdit(final, 1)
	case q.prefix == 0 && q.inter == '!' && final == 'p':
		m.softReset()
		known = true
	case q.prefix == 0 && q.inter == ' ' && final == 'q':
		if n := max(q.paramOr(0, 0), 0); n <= 6 {
			m.modes.shape = byte(n)
			known = true
		}
	default:
		m.answerQuery(final)
	}
	if known {
		m.passCSI(final)
	}
}

// doMove executes the sequences that move the cursor and reports whether final is one.
func (m *Model) doMove(final byte, n int) bool {
	switch final {
	case 'A':
		m.moveUp(n)
	case 'B', 'e':
		m.moveDown(n)
	case 'C', 'a':
		m.moveRight(n)
	case 'D':
		m.moveRight(-n)
	case 'E':
		m.moveDown(n)
		m.x = 0
	case 'F':
		m.moveUp(n)
		m.x = 0
	case 'G', '`':
		m.moveRight(n - 1 - m.x)
	case 'H', 'f':
		m.moveTo(m.seq.paramOr(1, 1)-1, n-1)
	case 'd':
		m.moveTo(m.x, n-1)
	case 'I':
		m.nextTab(n)
	case 'Z':
		m.previousTab(n)
	default:
		return false
	}
	return true
}

// doEdit executes the sequences that change the screen and reports whether final is one.
func (m *Model) doEdit(final byte, n int) bool {
	inside := m.y >= m.current.top && m.y <= m.current.bottom
	switch final {
	case 'J':
		return m.eraseScreen(m.seq.paramOr(0, 0))
	case 'K':
		return m.eraseLine(m.seq.paramOr(0, 0))
	case '@':
		m.pending = false
		m.shiftColumns(m.x, n)
	case 'P':
		m.pending = false
		m.shiftColumns(m.x, -n)
	case 'X':
		m.pending = false
		m.eraseKeepingWrap(m.x, m.x+n)
	case 'L', 'M':
		m.pending = false
		if inside {
			if final == 'M' {
				n = -n
			}
			m.rotateRows(m.y, m.current.bottom, -n)
			m.x = 0
		}
	case 'S':
		m.scrollUp(n, false)
	case 'T':
		if m.seq.n > 1 {
			return false // highlight tracking
		}
		m.rotateRows(m.current.top, m.current.bottom, -min(n, m.rows))
	default:
		return false
	}
	return true
}

// eraseKeepingWrap blanks columns and keeps the row's wrapped flag.
func (m *Model) eraseKeepingWrap(x0, x1 int) {
	l := m.rowAt(m.y)
	was := l.wrapped
	m.eraseColumns(m.y, x0, x1)
	l.wrapped = was
}

// eraseStart returns the first column of an erasure to the right. After the
// last column was written there is nothing to erase.
func (m *Model) eraseStart() int {
	if m.pending {
		return m.cols
	}
	return m.x
}

func (m *Model) eraseLine(how int) bool {
	switch how {
	case 0:
		m.eraseColumns(m.y, m.eraseStart(), m.cols)
	case 1:
		m.eraseKeepingWrap(0, m.x+1)
	case 2:
		m.eraseColumns(m.y, 0, m.cols)
	default:
		return false
	}
	return true
}

func (m *Model) eraseScreen(how int) bool {
	from, to := 0, m.rows
	switch how {
	case 0:
		m.eraseColumns(m.y, m.eraseStart(), m.cols)
		from = m.y + 1
	case 1:
		m.eraseKeepingWrap(0, m.x+1)
		if to = m.y; m.x == m.cols-1 && m.y+1 < m.rows {
			m.rowAt(m.y + 1).wrapped = false
		}
	case 2:
	case 3:
		m.history.clearLines()
		return true
	default:
		return false
	}
	for y := from; y < to; y++ {
		m.eraseColumns(y, 0, m.cols)
	}
	return true
}

// repeatLast prints the last character n more times.
func (m *Model) repeatLast(r rune, n int) {
	for range min(n, m.rows*m.cols) {
		m.putRune(r)
	}
	m.last = 0
}

// doOther executes the remaining sequences without a prefix and reports whether final is one.
func (m *Model) doOther(final byte) bool {
	q := &m.seq
	switch final {
	case 'm':
		m.doSGR()
	case 'r':
		m.setMargins(q.paramOr(0, 1)-1, q.paramOr(1, m.rows)-1)
	case 's':
		m.saveCursor()
	case 'u':
		m.restoreCursor()
	case 'g':
		switch q.paramOr(0, 0) {
		case 0:
			m.current.tabs[m.x] = false
		case 3:
			clear(m.current.tabs)
		default:
			return false
		}
	case 'h', 'l':
		return m.setANSI(final == 'h')
	case 'b':
	case 'c', 'n', 't':
		m.answerQuery(final)
		return false
	default:
		return false
	}
	return true
}

func (m *Model) setMargins(top, bottom int) {
	bottom = min(bottom, m.rows-1)
	if top < bottom {
		m.current.top, m.current.bottom = top, bottom
		m.moveTo(0, 0)
	}
}

func (m *Model) saveCursor() {
	m.current.saved = saved{m.x, m.y, m.pending, m.pen, m.sets, m.modes.origin}
}

func (m *Model) restoreCursor() {
	s := m.current.saved
	m.x, m.y, m.pending, m.pen, m.sets, m.modes.origin = s.x, s.y, s.pending, s.pen, s.sets, s.origin
	m.clampCursor()
}

// clampCursor keeps the cursor between the margins in origin mode.
func (m *Model) clampCursor() {
	if m.modes.origin {
		m.y = min(max(m.y, m.current.top), m.current.bottom)
	}
}

// doESC executes an escape sequence.
func (m *Model) doESC(final byte) {
	m.last = 0
	q := &m.seq
	if q.inter != 0 {
		if m.selectCharset(q.inter, final) {
			m.passBytes([]byte{0x1b, q.inter, final})
		}
		return
	}
	switch final {
	case '7':
		m.saveCursor()
	case '8':
		m.restoreCursor()
	case 'D':
		m.lineFeed()
	case 'E':
		m.lineFeed()
		m.x = 0
	case 'H':
		m.current.tabs[m.x] = true
	case 'M':
		m.reverseFeed()
	case 'c':
		m.resetState()
		m.history.clearLines()
	case '=', '>':
		m.modes.keypad = final == '='
	default:
		return
	}
	m.passBytes([]byte{0x1b, final})
}

// selectCharset executes ESC with an intermediate byte and reports whether it is known.
func (m *Model) selectCharset(inter, final byte) bool {
	switch {
	case (inter == '(' || inter == ')') && (final == '0' || final == 'B'):
		m.sets.lines[inter-'('] = final == '0'
	case inter == '#' && final == '8':
		m.pending = false
		for i := range m.current.lines {
			m.rowAt(i).fill(cell{r: 'E'})
			m.rowAt(i).wrapped = false
		}
		m.x, m.y = 0, 0
		m.clampCursor()
	default:
		return false
	}
	return true
}

// passBytes forwards bytes to Pass.
func (m *Model) passBytes(b []byte) {
	if m.OnOutput != nil {
		m.OnOutput(b)
	}
}

func (m *Model) passRune(r rune) {
	if m.OnOutput != nil {
		m.out = append(m.out[:0], string(r)...)
		m.OnOutput(m.out)
	}
}

// passCSI forwards the sequence that was just executed.
func (m *Model) passCSI(final byte) {
	if m.OnOutput == nil {
		return
	}
	q := &m.seq
	b := append(m.out[:0], "\x1b["...)
	if q.prefix != 0 {
		b = append(b, q.prefix)
	}
	for i := range q.n {
		if i > 0 {
			b = append(b, ";:"[q.sub>>i&1])
		}
		if q.params[i] >= 0 {
			b = strconv.AppendInt(b, int64(q.params[i]), 10)
		}
	}
	if q.inter != 0 {
		b = append(b, q.inter)
	}
	m.out = append(b, final)
	m.OnOutput(m.out)
}

// sendAnswer sends a response to the program.
func (m *Model) sendAnswer(format string, a ...any) {
	if m.OnResponse != nil {
		m.OnResponse(fmt.Appendf(nil, format, a...))
	}
}
