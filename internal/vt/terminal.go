package vt

import (
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Bounds of a terminal.
const (
	MaxRows       = 300
	MaxCols       = 500
	MaxScrollback = 10_000
	maxHistory    = 4 << 20 // bytes of all the lines above the screen
)

// DefaultScrollback is how many lines are kept where a spec has 0.
const DefaultScrollback = 2000

// Model is a terminal: bytes go in by Write, the screen comes out. It is not
// for several goroutines at once.
type Model struct {
	rows, cols int
	main, alt  screen
	cur        *screen // one of them

	x, y    int
	pending bool // the next character wraps: x is the last column
	pen     style
	sets    charsets
	modes   modes
	last    rune // printed just now, for REP; 0: none
	title   string
	back    scrollback
	marks   clusters

	state state
	seq   sequence
	part  []byte // of a character whose rest has not come

	// Pass, when not nil, gets what people's terminals are to be sent: what was
	// written, as far as the model understands it.
	Pass func(b []byte)
	// Answer, when not nil, gets what a terminal answers to the program.
	Answer func(b []byte)

	out []byte // scratch for Pass
}

// screen is one of the two.
type screen struct {
	lines       []line // nil: never used
	top, bottom int    // margins, inclusive
	tabs        []bool
	saved       saved
}

// saved is what DECSC saves.
type saved struct {
	x, y    int
	pending bool
	pen     style
	sets    charsets
	origin  bool
}

// charsets says which letters a program writes with.
type charsets struct {
	lines   [2]bool // G0 and G1 are the line drawing ones
	shifted bool    // G1 is used
}

// fit bounds a size and fills in what is not given.
func fit(s atoll.Size) (rows, cols int) {
	rows, cols = int(s.Rows), int(s.Cols)
	if rows == 0 {
		rows = 24
	}
	if cols == 0 {
		cols = 80
	}
	return min(rows, MaxRows), min(max(cols, 2), MaxCols)
}

// New returns a terminal that keeps so many lines above its screen.
func New(size atoll.Size, history int) *Model {
	m := &Model{}
	m.rows, m.cols = fit(size)
	m.back.most = min(max(history, 0), MaxScrollback)
	m.reset()
	return m
}

// Size returns the size, none of it 0.
func (m *Model) Size() atoll.Size { return atoll.Size{Rows: uint16(m.rows), Cols: uint16(m.cols)} }

// Title returns what the program calls itself.
func (m *Model) Title() string { return m.title }

// reset makes it a new terminal; what is above the screen stays.
func (m *Model) reset() {
	m.main.clear(m.rows, m.cols)
	m.alt = screen{}
	m.cur = &m.main
	m.x, m.y, m.pending = 0, 0, false
	m.pen, m.sets, m.modes, m.last, m.title = style{}, charsets{}, newModes(), 0, ""
}

// clear makes a screen an empty one.
func (s *screen) clear(rows, cols int) {
	*s = screen{lines: newLines(rows, cols), bottom: rows - 1, tabs: newTabs(cols)}
}

func newLines(rows, cols int) []line {
	all := make([]cell, rows*cols)
	lines := make([]line, rows)
	for i := range lines {
		lines[i].cells = all[i*cols : (i+1)*cols : (i+1)*cols]
		lines[i].fill(empty)
	}
	return lines
}

func newTabs(cols int) []bool {
	tabs := make([]bool, cols)
	for i := 0; i < cols; i += 8 {
		tabs[i] = true
	}
	return tabs
}

// Resize takes on a size. Lines are cut or filled up, not broken anew: programs
// that have the screen draw it again, so do shells with their line, and both
// would be wrong about where they are if it had moved under them.
func (m *Model) Resize(size atoll.Size) {
	rows, cols := fit(size)
	if rows == m.rows && cols == m.cols {
		return
	}
	if cols != m.cols {
		m.back.unwrap()
	}
	y := m.y
	if m.cur == &m.alt {
		y = m.main.saved.y // where it will be again
	}
	up := m.main.resize(rows, cols, y, m.pushRow)
	if m.cur == &m.alt {
		up = m.alt.resize(rows, cols, m.y, nil)
	}
	m.rows, m.cols = rows, cols
	m.y = min(max(m.y-up, 0), rows-1)
	if m.x >= cols || m.x < cols-1 {
		m.pending = false
	}
	m.x = min(m.x, cols-1)
}

// pushRow moves a row that leaves the screen to those above it.
func (m *Model) pushRow(l *line) { m.back.push(&m.marks, l) }

// resize returns how many rows have left at the top.
func (s *screen) resize(rows, cols, y int, push func(*line)) (up int) {
	old := s.lines
	if more := len(old) - rows; more > 0 { // first what is below the cursor goes
		below := min(more, len(old)-1-min(y, len(old)-1))
		old = old[:len(old)-below]
		up = more - below
		if push != nil {
			for i := range up {
				push(&old[i])
			}
		}
		old = old[up:]
	}
	same := len(old) > 0 && len(old[0].cells) == cols
	s.lines = newLines(rows, cols)
	for i := range old {
		l := &s.lines[i]
		copy(l.cells, old[i].cells)
		l.wrapped = same && old[i].wrapped && i > 0
		if last := &l.cells[cols-1]; last.w == wide {
			last.r, last.w = ' ', narrow
		}
	}
	tabs := newTabs(cols)
	copy(tabs, s.tabs)
	s.tabs, s.top, s.bottom = tabs, 0, rows-1
	s.saved.y = min(max(s.saved.y-up, 0), rows-1)
	s.saved.pending = s.saved.pending && s.saved.x == cols-1
	s.saved.x = min(s.saved.x, cols-1)
	return up
}

// Screen returns what is seen, as text.
func (m *Model) Screen() atoll.Screen {
	s := atoll.Screen{
		Lines: make([]string, m.rows), Scrollback: m.back.text(), Row: m.y, Col: m.x,
		Title: m.title, Alternate: m.cur == &m.alt, Size: m.Size(),
	}
	for i := range m.cur.lines {
		s.Lines[i] = m.lineText(&m.cur.lines[i])
	}
	return s
}

// Text returns the screen as text, without blank lines at its end.
func (m *Model) Text() string {
	return strings.TrimRight(strings.Join(m.Screen().Lines, "\n"), "\n")
}

func (m *Model) lineText(l *line) string {
	b := make([]byte, 0, len(l.cells))
	for i := range l.cells {
		if l.cells[i].w != rest {
			b = m.marks.appendCell(b, l.cells[i].r)
		}
	}
	return strings.TrimRight(string(b), " ")
}
