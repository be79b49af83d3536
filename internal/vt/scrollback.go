package vt

import "strings"

// scrollback is the lines above the screen, as bytes that a terminal would be
// sent: a fraction of what cells take. A ring.
type scrollback struct {
	most  int
	lines []past
	first int // where the oldest is
	size  int // bytes of all
}

// past is a line that has left the screen.
type past struct {
	text    string
	cols    int  // that text takes
	wrapped bool // it goes on from the one before
}

func (s *scrollback) at(i int) *past { return &s.lines[(s.first+i)%len(s.lines)] }

// push adds the newest line.
func (s *scrollback) push(c *clusters, l *line) {
	if s.most == 0 {
		return
	}
	p := past{wrapped: l.wrapped && len(s.lines) > 0}
	cells := l.kept()
	p.text, p.cols = string(c.appendLine(nil, cells)), len(cells)
	if len(s.lines) < s.most && s.first == 0 {
		s.lines = append(s.lines, p)
	} else {
		old := &s.lines[s.first]
		s.size -= len(old.text)
		*old = p
		s.first = (s.first + 1) % len(s.lines)
	}
	s.size += len(p.text)
	for s.size > maxHistory && len(s.lines) > 1 {
		s.shift()
	}
	if len(s.lines) > 0 {
		s.at(0).wrapped = false
	}
}

// shift forgets the oldest line.
func (s *scrollback) shift() {
	list := make([]past, 0, len(s.lines))
	for i := max(1, len(s.lines)/8); i < len(s.lines); i++ {
		list = append(list, *s.at(i))
	}
	s.lines, s.first, s.size = list, 0, 0
	for i := range list {
		s.size += len(list[i].text)
	}
}

func (s *scrollback) clear() { s.lines, s.first, s.size = nil, 0, 0 }

// unwrap makes all lines lines of their own.
func (s *scrollback) unwrap() {
	for i := range s.lines {
		s.lines[i].wrapped = false
	}
}

// text returns the lines without attributes.
func (s *scrollback) text() []string {
	if len(s.lines) == 0 {
		return nil
	}
	list := make([]string, len(s.lines))
	for i := range list {
		list[i] = strings.TrimRight(plain(s.at(i).text), " ")
	}
	return list
}

// plain leaves out the sequences of style.append.
func plain(s string) string {
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

// kept returns what is to be written to get the line on a blank row. The first
// character of a line that goes on from the one above fills its row with its
// background.
func (l *line) kept() []cell {
	if l.wrapped && l.cells[0].bg != 0 {
		return l.cells
	}
	return trim(l.cells)
}
