package vt

import (
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Limits of a terminal.
const (
	MaxRows = 300
	MaxCols = 500
)

// Emulator is a terminal emulator: Write updates its state. It is not safe
// for concurrent use.
type Emulator struct {
	rows, cols int
	main, alt  screen
	current    *screen // one of them

	x, y    int
	pending bool // the next character wraps: x is the last column
	pen     style
	sets    charsets
	modes   modes
	last    rune // printed just now, for REP; 0: none
	title   string
	history scrollback
	marks   clusters

	state   state
	seq     sequence
	partial []byte // of a character whose rest has not come

	// OnOutput, if not nil, receives the output for viewers' terminals: the parts of
	// the input that the model understands.
	OnOutput func(b []byte)
	// OnResponse, if not nil, receives the terminal's responses to the program.
	OnResponse func(b []byte)

	out []byte // reused for what OnOutput gets
}

// screen is the main or the alternate screen.
type screen struct {
	lines       []line // nil: never used
	top, bottom int    // margins, inclusive
	tabs        []bool
	saved       saved
}

// saved is the state that DECSC saves.
type saved struct {
	x, y    int
	pending bool
	pen     style
	sets    charsets
	origin  bool
}

// charsets holds the selected character sets.
type charsets struct {
	lines   [2]bool // G0 and G1 are the line drawing ones
	shifted bool    // G1 is used
}

// clampSize limits a size and replaces zero by the default.
func clampSize(s atoll.Size) (rows, cols int) {
	rows, cols = int(s.Rows), int(s.Cols)
	if rows == 0 {
		rows = 24
	}
	if cols == 0 {
		cols = 80
	}
	return min(rows, MaxRows), min(max(cols, 2), MaxCols)
}

// New returns a terminal with up to history lines of scrollback.
func New(size atoll.Size, history int) *Emulator {
	m := &Emulator{}
	m.rows, m.cols = clampSize(size)
	m.history.maxLines = min(max(history, 0), MaxScrollback)
	m.resetState()
	return m
}

// Size returns the size, which is never 0.
func (e *Emulator) Size() atoll.Size { return atoll.Size{Rows: uint16(e.rows), Cols: uint16(e.cols)} }

// Title returns the title that the program has set.
func (e *Emulator) Title() string { return e.title }

// resetState resets the terminal; the scrollback stays.
func (e *Emulator) resetState() {
	e.main.clearScreen(e.rows, e.cols)
	e.alt = screen{}
	e.current = &e.main
	e.x, e.y, e.pending = 0, 0, false
	e.pen, e.sets, e.modes, e.last, e.title = style{}, charsets{}, newModes(), 0, ""
}

// clearScreen resets a screen to an empty one.
func (s *screen) clearScreen(rows, cols int) {
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

// Resize changes the size. It cuts or pads lines instead of rewrapping them: full-screen
// programs redraw, so do shells with their line, and both
// would be wrong about the cursor if the text had moved.
func (e *Emulator) Resize(size atoll.Size) {
	rows, cols := clampSize(size)
	if rows == e.rows && cols == e.cols {
		return
	}
	if cols != e.cols {
		e.history.unwrapLines()
	}
	y := e.y
	if e.current == &e.alt {
		y = e.main.saved.y // where it will be again
	}
	up := e.main.resizeTo(rows, cols, y, e.pushRow)
	if e.current == &e.alt {
		up = e.alt.resizeTo(rows, cols, e.y, nil)
	}
	e.rows, e.cols = rows, cols
	e.y = min(max(e.y-up, 0), rows-1)
	if e.x >= cols || e.x < cols-1 {
		e.pending = false
	}
	e.x = min(e.x, cols-1)
}

// pushRow moves a row that leaves the screen to the scrollback.
func (e *Emulator) pushRow(l *line) { e.history.push(&e.marks, l) }

// resizeTo changes the size and returns how many rows left the screen at the top.
func (s *screen) resizeTo(rows, cols, y int, push func(*line)) (up int) {
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

// Screen returns the current screen as text.
func (e *Emulator) Screen() atoll.Screen {
	s := atoll.Screen{
		Lines: make([]string, e.rows), Scrollback: e.history.plainLines(), Row: e.y, Col: e.x,
		Title: e.title, Alternate: e.current == &e.alt, Size: e.Size(),
	}
	for i := range e.current.lines {
		s.Lines[i] = e.lineText(&e.current.lines[i])
	}
	return s
}

// Text returns the screen as text, without blank lines at its end.
func (e *Emulator) Text() string {
	return strings.TrimRight(strings.Join(e.Screen().Lines, "\n"), "\n")
}

func (e *Emulator) lineText(l *line) string {
	b := make([]byte, 0, len(l.cells))
	for i := range l.cells {
		if l.cells[i].w != rest {
			b = e.marks.appendCell(b, l.cells[i].r)
		}
	}
	return strings.TrimRight(string(b), " ")
}
