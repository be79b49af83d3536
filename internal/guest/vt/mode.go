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
func (e *Emulator) setModes(on bool) {
	q := e.seq
	for i := range q.n {
		n := int(q.params[i])
		if e.setMode(n, on) {
			e.seq.reset()
			e.seq.prefix, e.seq.n, e.seq.params[0] = '?', 1, int32(n)
			final := byte('l')
			if on {
				final = 'h'
			}
			e.passCSI(final)
		}
	}
}

func (e *Emulator) setMode(n int, on bool) bool {
	if f := e.modes.modeFlag(n); f != nil {
		*f = on
		if n == 6 {
			e.moveTo(0, 0)
		}
		return true
	}
	if c := e.modes.modeSetting(n); c != nil {
		*c = 0
		if on {
			*c = n
		}
		return true
	}
	switch n {
	case 1048:
		if on {
			e.saveCursor()
		} else {
			e.restoreCursor()
		}
	case 47, 1047, 1049:
		e.switchScreen(on, n == 1049)
	default:
		return false
	}
	return true
}

// switchScreen switches to the main or alternate screen; cursor saves or restores the cursor.
func (e *Emulator) switchScreen(on, cursor bool) {
	if on && cursor {
		e.saveCursor()
	}
	if on && e.current == &e.main {
		e.alt.clearScreen(e.rows, e.cols)
		e.current = &e.alt
		for i := range e.alt.lines {
			e.alt.lines[i].fill(e.eraseCell())
		}
	}
	if !on {
		e.alt = screen{} // its contents are not needed again
		e.current = &e.main
		if cursor {
			e.restoreCursor()
		}
	}
	e.clampCursor()
}

// setANSI executes SM and RM.
func (e *Emulator) setANSI(on bool) bool {
	known := false
	for i := range e.seq.n {
		switch e.seq.params[i] {
		case 4:
			e.modes.insert = on
		case 20:
			e.modes.newline = on
		default:
			continue
		}
		known = true
	}
	return known
}

// softReset executes DECSTR.
func (e *Emulator) softReset() {
	e.modes.insert, e.modes.origin, e.modes.keys, e.modes.keypad, e.modes.wrap, e.modes.cursor = false, false, false, false, true, true
	e.current.top, e.current.bottom = 0, e.rows-1
	e.pen, e.sets = style{}, charsets{}
	e.current.saved = saved{}
}

// answerQuery responds to a query of the program. A response never contains text that the
// program has written.
func (e *Emulator) answerQuery(final byte) {
	q := &e.seq
	switch {
	case final == 'c' && q.inter == 0 && q.paramOr(0, 0) == 0:
		switch q.prefix {
		case 0:
			e.sendAnswer("\x1b[?1;2c")
		case '>':
			e.sendAnswer("\x1b[>0;276;0c")
		}
	case final == 'n' && q.inter == 0:
		e.reportStatus(q.paramOr(0, 0))
	case final == 'p' && q.prefix == '?' && q.inter == '$':
		e.sendAnswer("\x1b[?%d;%d$y", q.paramOr(0, 0), e.modeState(q.paramOr(0, 0)))
	case final == 't' && q.prefix == 0 && q.inter == 0 && q.paramOr(0, 0) == 18:
		e.sendAnswer("\x1b[8;%d;%dt", e.rows, e.cols)
	}
}

// reportStatus executes DSR.
func (e *Emulator) reportStatus(what int) {
	private := ""
	if e.seq.prefix == '?' {
		private = "?"
	} else if e.seq.prefix != 0 {
		return
	}
	switch what {
	case 5:
		e.sendAnswer("\x1b[0n")
	case 6:
		e.sendAnswer("\x1b[%s%d;%dR", private, e.y-e.originRow()+1, e.x+1)
	}
}

// modeState returns the response to DECRQM: 0 unknown, 1 set, 2 reset.
func (e *Emulator) modeState(n int) int {
	on := false
	if f := e.modes.modeFlag(n); f != nil {
		on = *f
	} else if c := e.modes.modeSetting(n); c != nil {
		on = *c == n
	} else if n == 47 || n == 1047 || n == 1049 {
		on = e.current == &e.alt
	} else {
		return 0
	}
	if on {
		return 1
	}
	return 2
}
