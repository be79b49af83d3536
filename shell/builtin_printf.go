package shell

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

func bPrintf(in *interp, args []string) int {
	p := &printer{in: in}
	i := 1
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		if args[i][1] != 'v' {
			return in.reportUsage("printf", args[i][:2]+": invalid option")
		}
		name := args[i][2:]
		if name == "" {
			if i++; i == len(args) {
				return in.reportUsage("printf", "-v: option requires an argument")
			}
			name = args[i]
		}
		r, ok := in.parseRef(name)
		if !ok {
			in.errorf("printf: `%s': not a valid identifier", name)
			return 2
		}
		p.to = &r
	}
	if i == len(args) {
		return in.reportUsage("printf", "")
	}
	p.args = args[i+1:]
	p.formatAll(args[i])
	if p.to == nil {
		if st := in.writeOut("printf", p.out); st != 0 {
			return st
		}
		return p.status
	}
	if !in.assignRef(*p.to, in.textOf(p.out), false) {
		return 1
	}
	return p.status
}

// writeOut writes a builtin's output and returns its status.
func (in *interp) writeOut(name string, b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if _, err := in.p.Stdout.Write(b); err != nil {
		in.errorf("%s: write error: %v", name, kernel.Reason(err))
		return 1
	}
	return 0
}

// printer formats the arguments of printf.
type printer struct {
	in        *interp
	to        *ref // -v
	args      []string
	used      int // arguments used so far
	out       []byte
	uncounted int // bytes of output that are not charged as work yet
	status    int
	stop      bool
}

func (p *printer) reportError(format string, a ...any) {
	p.in.errorf("printf: %s", fmt.Sprintf(format, a...))
	p.status = 1
}

// reserveOutput makes room for n more bytes of output and charges them.
func (p *printer) reserveOutput(n int) {
	if p.uncounted += n; p.uncounted > 4096 {
		p.in.chargeWork(p.uncounted >> 6)
		p.uncounted = 0
	}
	p.out = p.in.growScratch(p.out, n)
}

// reserveEscape makes room for the n bytes of an escape, whose decoding is work.
func (p *printer) reserveEscape(n int) {
	p.in.chargeWork(1)
	p.reserveOutput(n)
}

// formatAll repeats the format until the arguments are used up.
func (p *printer) formatAll(format string) {
	for {
		before := p.used
		p.formatOnce(format)
		p.in.chargeWork(1 + len(format)>>4)
		if p.stop || p.used == before || p.used >= len(p.args) {
			return
		}
	}
}

func (p *printer) next() string {
	p.used++
	if p.used > len(p.args) {
		return ""
	}
	return p.args[p.used-1]
}

