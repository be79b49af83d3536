package vt

// modes are the modes that a program can set.
type modes struct {
	insert  bool // IRM
	newline bool // LNM
	origin  bool // DECOM, ?6
	wrap    bool // DECAWM, ?7
	keys    bool // DECCKM, ?1
	keypad  bool // DECKPAM
	blink   bool // ?12
	cursor  bool // DECTCEM, ?25
	focus   bool // ?1004
	paste   bool // ?2004
	shape   byte // DECSCUSR
	mouse   int  // 0, 9, 1000, 1002, 1003: reported mouse events
	coding  int  // 0, 1005, 1006, 1015, 1016: their encoding
}

func newModes() modes { return modes{wrap: true, cursor: true} }

// modeFlag returns the flag of a DEC mode; nil: the mode has no flag.
func (m *modes) modeFlag(n int) *bool {
	switch n {
	case 1:
		return &m.keys
	case 6:
		return &m.origin
	case 7:
		return &m.wrap
	case 12:
		return &m.blink
	case 25:
		return &m.cursor
	case 66:
		return &m.keypad
	case 1004:
		return &m.focus
	case 2004:
		return &m.paste
	}
	return nil
}

// modeSetting returns the setting that a mode is one value of; nil: there is none.
func (m *modes) modeSetting(n int) *int {
	switch n {
	case 9, 1000, 1002, 1003:
		return &m.mouse
	case 1005, 1006, 1015, 1016:
		return &m.coding
	}
	return nil
}

// setModes executes DECSET and DECRST, mode by mode.
func (m *Model) setModes(on bool) {
	q := m.seq
	for i := range q.n {
		n := int(q.params[i])
		if m.setMode(n, on) {
			m.seq.reset()
			m.seq.prefix, m.seq.n, m.seq.params[0] = '?', 1, int32(n)
			final := byte('l')
			if on {
				final = 'h'
			}
			m.passCSI(final)
		}
	}
}

func (m *Model) setMode(n int, on bool) bool {
	if f := m.modes.modeFlag(n); f != nil {
		*f = on
		if n == 6 {
			m.moveTo(0, 0)
		}
		return true
	}
	if c := m.modes.modeSetting(n); c != nil {
		*c = 0
		if on {
			*c = n
		}
		return true
	}
	switch n {
	case 1048:
		if on {
			m.saveCursor()
		} else {
			m.restoreCursor()
		}
	case 47, 1047, 1049:
		m.switchScreen(on, n == 1049)
	default:
		return false
	}
	return true
}

// switchScreen switches to the main or alternate screen; cursor saves or restores the cursor.
func (m *Model) switchScreen(on, cursor bool) {
	if on && cursor {
		m.saveCursor()
	}
	if on && m.current == &m.main {
		m.alt.clearScreen(m.rows, m.cols)
		m.current = &m.alt
		for i := range m.alt.lines {
			m.alt.lines[i].fill(m.eraseCell())
		}
	}
	if !on {
		m.alt = screen{} // its contents are not needed again
		m.current = &m.main
		if cursor {
			m.restoreCursor()
		}
	}
	m.clampCursor()
}

// setANSI executes SM and RM.
func (m *Model) setANSI(on bool) bool {
	known := false
	for i := range m.seq.n {
		switch m.seq.params[i] {
		case 4:
			m.modes.insert = on
		case 20:
			m.modes.newline = on
		default:
			continue
		}
		known = true
	}
	return known
}

// softReset executes DECSTR.
func (m *Model) softReset() {
	m.modes.insert, m.modes.origin, m.modes.keys, m.modes.keypad, m.modes.wrap, m.modes.cursor = false, false, false, false, true, true
	m.current.top, m.current.bottom = 0, m.rows-1
	m.pen, m.sets = style{}, charsets{}
	m.current.saved = saved{}
}

// answerQuery responds to a query of the program. A response never contains text that the
// program has written.
func (m *Model) answerQuery(final byte) {
	q := &m.seq
	switch {
	case final == 'c' && q.inter == 0 && q.paramOr(0, 0) == 0:
		switch q.prefix {
		case 0:
			m.sendAnswer("\x1b[?1;2c")
		case '>':
			m.sendAnswer("\x1b[>0;276;0c")
		}
	case final == 'n' && q.inter == 0:
		m.reportStatus(q.paramOr(0, 0))
	case final == 'p' && q.prefix == '?' && q.inter == '$':
		m.sendAnswer("\x1b[?%d;%d$y", q.paramOr(0, 0), m.modeState(q.paramOr(0, 0)))
	case final == 't' && q.prefix == 0 && q.inter == 0 && q.paramOr(0, 0) == 18:
		m.sendAnswer("\x1b[8;%d;%dt", m.rows, m.cols)
	}
}

// reportStatus executes DSR.
func (m *Model) reportStatus(what int) {
	private := ""
	if m.seq.prefix == '?' {
		private = "?"
	} else if m.seq.prefix != 0 {
		return
	}
	switch what {
	case 5:
		m.sendAnswer("\x1b[0n")
	case 6:
		m.sendAnswer("\x1b[%s%d;%dR", private, m.y-m.originRow()+1, m.x+1)
	}
}

// modeState returns the response to DECRQM: 0 unknown, 1 set, 2 reset.
func (m *Model) modeState(n int) int {
	on := false
	if f := m.modes.modeFlag(n); f != nil {
		on = *f
	} else if c := m.modes.modeSetting(n); c != nil {
		on = *c == n
	} else if n == 47 || n == 1047 || n == 1049 {
		on = m.current == &m.alt
	} else {
		return 0
	}
	if on {
		return 1
	}
	return 2
}
