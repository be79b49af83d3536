package vt

// eraser is what erased places hold: the background is the pen's.
func (m *Model) eraser() cell { return blank(m.pen.bg) }

// row returns a row of the screen.
func (m *Model) row(y int) *line { return &m.cur.lines[y] }

// erase blanks the columns from x0 up to x1 of a row.
func (m *Model) erase(y, x0, x1 int) {
	l := m.row(y)
	c := m.eraser()
	x1 = min(x1, m.cols)
	for i := x0; i < x1; i++ {
		l.cells[i] = c
	}
	if x0 < x1 {
		l.clean(x0)
		l.clean(x1)
	}
	if x0 == 0 {
		l.wrapped = false
	}
}

// scroll moves the rows between the margins up; what leaves at the top of the
// main screen is kept.
func (m *Model) scroll(n int, keep bool) {
	s := m.cur
	n = min(n, s.bottom-s.top+1)
	if keep && s.top == 0 && s == &m.main {
		for i := range n {
			m.back.push(&m.marks, &s.lines[i])
		}
	}
	m.rotate(s.top, s.bottom, n)
}

// rotate moves rows from one to another by n up, or down where n is negative,
// and blanks those that come in.
func (m *Model) rotate(from, to, n int) {
	rows := m.cur.lines[from : to+1]
	k := min(max(n, -n), len(rows))
	if k == 0 {
		return
	}
	var some [8]line
	out := some[:0]
	in := rows[len(rows)-k:]
	if n > 0 {
		out = append(out, rows[:k]...)
		copy(rows, rows[k:])
	} else {
		out = append(out, rows[len(rows)-k:]...)
		copy(rows[k:], rows[:len(rows)-k])
		in = rows[:k]
	}
	copy(in, out)
	c := m.eraser()
	for i := range in {
		in[i].fill(c)
		in[i].wrapped = false
	}
}

// lineFeed goes to the next row, scrolling at the bottom margin.
func (m *Model) lineFeed() {
	m.pending = false
	switch {
	case m.y == m.cur.bottom:
		m.scroll(1, true)
	case m.y < m.rows-1:
		m.y++
		m.row(m.y).wrapped = false
	}
}

// reverse goes to the row above, scrolling at the top margin.
func (m *Model) reverse() {
	m.pending = false
	switch {
	case m.y == m.cur.top:
		m.rotate(m.cur.top, m.cur.bottom, -1)
	case m.y > 0:
		m.y--
	}
}

// wrap goes on at the beginning of the next row.
func (m *Model) wrap() {
	m.x = 0
	m.lineFeed()
	m.row(m.y).wrapped = m.y > 0
}

// ascii prints characters from space to tilde.
func (m *Model) ascii(p []byte) {
	m.pass(p)
	if m.modes.insert || m.sets.drawing() {
		for _, b := range p {
			m.put(m.sets.letter(b))
		}
		return
	}
	m.last = rune(p[len(p)-1])
	for len(p) > 0 {
		if m.pending && m.modes.wrap {
			m.wrap()
		}
		n := min(len(p), m.cols-m.x)
		l := m.row(m.y)
		cells := l.cells[m.x : m.x+n]
		c := cell{style: m.pen}
		for i := range cells {
			c.r = rune(p[i])
			cells[i] = c
		}
		l.clean(m.x)
		l.clean(m.x + n)
		p = p[n:]
		m.x += n
		m.pending = false
		if m.x == m.cols {
			m.x, m.pending = m.cols-1, true
			if !m.modes.wrap && len(p) > 1 {
				p = p[len(p)-1:] // all of them stand in the last column, one after the other
			}
		}
	}
}

// print prints a character that is not ASCII.
func (m *Model) print(r rune) {
	m.passRune(r)
	m.put(r)
}

// put puts a character on the screen.
func (m *Model) put(r rune) {
	w := 1
	if r >= 0x300 {
		w = columns(r)
	}
	if w == 0 {
		m.mark(r)
		return
	}
	m.last = r
	if m.pending && m.modes.wrap || w == 2 && m.x == m.cols-1 && m.modes.wrap {
		m.wrap()
	}
	if m.x+w > m.cols {
		return // half of it has no place
	}
	m.pending = false
	l := m.row(m.y)
	if m.modes.insert {
		m.shift(m.x, w)
	}
	l.cells[m.x] = cell{r: r, style: m.pen}
	if w == 2 {
		l.cells[m.x].w = wide
		l.cells[m.x+1] = cell{r: ' ', style: m.pen, w: rest}
	}
	l.clean(m.x)
	l.clean(m.x + w)
	if m.x += w; m.x == m.cols {
		m.x, m.pending = m.cols-1, true
	}
}

// mark adds a combining character to the one before the cursor.
func (m *Model) mark(r rune) {
	x := m.x - 1
	if m.pending {
		x = m.x
	}
	if x < 0 {
		return
	}
	cells := m.row(m.y).cells
	if cells[x].w == rest {
		x--
	}
	text := string(m.marks.appendCell(nil, cells[x].r)) + string(r)
	if len(text) > maxCluster {
		return
	}
	ref, ok := m.marks.put(text)
	if !ok {
		m.sweep()
		if ref, ok = m.marks.put(text); !ok {
			return
		}
	}
	cells[x].r = ref
}

// sweep forgets characters with marks that are on no screen any more.
func (m *Model) sweep() {
	var kept clusters
	for _, s := range []*screen{&m.main, &m.alt} {
		for i := range s.lines {
			cells := s.lines[i].cells
			for j := range cells {
				if cells[j].r < 0 {
					cells[j].r, _ = kept.put(m.marks.get(cells[j].r)) // there were no more before
				}
			}
		}
	}
	m.marks = kept
	m.last = 0
}

// shift moves what is from x on n columns to the right, or to the left where n
// is negative.
func (m *Model) shift(x, n int) {
	l := m.row(m.y)
	cells := l.cells[x:]
	k := min(max(n, -n), len(cells))
	if n > 0 {
		copy(cells[k:], cells)
		cells = cells[:k]
	} else {
		copy(cells, cells[k:])
		cells = cells[len(cells)-k:]
	}
	c := m.eraser()
	for i := range cells {
		cells[i] = c
	}
	l.clean(x)
	l.clean(x + k)
	l.clean(m.cols - k)
	if last := &l.cells[m.cols-1]; last.w == wide {
		last.r, last.w = ' ', narrow
	}
	if first := &l.cells[0]; first.w == rest {
		first.r, first.w = ' ', narrow
	}
	l.repair()
}

// repair cleans every border; shifting may have cut anywhere.
func (l *line) repair() {
	for x := 1; x < len(l.cells); x++ {
		l.clean(x)
	}
}

// drawing reports whether line drawing characters are written.
func (c *charsets) drawing() bool {
	if c.shifted {
		return c.lines[1]
	}
	return c.lines[0]
}

// graphics are the line drawing characters from underscore to tilde.
var graphics = [...]rune{
	' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽',
	'├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
}

// letter returns the character that a byte stands for.
func (c *charsets) letter(b byte) rune {
	if b >= '_' && b <= '~' && c.drawing() {
		return graphics[b-'_']
	}
	return rune(b)
}
