package awk

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// class is the class of a value.
type class uint8

const (
	uninit   class = iota
	number         // n
	str            // s
	external       // s, from input: a number if it looks like one
	numeric        // s, from input, that is a number: n
	regexVal       // s, a regular expression
)

// value is a scalar.
type value struct {
	s string
	n float64
	k class
}

// numValue returns a number.
func numValue(n float64) value { return value{n: n, k: number} }

// strValue returns a string.
func strValue(s string) value { return value{s: s, k: str} }

// inValue returns a value from input.
func inValue(s string) value { return value{s: s, k: external} }

// boolNum returns 1 for true and 0 for false.
func boolNum(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// asNumber returns the value as a number.
func (v *value) asNumber() float64 {
	switch v.k {
	case number, numeric:
		return v.n
	case uninit:
		return 0
	}
	return toNumber(v.s)
}

// asString returns the value as a string. Numbers that aren't integers are formatted with convfmt.
func (v *value) asString(convfmt string) string {
	if v.k == number {
		return formatNumber(v.n, convfmt)
	}
	return v.s
}

// isTrue reports whether the value is true.
func (v *value) isTrue() bool {
	switch v.k {
	case number:
		return v.n != 0
	case str, regexVal:
		return v.s != ""
	case uninit:
		return false
	}
	if v.resolveClass(); v.k == numeric {
		return v.n != 0
	}
	return v.s != ""
}

// resolveClass decides whether a value from input is a number.
func (v *value) resolveClass() {
	if v.k != external {
		return
	}
	if n, ok := looksNumeric(v.s); ok {
		v.n, v.k = n, numeric
	} else {
		v.k = str
	}
}

// isNum reports whether the value compares as a number.
func (v *value) isNum() bool { return v.k == number || v.k == numeric || v.k == uninit }

// compare compares two values by the rules of POSIX: as numbers if both look like numbers,
// otherwise as strings.
func (in *interp) compare(a, b *value) int {
	if n := len(a.s) + len(b.s); n > 512 {
		in.tickBytes(8 * n)
	}
	a.resolveClass()
	b.resolveClass()
	if a.isNum() && b.isNum() {
		x, y := a.asNumber(), b.asNumber()
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		case x == y:
			return 0
		}
		return compareNaN(x, y)
	}
	return in.compareText(a.asString(in.convfmt), b.asString(in.convfmt))
}

// compareNaN orders NaN after every number.
func compareNaN(x, y float64) int {
	switch xn, yn := math.IsNaN(x), math.IsNaN(y); {
	case xn && yn:
		return 0
	case xn:
		return 1
	}
	return -1
}

// smallInts is the number of integers with a prepared text.
const smallInts = 1000

// smallInt returns the texts of the integers below smallInts, which the first call makes.
var smallInt = sync.OnceValue(func() *[smallInts]string {
	var t [smallInts]string
	for i := range t {
		t[i] = strconv.Itoa(i)
	}
	return &t
})

// formatNumber returns n as print shows it with a CONVFMT or OFMT.
func formatNumber(n float64, format string) string {
	if n == math.Trunc(n) {
		return formatInt(n)
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return formatSpecial(n)
	}
	if format == "%.6g" {
		var b [32]byte
		return string(strconv.AppendFloat(b[:0], n, 'g', 6, 64))
	}
	return formatWith(format, n)
}

// formatInt returns the decimal text of an integer n.
func formatInt(n float64) string {
	switch {
	case n >= 0 && n < smallInts:
		return smallInt()[int(n)]
	case n > -1e18 && n < 1e18:
		return strconv.FormatInt(int64(n), 10)
	case math.IsInf(n, 0):
		return formatSpecial(n)
	}
	i, _ := big.NewFloat(n).Int(nil)
	return i.String()
}

// formatSpecial returns the text of an infinity or NaN.
func formatSpecial(n float64) string {
	switch {
	case math.IsInf(n, 1):
		return "+inf"
	case math.IsInf(n, -1):
		return "-inf"
	case math.Signbit(n):
		return "-nan"
	}
	return "+nan"
}

// maxNumber is the maximum number of bytes of a string that are parsed as a number.
const maxNumber = 64 << 10

// pow10 has the powers of 10 that a float64 represents exactly.
var pow10 = [...]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
	1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// scanNumber parses a decimal number at the beginning of s and returns its length in bytes, 0 if
