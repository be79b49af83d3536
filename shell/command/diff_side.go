package command

import (
	"unicode/utf8"
)

// sideWidths are where the columns of a side by side listing stand.
type sideWidths struct {
	half   int // of each column
	second int // where the second column begins
}

// columns divides the width as GNU does: the second column begins at a tab
// stop.
func (d *diffPair) columns() sideWidths {
	tab := d.fold.tabWidth
	if d.expand {
		tab = 1
	}
	const gutter = 3
	off := (d.width + tab + gutter) / (2 * tab) * tab
	half := max(0, min(off-gutter, d.width-off))
	if half == 0 {
		return sideWidths{0, d.width}
	}
	return sideWidths{half, off}
}

// sideBySide shows both files in two columns.
func (d *diffPair) sideBySide(list []change) {
	w := d.columns()
	i, j := 0, 0
	for _, c := range list {
		d.common(w, i, j, c.a-i)
		i, j = c.a, c.b
		if c.ignored {
			d.common(w, i, j, min(c.da, c.db))
			d.pairs(w, c, min(c.da, c.db), "(", ")")
		} else {
			n := min(c.da, c.db)
			for k := range n {
				d.pair(w, i+k, j+k, "|")
			}
			d.pairs(w, c, n, "<", ">")
		}
		i, j = c.a+c.da, c.b+c.db
	}
	d.common(w, i, j, d.a.lines()-i)
}

// pairs shows lines that have no partner, from the n-th of a change on.
func (d *diffPair) pairs(w sideWidths, c change, n int, left, right string) {
	for k := n; k < c.db; k++ {
		d.pair(w, -1, c.b+k, right)
	}
	for k := n; k < c.da; k++ {
		d.pair(w, c.a+k, -1, left)
	}
}

// common shows lines that are the same.
func (d *diffPair) common(w sideWidths, i, j, n int) {
	if d.suppress {
		return
	}
	for k := range n {
		switch {
		case d.left:
			d.pair(w, i+k, -1, "(")
		default:
			d.pair(w, i+k, j+k, " ")
		}
	}
}

// pair shows one row; -1 stands for a line that is missing.
func (d *diffPair) pair(w sideWidths, i, j int, mark string) {
	d.p.Tick(1)
	column := 0
	if i >= 0 {
		column = d.cell(d.a.line(i), w.half)
	}
	if mark != " " {
		column = d.gap(column, (w.half+w.second-1)/2) + 1
		if mark == "|" && d.a.lacks(i) != d.b.lacks(j) {
			if mark = "/"; d.a.lacks(i) {
				mark = "\\"
			}
		}
		d.put(mark)
	}
	if j >= 0 && len(d.b.line(j)) > 0 {
		d.gap(column, w.second)
		d.cell(d.b.line(j), w.half)
	}
	if i >= 0 && !d.a.lacks(i) || j >= 0 && !d.b.lacks(j) {
		d.put("\n")
	}
}

// gap moves from a column to another one.
func (d *diffPair) gap(from, to int) int {
	tab := d.fold.tabWidth
	for !d.expand {
		stop := from/tab*tab + tab
		if stop > to {
			break
		}
		d.put("\t")
		from = stop
	}
	for ; from < to; from++ {
		d.put(" ")
	}
	return to
}

// sideCell is a line on its way into a column.
type sideCell struct {
	*diffPair
	width  int
	column int // where the next character would go
	shown  int // where the last one that was written ended
}

// cell writes as much of a line as fits and returns the column it ends at,
// counted from the cell's own beginning.
func (d *diffPair) cell(line []byte, width int) int {
	c := &sideCell{diffPair: d, width: width}
	for at := 0; at < len(line); {
		b := line[at]
		r, n := utf8.DecodeRune(line[at:])
		switch {
		case b == '\t':
			c.tab()
		case b == '\r' || b == '\b' || (b < ' ' || b == 0x7f) && c.column < width:
			d.put(string(b))
		case b < ' ' || b == 0x7f:
		default:
			c.letter(line[at:at+n], max(runeWidth(r), 0))
		}
		at += n
	}
	return c.shown
}

func (c *sideCell) letter(text []byte, cells int) {
	c.column += cells
	if c.column <= c.width {
		c.shown = c.column
		_, _ = c.p.Out().Write(text) // shows at the flush
	}
}

func (c *sideCell) tab() {
	step := c.fold.tabWidth - c.column%c.fold.tabWidth
	stop := min(c.column+step, c.width)
	switch {
	case c.column != c.shown:
	case c.expand:
		c.gap(c.shown, stop)
		c.shown = stop
	case c.column+step < c.width:
		c.put("\t")
		c.shown = stop
	}
	c.column += step
}
