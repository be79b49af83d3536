package awk

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// directive is one conversion of a format.
type directive struct {
	minus, plus, space, alt, zero, quote bool
	width, prec                          int // -1: not given
	widthArg, precArg                    bool
	pos                                  int // of the argument, from 1; 0: the next
	verb                                 byte
}

// maxWidth limits widths and precisions.
const maxWidth = 1 << 30

// parseDirective parses a conversion after its percent sign and returns its length in bytes; 0
// means that s doesn't begin with one.
func parseDirective(s string) (d directive, n int) {
	d.width, d.prec = -1, -1
	i := 0
	if v, used := scanInt(s); used > 0 && used < len(s) && s[used] == '$' {
		d.pos = v
		i = used + 1
	}
flags:
	for ; i < len(s); i++ {
		switch s[i] {
		case '-':
			d.minus = true
		case '+':
			d.plus = true
		case ' ':
			d.space = true
		case '#':
			d.alt = true
		case '0':
			d.zero = true
		case '\'':
			d.quote = true
		default:
			break flags
		}
	}
	if i < len(s) && s[i] == '*' {
		d.widthArg = true
		i++
	} else if v, used := scanInt(s[i:]); used > 0 {
		d.width = v
		i += used
	}
	if i < len(s) && s[i] == '.' {
		i++
		d.prec = 0
		if i < len(s) && s[i] == '*' {
			d.precArg = true
			i++
		} else {
			v, used := scanInt(s[i:])
			d.prec = v
			i += used
		}
	}
	if i < len(s) && strings.IndexByte("hlL", s[i]) >= 0 {
		i++
	}
	if i >= len(s) || strings.IndexByte("diouxXcsfFeEgGaA%", s[i]) < 0 {
		return d, 0
	}
	d.verb = s[i]
	return d, i + 1
}

// scanInt reads a decimal number and returns its value and length.
func scanInt(s string) (v, n int) {
	for n < len(s) && isDigit(s[n]) {
		v = min(v*10+int(s[n]-'0'), maxWidth)
		n++
	}
	return v, n
}

// formatter formats arguments.
type formatter struct {
	in     *interp
	format string
	args   []value
	next   int
	out    []byte
	line   int
}

// appendFormat appends format with its arguments to dst.
func (in *interp) appendFormat(dst []byte, format string, args []value, line int) []byte {
	f := formatter{in: in, format: format, args: args, out: dst, line: line}
	for i := 0; i < len(format); {
		p := strings.IndexByte(format[i:], '%')
		if p < 0 {
			f.out = append(f.out, format[i:]...)
			break
		}
		f.out = append(f.out, format[i:i+p]...)
		i += p + 1
		d, n := parseDirective(format[i:])
		if n == 0 {
			f.out = append(f.out, '%')
			if i < len(format) && format[i] == '%' {
				i++
			}
			continue
		}
		i += n
		f.writeDirective(&d, i)
		in.tick(1)
	}
	return f.out
}

// nextArg returns the argument at pos, or the next one if pos is 0. at is for the message if it is
// missing.
func (f *formatter) nextArg(pos, at int) *value {
	i := f.next
	if pos > 0 {
		i = pos - 1
	} else {
		f.next++
	}
	if i >= len(f.args) {
		f.in.fatal(f.line, "not enough arguments to satisfy format string\n\t`%s'\n\t%s^ ran out for this one",
			f.format, strings.Repeat(" ", at))
	}
	return &f.args[i]
}

// writeDirective formats one conversion.
func (f *formatter) writeDirective(d *directive, at int) {
	if d.verb == '%' {
		f.out = append(f.out, '%')
		return
	}
	if d.widthArg {
		d.width = clampInt(f.nextArg(0, at-1).asNumber())
		if d.width < 0 {
			d.minus, d.width = true, -d.width
		}
	}
	if d.precArg {
		d.prec = max(-1, clampInt(f.nextArg(0, at-1).asNumber()))
	}
	v := f.nextArg(d.pos, at-1)
	if n := max(d.width, d.prec); n > 1024 {
		f.in.chargeTemp(n)
	}
	switch d.verb {
	case 's':
		f.writeString(d, v.asString(f.in.convfmt))
	case 'c':
		f.writeChar(d, v)
	case 'd', 'i':
		f.out = appendInteger(f.out, d, v.asNumber())
	case 'o', 'u', 'x', 'X':
		f.out = appendUnsigned(f.out, d, v.asNumber())
	default:
		f.out = appendFloat(f.out, d, v.asNumber())
	}
}

