package shell

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// floatBits is the size of the mantissa of the long double that bash uses.
const floatBits = 64

// writeFloat writes a floating-point number.
func (p *printer) writeFloat(s spec, a string) {
	v, special := p.parseFloat(a)
	if special != "" {
		neg := special[0] == '-'
		text := strings.TrimLeft(special, "-+")
		if s.verb >= 'A' && s.verb <= 'Z' {
			text = strings.ToUpper(text)
		}
		s.zero = false
		p.writeSigned(s, neg, text, "")
		return
	}
	if s.prec > 1<<20 {
		p.in.chargeScratch(2 * s.prec)
	}
	text, prefix := formatFloat(s, v)
	neg := v.Signbit()
	if s.verb >= 'A' && s.verb <= 'Z' {
		text, prefix = strings.ToUpper(text), strings.ToUpper(prefix)
	}
	p.writeSigned(s, neg, text, prefix)
}

// parseFloat parses an argument as strtold does.
func (p *printer) parseFloat(a string) (v *big.Float, special string) {
	v = new(big.Float).SetPrec(floatBits)
	if c, ok := quotedChar(a, p.in.bytes); ok {
		return v.SetInt64(c), ""
	}
	s := strings.TrimLeft(a, " \t\n\v\f\r")
	if s == "" {
		return v, ""
	}
	if word, rest := floatWord(s); word != "" {
		if rest != "" {
			p.reportError("%s: invalid number", a)
		}
		return v, word
	}
	n := floatLen(s)
	if n < len(s) {
		p.reportError("%s: invalid number", a)
	}
	if n == 0 {
		return v, ""
	}
	num := s[:n]
	if e := exponentOf(num); e > 5000 || e < -5100 {
		return v, map[bool]string{true: "inf"}[e > 0 && strings.ContainsAny(num, "123456789")]
	}
	if _, _, err := v.Parse(num, 0); err != nil && !errors.Is(err, strconv.ErrRange) {
		f, err := strconv.ParseFloat(num, 64)
		if err == nil {
			v.SetFloat64(f)
		}
	}
	if v.IsInf() {
		return v, map[bool]string{true: "-inf", false: "inf"}[v.Signbit()]
	}
	return v, ""
}

func floatWord(s string) (word, rest string) {
	t := strings.TrimLeft(s, "+-")
	if len(s)-len(t) > 1 {
		return "", s
	}
	low := strings.ToLower(t)
	for _, w := range []string{"infinity", "inf", "nan"} {
		if strings.HasPrefix(low, w) {
			word = w[:3]
			if s[0] == '-' {
				word = "-" + word
			}
			return word, t[len(w):]
		}
	}
	return "", s
}

// floatLen returns the length of the number at the start of s.
func floatLen(s string) int {
	i := 0
	if s[0] == '+' || s[0] == '-' {
		i++
	}
	base, mark := 10, byte('e')
	if len(s) > i+2 && s[i] == '0' && s[i+1]|0x20 == 'x' && (isDigitOf(s[i+2], 16) || s[i+2] == '.') {
		base, mark = 16, 'p'
		i += 2
	}
	digits, dot := 0, false
	for ; i < len(s); i++ {
		if isDigitOf(s[i], base) {
			digits++
		} else if s[i] == '.' && !dot {
			dot = true
		} else {
			break
		}
	}
	if digits == 0 {
		return 0
	}
	if i < len(s) && s[i]|0x20 == mark {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		for k := j; k < len(s) && isDigitOf(s[k], 10); k++ {
			i = k + 1
		}
	}
	return i
}

// exponentOf returns the decimal exponent in the text of a number.
func exponentOf(s string) int {
	i := strings.IndexAny(s, "eE")
	if i < 0 || strings.ContainsAny(s, "xX") {
		return 0
	}
	n, err := strconv.Atoi(s[i+1:])
	if err != nil {
		n = 1 << 20
		if s[i+1] == '-' {
			n = -n
		}
	}
	return n
}

// formatFloat returns the digits of |v| as C prints them.
func formatFloat(s spec, v *big.Float) (text, prefix string) {
	v = new(big.Float).Abs(v)
	prec := s.prec
	if prec < 0 {
		prec = 6
	}
	switch s.verb | 0x20 {
	case 'f':
		text = v.Text('f', prec)
		if s.alt && prec == 0 {
			text += "."
		}
	case 'e':
		text = v.Text('e', prec)
		if s.alt && prec == 0 {
			text = strings.Replace(text, "e", ".e", 1)
		}
	case 'g':
		text = generalFloat(v, max(prec, 1), s.alt)
	default:
		return hexFloat(v, s.prec, s.alt), "0x"
	}
	return text, ""
}

// generalFloat formats v as %g does.
func generalFloat(v *big.Float, prec int, alt bool) string {
	e := v.Text('e', prec-1)
	i := strings.IndexByte(e, 'e')
	x, _ := strconv.Atoi(e[i+1:]) // written by Text
	text, exp := e[:i], e[i:]
	if x >= -4 && x < prec {
		text, exp = v.Text('f', prec-1-x), ""
	}
	if alt {
		if strings.IndexByte(text, '.') < 0 {
			text += "."
		}
		return text + exp
	}
	if strings.IndexByte(text, '.') >= 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + exp
}

// hexFloat formats v as %a of glibc does for a long double: four bits before
// the point.
func hexFloat(v *big.Float, prec int, alt bool) string {
	if v.Sign() == 0 {
		s := "0"
		if prec > 0 || alt {
			s += "." + strings.Repeat("0", max(prec, 0))
		}
		return s + "p+0"
	}
	m := new(big.Float)
	exp := v.MantExp(m) // v = m × 2^exp, 0.5 ≤ m < 1
	m.SetMantExp(m, 64)
	n, _ := m.Uint64()
	exp -= 4
	if prec >= 0 && prec < 15 {
		shift := uint(60 - 4*prec)
		half, rest := uint64(1)<<(shift-1), n&(1<<shift-1)
		n >>= shift
		if rest > half || rest == half && n&1 == 1 {
			n++
		}
		if n>>(4*uint(prec)+4) != 0 {
			n >>= 4
			exp += 4
		}
		n <<= shift
	}
	digits := fmt.Sprintf("%016x", n)
	frac := digits[1:]
	if prec >= 0 {
		frac = (frac + strings.Repeat("0", max(0, prec-15)))[:prec]
	} else {
		frac = strings.TrimRight(frac, "0")
	}
	s := digits[:1]
	if frac != "" || alt {
		s += "." + frac
	}
	return s + fmt.Sprintf("p%+d", exp)
}
