package kernel

// lineSize is the size of a terminal's input buffer, as on Linux: a line has at most one byte less.
const lineSize = 4096

// line is the line discipline of a terminal: it forms lines from typed bytes, echoes them,
// recognizes the characters for signals, and processes line ends in the output. It follows Linux's
// n_tty in details that programs depend on.
type line struct {
	mode  Mode
	input []byte // typed and not yet read
	ends  []bool // for each byte of input: a line ends here
	ready int    // number of bytes in complete lines

	literal bool // the next character is taken literally
	halted  bool // output is stopped by ^S
	column  int  // of the cursor
	start   int  // column of the beginning of the line being typed
}

// room returns the number of bytes that receive accepts. It is never 0 while there is only the line
// being typed, whose last character then is replaced.
func (l *line) room() int {
	if n := lineSize - 1 - len(l.input); n > 0 {
		return n
	}
	if l.mode.Local&ICANON != 0 && l.ready == 0 {
		return 1
	}
	return 0
}

// receive processes a typed byte. It appends the echo, and returns the signal of the character, or
// 0.
func (l *line) receive(c byte, echo []byte) ([]byte, Signal) {
	if len(l.input) >= lineSize {
		l.drop(1)
	}
	if l.mode.In&ISTRIP != 0 {
		c &= 0x7f
	}
	m := &l.mode
	if m.In&IUCLC != 0 && m.Local&IEXTEN != 0 && (c >= 'A' && c <= 'Z' || c >= 0xc0 && c <= 0xde && c != 0xd7) {
		c += 'a' - 'A'
	}
	if l.literal {
		l.literal = false
		return l.plain(c, echo), 0
	}
	if m.In&IXON != 0 {
		switch {
		case m.is(VSTART, c):
			l.halted = false
			return echo, 0
		case m.is(VSTOP, c):
			l.halted = true
			return echo, 0
		}
	}
	if s := l.signal(c); s != 0 {
		return l.interrupt(c, echo), s
	}
	if m.In&IXON != 0 && m.In&IXANY != 0 {
		l.halted = false
	}
	made := false // a newline from a carriage return
	switch {
	case c == '\r' && m.In&IGNCR != 0:
		return echo, 0
	case c == '\r' && m.In&ICRNL != 0:
		c, made = '\n', true
	case c == '\n' && m.In&INLCR != 0:
		c = '\r'
	}
	if m.Local&ICANON != 0 {
		if e, done := l.edit(c, echo); done {
			return e, 0
		}
	}
	if made && m.Local&ECHO != 0 {
		return l.put(c, l.show(echo, '\n')), 0
	}
	return l.plain(c, echo), 0
}

// signal returns the signal of a character, or 0.
func (l *line) signal(c byte) Signal {
	m := &l.mode
	switch {
	case m.Local&ISIG == 0:
		return 0
	case m.is(VINTR, c):
		return SIGINT
	case m.is(VQUIT, c):
		return SIGQUIT
	case m.is(VSUSP, c):
		return SIGTSTP
	}
	return 0
}

// interrupt applies a signal's character to the line.
func (l *line) interrupt(c byte, echo []byte) []byte {
	if l.mode.Local&NOFLSH == 0 {
		l.input, l.ends, l.ready, l.literal = l.input[:0], l.ends[:0], 0, false
	}
	if l.mode.In&IXON != 0 {
		l.halted = false
	}
	if l.mode.Local&ECHO != 0 {
		return l.echo(echo, c)
	}
	return echo
}

// plain processes a character without a special meaning.
func (l *line) plain(c byte, echo []byte) []byte {
	if l.mode.Local&ECHO != 0 {
		if len(l.input) == l.ready {
			l.start = l.column
		}
		echo = l.echo(echo, c)
	}
	if c == 0xff && l.mode.In&PARMRK != 0 {
		echo = l.put(c, echo)
	}
	return l.put(c, echo)
}

// put appends a character to the input; without ICANON it can be read at once.
func (l *line) put(c byte, echo []byte) []byte {
	l.input, l.ends = append(l.input, c), append(l.ends, false)
	if l.mode.Local&ICANON == 0 {
		l.ready = len(l.input)
	}
	return echo
}

