package search

import (
	"bytes"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// diffPair is a pair of files whose differences are printed.
type diffPair struct {
	*diffRun
	a, b  *diffText
	names [2]string // in the header
	begun bool
}

// markIgnored marks the changes that -B and -I ignore: those of blank lines or of matching lines. It
// reports whether any change counts.
func (d *diffPair) markIgnored(list []change) (counts bool) {
	for i := range list {
		c := &list[i]
		c.ignored = (d.blank || len(d.ignore) > 0) && d.isTrivial(d.a, c.a, c.da) && d.isTrivial(d.b, c.b, c.db)
		counts = counts || !c.ignored
	}
	return counts
}

// isTrivial reports whether all of n lines are ignored.
func (d *diffPair) isTrivial(t *diffText, from, n int) bool {
	for i := from; i < from+n; i++ {
		line := t.lineAt(i)
		if d.blank && d.isBlank(line) {
			continue
		}
		if !matchesAny(d.ignore, line, d) {
			return false
		}
	}
	return true
}

// isBlank reports whether a line is blank, subject to the white space that is ignored.
func (d *diffPair) isBlank(line []byte) bool {
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

// print prints the changes in the chosen format.
func (d *diffPair) print(list []change) {
	switch d.form {
	case formNormal:
		for _, c := range list {
			if !c.ignored {
				d.printNormal(c)
			}
		}
	case formSide:
		d.printSideBySide(list)
	default:
		d.printHunks(list)
	}
}

const (
	colorLine   = "\x1b[36m"
	colorOld    = "\x1b[31m"
	colorNew    = "\x1b[32m"
	colorHeader = "\x1b[1m"
)

func (d *diffPair) put(s string) { _, _ = d.p.Out().WriteString(s) } // Flush reports the error

// printColored prints a line, given without its newline, in a color.
func (d *diffPair) printColored(color, s string) {
	if d.color {
		s = color + s + "\x1b[0m"
	}
	d.put(s + "\n")
}

// formatInterval returns a range of lines in the notation of a normal diff.
func formatInterval(from, n int) string {
	if n <= 1 {
		return strconv.Itoa(from + n)
	}
	return strconv.Itoa(from+1) + "," + strconv.Itoa(from+n)
}

// printNormal prints one change in the default format.
func (d *diffPair) printNormal(c change) {
	op := "c"
	switch {
	case c.da == 0:
		op = "a"
	case c.db == 0:
		op = "d"
	}
	d.printColored(colorLine, formatInterval(c.a, c.da)+op+formatInterval(c.b, c.db))
	for i := range c.da {
		d.printOneLine(d.a, c.a+i, "<", colorOld)
	}
	if op == "c" {
		d.put("---\n")
	}
	for i := range c.db {
		d.printOneLine(d.b, c.b+i, ">", colorNew)
	}
}

// printOneLine prints a line after its mark.
func (d *diffPair) printOneLine(t *diffText, i int, mark, color string) {
	d.p.Tick(1)
	out := d.p.Out()
	line := t.lineAt(i)
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
	d.printExpanded(line)
	if d.color && color != "" {
		d.put("\x1b[0m")
	}
	_ = out.WriteByte('\n') // Flush reports the error, as of all writes
	if t.lacksNewline(i) {
		d.put("\\ No newline at end of file\n")
	}
}

// printExpanded prints a line, with -t its tabs expanded.
func (d *diffPair) printExpanded(line []byte) {
	if !d.expand || bytes.IndexByte(line, '\t') < 0 {
		_, _ = d.p.Out().Write(line) // Flush reports the error
		return
	}
	var out []byte
	column := 0
	for _, c := range line {
		out, column = d.fold.expandBlank(out, c, column)
	}
	_, _ = d.p.Out().Write(out) // likewise
}

// printHunks prints changes with context; changes near each other form one hunk.
func (d *diffPair) printHunks(list []change) {
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
		d.printHunk(list[:n])
		list = list[n:]
	}
}

// printHunk prints the changes of one hunk, unless all are ignored.
func (d *diffPair) printHunk(list []change) {
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
	after := min(d.context, d.a.lineCount()-last.a-last.da, d.b.lineCount()-last.b-last.db)
	a1, b1 := last.a+last.da+after, last.b+last.db+after
	d.printHeader()
	function := d.findFunctionLine(a0)
	if d.form == formUnified {
		d.printUnified(list, a0, a1, b0, b1, function)
		return
	}
	d.put("***************" + function + "\n")
	d.printContextSide(list, a0, a1, false)
	d.printContextSide(list, b0, b1, true)
}

// printHeader prints the names of the files before the first hunk.
func (d *diffPair) printHeader() {
	if d.begun {
		return
	}
	d.begun = true
	marks := [2]string{"--- ", "+++ "}
	if d.form == formContext {
		marks = [2]string{"*** ", "--- "}
	}
	d.printColored(colorHeader, marks[0]+d.names[0])
	d.printColored(colorHeader, marks[1]+d.names[1])
}

// findFunctionLine returns the text after the line numbers of a hunk: the last line before it that
// matches the pattern of -F or -p.
func (d *diffPair) findFunctionLine(before int) string {
	if d.function == nil {
		return ""
	}
	for i := before - 1; i >= 0; i-- {
		line := d.a.lineAt(i)
		if d.function.Match(line, 0, nil, d.p) {
			line = bytes.TrimLeft(line, " \t\n\v\f\r")
			return " " + string(bytes.TrimRight(line[:min(len(line), 40)], " \t\n\v\f\r"))
		}
	}
	return ""
}

// formatUnifiedRange returns a range of lines in the notation of a unified hunk.
func formatUnifiedRange(from, to int) string {
	switch n := to - from; n {
	case 0:
		return strconv.Itoa(from) + ",0"
	case 1:
		return strconv.Itoa(from + 1)
	default:
		return strconv.Itoa(from+1) + "," + strconv.Itoa(n)
	}
}

func (d *diffPair) printUnified(list []change, a0, a1, b0, b1 int, function string) {
	head := "@@ -" + formatUnifiedRange(a0, a1) + " +" + formatUnifiedRange(b0, b1) + " @@"
	if d.color {
		d.put(colorLine + head + "\x1b[0m" + function + "\n")
	} else {
		d.put(head + function + "\n")
	}
	at := a0
	for _, c := range list {
		for ; at < c.a; at++ {
			d.printOneLine(d.a, at, " ", "")
		}
		for ; at < c.a+c.da; at++ {
			d.printOneLine(d.a, at, "-", colorOld)
		}
		for i := range c.db {
			d.printOneLine(d.b, c.b+i, "+", colorNew)
		}
	}
	for ; at < a1; at++ {
		d.printOneLine(d.a, at, " ", "")
	}
}

// printContextSide prints one file's part of a context hunk.
func (d *diffPair) printContextSide(list []change, from, to int, second bool) {
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
	d.printColored(colorLine, fence+" "+lines+" "+fence+fence[:1])
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
			d.printOneLine(t, at, "  ", color)
		}
		mark, tint := alone, color
		if c.da > 0 && c.db > 0 {
			mark = "!"
		}
		for ; at < start+n; at++ {
			d.printOneLine(t, at, mark, tint)
		}
	}
	for ; at < to; at++ {
		d.printOneLine(t, at, "  ", color)
	}
}