func (p *printer) formatOnce(f string) {
	for f != "" && !p.stop {
		i := strings.IndexAny(f, `%\`)
		if i < 0 {
			i = len(f)
		}
		p.reserveOutput(i)
		p.out = append(p.out, f[:i]...)
		if f = f[i:]; f == "" {
			return
		}
		if f[0] == '\\' {
			s, n, _ := p.decodeEscape(f, false)
			p.reserveEscape(len(s))
			p.out = append(p.out, s...)
			f = f[n:]
			continue
		}
		if strings.HasPrefix(f, "%%") {
			p.reserveEscape(1)
			p.out = append(p.out, '%')
			f = f[2:]
			continue
		}
		f = f[p.formatDirective(f):]
	}
}

// decodeEscape decodes the backslash escape at the start of s. In the argument
// of %b, \0nnn is octal and \c ends the output.
func (p *printer) decodeEscape(s string, b bool) (text string, n int, end bool) {
	if len(s) == 1 {
		return s, 1, false
	}
	c := s[1]
	if i := strings.IndexByte(`abefnrtv\"E'?`, c); i >= 0 {
		if b && (c == '"' || c == '\'' || c == '?') {
			return s[1:2], 2, false
		}
		return "\a\b\x1b\f\n\r\t\v\\\"\x1b'?"[i : i+1], 2, false
	}
	switch {
	case c == 'c' && b:
		return "", 2, true
	case c >= '0' && c <= '7':
		limit := 3
		if b && c == '0' {
			limit = 4
		}
		v, k := scanDigits(s[1:], limit, 8)
		return string([]byte{byte(v)}), 1 + k, false
	case c == 'x':
		v, k := scanDigits(s[2:], 2, 16)
		if k == 0 {
			p.in.errorf("printf: missing hex digit for \\x")
			return s[:2], 2, false
		}
		return string([]byte{byte(v)}), 2 + k, false
	case c == 'u' || c == 'U':
		limit := 4
		if c == 'U' {
			limit = 8
		}
		v, k := scanDigits(s[2:], limit, 16)
		if k == 0 {
			p.in.errorf("printf: missing unicode digit for \\%c", c)
			return s[:2], 2, false
		}
		return string(utf8.AppendRune(nil, rune(v))), 2 + k, false
	}
	return s[:2], 2, false
}

func scanDigits(s string, limit, base int) (v uint64, n int) {
	for n < len(s) && n < limit {
		if !isDigitOf(s[n], base) {
			break
		}
		d := s[n] - '0'
		if s[n] > '9' {
			d = s[n] | 0x20 - 'a' + 10
		}
		v = v*uint64(base) + uint64(d)
		n++
	}
	return v, n
}

// spec is a conversion specification.
type spec struct {
	minus, plus, space, alt, zero bool
	width                         int
	prec                          int // -1: none
	verb                          byte
}

// formatDirective formats the conversion at the start of f and returns its
// length.
func (p *printer) formatDirective(f string) int {
	s := spec{prec: -1}
	i := 1
flags:
	for ; i < len(f); i++ {
		switch f[i] {
		case '-':
			s.minus = true
		case '+':
			s.plus = true
		case ' ':
			s.space = true
		case '#':
			s.alt = true
		case '0':
			s.zero = true
		case '\'':
		default:
			break flags
		}
	}
	s.width, i = p.readCount(f, i)
	if s.width < 0 {
		s.minus, s.width = true, -s.width
	}
	if i < len(f) && f[i] == '.' {
		s.prec, i = p.readCount(f, i+1)
		s.prec = max(s.prec, -1)
	}
	if i < len(f) && f[i] == '(' {
		if n, ok := p.formatTime(f, i, s); ok {
			return n
		}
		p.in.errorf("printf: warning: `%c': invalid time format specification", f[len(f)-1])
		p.out = append(p.out, f...)
		return len(f)
	}
	for i < len(f) && strings.IndexByte("hlLjtz", f[i]) >= 0 {
		i++
	}
	if i >= len(f) {
		p.reportError("`%s': missing format character", f)
		p.stop = true
		return len(f)
	}
	s.verb = f[i]
	p.convertArg(s)
	return i + 1
}

// readCount reads a width or precision: digits, or * for an argument.
func (p *printer) readCount(f string, i int) (n, end int) {
	if i < len(f) && f[i] == '*' {
		v := p.parseInteger(p.next())
		return int(max(min(v, 1<<31-1), -1<<31+1)), i + 1
	}
	for i < len(f) && f[i] >= '0' && f[i] <= '9' {
		n = min(n*10+int(f[i]-'0'), 1<<31-1)
		i++
	}
	return n, i
}

func (p *printer) convertArg(s spec) {
	switch s.verb {
	case 's':
		p.writeText(s, p.next())
	case 'c':
		a := p.next() + "\x00"
		s.prec = -1
		p.writeText(s, a[:1])
	case 'b':
		a, end := p.decodeEscapes(p.next())
		p.writeText(s, a)
		p.stop = p.stop || end
	case 'q':
		p.writeText(s, p.in.quoteLong(quoteBackslash, p.next()))
	case 'Q':
		a := p.next()
		if s.prec >= 0 && s.prec < len(a) {
			a = a[:s.prec]
		}
		s.prec = -1
		p.writeText(s, p.in.quoteLong(quoteBackslash, a))
	case 'd', 'i':
		v := p.parseInteger(p.next())
		digits := strconv.FormatUint(absValue(v), 10)
		p.writeNumber(s, v < 0, digits, "")
	case 'o', 'u', 'x', 'X':
		p.writeUnsigned(s, uint64(p.parseUnsigned(p.next())))
	case 'a', 'A', 'e', 'E', 'f', 'F', 'g', 'G':
		p.writeFloat(s, p.next())
	case 'n':
		if p.used < len(p.args) {
			name := p.next()
			if isName(name) {
				p.in.set(name, strconv.Itoa(len(p.out)))
			}
		}
	default:
		p.reportError("`%c': invalid format character", s.verb)
		p.stop = true
	}
}

func absValue(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func (p *printer) decodeEscapes(s string) (string, bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, false
	}
	var b strings.Builder
	for s != "" {
		p.in.chargeWork(1)
		if s[0] != '\\' {
			i := strings.IndexByte(s, '\\')
			if i < 0 {
				i = len(s)
			}
			b.WriteString(s[:i])
			s = s[i:]
			continue
		}
		t, n, end := p.decodeEscape(s, true)
		if end {
			return b.String(), true
		}
		b.WriteString(t)
		s = s[n:]
	}
	return b.String(), false
}

// writeText writes a string with the precision and width of s.
func (p *printer) writeText(s spec, a string) {
	if s.prec >= 0 && s.prec < len(a) {
		a = a[:s.prec]
	}
	p.writePadded(s, a)
}

func (p *printer) writePadded(s spec, a string) {
	p.reserveOutput(max(s.width, len(a)))
	if !s.minus {
		p.writeSpaces(s.width - len(a))
	}
	p.out = append(p.out, a...)
	if s.minus {
		p.writeSpaces(s.width - len(a))
	}
}

func (p *printer) writeSpaces(n int) {
	for ; n > 0; n -= 4096 {
		p.in.chargeWork(64)
		p.out = append(p.out, strings.Repeat(" ", min(n, 4096))...)
	}
}

// numberCopies is the number of copies of a padded number: zeros, with digits, with a prefix.
const numberCopies = 3

// writeNumber writes the digits of a number with its sign, prefix and padding.
func (p *printer) writeNumber(s spec, neg bool, digits, prefix string) {
	if s.prec >= 0 {
		s.zero = false
		if s.prec == 0 && digits == "0" {
			digits = ""
		}
		if n := s.prec - len(digits); n > 0 {
			p.in.chargeScratch(numberCopies * n)
			digits = strings.Repeat("0", n) + digits
		}
	}
	p.writeSigned(s, neg, digits, prefix)
}

func (p *printer) writeSigned(s spec, neg bool, digits, prefix string) {
	switch {
	case neg:
		prefix = "-" + prefix
	case s.plus:
		prefix = "+" + prefix
	case s.space:
		prefix = " " + prefix
	}
	if n := s.width - len(prefix) - len(digits); s.zero && !s.minus && n > 0 {
		p.in.chargeScratch(numberCopies * n)
		digits = strings.Repeat("0", n) + digits
	}
	p.writePadded(s, prefix+digits)
}

func (p *printer) writeUnsigned(s spec, v uint64) {
	s.plus, s.space = false, false
	prefix, digits := "", ""
	switch s.verb {
	case 'o':
		digits = strconv.FormatUint(v, 8)
		if s.alt && digits[0] != '0' {
			digits = "0" + digits
		}
	case 'x', 'X':
		digits = strconv.FormatUint(v, 16)
		if s.alt && v != 0 {
			prefix = "0x"
		}
		if s.verb == 'X' {
			digits, prefix = strings.ToUpper(digits), strings.ToUpper(prefix)
		}
	default:
		digits = strconv.FormatUint(v, 10)
	}
	p.writeNumber(s, false, digits, prefix)
}

// quotedChar parses 'c and "c, which stand for the code of c.
func quotedChar(a string, bytes bool) (int64, bool) {
	if a == "" || a[0] != '\'' && a[0] != '"' {
		return 0, false
	}
	if len(a) == 1 {
		return 0, true
	}
	r, w := utf8.DecodeRuneInString(a[1:])
	if bytes || r == utf8.RuneError && w == 1 {
		return int64(a[1]), true
	}
	return int64(r), true
}

// parseInteger parses an argument as a signed number.
func (p *printer) parseInteger(a string) int64 {
	if v, ok := quotedChar(a, p.in.bytes); ok {
		return v
	}
	neg, digits, base, rest := scanInteger(a)
	v, err := strconv.ParseUint(digits, base, 64)
	over := err != nil && digits != ""
	if rest != "" || digits == "" && strings.TrimSpace(a) != "" {
		p.reportInvalid(a)
	}
	if limit := uint64(1) << 63; over || v > limit || v == limit && !neg {
		if rest == "" {
			p.in.errorf("printf: warning: %s: Numerical result out of range", a)
		}
		if neg {
			return -1 << 63
		}
		return 1<<63 - 1
	}
	if neg {
		return -int64(v)
	}
	return int64(v)
}

func (p *printer) parseUnsigned(a string) int64 {
	if v, ok := quotedChar(a, p.in.bytes); ok {
		return v
	}
	neg, digits, base, rest := scanInteger(a)
	v, err := strconv.ParseUint(digits, base, 64)
	if rest != "" || digits == "" && strings.TrimSpace(a) != "" {
		p.reportInvalid(a)
	}
	if err != nil && digits != "" {
		p.in.errorf("printf: warning: %s: Numerical result out of range", a)
		return -1
	}
	if neg {
		return -int64(v)
	}
	return int64(v)
}

func (p *printer) reportInvalid(a string) {
	t := strings.TrimLeft(a, " \t\n+-")
	switch {
	case strings.HasPrefix(t, "0x") || strings.HasPrefix(t, "0X"):
		p.reportError("%s: invalid hex number", a)
	case strings.HasPrefix(t, "0"):
		p.reportError("%s: invalid octal number", a)
	default:
		p.reportError("%s: invalid number", a)
	}
}

// scanInteger splits a number as strtol does: sign, digits of its base, and
// the rest.
func scanInteger(a string) (neg bool, digits string, base int, rest string) {
	s := strings.TrimLeft(a, " \t\n\v\f\r")
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	base = 10
	if len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && isDigitOf(s[2], 16) {
		base, s = 16, s[2:]
	} else if len(s) > 0 && s[0] == '0' {
		base = 8
	}
	n := 0
	for n < len(s) && isDigitOf(s[n], base) {
		n++
	}
	return neg, s[:n], base, s[n:]
}

func isDigitOf(c byte, base int) bool {
	switch {
	case c >= '0' && c <= '9':
		return int(c-'0') < base
	case base == 16:
		return c|0x20 >= 'a' && c|0x20 <= 'f'
	}
	return false
}
