package vt

import (
	"fmt"
	"strconv"
)

// doControl executes a control character.
func (e *Emulator) doControl(b byte) {
	e.last = 0
	switch b {
	case '\a':
	case '\b':
		e.pending = false
		e.x = max(e.x-1, 0)
	case '\t':
		e.nextTab(1)
	case '\n', '\v', '\f':
		e.lineFeed()
		if e.modes.newline {
			e.x = 0
		}
	case '\r':
		e.x, e.pending = 0, false
	case 0x0e, 0x0f:
		e.sets.shifted = b == 0x0e
	default:
		return
	}
	e.passBytes([]byte{b})
}

// nextTab moves the cursor to the nth next tab stop.
func (e *Emulator) nextTab(n int) {
	if e.pending {
		return
	}
	for ; n > 0 && e.x < e.cols-1; n-- {
		for e.x++; e.x < e.cols-1 && !e.current.tabs[e.x]; e.x++ {
		}
	}
}

func (e *Emulator) previousTab(n int) {
	e.pending = false
	for ; n > 0 && e.x > 0; n-- {
		for e.x--; e.x > 0 && !e.current.tabs[e.x]; e.x-- {
		}
	}
}

// moveTo moves the cursor; in origin mode y counts from the top margin.
func (e *Emulator) moveTo(x, y int) {
	e.pending = false
	e.x = min(max(x, 0), e.cols-1)
	if e.modes.origin {
		e.y = min(max(e.current.top+y, e.current.top), e.current.bottom)
		return
	}
	e.y = min(max(y, 0), e.rows-1)
}

// moveUp moves the cursor up by n rows, at most to the margin. moveDown is its counterpart.
func (e *Emulator) moveUp(n int) {
	e.pending = false
	stop := 0
	if e.y >= e.current.top {
		stop = e.current.top
	}
	e.y = max(e.y-n, stop)
}

func (e *Emulator) moveDown(n int) {
	e.pending = false
	stop := e.rows - 1
	if e.y <= e.current.bottom {
		stop = e.current.bottom
	}
	e.y = min(e.y+n, stop)
}

func (e *Emulator) moveRight(n int) {
	e.pending = false
	e.x = min(max(e.x+n, 0), e.cols-1)
}

// originRow returns the row that positions count from.
func (e *Emulator) originRow() int {
	if e.modes.origin {
		return e.current.top
	}
	return 0
}

// doCSI executes a control sequence and forwards it if viewers' terminals may
// get it.
func (e *Emulator) doCSI(final byte) {
	last := e.last
	e.last = 0
	q := &e.seq
	known := false
	switch {
	case q.prefix == 0 && q.inter == 0:
		known = e.doMove(final, q.paramOr(0, 1)) || e.doEdit(final, q.paramOr(0, 1)) || e.doOther(final)
		if final == 'b' && last != 0 {
			e.repeatLast(last, q.paramOr(0, 1))
		}
	case q.prefix == '?' && q.inter == 0 && (final == 'h' || final == 'l'):
		e.setModes(final == 'h')
	case q.prefix == '?' && q.inter == 0 && (final == 'J' || final == 'K'): // selective: there is no protection
		q.prefix = 0
		known = e.doEdit(final, 1)
	case q.prefix == 0 && q.inter == '!' && final == 'p':
		e.softReset()
		known = true
	case q.prefix == 0 && q.inter == ' ' && final == 'q':
		if n := max(q.paramOr(0, 0), 0); n <= 6 {
			e.modes.shape = byte(n)
			known = true
		}
	default:
		e.answerQuery(final)
	}
	if known {
		e.passCSI(final)
	}
}

// doMove executes the sequences that move the cursor and reports whether final is one.
func (e *Emulator) doMove(final byte, n int) bool {
	switch final {
	case 'A':
		e.moveUp(n)
	case 'B', 'e':
		e.moveDown(n)
	case 'C', 'a':
		e.moveRight(n)
	case 'D':
		e.moveRight(-n)
	case 'E':
		e.moveDown(n)
		e.x = 0
	case 'F':
		e.moveUp(n)
		e.x = 0
	case 'G', '`':
		e.moveRight(n - 1 - e.x)
	case 'H', 'f':
		e.moveTo(e.seq.paramOr(1, 1)-1, n-1)
	case 'd':
		e.moveTo(e.x, n-1)
	case 'I':
		e.nextTab(n)
	case 'Z':
		e.previousTab(n)
	default:
		return false
	}
	return true
}

// doEdit executes the sequences that change the screen and reports whether final is one.
func (e *Emulator) doEdit(final byte, n int) bool {
	inside := e.y >= e.current.top && e.y <= e.current.bottom
	switch final {
	case 'J':
		return e.eraseScreen(e.seq.paramOr(0, 0))
	case 'K':
		return e.eraseLine(e.seq.paramOr(0, 0))
	case '@':
		e.pending = false
		e.shiftColumns(e.x, n)
	case 'P':
		e.pending = false
		e.shiftColumns(e.x, -n)
	case 'X':
		e.pending = false
		e.eraseKeepingWrap(e.x, e.x+n)
	case 'L', 'M':
		e.pending = false
		if inside {
			if final == 'M' {
				n = -n
			}
			e.rotateRows(e.y, e.current.bottom, -n)
			e.x = 0
		}
	case 'S':
		e.scrollUp(n, false)
	case 'T':
		if e.seq.n > 1 {
			return false // highlight tracking
		}
		e.rotateRows(e.current.top, e.current.bottom, -min(n, e.rows))
	default:
		return false
	}
	return true
}

