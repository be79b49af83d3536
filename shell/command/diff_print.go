package command

import (
	"bytes"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/regex"
)

// diffPair is two files that are compared.
type diffPair struct {
	*diffRun
	a, b  *diffText
	names [2]string // as the header shows them
	begun bool
}

// mark says whether changes count: those of blank lines, or of lines that a
// pattern matches, may not.
func (d *diffPair) mark(list []change) (counts bool) {
	for i := range list {
		c := &list[i]
		c.ignored = (d.blank || len(d.ignore) > 0) && d.trivial(d.a, c.a, c.da) && d.trivial(d.b, c.b, c.db)
		counts = counts || !c.ignored
	}
	return counts
}

// trivial reports whether none of n lines counts.
func (d *diffPair) trivial(t *diffText, from, n int) bool {
	for i := from; i < from+n; i++ {
		line := t.line(i)
		if d.blank && d.empty(line) {
			continue
		}
		if !matchesAny(d.ignore, line, d) {
			return false
		}
	}
	return true
}

// empty reports whether a line is blank, as far as white space counts.
func (d *diffPair) empty(line []byte) bool {
	if d.fold.space < spaceTrailing {
		return len(line) == 0
	}
	return len(bytes.TrimSpace(line)) == 0
}

func matchesAny(list []*regex.Regexp, line []byte, d *diffPair) bool {
	for _, re := range list {
		if re.Match(line, 0, nil, d.p) {
			return true
		}
	}
	return false
}

// print shows the changes.
func (d *diffPair) print(list []change) {
	switch d.form {
	case formNormal:
		for _, c := range list {
			if !c.ignored {
				d.normal(c)
			}
		}
	case formSide:
		d.sideBySide(list)
	default:
		d.hunks(list)
	}
}

const (
	colorLine   = "\x1b[36m"
	colorOld    = "\x1b[31m"
	colorNew    = "\x1b[32m"
	colorHeader = "\x1b[1m"
)

func (d *diffPair) put(s string) { _, _ = d.p.Out().WriteString(s) } // shows at the flush

// tinted writes a line without its newline in a color.
func (d *diffPair) tinted(color, s string) {
	if d.color {
		s = color + s + "\x1b[0m"
	}
	d.put(s + "\n")
}

// interval writes lines as a normal diff counts them.
func interval(from, n int) string {
	if n <= 1 {
		return strconv.Itoa(from + n)
	}
	return strconv.Itoa(from+1) + "," + strconv.Itoa(from+n)
}

// normal shows one change as diff does by default.
func (d *diffPair) normal(c change) {
	op := "c"
	switch {
	case c.da == 0:
		op = "a"
	case c.db == 0:
		op = "d"
	}
	d.tinted(colorLine, interval(c.a, c.da)+op+interval(c.b, c.db))
	for i := range c.da {
		d.oneLine(d.a, c.a+i, "<", colorOld)
	}
	if op == "c" {
		d.put("---\n")
	}
	for i := range c.db {
		d.oneLine(d.b, c.b+i, ">", colorNew)
	}
}

// oneLine shows a line after its mark.
func (d *diffPair) oneLine(t *diffText, i int, mark, color string) {
	d.p.Tick(1)
	out := d.p.Out()
	line := t.line(i)
	if d.color && color != "" {
		d.put(color)
	}
	sep := ""
	switch {
	case d.bare && len(line) == 0:
		if mark == " " || mark == "  " {
			mark = ""
		}
	case d.initial:
		sep = "\t"
	case d.form == formNormal || d.form == formContext:
		sep = " "
	}
	if mark == "  " {
		mark = " "
	}
	d.put(mark + sep)
	d.expanded(line)
	if d.color && color != "" {
		d.put("\x1b[0m")
	}
	_ = out.WriteByte('\n') // shows at the flush, as all writes
	if t.lacks(i) {
		d.put("\\ No newline at end of file\n")
	}
}

// expanded writes a line, its tabs expanded where that was asked for.
func (d *diffPair) expanded(line []byte) {
	if !d.expand || bytes.IndexByte(line, '\t') < 0 {
		_, _ = d.p.Out().Write(line) // shows at the flush
		return
	}
	var out []byte
	column := 0
	for _, c := range line {
		out, column = d.fold.expand(out, c, column)
	}
	_, _ = d.p.Out().Write(out) // likewise
}

