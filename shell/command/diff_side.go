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
		column = d.cell(d.a.line(i), 0, w.half)
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
		d.cell(d.b.line(j), w.second, w.half)
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

// cell writes as much of a line as fits and returns the column it ends at,
// counted from the cell's own beginning.
func (d *diffPair) cell(line []byte, offset, width int) int {
	column := 0 // where the next character would go
	shown := 0  // where the last one that was written ended
	for at := 0; at < len(line); {
		c := line[at]
		r, n := utf8.DecodeRune(line[at:])
		switch {
		case c == '\t':
			step := d.fold.tabWidth - column%d.fold.tabWidth
			if column == shown {
				stop := min(column+step, width)
				if d.expand {
					d.gap(shown, stop)
				} else if column+step < width {
					d.put("\t")
				}
				if column+step < width || d.expand {
					shown = stop
				}
			}
			column += step
		case c == '\r' || c == '\b':
			d.put(string(c))
		case c < ' ' || c == 0x7f:
			if column < width {
				d.put(string(c))
			}
		default:
			cells := max(runeWidth(r), 0)
			column += cells
			if column <= width {
				shown = column
				_, _ = d.p.Out().Write(line[at : at+n]) // shows at the flush
			}
		}
		at += n
	}
	return shown
}
