package vt

import "strings"

const (
	DefaultScrollback = 2000    // lines above the screen if a spec has 0
	MaxScrollback     = 10_000  // lines
	maxHistory        = 4 << 20 // bytes of all the lines above the screen
)

// scrollback is a ring buffer of the lines above the screen, stored as terminal output:
// that takes a fraction of the memory of cells.
type scrollback struct {
	maxLines int
	lines    []historyLine
	first    int // where the oldest is
	size     int // bytes of all
}

// historyLine is a line that has left the screen.
type historyLine struct {
	text    string
	cols    int  // that text takes
	wrapped bool // it continues the previous one
}

func (s *scrollback) lineAt(i int) *historyLine { return &s.lines[(s.first+i)%len(s.lines)] }

// push adds the newest line.
func (s *scrollback) push(c *clusters, l *line) {
	if s.maxLines == 0 {
		return
	}
	p := historyLine{wrapped: l.wrapped && len(s.lines) > 0}
	cells := l.printedCells()
	p.text, p.cols = string(c.appendLine(nil, cells)), len(cells)
	if len(s.lines) < s.maxLines && s.first == 0 {
		s.lines = append(s.lines, p)
	} else {
		old := &s.lines[s.first]
		s.size -= len(old.text)
		*old = p
		s.first = (s.first + 1) % len(s.lines)
	}
	s.size += len(p.text)
	for s.size > maxHistory && len(s.lines) > 1 {
		s.dropOldest()
	}
	if len(s.lines) > 0 {
		s.lineAt(0).wrapped = false
	}
}

// dropOldest removes the oldest eighth of the lines, at least one.
func (s *scrollback) dropOldest() {
	list := make([]historyLine, 0, len(s.lines))
	for i := max(1, len(s.lines)/8); i < len(s.lines); i++ {
		list = append(list, *s.lineAt(i))
	}
	s.lines, s.first, s.size = list, 0, 0
	for i := range list {
		s.size += len(list[i].text)
	}
}

func (s *scrollback) clearLines() { s.lines, s.first, s.size = nil, 0, 0 }

// unwrapLines marks no line as a continuation.
func (s *scrollback) unwrapLines() {
	for i := range s.lines {
		s.lines[i].wrapped = false
	}
}

// plainLines returns the lines without attributes.
func (s *scrollback) plainLines() []string {
	if len(s.lines) == 0 {
		return nil
	}
	list := make([]string, len(s.lines))
	for i := range list {
		list[i] = strings.TrimRight(stripSequences(s.lineAt(i).text), " ")
	}
	return list
}

// stripSequences removes the sequences of style.appendSequence.
func stripSequences(s string) string {
	if strings.IndexByte(s, 0x1b) < 0 {
		return s
	}
	var b strings.Builder
	for {
		text, more, found := strings.Cut(s, "\x1b")
		b.WriteString(text)
		if !found {
			return b.String()
		}
		_, s, _ = strings.Cut(more, "m")
	}
}

// printedCells returns the cells to print to get the line on a blank row. The first
// character of a continued line fills its row with its
// background, so such a line is printed whole.
func (l *line) printedCells() []cell {
	if l.wrapped && l.cells[0].bg != 0 {
		return l.cells
	}
	return trimBlanks(l.cells)
}