// clampInt converts n to an int within maxWidth.
func clampInt(n float64) int {
	switch {
	case math.IsNaN(n):
		return 0
	case n > maxWidth:
		return maxWidth
	case n < -maxWidth:
		return -maxWidth
	}
	return int(n)
}

// writeString formats %s.
func (f *formatter) writeString(d *directive, s string) {
	if d.prec >= 0 {
		s = f.in.firstChars(s, d.prec)
	}
	f.writePadded(d, s)
}

// writePadded writes s, padded to the width.
func (f *formatter) writePadded(d *directive, s string) {
	n := 0
	if d.width > 0 {
		n = d.width - f.in.charCount(s)
	}
	if !d.minus {
		f.out = appendRepeat(f.out, ' ', n)
	}
	f.out = append(f.out, s...)
	if d.minus {
		f.out = appendRepeat(f.out, ' ', n)
	}
}

// writeChar formats %c.
func (f *formatter) writeChar(d *directive, v *value) {
	v.resolveClass()
	var s string
	switch {
	case !v.isNum():
		if s = f.in.firstChars(v.s, 1); s == "" { // gawk writes the string's NUL terminator
			s = "\x00"
		}
	case f.in.utf8 && v.asNumber() >= 0 && v.asNumber() <= utf8.MaxRune && utf8.ValidRune(rune(v.asNumber())):
		s = string(rune(v.asNumber()))
		d.width -= len(s) - 1 // gawk counts bytes here
	default:
		s = string([]byte{byte(int64(v.asNumber()))})
	}
	f.writePadded(d, s)
}

// appendRepeat appends c n times.
func appendRepeat(b []byte, c byte, n int) []byte {
	if n <= 0 {
		return b
	}
	return append(b, bytes.Repeat([]byte{c}, n)...)
}

// appendInteger formats the integer part of n for %d.
func appendInteger(b []byte, d *directive, n float64) []byte {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return appendPadded(b, d, "", formatSpecial(n), false)
	}
	n = math.Trunc(n)
	sign := ""
	switch {
	case n < 0:
		sign = "-"
	case d.plus:
		sign = "+"
	case d.space:
		sign = " "
	}
	var digits string
	if n = math.Abs(n); n < 1<<63 {
		digits = strconv.FormatUint(uint64(n), 10)
	} else {
		i, _ := big.NewFloat(n).Int(nil)
		digits = i.String()
	}
	return appendDigits(b, d, sign, digits)
}

// appendDigits applies precision, sign and width to the digits of an integer.
func appendDigits(b []byte, d *directive, sign, digits string) []byte {
	if d.prec == 0 && digits == "0" {
		digits = ""
	}
	if n := d.prec - len(digits); n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	return appendPadded(b, d, sign, digits, d.zero && d.prec < 0)
}

// appendPadded appends a number, padded to the width.
func appendPadded(b []byte, d *directive, sign, body string, zero bool) []byte {
	n := d.width - len(sign) - len(body)
	switch {
	case n <= 0:
		b = append(b, sign...)
		return append(b, body...)
	case d.minus:
		b = append(b, sign...)
		b = append(b, body...)
		return appendRepeat(b, ' ', n)
	case zero:
		b = append(b, sign...)
		b = appendRepeat(b, '0', n)
		return append(b, body...)
	}
	b = appendRepeat(b, ' ', n)
	b = append(b, sign...)
	return append(b, body...)
}

