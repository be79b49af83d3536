package vt

import (
	"strconv"
	"unicode/utf8"
)

// color is a palette entry or RGB; 0 is the terminal's own.
type color uint32

const (
	palette color = 1 << 24 // the low byte says which
	rgb     color = 2 << 24 // the low three bytes
)

// attr is a set of attributes.
type attr uint16

const (
	bold attr = 1 << iota
	faint
	italic
	blink
	inverse
	hidden
	strike
	overline

	underline attr = 1 << 8 // times 1 to 5: its style
	ulMask    attr = 7 << 8
)

// style is how a character looks.
type style struct {
	fg, bg color
	attr   attr
}

// width says how many columns a cell's character takes.
type width uint8

const (
	narrow width = iota
	wide         // this one and the next
	rest         // the second half of a wide one
)

// cell is one place of the screen, 16 bytes.
type cell struct {
	r rune // with marks: where they are in clusters, negative
	style
	w width
}

// blank is what an erased place holds.
func blank(bg color) cell { return cell{r: ' ', style: style{bg: bg}} }

var empty = blank(0)

// line is a row of a screen.
type line struct {
	cells   []cell
	wrapped bool // it goes on from the row above
}

func (l *line) fill(c cell) {
	for i := range l.cells {
		l.cells[i] = c
	}
}

// clean repairs a wide character whose other half is gone at a border.
func (l *line) clean(x int) {
	if x <= 0 || x >= len(l.cells) {
		return
	}
	if l.cells[x-1].w == wide && l.cells[x].w != rest {
		l.cells[x-1].r, l.cells[x-1].w = ' ', narrow
	}
	if l.cells[x].w == rest && l.cells[x-1].w != wide {
		l.cells[x].r, l.cells[x].w = ' ', narrow
	}
}

// clusters are the characters with marks that cells refer to. There are few,
// and never more than maxClusters.
type clusters struct {
	text  []string
	index map[string]int32
}

const (
	maxClusters = 4096
	maxCluster  = 64 // bytes
)

// base of the references to clusters in cells.
const clusterBase = -1

func (c *clusters) get(r rune) string { return c.text[clusterBase-r] }

// put returns what refers to a text; false if there is no room.
func (c *clusters) put(s string) (rune, bool) {
	if i, ok := c.index[s]; ok {
		return rune(clusterBase - i), true
	}
	if len(c.text) >= maxClusters {
		return 0, false
	}
	if c.index == nil {
		c.index = make(map[string]int32)
	}
	i := int32(len(c.text))
	c.text = append(c.text, s)
	c.index[s] = i
	return rune(clusterBase - i), true
}

// appendRune appends a cell's character.
func (c *clusters) appendCell(b []byte, r rune) []byte {
	switch {
	case r < 0:
		return append(b, c.get(r)...)
	case r < utf8.RuneSelf:
		return append(b, byte(r))
	}
	return utf8.AppendRune(b, r)
}

// appendLine appends the cells as a terminal would be sent them, from the plain
// style and back to it.
func (c *clusters) appendLine(b []byte, cells []cell) []byte {
	var now style
	for i := range cells {
		k := &cells[i]
		if k.w == rest {
			continue
		}
		if k.style != now {
			b, now = k.append(b), k.style
		}
		b = c.appendCell(b, k.r)
	}
	if now != (style{}) {
		b = append(b, "\x1b[m"...)
	}
	return b
}

// trim leaves out the plain blanks at the end.
func trim(cells []cell) []cell {
	n := len(cells)
	for n > 0 && cells[n-1] == empty {
		n--
	}
	return cells[:n]
}

// append appends the sequence that sets this style and nothing else.
func (s style) append(b []byte) []byte {
	b = append(b, "\x1b[0"...)
	for i := range 8 {
		if s.attr&(1<<i) != 0 {
			b = append(b, ';')
			b = append(b, [...]string{"1", "2", "3", "5", "7", "8", "9", "53"}[i]...)
		}
	}
	switch u := s.attr & ulMask / underline; u {
	case 0:
	case 1:
		b = append(b, ";4"...)
	default:
		b = append(append(b, ";4:"...), '0'+byte(u))
	}
	b = s.fg.append(b, 30)
	b = s.bg.append(b, 40)
	return append(b, 'm')
}

func (c color) append(b []byte, first int) []byte {
	number := func(n int) { b = strconv.AppendInt(append(b, ';'), int64(n), 10) }
	switch n := int(c & 0xffffff); {
	case c == 0:
	case c&rgb != 0:
		number(first + 8)
		number(2)
		number(n >> 16)
		number(n >> 8 & 0xff)
		number(n & 0xff)
	case n < 8:
		number(first + n)
	case n < 16:
		number(first + 60 + n - 8)
	default:
		number(first + 8)
		number(5)
		number(n)
	}
	return b
}