// finish ends the line being typed with c.
// finish ends the line being typed with c.
func (l *line) finish(c byte) {
	l.input, l.ends = append(l.input, c), append(l.ends, true)
	l.ready = len(l.input)
}

// edit applies an editing character to the line being typed; it reports whether it was one.
func (l *line) edit(c byte, echo []byte) ([]byte, bool) {
	m := &l.mode
	more := m.Local&IEXTEN != 0
	switch {
	case m.is(VERASE, c), m.is(VKILL, c), m.is(VWERASE, c) && more:
		return l.erase(c, echo), true
	case m.is(VLNEXT, c) && more:
		l.literal = true
		if m.Local&(ECHO|ECHOCTL) == ECHO|ECHOCTL {
			echo = l.show(l.show(echo, '^'), '\b')
		}
		return echo, true
	case m.is(VREPRINT, c) && more && m.Local&ECHO != 0:
		echo = l.show(l.echo(echo, c), '\n')
		for _, b := range l.input[l.ready:] {
			echo = l.echo(echo, b)
		}
		return echo, true
	case c == '\n':
		if m.Local&(ECHO|ECHONL) != 0 {
			echo = l.show(echo, '\n')
		}
		l.finish(c)
		return echo, true
	case m.is(VEOF, c):
		l.finish(0)
		return echo, true
	case m.is(VEOL, c), m.is(VEOL2, c) && more:
		if m.Local&ECHO != 0 {
			if len(l.input) == l.ready {
				l.start = l.column
			}
			echo = l.echo(echo, c)
		}
		l.finish(c)
		return echo, true
	}
	return echo, false
}

// erase takes back a character, a word or the line being typed.
// erase removes a character, a word or the whole line being typed.
func (l *line) erase(c byte, echo []byte) []byte {
	m := &l.mode
	word := m.is(VWERASE, c) && m.Local&IEXTEN != 0 && !m.is(VERASE, c)
	all := m.is(VKILL, c) && !word && !m.is(VERASE, c)
	if len(l.input) == l.ready {
		return echo
	}
	if all && m.Local&(ECHO|ECHOK|ECHOKE|ECHOE) != ECHO|ECHOK|ECHOKE|ECHOE {
		l.drop(len(l.input) - l.ready)
		if m.Local&ECHO != 0 {
			echo = l.echo(echo, c)
			if m.Local&ECHOK != 0 {
				echo = l.show(echo, '\n')
			}
		}
		return echo
	}
	letters := false
	for len(l.input) > l.ready {
		at := len(l.input) - 1
		for at > l.ready && l.continues(l.input[at]) {
			at--
		}
		b := l.input[at]
		if l.continues(b) {
			break // only the end of a character is left
		}
		if word && !isAlnum(b) && letters {
			break
		}
		letters = letters || isAlnum(b)
		l.drop(len(l.input) - at)
		if m.Local&ECHO != 0 {
			echo = l.unecho(echo, b, c, !word && !all)
		}
		if !word && !all {
			break
		}
	}
	return echo
}

// unecho removes b from the screen; c is the erasing character.
func (l *line) unecho(echo []byte, b, c byte, one bool) []byte {
	m := &l.mode
	control := b < 32 || b == 127
	switch {
	case one && m.Local&ECHOE == 0:
		return l.echo(echo, c)
	case b == '\t':
		for range l.tabWidth() {
			echo = append(echo, '\b')
			l.column = max(0, l.column-1)
		}
		return echo
	case control && m.Local&ECHOCTL != 0:
		echo = l.show(l.show(l.show(echo, '\b'), ' '), '\b')
	case control:
		return echo
	}
	return l.show(l.show(l.show(echo, '\b'), ' '), '\b')
}

// tabWidth returns the width of a tab at the end of the line being typed.
func (l *line) tabWidth() int {
	n, after := 0, false
	for i := len(l.input) - 1; i >= l.ready && !after; i-- {
		switch b := l.input[i]; {
		case b == '\t':
			after = true
		case b < 32 || b == 127:
			if l.mode.Local&ECHOCTL != 0 {
				n += 2
			}
		case !l.continues(b):
			n++
		}
	}
	if n &= 7; !after {
		n += l.start
	}
	return 8 - n&7
}

