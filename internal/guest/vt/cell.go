package vt

import (
	"strconv"
	"unicode/utf8"
)

// color is a palette entry or an RGB value; 0 is the terminal's default.
type color uint32

const (
	palette color = 1 << 24 // the low byte is the index
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

// style holds the colors and attributes of a character.
type style struct {
	fg, bg color
	attr   attr
}

// width is the part of a character that a cell holds.
type width uint8

const (
	narrow width = iota
	wide         // this one and the next
	rest         // the second half of a wide one
)

// cell is one position of the screen, 16 bytes.
type cell struct {
	r rune // with marks: where they are in clusters, negative
	style
	w width
}

// blankCell returns an erased cell with a background color.
func blankCell(bg color) cell { return cell{r: ' ', style: style{bg: bg}} }

var empty = blankCell(0)

// line is a row of a screen.
type line struct {
	cells   []cell
	wrapped bool // it continues the row above
}

func (l *line) fill(c cell) {
	for i := range l.cells {
		l.cells[i] = c
	}
}

// fixBorder replaces the remaining half of a wide character that was cut at column x.
func (l *line) fixBorder(x int) {
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

// clusters stores the characters with combining marks that cells refer to, at most
// maxClusters.
type clusters struct {
	text  []string
	index map[string]int32
}

const (
	maxClusters = 4096
	maxCluster  = 64 // bytes
)

// clusterBase is the first reference to a cluster in a cell; references are negative.
const clusterBase = -1

func (c *clusters) get(r rune) string { return c.text[clusterBase-r] }

// put returns the reference to a text; it reports false if there is no room.
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

// appendCell appends a cell's character.
func (c *clusters) appendCell(b []byte, r rune) []byte {
	switch {
	case r < 0:
		return append(b, c.get(r)...)
	case r < utf8.RuneSelf:
		return append(b, byte(r))
	}
	return utf8.AppendRune(b, r)
}

// appendLine appends the sequences that print the cells, starting and ending with the
// default style.
func (c *clusters) appendLine(b []byte, cells []cell) []byte {
	var now style
	for i := range cells {
		k := &cells[i]
		if k.w == rest {
			continue
		}
		if k.style != now {
			b, now = k.appendSequence(b), k.style
		}
		b = c.appendCell(b, k.r)
	}
	if now != (style{}) {
		b = append(b, "\x1b[m"...)
	}
	return b
}

// trimBlanks removes trailing cells that are blank and have the default style.
func trimBlanks(cells []cell) []cell {
	n := len(cells)
	for n > 0 && cells[n-1] == empty {
		n--
	}
	return cells[:n]
}

// appendSequence appends the sequence that sets exactly this style.
func (s style) appendSequence(b []byte) []byte {
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
	b = s.fg.appendParams(b, 30)
	b = s.bg.appendParams(b, 40)
	return append(b, 'm')
}

func (c color) appendParams(b []byte, first int) []byte {
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