// hunks shows changes with context, those that are near together as one.
func (d *diffPair) hunks(list []change) {
	for len(list) > 0 {
		n := 1
		for n < len(list) {
			last, next := list[n-1], list[n]
			room := 2*d.context + 1
			if next.ignored {
				room = d.context
			}
			if next.a-(last.a+last.da) >= room {
				break
			}
			n++
		}
		d.hunk(list[:n])
		list = list[n:]
	}
}

// hunk shows changes that stand together, unless none counts.
func (d *diffPair) hunk(list []change) {
	counts := false
	for _, c := range list {
		counts = counts || !c.ignored
	}
	if !counts {
		return
	}
	first, last := list[0], list[len(list)-1]
	a0, b0 := max(first.a-d.context, 0), max(first.b-d.context, 0)
	before := min(first.a-a0, first.b-b0)
	a0, b0 = first.a-before, first.b-before
	after := min(d.context, d.a.lines()-last.a-last.da, d.b.lines()-last.b-last.db)
	a1, b1 := last.a+last.da+after, last.b+last.db+after
	d.header()
	function := d.functionLine(a0)
	if d.form == formUnified {
		d.unified(list, a0, a1, b0, b1, function)
		return
	}
	d.put("***************" + function + "\n")
	d.contextSide(list, a0, a1, false)
	d.contextSide(list, b0, b1, true)
}

// header writes the names above the first hunk.
func (d *diffPair) header() {
	if d.begun {
		return
	}
	d.begun = true
	marks := [2]string{"--- ", "+++ "}
	if d.form == formContext {
		marks = [2]string{"*** ", "--- "}
	}
	d.tinted(colorHeader, marks[0]+d.names[0])
	d.tinted(colorHeader, marks[1]+d.names[1])
}

// functionLine returns what stands after a hunk's numbers: the last line
// before it that looks like the head of a function.
func (d *diffPair) functionLine(before int) string {
	if d.function == nil {
		return ""
	}
	for i := before - 1; i >= 0; i-- {
		line := d.a.line(i)
		if d.function.Match(line, 0, nil, d.p) {
			line = bytes.TrimLeft(line, " \t\n\v\f\r")
			return " " + string(bytes.TrimRight(line[:min(len(line), 40)], " \t\n\v\f\r"))
		}
	}
	return ""
}

// reach writes lines as a unified hunk counts them.
func reach(from, to int) string {
	switch n := to - from; n {
	case 0:
		return strconv.Itoa(from) + ",0"
	case 1:
		return strconv.Itoa(from + 1)
	default:
		return strconv.Itoa(from+1) + "," + strconv.Itoa(n)
	}
}

func (d *diffPair) unified(list []change, a0, a1, b0, b1 int, function string) {
	head := "@@ -" + reach(a0, a1) + " +" + reach(b0, b1) + " @@"
	if d.color {
		d.put(colorLine + head + "\x1b[0m" + function + "\n")
	} else {
		d.put(head + function + "\n")
	}
	at := a0
	for _, c := range list {
		for ; at < c.a; at++ {
			d.oneLine(d.a, at, " ", "")
		}
		for ; at < c.a+c.da; at++ {
			d.oneLine(d.a, at, "-", colorOld)
		}
		for i := range c.db {
			d.oneLine(d.b, c.b+i, "+", colorNew)
		}
	}
	for ; at < a1; at++ {
		d.oneLine(d.a, at, " ", "")
	}
}

// contextSide shows one file's part of a context hunk.
func (d *diffPair) contextSide(list []change, from, to int, second bool) {
	lines := strconv.Itoa(to)
	if to-from > 1 {
		lines = strconv.Itoa(from+1) + "," + lines
	}
	t, fence, alone, color := d.a, "***", "-", colorOld
	some := false
	for _, c := range list {
		some = some || c.da > 0
	}
	if second {
		t, fence, alone, color = d.b, "---", "+", colorNew
		some = false
		for _, c := range list {
			some = some || c.db > 0
		}
	}
	d.tinted(colorLine, fence+" "+lines+" "+fence+fence[:1])
	if !some {
		return
	}
	at := from
	for _, c := range list {
		start, n := c.a, c.da
		if second {
			start, n = c.b, c.db
		}
		for ; at < start; at++ {
			d.oneLine(t, at, "  ", color)
		}
		mark, tint := alone, color
		if c.da > 0 && c.db > 0 {
			mark = "!"
		}
		for ; at < start+n; at++ {
			d.oneLine(t, at, mark, tint)
		}
	}
	for ; at < to; at++ {
		d.oneLine(t, at, "  ", color)
	}
}