// drop removes the last n bytes.
func (l *line) drop(n int) {
	l.input, l.ends = l.input[:len(l.input)-n], l.ends[:len(l.ends)-n]
	l.ready = min(l.ready, len(l.input))
}

// echo appends the echo of a typed character; control characters are shown as ^X.
func (l *line) echo(to []byte, c byte) []byte {
	if l.mode.Local&ECHOCTL != 0 && (c < 32 || c == 127) && c != '\t' {
		l.column += 2
		return append(to, '^', c^0x40)
	}
	if c == 0xff { // Linux does not process it
		l.column++
		return append(to, c)
	}
	return l.show(to, c)
}

// show appends a character, processed for output.
func (l *line) show(to []byte, c byte) []byte {
	if l.mode.Out&OPOST == 0 {
		return append(to, c)
	}
	m := &l.mode
	switch {
	case c == '\n':
		if m.Out&ONLRET != 0 {
			l.column = 0
		}
		if m.Out&ONLCR != 0 {
			l.start, l.column = 0, 0
			return append(to, '\r', '\n')
		}
		l.start = l.column
	case c == '\r':
		if m.Out&ONOCR != 0 && l.column == 0 {
			return to
		}
		if m.Out&OCRNL != 0 {
			if m.Out&ONLRET != 0 {
				l.start, l.column = 0, 0
			}
			return append(to, '\n')
		}
		l.start, l.column = 0, 0
	case c == '\t':
		n := 8 - l.column&7
		l.column += n
		if m.Out&XTABS == XTABS {
			return append(to, "        "[:n]...)
		}
	case c == '\b':
		l.column = max(0, l.column-1)
	case c >= 32 && c != 127:
		if m.Out&OLCUC != 0 && (c >= 'a' && c <= 'z' || c >= 0xdf && c != 0xf7) {
			c -= 'a' - 'A'
		}
		if !l.continues(c) {
			l.column++
		}
	}
	return append(to, c)
}

// output appends b, processed for output.
func (l *line) output(to, b []byte) []byte {
	if l.mode.Out&OPOST == 0 {
		return append(to, b...)
	}
	for _, c := range b {
		to = l.show(to, c)
	}
	return to
}

// continues reports whether c is a byte within a character, not its first.
func (l *line) continues(c byte) bool { return l.mode.In&IUTF8 != 0 && c&0xc0 == 0x80 }

// takeLine moves input to b: up to a line in canonical mode, otherwise all that there is. end
// reports an end of file.
func (l *line) takeLine(b []byte) (n int, end bool) {
	if l.mode.Local&ICANON == 0 {
		n = copy(b, l.input)
		l.cutInput(n)
		return n, false
	}
	for n < l.ready && !l.ends[n] {
		n++
	}
	closed := n < l.ready && l.input[n] == 0 // an end of file, not the end of a line
	if n < l.ready && !closed {
		n++
	}
	taken := copy(b, l.input[:n])
	if taken == n && closed {
		l.cutInput(n + 1)
		return taken, true
	}
	l.cutInput(taken)
	return taken, false
}

// cutInput removes the first n bytes.
func (l *line) cutInput(n int) {
	l.input = append(l.input[:0], l.input[n:]...)
	l.ends = append(l.ends[:0], l.ends[n:]...)
	l.ready = max(0, l.ready-n)
}

// set changes the mode. If canonical mode changes, the input so far becomes readable.
func (l *line) set(m Mode) {
	lines := (l.mode.Local^m.Local)&ICANON != 0
	l.mode = m
	if m.In&IXON == 0 {
		l.halted = false
	}
	if !lines {
		return
	}
	l.literal = false
	l.ready = len(l.input)
	clear(l.ends)
	if m.Local&ICANON != 0 && l.ready > 0 {
		l.ends[l.ready-1] = true
	}
}

// isAlnum is the kernel's isalnum for Latin-1, with the underscore.
func isAlnum(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' && c < 128 || c >= 0xc0 && c != 0xd7 && c != 0xf7
}
