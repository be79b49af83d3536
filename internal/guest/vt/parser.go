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
func (e *Emulator) Write(p []byte) (int, error) {
	n := len(p)
	if len(e.partial) > 0 {
		p = e.completeRune(p)
	}
	for len(p) > 0 {
		if e.state == ground {
			p = e.writeText(p)
			continue
		}
		e.feedByte(p[0])
		p = p[1:]
	}
	return n, nil
}

// completeRune completes a partial character with the beginning of p and returns the rest of p.
func (e *Emulator) completeRune(p []byte) []byte {
	k := min(len(p), utf8.UTFMax)
	e.partial = append(e.partial, p[:k]...)
	if !utf8.FullRune(e.partial) {
		return nil
	}
	old := len(e.partial) - k
	r, size := utf8.DecodeRune(e.partial)
	e.partial = e.partial[:0]
	if r == utf8.RuneError && size <= 1 { // what came last was no beginning
		return p
	}
	e.writeRune(r)
	return p[size-old:]
}

// writeText processes text up to the next sequence and returns the rest.
func (e *Emulator) writeText(p []byte) []byte {
	for len(p) > 0 && e.state == ground {
		b := p[0]
		if b >= ' ' && b < 0x7f {
			n := 1
			for n < len(p) && p[n] >= ' ' && p[n] < 0x7f {
				n++
			}
			e.printASCII(p[:n])
			p = p[n:]
			continue
		}
		if b < utf8.RuneSelf {
			e.beginControl(b)
			p = p[1:]
			continue
		}
		r, size := utf8.DecodeRune(p)
		if r == utf8.RuneError && size <= 1 {
			if !utf8.FullRune(p) {
				e.partial = append(e.partial[:0], p...)
				return nil
			}
			p = p[1:] // no text at all: left out, as xterm.js does
			continue
		}
		e.writeRune(r)
		p = p[size:]
	}
	return p
}

// writeRune processes a character that is not ASCII.
func (e *Emulator) writeRune(r rune) {
	if r >= 0x80 && r < 0xa0 {
		e.beginEscape(byte(r - 0x40))
		return
	}
	e.print(r)
}

// beginControl processes a control character in text.
func (e *Emulator) beginControl(b byte) {
	if b == 0x1b {
		e.state = escape
		e.seq.reset()
		return
	}
	e.doControl(b)
}

// feedByte processes a byte of a sequence.
func (e *Emulator) feedByte(b byte) {
	switch b {
	case 0x18, 0x1a: // CAN, SUB
		e.state = ground
		return
	case 0x1b:
		if e.state == osc {
			e.finishOSC()
		}
		e.state = escape
		e.seq.reset()
		return
	}
	switch e.state {
	case osc, ignored:
		e.feedString(b)
		return
	}
	switch {
	case b < ' ':
		e.doControl(b)
	case b == 0x7f:
	case b > 0x7f:
		e.state = ground // and the character is lost with the sequence that it broke
	case e.state == escape || e.state == escapeMore:
		e.feedEscape(b)
	default:
		e.feedCSI(b)
	}
}

// feedString processes a byte of an OSC or of an ignored string. C1 ST and BEL
// end both; a C1 control is encoded as UTF-8, so its first byte is held back.
func (e *Emulator) feedString(b byte) {
	q := &e.seq
	if n := len(q.str); n > 0 && q.str[n-1] == 0xc2 && b >= 0x80 && b < 0xa0 {
		q.str = q.str[:n-1]
		if e.state == osc && b == 0x9c {
			e.finishOSC()
		}
		e.state = ground
		if b != 0x9c {
			e.beginEscape(b - 0x40)
		}
		return
	}
	if e.state == osc && b == 7 {
		e.finishOSC()
		e.state = ground
		return
	}
	switch {
	case e.state == ignored:
		q.str = append(q.str[:0], b) // the last byte only
	case len(q.str) < maxOSC:
		q.str = append(q.str, b)
	case b == 0xc2:
		q.str[len(q.str)-1] = b
	}
}

// beginEscape begins the sequence ESC b.
func (e *Emulator) beginEscape(b byte) {
	e.state = escape
	e.seq.reset()
	e.feedEscape(b)
}

func (e *Emulator) feedEscape(b byte) {
	q := &e.seq
	if b < '0' {
		q.inter = b
		e.state = escapeMore
		return
	}
	if e.state == escape {
		switch b {
		case '[':
			e.state = csi
			return
		case ']':
			e.state = osc
			q.str = q.str[:0]
			return
		case 'P', 'X', '^', '_':
			e.state = ignored
			q.str = q.str[:0]
			return
		}
	}
	e.state = ground
	e.doESC(b)
}

func (e *Emulator) feedCSI(b byte) {
	q := &e.seq
	switch {
	case b >= '@':
		was := e.state
		e.state = ground
		if was != csiIgnore {
			e.doCSI(b)
		}
	case e.state == csiIgnore:
	case b < '0':
		q.inter = b
		e.state = csiMore
	case e.state == csiMore:
		e.state = csiIgnore
	case b >= '<':
		if q.n > 0 || q.prefix != 0 {
			e.state = csiIgnore
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