// appendUnsigned formats n for %o, %u, %x and %X. Numbers out of range are formatted as by %g.
func appendUnsigned(b []byte, d *directive, n float64) []byte {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return appendInteger(b, d, n)
	}
	n = math.Trunc(n)
	if n < -1<<63 || n >= 1<<64 {
		g := *d
		g.verb = 'g'
		return appendFloat(b, &g, n)
	}
	u := uint64(n)
	if n < 0 {
		u = uint64(int64(n))
	}
	base := map[byte]int{'o': 8, 'u': 10, 'x': 16, 'X': 16}[d.verb]
	digits := strconv.FormatUint(u, base)
	prefix := ""
	if d.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	if d.alt && n != 0 {
		switch d.verb {
		case 'o':
			digits = "0" + digits
		case 'x', 'X':
			prefix = "0" + string(d.verb)
		}
	}
	return appendDigits(b, d, prefix, digits)
}

// appendFloat formats n for %e, %f, %g and %a.
func appendFloat(b []byte, d *directive, n float64) []byte {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return appendPadded(b, d, "", formatSpecial(n), false)
	}
	sign := ""
	switch {
	case math.Signbit(n):
		sign = "-"
	case d.plus:
		sign = "+"
	case d.space:
		sign = " "
	}
	prec := d.prec
	if prec < 0 {
		prec = 6
	}
	n = math.Abs(n)
	var body string
	switch verb := d.verb | 0x20; verb {
	case 'a':
		body = formatDigits(n, 'x', d.prec)
		if i := strings.IndexByte(body, 'p'); i >= 0 && i+3 < len(body) && body[i+2] == '0' {
			body = body[:i+2] + body[i+3:]
		}
	case 'g':
		body = formatG(n, max(prec, 1), d.alt)
	default:
		body = formatDigits(n, verb, prec)
		if d.alt && prec == 0 {
			body = withPoint(body)
		}
	}
	if d.verb < 'a' {
		body = strings.ToUpper(body)
	}
	return appendPadded(b, d, sign, body, d.zero)
}

// formatDigits is [strconv.FormatFloat], which takes long for the many zeros of a large precision.
func formatDigits(n float64, verb byte, prec int) string {
	const most = 1100 // digits after the point of which one is not zero
	if prec <= most {
		return strconv.FormatFloat(n, verb, prec, 64)
	}
	text := strconv.FormatFloat(n, verb, most, 64)
	end := len(text)
	switch verb {
	case 'e':
		end = strings.IndexByte(text, 'e')
	case 'x':
		end = strings.IndexByte(text, 'p')
	}
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	var b strings.Builder
	b.Grow(len(text) + prec - most)
	b.WriteString(text[:end])
	for n := prec - most; n > 0; n -= len(zeros) {
		b.WriteString(zeros[:min(n, len(zeros))])
	}
	b.WriteString(text[end:])
	return b.String()
}

// formatG formats n for %g; with alt it keeps zeros at the end.
func formatG(n float64, prec int, alt bool) string {
	if !alt {
		return strconv.FormatFloat(n, 'g', prec, 64)
	}
	e := strconv.FormatFloat(n, 'e', prec-1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if exp < -4 || exp >= prec {
		return withPoint(e)
	}
	return withPoint(strconv.FormatFloat(n, 'f', prec-1-exp, 64))
}

// withPoint adds a decimal point to a number without one.
func withPoint(s string) string {
	if strings.IndexByte(s, '.') >= 0 {
		return s
	}
	if i := strings.IndexByte(s, 'e'); i >= 0 {
		return s[:i] + "." + s[i:]
	}
	return s + "."
}

// formatWith formats n with a CONVFMT or OFMT.
func formatWith(format string, n float64) string {
	var b []byte
	for i := 0; i < len(format); {
		p := strings.IndexByte(format[i:], '%')
		if p < 0 {
			b = append(b, format[i:]...)
			break
		}
		b = append(b, format[i:i+p]...)
		i += p + 1
		d, used := parseDirective(format[i:])
		i += used
		d.width, d.prec = min(d.width, 4096), min(d.prec, 4096)
		switch d.verb {
		case 0, '%', 'c', 's':
			b = append(b, '%')
		case 'd', 'i':
			b = appendInteger(b, &d, n)
		case 'o', 'u', 'x', 'X':
			b = appendUnsigned(b, &d, n)
		default:
			b = appendFloat(b, &d, n)
		}
	}
	return string(b)
}
