package vt

// eraseCell returns an erased cell: it has the background of the pen.
func (m *Model) eraseCell() cell { return blankCell(m.pen.bg) }

// rowAt returns a row of the screen.
func (m *Model) rowAt(y int) *line { return &m.current.lines[y] }

// eraseColumns blanks the columns from x0 up to x1 of a row.
func (m *Model) eraseColumns(y, x0, x1 int) {
	l := m.rowAt(y)
	c := m.eraseCell()
	x1 = min(x1, m.cols)
	for i := x0; i < x1; i++ {
		l.cells[i] = c
	}
	if x0 < x1 {
		l.fixBorder(x0)
		l.fixBorder(x1)
	}
	if x0 == 0 {
		l.wrapped = false
	}
}

// scrollUp moves the rows between the margins up by n; keep stores rows that leave the top of
// the main screen in the scrollback.
func (m *Model) scrollUp(n int, keep bool) {
	s := m.current
	n = min(n, s.bottom-s.top+1)
	if keep && s.top == 0 && s == &m.main {
		for i := range n {
			m.history.push(&m.marks, &s.lines[i])
		}
	}
	m.rotateRows(s.top, s.bottom, n)
}

// rotateRows moves the rows from..to up by n, or down if n is negative,
// and blanks the rows that become free.
func (m *Model) rotateRows(from, to, n int) {
	rows := m.current.lines[from : to+1]
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
	c := m.eraseCell()
	for i := range in {
		in[i].fill(c)
		in[i].wrapped = false
	}
}

// lineFeed moves the cursor to the next row and scrolls at the bottom margin.
func (m *Model) lineFeed() {
	m.pending = false
	switch {
	case m.y == m.current.bottom:
		m.scrollUp(1, true)
	case m.y < m.rows-1:
		m.y++
		m.rowAt(m.y).wrapped = false
	}
}

// reverseFeed moves the cursor to the row above and scrolls at the top margin.
func (m *Model) reverseFeed() {
	m.pending = false
	switch {
	case m.y == m.current.top:
		m.rotateRows(m.current.top, m.current.bottom, -1)
	case m.y > 0:
		m.y--
	}
}

// wrapLine continues at the beginning of the next row.
func (m *Model) wrapLine() {
	m.x = 0
	m.lineFeed()
	m.rowAt(m.y).wrapped = m.y > 0
}

// printASCII prints characters from space to tilde.
func (m *Model) printASCII(p []byte) {
	m.passBytes(p)
	if m.modes.insert || m.sets.isDrawing() {
		for _, b := range p {
			m.putRune(m.sets.mapByte(b))
		}
		return
	}
	m.last = rune(p[len(p)-1])
	for len(p) > 0 {
		if m.pending && m.modes.wrap {
			m.wrapLine()
		}
		n := min(len(p), m.cols-m.x)
		l := m.rowAt(m.y)
		cells := l.cells[m.x : m.x+n]
		c := cell{style: m.pen}
		for i := range cells {
			c.r = rune(p[i])
			cells[i] = c
		}
		l.fixBorder(m.x)
		l.fixBorder(m.x + n)
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
	m.putRune(r)
}

// putRune writes a character at the cursor.
func (m *Model) putRune(r rune) {
	w := 1
	if r >= 0x300 {
		w = columnsOf(r)
	}
	if w == 0 {
		m.addMark(r)
		return
	}
	m.last = r
	if m.pending && m.modes.wrap || w == 2 && m.x == m.cols-1 && m.modes.wrap {
		m.wrapLine()
	}
	if m.x+w > m.cols {
		return // half of it has no place
	}
	m.pending = false
	l := m.rowAt(m.y)
	if m.modes.insert {
		m.shiftColumns(m.x, w)
	}
	l.cells[m.x] = cell{r: r, style: m.pen}
	if w == 2 {
		l.cells[m.x].w = wide
		l.cells[m.x+1] = cell{r: ' ', style: m.pen, w: rest}
	}
	l.fixBorder(m.x)
	l.fixBorder(m.x + w)
	if m.x += w; m.x == m.cols {
		m.x, m.pending = m.cols-1, true
	}
}

// addMark adds a combining mark to the character before the cursor.
func (m *Model) addMark(r rune) {
	x := m.x - 1
	if m.pending {
		x = m.x
	}
	if x < 0 {
		return
	}
	cells := m.rowAt(m.y).cells
	if cells[x].w == rest {
		x--
	}
	text := string(m.marks.appendCell(nil, cells[x].r)) + string(r)
	if len(text) > maxCluster {
		return
	}
	ref, ok := m.marks.put(text)
	if !ok {
		m.dropUnusedClusters()
		if ref, ok = m.marks.put(text); !ok {
			return
		}
	}
	cells[x].r = ref
}

// dropUnusedClusters removes clusters that no screen refers to.
func (m *Model) dropUnusedClusters() {
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

// shiftColumns moves the cells from column x to the right by n, or to the left if n
// is negative.
func (m *Model) shiftColumns(x, n int) {
	l := m.rowAt(m.y)
	cells := l.cells[x:]
	k := min(max(n, -n), len(cells))
	if n > 0 {
		copy(cells[k:], cells)
		cells = cells[:k]
	} else {
		copy(cells, cells[k:])
		cells = cells[len(cells)-k:]
	}
	c := m.eraseCell()
	for i := range cells {
		cells[i] = c
	}
	l.fixBorder(x)
	l.fixBorder(x + k)
	l.fixBorder(m.cols - k)
	if last := &l.cells[m.cols-1]; last.w == wide {
		last.r, last.w = ' ', narrow
	}
	if first := &l.cells[0]; first.w == rest {
		first.r, first.w = ' ', narrow
	}
	l.fixBorders()
}

// fixBorders calls fixBorder for every column, because shifting may cut anywhere.
func (l *line) fixBorders() {
	for x := 1; x < len(l.cells); x++ {
		l.fixBorder(x)
	}
}

// isDrawing reports whether line drawing characters are selected.
func (c *charsets) isDrawing() bool {
	if c.shifted {
		return c.lines[1]
	}
	return c.lines[0]
}

// lineDrawing holds the line drawing characters from underscore to tilde.
var lineDrawing = [...]rune{
	' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽',
	'├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
}

// mapByte returns the character of a byte in the selected character set.
func (c *charsets) mapByte(b byte) rune {
	if b >= '_' && b <= '~' && c.isDrawing() {
		return lineDrawing[b-'_']
	}
	return rune(b)
}
