package syntax

import (
	"strings"
	"unicode/utf8"
)

// dollarSingle parses $'…' from the quote on.
func (p *parser) dollarSingle(start int) Part {
	p.i++
	body := p.i
	for {
		c := p.peekByte()
		if c == 0 {
			p.failUnclosed(start, "'")
			return nil
		}
		if c == '\'' {
			break
		}
		if c == '\\' && p.byteAt(p.i+1) != 0 {
			p.i++
		}
		p.i++
	}
	text := p.src[body:p.i]
	p.i++
	return &Quoted{Kind: DollarSingle, Value: Unescape(text, func() { p.chargeWork(64) }), Raw: p.src[start:p.i]}
}

// Unescape decodes the backslash escapes of $'…'. It drops the text after a
// NUL escape, as bash does. It calls work after every 64 escapes, and once in the beginning.
func Unescape(s string, work func()) string {
	work()
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for count := 1; s != ""; count++ {
		if count%64 == 0 {
			work()
		}
		n := strings.IndexByte(s, '\\')
		if n < 0 || n+1 == len(s) {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:n])
		s = s[n+1:]
		r, size := decodeEscape(&b, s)
		if r == nul {
			break
		}
		s = s[size:]
	}
	return b.String()
}

type escaped bool

const (
	written escaped = false
	nul     escaped = true
)

var simpleEscapes = [256]byte{
	'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11,
	'\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// decodeEscape decodes the escape at the start of s, without its backslash,
// and returns the number of bytes used.
func decodeEscape(b *strings.Builder, s string) (escaped, int) {
	if c := simpleEscapes[s[0]]; c != 0 {
		b.WriteByte(c)
		return written, 1
	}
	switch c := s[0]; {
	case c >= '0' && c <= '7':
		v, n := parseDigits(s, 3, 8)
		return writeByte(b, byte(v)), n
	case c == 'x' && len(s) > 1 && s[1] == '{':
		v, n := parseDigits(s[2:], len(s), 16)
		if n == 0 {
			return nul, 0
		}
		if 2+n < len(s) && s[2+n] == '}' {
			n++
		}
		return writeByte(b, byte(v)), 2 + n
	case c == 'x':
		if v, n := parseDigits(s[1:], 2, 16); n > 0 {
			return writeByte(b, byte(v)), 1 + n
		}
	case c == 'u' || c == 'U':
		limit := 4
		if c == 'U' {
			limit = 8
		}
		if v, n := parseDigits(s[1:], limit, 16); n > 0 {
			if v == 0 {
				return nul, 0
			}
			writeRune(b, v)
			return written, 1 + n
		}
	case c == 'c' && len(s) > 1:
		n := 2
		if s[1] == '\\' && len(s) > 2 && s[2] == '\\' {
			n = 3
		}
		return writeByte(b, controlChar(s[1])), n
	}
	b.WriteByte('\\')
	b.WriteByte(s[0])
	return written, 1
}

func controlChar(c byte) byte {
	if c == '?' {
		return 127
	}
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c & 0x1f
}

func writeByte(b *strings.Builder, c byte) escaped {
	if c == 0 {
		return nul
	}
	b.WriteByte(c)
	return written
}

// writeRune writes a code point; one beyond Unicode is encoded in the original
// form of UTF-8, in up to six bytes.
func writeRune(b *strings.Builder, v uint64) {
	if v <= utf8.MaxRune && (v < 0xd800 || v > 0xdfff) {
		b.WriteRune(rune(v))
		return
	}
	n := 2 // continuation bytes
	for limit := uint64(1 << 16); v >= limit && n < 5; limit <<= 5 {
		n++
	}
	lead := [...]byte{2: 0xe0, 3: 0xf0, 4: 0xf8, 5: 0xfc}[n]
	b.WriteByte(lead | byte(v>>(6*n)))
	for n > 0 {
		n--
		b.WriteByte(0x80 | byte(v>>(6*n))&0x3f)
	}
}

// parseDigits parses up to limit digits of a base and returns their number.
func parseDigits(s string, limit, base int) (v uint64, n int) {
	for n < len(s) && n < limit {
		d := digitValue(s[n])
		if d >= base {
			break
		}
		v = v*uint64(base) + uint64(d)
		n++
	}
	return v, n
}

func digitValue(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return 99
}

// parseBackquote parses ` `.
func (p *parser) parseBackquote(c context) Part {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	start := p.i
	if m, ok := p.memo[start]; ok {
		p.i = m.end
		return m.part
	}
	s := &CmdSubst{Pos: p.posAt(start), Backquote: true}
	p.i++
	body := p.i
	escaped := false
	for {
		n := strings.IndexAny(p.src[p.i:], "`\\")
		if n < 0 {
			p.i = len(p.src)
			if !p.fillWindow() {
				p.failUnclosed(start, "`")
				return nil
			}
			continue
		}
		p.i += n
		if p.src[p.i] == '`' {
			break
		}
		escaped = true
		p.i++
		if p.peekByte() != 0 {
			p.i++
		}
	}
	text := p.src[body:p.i]
	p.i++
	s.Raw = p.src[start:p.i]
	if escaped {
		text = removeBackslashes(text, c.isQuoted())
	}
	p.chargeWork(len(text))
	sub := p.newChild(text, s.Pos.Line)
	s.Stmts = sub.parseScript()
	p.adoptCosts(sub)
	s.Err = sub.err
	if s.Err != nil && s.Err.TooBig {
		p.setError(s.Err)
	}
	p.rememberSubst(start, s, false)
	return s
}

// removeBackslashes removes the backslashes that quote text within backquotes.
func removeBackslashes(s string, quoted bool) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '\\', '$', '`':
				i++
			case '"':
				if quoted {
					i++
				}
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
