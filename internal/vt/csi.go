package vt

import (
	"fmt"
	"strconv"
)

// execute does what a control character says.
func (m *Model) execute(b byte) {
	m.last = 0
	switch b {
	case '\a':
	case '\b':
		m.pending = false
		m.x = max(m.x-1, 0)
	case '\t':
		m.tab(1)
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
	m.pass([]byte{b})
}

// tab goes to the next stops.
func (m *Model) tab(n int) {
	if m.pending {
		return
	}
	for ; n > 0 && m.x < m.cols-1; n-- {
		for m.x++; m.x < m.cols-1 && !m.cur.tabs[m.x]; m.x++ {
		}
	}
}

func (m *Model) backTab(n int) {
	m.pending = false
	for ; n > 0 && m.x > 0; n-- {
		for m.x--; m.x > 0 && !m.cur.tabs[m.x]; m.x-- {
		}
	}
}

// goTo puts the cursor somewhere, from the margin on in origin mode.
func (m *Model) goTo(x, y int) {
	m.pending = false
	m.x = min(max(x, 0), m.cols-1)
	if m.modes.origin {
		m.y = min(max(m.cur.top+y, m.cur.top), m.cur.bottom)
		return
	}
	m.y = min(max(y, 0), m.rows-1)
}

// up and down stop at the margin that they meet.
func (m *Model) up(n int) {
	m.pending = false
	stop := 0
	if m.y >= m.cur.top {
		stop = m.cur.top
	}
	m.y = max(m.y-n, stop)
}

func (m *Model) down(n int) {
	m.pending = false
	stop := m.rows - 1
	if m.y <= m.cur.bottom {
		stop = m.cur.bottom
	}
	m.y = min(m.y+n, stop)
}

func (m *Model) right(n int) {
	m.pending = false
	m.x = min(max(m.x+n, 0), m.cols-1)
}

// line0 is the row that a position in origin mode counts from.
func (m *Model) line0() int {
	if m.modes.origin {
		return m.cur.top
	}
	return 0
}

// doCSI does what a sequence says, and passes it on if it is one that people's
// terminals may see.
func (m *Model) doCSI(final byte) {
	last := m.last
	m.last = 0
	q := &m.seq
	known := false
	switch {
	case q.prefix == 0 && q.inter == 0:
		known = m.move(final, q.param(0, 1)) || m.edit(final, q.param(0, 1)) || m.other(final)
		if final == 'b' && last != 0 {
			m.repeat(last, q.param(0, 1))
		}
	case q.prefix == '?' && q.inter == 0 && (final == 'h' || final == 'l'):
		m.setModes(final == 'h')
	case q.prefix == '?' && q.inter == 0 && (final == 'J' || final == 'K'): // selective: there is no protection
		q.prefix = 0
		known = m.edit(final, 1)
	case q.prefix == 0 && q.inter == '!' && final == 'p':
		m.softReset()
		known = true
	case q.prefix == 0 && q.inter == ' ' && final == 'q':
		if n := max(q.param(0, 0), 0); n <= 6 {
			m.modes.shape = byte(n)
			known = true
		}
	default:
		m.query(final)
	}
	if known {
		m.passCSI(final)
	}
}

// move does what moves the cursor.
func (m *Model) move(final byte, n int) bool {
	switch final {
	case 'A':
		m.up(n)
	case 'B', 'e':
		m.down(n)
	case 'C', 'a':
		m.right(n)
	case 'D':
		m.right(-n)
	case 'E':
		m.down(n)
		m.x = 0
	case 'F':
		m.up(n)
		m.x = 0
	case 'G', '`':
		m.right(n - 1 - m.x)
	case 'H', 'f':
		m.goTo(m.seq.param(1, 1)-1, n-1)
	case 'd':
		m.goTo(m.x, n-1)
	case 'I':
		m.tab(n)
	case 'Z':
		m.backTab(n)
	default:
		return false
	}
	return true
}

// edit does what changes the screen.
func (m *Model) edit(final byte, n int) bool {
	inside := m.y >= m.cur.top && m.y <= m.cur.bottom
	switch final {
	case 'J':
		return m.eraseScreen(m.seq.param(0, 0))
	case 'K':
		return m.eraseLine(m.seq.param(0, 0))
	case '@':
		m.pending = false
		m.shift(m.x, n)
	case 'P':
		m.pending = false
		m.shift(m.x, -n)
	case 'X':
		m.pending = false
		m.eraseKept(m.x, m.x+n)
	case 'L', 'M':
		m.pending = false
		if inside {
			if final == 'M' {
				n = -n
			}
			m.rotate(m.y, m.cur.bottom, -n)
			m.x = 0
		}
	case 'S':
		m.scroll(n, false)
	case 'T':
		if m.seq.n > 1 {
			return false // highlight tracking
		}
		m.rotate(m.cur.top, m.cur.bottom, -min(n, m.rows))
	default:
		return false
	}
	return true
}

// eraseKept blanks columns and leaves it to be the line that it was.
func (m *Model) eraseKept(x0, x1 int) {
	l := m.row(m.y)
	was := l.wrapped
	m.erase(m.y, x0, x1)
	l.wrapped = was
}

// from returns the first column that an erasure to the right takes. After the
// last column is written, there is none.
func (m *Model) from() int {
	if m.pending {
		return m.cols
	}
	return m.x
}

func (m *Model) eraseLine(how int) bool {
	switch how {
	case 0:
		m.erase(m.y, m.from(), m.cols)
	case 1:
		m.eraseKept(0, m.x+1)
	case 2:
		m.erase(m.y, 0, m.cols)
	default:
		return false
	}
	return true
}

func (m *Model) eraseScreen(how int) bool {
	from, to := 0, m.rows
	switch how {
	case 0:
		m.erase(m.y, m.from(), m.cols)
		from = m.y + 1
	case 1:
		m.eraseKept(0, m.x+1)
		if to = m.y; m.x == m.cols-1 && m.y+1 < m.rows {
			m.row(m.y + 1).wrapped = false
		}
	case 2:
	case 3:
		m.back.clear()
		return true
	default:
		return false
	}
	for y := from; y < to; y++ {
		m.erase(y, 0, m.cols)
	}
	return true
}

// repeat prints the last character again.
func (m *Model) repeat(r rune, n int) {
	for range min(n, m.rows*m.cols) {
		m.put(r)
	}
	m.last = 0
}

// other does the rest of the sequences without a prefix.
func (m *Model) other(final byte) bool {
	q := &m.seq
	switch final {
	case 'm':
		m.sgr()
	case 'r':
		m.margins(q.param(0, 1)-1, q.param(1, m.rows)-1)
	case 's':
		m.save()
	case 'u':
		m.restore()
	case 'g':
		switch q.param(0, 0) {
		case 0:
			m.cur.tabs[m.x] = false
		case 3:
			clear(m.cur.tabs)
		default:
			return false
		}
	case 'h', 'l':
		return m.setANSI(final == 'h')
	case 'b':
	case 'c', 'n', 't':
		m.query(final)
		return false
	default:
		return false
	}
	return true
}

func (m *Model) margins(top, bottom int) {
	bottom = min(bottom, m.rows-1)
	if top < bottom {
		m.cur.top, m.cur.bottom = top, bottom
		m.goTo(0, 0)
	}
}

func (m *Model) save() {
	m.cur.saved = saved{m.x, m.y, m.pending, m.pen, m.sets, m.modes.origin}
}

func (m *Model) restore() {
	s := m.cur.saved
	m.x, m.y, m.pending, m.pen, m.sets, m.modes.origin = s.x, s.y, s.pending, s.pen, s.sets, s.origin
	m.confine()
}

// confine keeps the cursor between the margins in origin mode.
func (m *Model) confine() {
	if m.modes.origin {
		m.y = min(max(m.y, m.cur.top), m.cur.bottom)
	}
}

// doESC does what an escape sequence says.
func (m *Model) doESC(final byte) {
	m.last = 0
	q := &m.seq
	if q.inter != 0 {
		if m.charset(q.inter, final) {
			m.pass([]byte{0x1b, q.inter, final})
		}
		return
	}
	switch final {
	case '7':
		m.save()
	case '8':
		m.restore()
	case 'D':
		m.lineFeed()
	case 'E':
		m.lineFeed()
		m.x = 0
	case 'H':
		m.cur.tabs[m.x] = true
	case 'M':
		m.reverse()
	case 'c':
		m.reset()
		m.back.clear()
	case '=', '>':
		m.modes.keypad = final == '='
	default:
		return
	}
	m.pass([]byte{0x1b, final})
}

// charset does ESC with an intermediate byte.
func (m *Model) charset(inter, final byte) bool {
	switch {
	case (inter == '(' || inter == ')') && (final == '0' || final == 'B'):
		m.sets.lines[inter-'('] = final == '0'
	case inter == '#' && final == '8':
		m.pending = false
		for i := range m.cur.lines {
			m.row(i).fill(cell{r: 'E'})
			m.row(i).wrapped = false
		}
		m.x, m.y = 0, 0
		m.confine()
	default:
		return false
	}
	return true
}

// pass hands on bytes that are understood.
func (m *Model) pass(b []byte) {
	if m.Pass != nil {
		m.Pass(b)
	}
}

func (m *Model) passRune(r rune) {
	if m.Pass != nil {
		m.out = append(m.out[:0], string(r)...)
		m.Pass(m.out)
	}
}

// passCSI hands on the sequence that has just been done.
func (m *Model) passCSI(final byte) {
	if m.Pass == nil {
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
	m.Pass(m.out)
}

// answer tells the program something.
func (m *Model) answer(format string, a ...any) {
	if m.Answer != nil {
		m.Answer(fmt.Appendf(nil, format, a...))
	}
}