// there is none. Leading blanks aren't allowed.
func scanNumber(s string) (float64, int) {
	i := 0
	neg := false
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		neg = s[i] == '-'
		i++
	}
	start := i
	var m uint64
	for i < len(s) && s[i]-'0' <= 9 {
		if i-start < 19 {
			m = m*10 + uint64(s[i]-'0')
		}
		i++
	}
	digits := i - start
	frac := 0
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && s[i]-'0' <= 9; i++ {
			if digits < 19 {
				m = m*10 + uint64(s[i]-'0')
			}
			digits++
			frac++
		}
		if digits == 0 {
			return 0, 0
		}
	}
	if digits == 0 {
		return scanSpecial(s)
	}
	end, exp := scanExponent(s, i)
	if digits <= 18 && m < 1<<53 {
		if e := exp - frac; e >= -22 && e <= 22 {
			f := float64(m)
			if e < 0 {
				f /= pow10[-e]
			} else {
				f *= pow10[e]
			}
			if neg {
				f = -f
			}
			return f, end
		}
	}
	f, _ := strconv.ParseFloat(s[:end], 64) // out of range is infinity or 0, as in C's strtod
	return f, end
}

// scanExponent parses an exponent at s[i:] and returns where it ends.
func scanExponent(s string, i int) (end, exp int) {
	if i >= len(s) || s[i]|0x20 != 'e' {
		return i, 0
	}
	j := i + 1
	neg := false
	if j < len(s) && (s[j] == '-' || s[j] == '+') {
		neg = s[j] == '-'
		j++
	}
	if j >= len(s) || !isDigit(s[j]) {
		return i, 0
	}
	for ; j < len(s) && isDigit(s[j]); j++ {
		if exp < 10000 {
			exp = exp*10 + int(s[j]-'0')
		}
	}
	if neg {
		exp = -exp
	}
	return j, exp
}

// scanSpecial parses "+inf", "-nan" and the like; the sign is required.
func scanSpecial(s string) (float64, int) {
	if len(s) < 4 || s[0] != '+' && s[0] != '-' || len(s) > 4 && (isNameStart(s[4]) || isDigit(s[4])) {
		return 0, 0
	}
	sign := 1.0
	if s[0] == '-' {
		sign = -1
	}
	switch strings.ToLower(s[1:4]) {
	case "inf":
		return math.Inf(int(sign)), 4
	case "nan":
		return math.Copysign(math.NaN(), sign), 4
	}
	return 0, 0
}

// isSpace reports whether c is white space.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// toNumber returns the number at the beginning of s, or 0.
func toNumber(s string) float64 {
	if len(s) > maxNumber {
		s = s[:maxNumber]
	}
	if len(s) == 1 {
		if c := s[0] - '0'; c <= 9 {
			return float64(c)
		}
		return 0
	}
	i := 0
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	n, _ := scanNumber(s[i:])
	return n
}

// looksNumeric returns the value of s if it is a number with optional blanks around it.
func looksNumeric(s string) (float64, bool) {
	if len(s) > maxNumber {
		return 0, false
	}
	i, j := 0, len(s)
	for i < j && isSpace(s[i]) {
		i++
	}
	for j > i && isSpace(s[j-1]) {
		j--
	}
	if i == j || s[i] > '9' {
		return 0, false
	}
	n, used := scanNumber(s[i:j])
	return n, used == j-i
}

// scanSourceNumber parses a number of a program's text, which may be hexadecimal or octal.
func scanSourceNumber(s string) (int, float64) {
	if len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && isHex(s[2]) {
		i, v := 2, 0.0
		for ; i < len(s) && isHex(s[i]); i++ {
			d, _ := strconv.ParseUint(s[i:i+1], 16, 8)
			v = v*16 + float64(d)
		}
		return i, v
	}
	if len(s) > 1 && s[0] == '0' && isDigit(s[1]) {
		i, v := 1, 0.0
		for ; i < len(s) && s[i] >= '0' && s[i] <= '7'; i++ {
			v = v*8 + float64(s[i]-'0')
		}
		if i == len(s) || !isDigit(s[i]) && s[i] != '.' && s[i]|0x20 != 'e' {
			return i, v
		}
	}
	v, n := scanNumber(s)
	return n, v
}

// unsafeString returns b as a string without copying it; the bytes must not change.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// arrayIndex returns the integer that s represents, if s is its canonical text.
func arrayIndex(s string) (int64, bool) {
	if len(s) == 0 || len(s) > 15 {
		return 0, false
	}
	i := 0
	if s[0] == '-' {
		i = 1
	}
	if i == len(s) || s[i] == '0' && len(s) > 1 {
		return 0, false
	}
	var n int64
	for ; i < len(s); i++ {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if s[0] == '-' {
		n = -n
	}
	return n, true
}
