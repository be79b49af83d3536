package jq

import (
	"math"
	"strconv"
	"strings"
)

// Number is a number of the input whose text a float64 doesn't reproduce: 100000000000000000001 or
// 1.10. It keeps its text until it is an operand of arithmetic.
type Number struct {
	f    float64
	text string // in canonical form
}

// Float returns the nearest float64.
func (n *Number) Float() float64 { return n.f }

// String returns the decimal text.
func (n *Number) String() string { return n.text }

// toFloat returns the float64 of a number, and reports whether v is a number.
func toFloat(v Value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case *Number:
		return v.f, true
	}
	return 0, false
}

// parseNumber parses the text of a JSON number; it also accepts +1, .5 and 5.
func parseNumber(s string) (Value, bool) {
	if f, ok := smallInt(s); ok {
		return f, true
	}
	d, ok := parseDecimal(s)
	if !ok {
		return nil, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) && f != 0 {
		return nil, false
	}
	text := d.String()
	if !math.IsInf(f, 0) && text == FormatNumber(f) {
		return f, true
	}
	return &Number{f: f, text: text}, true
}

// smallInt parses integers of up to 15 digits; it is the fast path of parseNumber.
func smallInt(s string) (float64, bool) {
	t := s
	if t != "" && t[0] == '-' {
		t = t[1:]
	}
	if len(t) == 0 || len(t) > 15 || t[0] == '0' && (len(t) > 1 || len(s) > 1) {
		return 0, false
	}
	var n int64
	for i := range len(t) {
		c := t[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if len(t) < len(s) {
		n = -n
	}
	return float64(n), true
}

// FormatNumber returns the text of f as jq prints it.
func FormatNumber(f float64) string { return string(appendNumber(nil, f)) }

// appendNumber appends the text of f as jq prints it.
func appendNumber(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "null"...)
	case math.IsInf(f, 1):
		f = math.MaxFloat64
	case math.IsInf(f, -1):
		f = -math.MaxFloat64
	}
	if i := int64(f); float64(i) == f && i > -1e15 && i < 1e15 && (i != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(b, i, 10)
	}
	var tmp [32]byte
	e := strconv.AppendFloat(tmp[:0], f, 'e', -1, 64)
	if e[0] == '-' {
		b = append(b, '-')
		e = e[1:]
	}
	mant, exp, _ := strings.Cut(string(e), "e")
	digits := strings.Replace(mant, ".", "", 1)
	x, err := strconv.Atoi(exp)
	if err != nil {
		return append(b, e...)
	}
	point := x + 1 // number of digits before the point
	switch {
	case f == 0:
		return append(b, '0')
	case point <= -4 || point > len(digits)+15:
		b = append(b, mant...)
		return append(append(b, 'e'), exp...)
	case point <= 0:
		b = append(append(b, "0."...), strings.Repeat("0", -point)...)
		return append(b, digits...)
	case point >= len(digits):
		return append(append(b, digits...), strings.Repeat("0", point-len(digits))...)
	}
	return append(append(append(b, digits[:point]...), '.'), digits[point:]...)
}

// decimal is an exact decimal number: digits × 10^exp.
type decimal struct {
	neg    bool   // without leading zeros; "0" for zero
	digits string // without leading zeros; "0" for zero
	exp    int64
}

// parseDecimal parses a decimal number with an optional exponent.
func parseDecimal(s string) (decimal, bool) {
	var d decimal
	if s != "" && (s[0] == '-' || s[0] == '+') {
		d.neg = s[0] == '-'
		s = s[1:]
	}
	mant := s
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mant = s[:i]
		x, err := strconv.ParseInt(strings.TrimPrefix(s[i+1:], "+"), 10, 40)
		if err != nil || strings.HasPrefix(s[i+1:], "+-") {
			return d, false
		}
		d.exp = x
	}
	whole, frac, _ := strings.Cut(mant, ".")
	d.digits = whole + frac
	d.exp -= int64(len(frac))
	if d.digits == "" {
		return d, false
	}
	for i := range len(d.digits) {
		if d.digits[i]-'0' > 9 {
			return d, false
		}
	}
	d.digits = strings.TrimLeft(d.digits, "0")
	if d.digits == "" {
		d.digits = "0"
	}
	return d, true
}

// String returns the canonical text: scientific notation for large and very small numbers.
func (d decimal) String() string {
	sign := ""
	if d.neg {
		sign = "-"
	}
	n := int64(len(d.digits))
	adjusted := d.exp + n - 1
	switch {
	case d.exp == 0:
		return sign + d.digits
	case d.exp < 0 && adjusted >= -6:
		if -d.exp >= n {
			return sign + "0." + strings.Repeat("0", int(-d.exp-n)) + d.digits
		}
		return sign + d.digits[:n+d.exp] + "." + d.digits[n+d.exp:]
	}
	s := sign + d.digits[:1]
	if n > 1 {
		s += "." + d.digits[1:]
	}
	if adjusted >= 0 {
		return s + "E+" + strconv.FormatInt(adjusted, 10)
	}
	return s + "E" + strconv.FormatInt(adjusted, 10)
}

// compareNumbers compares two numbers; two that keep their texts are compared exactly.
func compareNumbers(a, b Value) int {
	x, ok := a.(*Number)
	y, ok2 := b.(*Number)
	if ok && ok2 {
		return compareDecimals(x.text, y.text)
	}
	f, _ := toFloat(a)
	g, _ := toFloat(b)
	switch {
	case f < g || math.IsNaN(f):
		return -1
	case f == g:
		return 0
	}
	return 1
}

// compareDecimals compares two decimal texts exactly.
func compareDecimals(s, t string) int {
	a, _ := parseDecimal(s)
	b, _ := parseDecimal(t)
	if c := a.sign() - b.sign(); c != 0 || a.sign() == 0 {
		return c
	}
	c := a.compareMagnitude(b)
	if a.neg {
		return -c
	}
	return c
}

// sign returns -1, 0 or 1.
func (d decimal) sign() int {
	switch {
	case d.digits == "0":
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// compareMagnitude compares the absolute values of d and e.
func (d decimal) compareMagnitude(e decimal) int {
	if x, y := d.exp+int64(len(d.digits)), e.exp+int64(len(e.digits)); x != y {
		if x < y {
			return -1
		}
		return 1
	}
	return strings.Compare(strings.TrimRight(d.digits, "0"), strings.TrimRight(e.digits, "0"))
}