// eraseKeepingWrap blanks columns and keeps the row's wrapped flag.
func (e *Emulator) eraseKeepingWrap(x0, x1 int) {
	l := e.rowAt(e.y)
	was := l.wrapped
	e.eraseColumns(e.y, x0, x1)
	l.wrapped = was
}

// eraseStart returns the first column of an erasure to the right. After the
// last column was written there is nothing to erase.
func (e *Emulator) eraseStart() int {
	if e.pending {
		return e.cols
	}
	return e.x
}

func (e *Emulator) eraseLine(how int) bool {
	switch how {
	case 0:
		e.eraseColumns(e.y, e.eraseStart(), e.cols)
	case 1:
		e.eraseKeepingWrap(0, e.x+1)
	case 2:
		e.eraseColumns(e.y, 0, e.cols)
	default:
		return false
	}
	return true
}

func (e *Emulator) eraseScreen(how int) bool {
	from, to := 0, e.rows
	switch how {
	case 0:
		e.eraseColumns(e.y, e.eraseStart(), e.cols)
		from = e.y + 1
	case 1:
		e.eraseKeepingWrap(0, e.x+1)
		if to = e.y; e.x == e.cols-1 && e.y+1 < e.rows {
			e.rowAt(e.y + 1).wrapped = false
		}
	case 2:
	case 3:
		e.history.clearLines()
		return true
	default:
		return false
	}
	for y := from; y < to; y++ {
		e.eraseColumns(y, 0, e.cols)
	}
	return true
}

// repeatLast prints the last character n more times.
func (e *Emulator) repeatLast(r rune, n int) {
	for range min(n, e.rows*e.cols) {
		e.putRune(r)
	}
	e.last = 0
}

// doOther executes the remaining sequences without a prefix and reports whether final is one.
func (e *Emulator) doOther(final byte) bool {
	q := &e.seq
	switch final {
	case 'm':
		e.doSGR()
	case 'r':
		e.setMargins(q.paramOr(0, 1)-1, q.paramOr(1, e.rows)-1)
	case 's':
		e.saveCursor()
	case 'u':
		e.restoreCursor()
	case 'g':
		switch q.paramOr(0, 0) {
		case 0:
			e.current.tabs[e.x] = false
		case 3:
			clear(e.current.tabs)
		default:
			return false
		}
	case 'h', 'l':
		return e.setANSI(final == 'h')
	case 'b':
	case 'c', 'n', 't':
		e.answerQuery(final)
		return false
	default:
		return false
	}
	return true
}

func (e *Emulator) setMargins(top, bottom int) {
	bottom = min(bottom, e.rows-1)
	if top < bottom {
		e.current.top, e.current.bottom = top, bottom
		e.moveTo(0, 0)
	}
}

func (e *Emulator) saveCursor() {
	e.current.saved = saved{e.x, e.y, e.pending, e.pen, e.sets, e.modes.origin}
}

func (e *Emulator) restoreCursor() {
	s := e.current.saved
	e.x, e.y, e.pending, e.pen, e.sets, e.modes.origin = s.x, s.y, s.pending, s.pen, s.sets, s.origin
	e.clampCursor()
}

// clampCursor keeps the cursor between the margins in origin mode.
func (e *Emulator) clampCursor() {
	if e.modes.origin {
		e.y = min(max(e.y, e.current.top), e.current.bottom)
	}
}

// doESC executes an escape sequence.
func (e *Emulator) doESC(final byte) {
	e.last = 0
	q := &e.seq
	if q.inter != 0 {
		if e.selectCharset(q.inter, final) {
			e.passBytes([]byte{0x1b, q.inter, final})
		}
		return
	}
	switch final {
	case '7':
		e.saveCursor()
	case '8':
		e.restoreCursor()
	case 'D':
		e.lineFeed()
	case 'E':
		e.lineFeed()
		e.x = 0
	case 'H':
		e.current.tabs[e.x] = true
	case 'M':
		e.reverseFeed()
	case 'c':
		e.resetState()
		e.history.clearLines()
	case '=', '>':
		e.modes.keypad = final == '='
	default:
		return
	}
	e.passBytes([]byte{0x1b, final})
}

// selectCharset executes ESC with an intermediate byte and reports whether it is known.
func (e *Emulator) selectCharset(inter, final byte) bool {
	switch {
	case (inter == '(' || inter == ')') && (final == '0' || final == 'B'):
		e.sets.lines[inter-'('] = final == '0'
	case inter == '#' && final == '8':
		e.pending = false
		for i := range e.current.lines {
			e.rowAt(i).fill(cell{r: 'E'})
			e.rowAt(i).wrapped = false
		}
		e.x, e.y = 0, 0
		e.clampCursor()
	default:
		return false
	}
	return true
}

// passBytes forwards bytes to Pass.
func (e *Emulator) passBytes(b []byte) {
	if e.OnOutput != nil {
		e.OnOutput(b)
	}
}

func (e *Emulator) passRune(r rune) {
	if e.OnOutput != nil {
		e.out = append(e.out[:0], string(r)...)
		e.OnOutput(e.out)
	}
}

// passCSI forwards the sequence that was just executed.
func (e *Emulator) passCSI(final byte) {
	if e.OnOutput == nil {
		return
	}
	q := &e.seq
	b := append(e.out[:0], "\x1b["...)
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
	e.out = append(b, final)
	e.OnOutput(e.out)
}

// sendAnswer sends a response to the program.
func (e *Emulator) sendAnswer(format string, a ...any) {
	if e.OnResponse != nil {
		e.OnResponse(fmt.Appendf(nil, format, a...))
	}
}
