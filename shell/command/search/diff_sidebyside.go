package search

import (
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
)

// sideWidths are the positions of the columns of a side by side listing.
type sideWidths struct {
	half   int // of each column
	second int // where the second column begins
}

// divideWidth divides the width as GNU does: the second column begins at a tab stop.
func (d *diffPair) divideWidth() sideWidths {
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

// printSideBySide prints both files in two columns.
func (d *diffPair) printSideBySide(list []change) {
	w := d.divideWidth()
	i, j := 0, 0
	for _, c := range list {
		d.printCommon(w, i, j, c.a-i)
		i, j = c.a, c.b
		if c.ignored {
			d.printCommon(w, i, j, min(c.da, c.db))
			d.printUnpaired(w, c, min(c.da, c.db), "(", ")")
		} else {
			n := min(c.da, c.db)
			for k := range n {
				d.printRow(w, i+k, j+k, "|")
			}
			d.printUnpaired(w, c, n, "<", ">")
		}
		i, j = c.a+c.da, c.b+c.db
	}
	d.printCommon(w, i, j, d.a.lineCount()-i)
}

// printUnpaired prints the lines of a change that have no partner, from the n-th on.
func (d *diffPair) printUnpaired(w sideWidths, c change, n int, left, right string) {
	for k := n; k < c.db; k++ {
		d.printRow(w, -1, c.b+k, right)
	}
	for k := n; k < c.da; k++ {
		d.printRow(w, c.a+k, -1, left)
	}
}

// printCommon prints n lines that are equal in both files.
func (d *diffPair) printCommon(w sideWidths, i, j, n int) {
	if d.suppress {
		return
	}
	for k := range n {
		switch {
		case d.left:
			d.printRow(w, i+k, -1, "(")
		default:
			d.printRow(w, i+k, j+k, " ")
		}
	}
}

// printRow prints one row; -1 stands for a missing line.
func (d *diffPair) printRow(w sideWidths, i, j int, mark string) {
	d.p.Tick(1)
	column := 0
	if i >= 0 {
		column = d.printCell(d.a.lineAt(i), w.half)
	}
	if mark != " " {
		column = d.padTo(column, (w.half+w.second-1)/2) + 1
		if mark == "|" && d.a.lacksNewline(i) != d.b.lacksNewline(j) {
			if mark = "/"; d.a.lacksNewline(i) {
				mark = "\\"
			}
		}
		d.put(mark)
	}
	if j >= 0 && len(d.b.lineAt(j)) > 0 {
		d.padTo(column, w.second)
		d.printCell(d.b.lineAt(j), w.half)
	}
	if i >= 0 && !d.a.lacksNewline(i) || j >= 0 && !d.b.lacksNewline(j) {
		d.put("\n")
	}
}

// padTo writes tabs and spaces from one column to another and returns the column reached.
func (d *diffPair) padTo(from, to int) int {
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

// sideCell is a line that is being printed in a column.
type sideCell struct {
	*diffPair
	width  int
	column int // column of the next character
	shown  int // column after the last printed one
}

// printCell prints as much of a line as fits. It returns the column at the end, counted from the
// start of the cell.
func (d *diffPair) printCell(line []byte, width int) int {
	c := &sideCell{diffPair: d, width: width}
	for at := 0; at < len(line); {
		b := line[at]
		r, n := utf8.DecodeRune(line[at:])
		switch {
		case b == '\t':
			c.printTab()
		case b == '\r' || b == '\b' || (b < ' ' || b == 0x7f) && c.column < width:
			d.put(string(b))
		case b < ' ' || b == 0x7f:
		default:
			c.printCharacter(line[at:at+n], max(terminal.RuneWidth(r), 0))
		}
		at += n
	}
	return c.shown
}

func (c *sideCell) printCharacter(text []byte, cells int) {
	c.column += cells
	if c.column <= c.width {
		c.shown = c.column
		_, _ = c.p.Out().Write(text) // Flush reports the error
	}
}

func (c *sideCell) printTab() {
	step := c.fold.tabWidth - c.column%c.fold.tabWidth
	stop := min(c.column+step, c.width)
	switch {
	case c.column != c.shown:
	case c.expand:
		c.padTo(c.shown, stop)
		c.shown = stop
	case c.column+step < c.width:
		c.put("\t")
		c.shown = stop
	}
	c.column += step
}
