package vt

import "unicode/utf8"

// state is the state of the parser: the kind of sequence being parsed.
type state uint8

const (
	ground     state = iota
	escape           // after ESC
	escapeMore       // after an intermediate byte of it
	csi
	csiMore   // after an intermediate byte
	csiIgnore // malformed: skipped up to its final byte
	osc
	ignored // a string without effect: DCS, SOS, PM, APC
)

// Limits of sequences.
const (
	maxParams = 32
	maxParam  = 1<<16 - 1
	maxOSC    = 4 << 10
)

// sequence is the sequence being parsed.
type sequence struct {
	prefix, inter byte                 // of <=>? and of space to /; 0: none
	params        [maxParams + 1]int32 // the last is for all that are too many
	n             int                  // of params that have begun
	sub           uint32               // bit i: param i follows a colon
	str           []byte               // of an OSC
}

// paramOr returns parameter i, or def if it is missing or 0.
func (q *sequence) paramOr(i, def int) int {
	if i >= q.n || q.params[i] <= 0 {
		return def
	}
	return int(q.params[i])
}

func (q *sequence) reset() {
	q.prefix, q.inter, q.n, q.sub = 0, 0, 0, 0
}

// Write processes the output of a program. It never fails.
func (m *Model) Write(p []byte) (int, error) {
	n := len(p)
	if len(m.partial) > 0 {
		p = m.completeRune(p)
	}
	for len(p) > 0 {
		if m.state == ground {
			p = m.writeText(p)
			continue
		}
		m.feedByte(p[0])
		p = p[1:]
	}
	return n, nil
}

// completeRune completes a partial character with the beginning of p and returns the rest of p.
func (m *Model) completeRune(p []byte) []byte {
	k := min(len(p), utf8.UTFMax)
	m.partial = append(m.partial, p[:k]...)
	if !utf8.FullRune(m.partial) {
		return nil
	}
	old := len(m.partial) - k
	r, size := utf8.DecodeRune(m.partial)
	m.partial = m.partial[:0]
	if r == utf8.RuneError && size <= 1 { // what came last was no beginning
		return p
	}
	m.writeRune(r)
	return p[size-old:]
}

// writeText processes text up to the next sequence and returns the rest.
func (m *Model) writeText(p []byte) []byte {
	for len(p) > 0 && m.state == ground {
		b := p[0]
		if b >= ' ' && b < 0x7f {
			n := 1
			for n < len(p) && p[n] >= ' ' && p[n] < 0x7f {
				n++
			}
			m.printASCII(p[:n])
			p = p[n:]
			continue
		}
		if b < utf8.RuneSelf {
			m.beginControl(b)
			p = p[1:]
			continue
		}
		r, size := utf8.DecodeRune(p)
		if r == utf8.RuneError && size <= 1 {
			if !utf8.FullRune(p) {
				m.partial = append(m.partial[:0], p...)
				return nil
			}
			p = p[1:] // no text at all: left out, as xterm.js does
			continue
		}
		m.writeRune(r)
		p = p[size:]
	}
	return p
}

// writeRune processes a character that is not ASCII.
func (m *Model) writeRune(r rune) {
	if r >= 0x80 && r < 0xa0 {
		m.beginEscape(byte(r - 0x40))
		return
	}
	m.print(r)
}

// beginControl processes a control character in text.
func (m *Model) beginControl(b byte) {
	if b == 0x1b {
		m.state = escape
		m.seq.reset()
		return
	}
	m.doControl(b)
}

// feedByte processes a byte of a sequence.
func (m *Model) feedByte(b byte) {
	switch b {
	case 0x18, 0x1a: // CAN, SUB
		m.state = ground
		return
	case 0x1b:
		if m.state == osc {
			m.finishOSC()
		}
		m.state = escape
		m.seq.reset()
		return
	}
	switch m.state {
	case osc, ignored:
		m.feedString(b)
		return
	}
	switch {
	case b < ' ':
		m.doControl(b)
	case b == 0x7f:
	case b > 0x7f:
		m.state = ground // and the character is lost with the sequence that it broke
	case m.state == escape || m.state == escapeMore:
		m.feedEscape(b)
	default:
		m.feedCSI(b)
	}
}

// feedString processes a byte of an OSC or of an ignored string. C1 ST and BEL
// end both; a C1 control is encoded as UTF-8, so its first byte is held back.
func (m *Model) feedString(b byte) {
	q := &m.seq
	if n := len(q.str); n > 0 && q.str[n-1] == 0xc2 && b >= 0x80 && b < 0xa0 {
		q.str = q.str[:n-1]
		if m.state == osc && b == 0x9c {
			m.finishOSC()
		}
		m.state = ground
		if b != 0x9c {
			m.beginEscape(b - 0x40)
		}
		return
	}
	if m.state == osc && b == 7 {
		m.finishOSC()
		m.state = ground
		return
	}
	switch {
	case m.state == ignored:
		q.str = append(q.str[:0], b) // the last byte only
	case len(q.str) < maxOSC:
		q.str = append(q.str, b)
	case b == 0xc2:
		q.str[len(q.str)-1] = b
	}
}

// beginEscape begins the sequence ESC b.
func (m *Model) beginEscape(b byte) {
	m.state = escape
	m.seq.reset()
	m.feedEscape(b)
}

func (m *Model) feedEscape(b byte) {
	q := &m.seq
	if b < '0' {
		q.inter = b
		m.state = escapeMore
		return
	}
	if m.state == escape {
		switch b {
		case '[':
			m.state = csi
			return
		case ']':
			m.state = osc
			q.str = q.str[:0]
			return
		case 'P', 'X', '^', '_':
			m.state = ignored
			q.str = q.str[:0]
			return
		}
	}
	m.state = ground
	m.doESC(b)
}

func (m *Model) feedCSI(b byte) {
	q := &m.seq
	switch {
	case b >= '@':
		was := m.state
		m.state = ground
		if was != csiIgnore {
			m.doCSI(b)
		}
	case m.state == csiIgnore:
	case b < '0':
		q.inter = b
		m.state = csiMore
	case m.state == csiMore:
		m.state = csiIgnore
	case b >= '<':
		if q.n > 0 || q.prefix != 0 {
			m.state = csiIgnore
			return
		}
		q.prefix = b
	default:
		q.feedParam(b)
	}
}

// feedParam processes a digit or a separator of parameters.
func (q *sequence) feedParam(b byte) {
	if q.n == 0 {
		q.n, q.params[0] = 1, -1
	}
	if b == ';' || b == ':' {
		if b == ':' {
			q.sub |= 1 << q.n
		}
		q.n = min(q.n+1, maxParams+1)
		q.params[q.n-1] = -1
		return
	}
	v := &q.params[q.n-1]
	*v = min(max(*v, 0)*10+int32(b-'0'), maxParam)
}
