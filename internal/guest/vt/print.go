package vt

// eraseCell returns an erased cell: it has the background of the pen.
func (e *Emulator) eraseCell() cell { return blankCell(e.pen.bg) }

// rowAt returns a row of the screen.
func (e *Emulator) rowAt(y int) *line { return &e.current.lines[y] }

// eraseColumns blanks the columns from x0 up to x1 of a row.
func (e *Emulator) eraseColumns(y, x0, x1 int) {
	l := e.rowAt(y)
	c := e.eraseCell()
	x1 = min(x1, e.cols)
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
func (e *Emulator) scrollUp(n int, keep bool) {
	s := e.current
	n = min(n, s.bottom-s.top+1)
	if keep && s.top == 0 && s == &e.main {
		for i := range n {
			e.history.push(&e.marks, &s.lines[i])
		}
	}
	e.rotateRows(s.top, s.bottom, n)
}

// rotateRows moves the rows from..to up by n, or down if n is negative,
// and blanks the rows that become free.
func (e *Emulator) rotateRows(from, to, n int) {
	rows := e.current.lines[from : to+1]
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
	c := e.eraseCell()
	for i := range in {
		in[i].fill(c)
		in[i].wrapped = false
	}
}

// lineFeed moves the cursor to the next row and scrolls at the bottom margin.
func (e *Emulator) lineFeed() {
	e.pending = false
	switch {
	case e.y == e.current.bottom:
		e.scrollUp(1, true)
	case e.y < e.rows-1:
		e.y++
		e.rowAt(e.y).wrapped = false
	}
}

// reverseFeed moves the cursor to the row above and scrolls at the top margin.
func (e *Emulator) reverseFeed() {
	e.pending = false
	switch {
	case e.y == e.current.top:
		e.rotateRows(e.current.top, e.current.bottom, -1)
	case e.y > 0:
		e.y--
	}
}

// wrapLine continues at the beginning of the next row.
func (e *Emulator) wrapLine() {
	e.x = 0
	e.lineFeed()
	e.rowAt(e.y).wrapped = e.y > 0
}

// printASCII prints characters from space to tilde.
func (e *Emulator) printASCII(p []byte) {
	e.passBytes(p)
	if e.modes.insert || e.sets.isDrawing() {
		for _, b := range p {
			e.putRune(e.sets.mapByte(b))
		}
		return
	}
	e.last = rune(p[len(p)-1])
	for len(p) > 0 {
		if e.pending && e.modes.wrap {
			e.wrapLine()
		}
		n := min(len(p), e.cols-e.x)
		l := e.rowAt(e.y)
		cells := l.cells[e.x : e.x+n]
		c := cell{style: e.pen}
		for i := range cells {
			c.r = rune(p[i])
			cells[i] = c
		}
		l.fixBorder(e.x)
		l.fixBorder(e.x + n)
		p = p[n:]
		e.x += n
		e.pending = false
		if e.x == e.cols {
			e.x, e.pending = e.cols-1, true
			if !e.modes.wrap && len(p) > 1 {
				p = p[len(p)-1:] // all of them stand in the last column, one after the other
			}
		}
	}
}

// print prints a character that is not ASCII.
func (e *Emulator) print(r rune) {
	e.passRune(r)
	e.putRune(r)
}

// putRune writes a character at the cursor.
func (e *Emulator) putRune(r rune) {
	w := 1
	if r >= 0x300 {
		w = columnsOf(r)
	}
	if w == 0 {
		e.addMark(r)
		return
	}
	e.last = r
	if e.pending && e.modes.wrap || w == 2 && e.x == e.cols-1 && e.modes.wrap {
		e.wrapLine()
	}
	if e.x+w > e.cols {
		return // half of it has no place
	}
	e.pending = false
	l := e.rowAt(e.y)
	if e.modes.insert {
		e.shiftColumns(e.x, w)
	}
	l.cells[e.x] = cell{r: r, style: e.pen}
	if w == 2 {
		l.cells[e.x].w = wide
		l.cells[e.x+1] = cell{r: ' ', style: e.pen, w: rest}
	}
	l.fixBorder(e.x)
	l.fixBorder(e.x + w)
	if e.x += w; e.x == e.cols {
		e.x, e.pending = e.cols-1, true
	}
}

// addMark adds a combining mark to the character before the cursor.
func (e *Emulator) addMark(r rune) {
	x := e.x - 1
	if e.pending {
		x = e.x
	}
	if x < 0 {
		return
	}
	cells := e.rowAt(e.y).cells
	if cells[x].w == rest {
		x--
	}
	text := string(e.marks.appendCell(nil, cells[x].r)) + string(r)
	if len(text) > maxCluster {
		return
	}
	ref, ok := e.marks.put(text)
	if !ok {
		e.dropUnusedClusters()
		if ref, ok = e.marks.put(text); !ok {
			return
		}
	}
	cells[x].r = ref
}

// dropUnusedClusters removes clusters that no screen refers to.
func (e *Emulator) dropUnusedClusters() {
	var kept clusters
	for _, s := range []*screen{&e.main, &e.alt} {
		for i := range s.lines {
			cells := s.lines[i].cells
			for j := range cells {
				if cells[j].r < 0 {
					cells[j].r, _ = kept.put(e.marks.get(cells[j].r)) // there were no more before
				}
			}
		}
	}
	e.marks = kept
	e.last = 0
}

// shiftColumns moves the cells from column x to the right by n, or to the left if n
// is negative.
func (e *Emulator) shiftColumns(x, n int) {
	l := e.rowAt(e.y)
	cells := l.cells[x:]
	k := min(max(n, -n), len(cells))
	if n > 0 {
		copy(cells[k:], cells)
		cells = cells[:k]
	} else {
		copy(cells, cells[k:])
		cells = cells[len(cells)-k:]
	}
	c := e.eraseCell()
	for i := range cells {
		cells[i] = c
	}
	l.fixBorder(x)
	l.fixBorder(x + k)
	l.fixBorder(e.cols - k)
	if last := &l.cells[e.cols-1]; last.w == wide {
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
