package shell

import "strings"

// completeAtCursor completes the word before the cursor as far as it is
// unambiguous; a repeated Tab lists the candidates.
func (e *editor) completeAtCursor(again bool) {
	e.tabbed = true
	line := string(e.text[:e.cursor])
	start, list := e.complete(line, len(line))
	if len(list) == 0 || start > len(line) {
		e.write("\a")
		return
	}
	fill := list[0]
	for _, l := range list[1:] {
		for !strings.HasPrefix(l, fill) {
			fill = fill[:len(fill)-1]
		}
	}
	fill = strings.ToValidUTF8(fill, "")
	if len(list) == 1 && !strings.HasSuffix(fill, "/") {
		fill += " "
	}
	word := line[start:]
	switch {
	case fill != word && len(fill) >= len(word):
		from := len([]rune(line[:start]))
		rest := e.text[e.cursor:]
		e.text = append(append([]rune(line[:start]), []rune(fill)...), rest...)
		e.cursor = from + len([]rune(fill))
		e.redraw()
	case again:
		e.showCandidates(list)
	default:
		e.write("\a")
	}
}

// maxShown limits the number of listed candidates.
const maxShown = 200

// showCandidates lists candidates in columns below the line.
func (e *editor) showCandidates(list []string) {
	at := e.cursor
	e.moveToEnd()
	var names []string
	width := 0
	for _, l := range list[:min(len(list), maxShown)] {
		name := l
		if i := strings.LastIndexByte(strings.TrimSuffix(l, "/"), '/'); i >= 0 {
			name = l[i+1:]
		}
		name = makePrintable(name)
		names = append(names, name)
		width = max(width, promptEnd(name, 1<<20).col+2)
	}
	columns := max(1, e.screenWidth()/width)
	rows := (len(names) + columns - 1) / columns
	var b strings.Builder
	b.WriteString("\n")
	for r := range rows {
		for i := r; i < len(names); i += rows {
			b.WriteString(names[i])
			if i+rows < len(names) {
				b.WriteString(strings.Repeat(" ", width-promptEnd(names[i], 1<<20).col))
			}
		}
		b.WriteString("\n")
	}
	if n := len(list) - maxShown; n > 0 {
		b.WriteString("… and " + itoa(n) + " more\n")
	}
	e.write(b.String())
	e.cursor, e.cursorRow = at, 0
	e.redraw()
}

// makePrintable replaces the control characters of a name by question marks.
func makePrintable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, name)
}
