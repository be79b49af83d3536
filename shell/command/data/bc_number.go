package data

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// bcNum is a number of bc and dc: v / 10^scale. It is immutable.
type bcNum struct {
	v     *big.Int
	scale int
}

// maxDigits is the largest number of digits: one operation on a longer number would take too long.
const maxDigits = 100_000

// calcError is an error of a computation, in the words of GNU bc.
type calcError string

func (e calcError) Error() string { return string(e) }

const (
	errDivideByZero = calcError("Divide by zero")
	errModuloByZero = calcError("Modulo by zero")
	errNegativeRoot = calcError("Square root of a negative number")
	errTooManyDigit = calcError("number too large")
	errBigExponent  = calcError("exponent too large in raise")
)

var bigTen = big.NewInt(10)

func newNum(n int64) bcNum { return bcNum{v: big.NewInt(n)} }

// powerOfTen returns 10^n.
func powerOfTen(n int) *big.Int { return new(big.Int).Exp(bigTen, big.NewInt(int64(n)), nil) }

// calculator does arithmetic and charges it to a process.
type calculator struct {
	p *kernel.Proc
}

// chargeWork charges the cost of an operation on numbers of that many bits. It returns an error for
// numbers that are too long.
func (c calculator) chargeWork(bits int) error {
	if bits > maxDigits*4 {
		return errTooManyDigit
	}
	c.p.Tick(1 + bits>>8 + (bits>>10)*(bits>>10)>>4)
	return nil
}

// rescale returns d with another scale; excess digits are truncated.
func (d bcNum) rescale(scale int) bcNum {
	switch {
	case scale > d.scale:
		return bcNum{new(big.Int).Mul(d.v, powerOfTen(scale-d.scale)), scale}
	case scale < d.scale:
		return bcNum{new(big.Int).Quo(d.v, powerOfTen(d.scale-scale)), scale}
	}
	return d
}

func (d bcNum) sign() int { return d.v.Sign() }

func (d bcNum) neg() bcNum { return bcNum{new(big.Int).Neg(d.v), d.scale} }

// compare returns -1, 0 or 1 as a is less than, equal to or greater than b.
func (c calculator) compare(a, b bcNum) (int, error) {
	if err := c.chargeWork(a.v.BitLen() + b.v.BitLen() + 4*(a.scale+b.scale)); err != nil {
		return 0, err
	}
	s := max(a.scale, b.scale)
	return a.rescale(s).v.Cmp(b.rescale(s).v), nil
}

func (c calculator) add(a, b bcNum) (bcNum, error) {
	if err := c.chargeWork(a.v.BitLen() + b.v.BitLen() + 4*(a.scale+b.scale)); err != nil {
		return a, err
	}
	s := max(a.scale, b.scale)
	return bcNum{new(big.Int).Add(a.rescale(s).v, b.rescale(s).v), s}, nil
}

func (c calculator) mul(a, b bcNum, scale int) (bcNum, error) {
	if err := c.chargeWork(a.v.BitLen() + b.v.BitLen()); err != nil {
		return a, err
	}
	r := bcNum{new(big.Int).Mul(a.v, b.v), a.scale + b.scale}
	return r.rescale(min(r.scale, max(scale, a.scale, b.scale))), nil
}

// div returns a/b with scale decimals, truncated.
func (c calculator) div(a, b bcNum, scale int) (bcNum, error) {
	if b.sign() == 0 {
		return a, errDivideByZero
	}
	if err := c.chargeWork(a.v.BitLen() + b.v.BitLen() + 4*(scale+b.scale)); err != nil {
		return a, err
	}
	// a/b with scale digits: a.v * 10^(scale + b.scale - a.scale) / b.v
	n := new(big.Int).Set(a.v)
	den := b.v
	if e := scale + b.scale - a.scale; e >= 0 {
		n.Mul(n, powerOfTen(e))
	} else {
		den = new(big.Int).Mul(den, powerOfTen(-e))
	}
	return bcNum{n.Quo(n, den), scale}, nil
}

// mod returns the remainder of a/b with scale decimals.
func (c calculator) mod(a, b bcNum, scale int) (bcNum, error) {
	if b.sign() == 0 {
		return a, errModuloByZero
	}
	q, err := c.div(a, b, scale)
	if err != nil {
		return a, err
	}
	s := max(a.scale, b.scale+scale)
	m, err := c.mul(q, b, s)
	if err != nil {
		return a, err
	}
	r, err := c.add(a, m.neg())
	return r.rescale(s), err
}

// raiseTo returns a to the power of the integer part of b.
func (c calculator) raiseTo(a, b bcNum, scale int) (bcNum, error) {
	e := b.rescale(0).v
	if !e.IsInt64() || e.Int64() > 1<<31 || e.Int64() < -1<<31 {
		return a, errBigExponent
	}
	n := int(e.Int64())
	neg := n < 0
	if neg {
		n = -n
	}
	if n == 0 {
		return newNum(1), nil
	}
	if size := a.v.BitLen() * n; a.v.BitLen() > 1 && (size/n != a.v.BitLen() || size > maxDigits*4) || a.scale > 0 && a.scale > 4*maxDigits/n {
		return a, errTooManyDigit
	}
	if err := c.chargeWork(a.v.BitLen() * n); err != nil {
		return a, err
	}
	r := bcNum{new(big.Int).Exp(a.v, big.NewInt(int64(n)), nil), a.scale * n}
	if neg {
		return c.div(newNum(1), r, scale)
	}
	return r.rescale(min(r.scale, max(scale, a.scale))), nil
}

// sqrt returns the square root with at least the scale of a.
func (c calculator) sqrt(a bcNum, scale int) (bcNum, error) {
	if a.sign() < 0 {
		return a, errNegativeRoot
	}
	if a.sign() == 0 {
		return newNum(0), nil
	}
	if one, err := c.compare(a, newNum(1)); err != nil || one == 0 {
		return newNum(1), err
	}
	s := max(scale, a.scale)
	if err := c.chargeWork(a.v.BitLen() + 8*s); err != nil {
		return a, err
	}
	n := a.rescale(2 * s).v
	return bcNum{new(big.Int).Sqrt(n), s}, nil
}

// countDigits returns the number of significant digits of d.
func (d bcNum) countDigits() int {
	if d.sign() == 0 {
		return max(1, d.scale)
	}
	return max(len(new(big.Int).Abs(d.v).String()), d.scale)
}

// digitValue returns the value of a digit, or -1 for another character.
func digitValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'Z':
		return int(c-'A') + 10
	}
	return -1
}

// parseNum parses digits with a point in a base. A single digit has its own value; in a longer number
// a digit not below the base counts as the highest one.
func parseNum(s string, base int) bcNum {
	whole, frac, _ := strings.Cut(s, ".")
	if len(s) == 1 && s != "." {
		return newNum(int64(digitValue(s[0])))
	}
	clamp := func(c byte) byte {
		v := min(digitValue(c), base-1)
		if v < 10 {
			return byte('0' + v)
		}
		return byte('a' + v - 10)
	}
	digits := make([]byte, 0, len(s))
	for i := range len(whole) {
		digits = append(digits, clamp(whole[i]))
	}
	for i := range len(frac) {
		digits = append(digits, clamp(frac[i]))
	}
	if len(digits) == 0 {
		return newNum(0)
	}
	v, ok := new(big.Int).SetString(string(digits), base)
	if !ok {
		return newNum(0)
	}
	if base != 10 && frac != "" {
		v.Mul(v, powerOfTen(len(frac)))
		v.Quo(v, new(big.Int).Exp(big.NewInt(int64(base)), big.NewInt(int64(len(frac))), nil))
	}
	return bcNum{v, len(frac)}
}

// formatNumber returns d in a base. The digits of bases above 16 are decimal numbers.
func (c calculator) formatNumber(d bcNum, base int) (string, error) {
	if err := c.chargeWork(2*d.v.BitLen() + 8*d.scale); err != nil {
		return "", err
	}
	if base == 10 || d.sign() == 0 {
		return d.String(), nil
	}
	var b strings.Builder
	abs := new(big.Int).Abs(d.v)
	whole, frac := new(big.Int).QuoRem(abs, powerOfTen(d.scale), new(big.Int))
	if d.sign() < 0 {
		b.WriteByte('-')
	}
	c.formatWhole(&b, whole, base)
	if d.scale > 0 {
		c.formatFraction(&b, frac, base, d.scale)
	}
	return b.String(), nil
}

func (c calculator) formatWhole(b *strings.Builder, whole *big.Int, base int) {
	if whole.Sign() == 0 {
		return
	}
	if base <= 16 {
		b.WriteString(strings.ToUpper(whole.Text(base)))
		return
	}
	var digits []int64
	rest, m, bb := new(big.Int).Set(whole), new(big.Int), big.NewInt(int64(base))
	for rest.Sign() > 0 {
		c.p.Tick(1 + rest.BitLen()>>6)
		rest.QuoRem(rest, bb, m)
		digits = append(digits, m.Int64())
	}
	for i := len(digits) - 1; i >= 0; i-- {
		b.WriteByte(' ')
		b.WriteString(padZeros(strconv.Itoa(int(digits[i])), len(strconv.Itoa(base-1))))
	}
}

func (c calculator) formatFraction(b *strings.Builder, frac *big.Int, base, scale int) {
	b.WriteByte('.')
	unit := powerOfTen(scale)
	bb, reach := big.NewInt(int64(base)), big.NewInt(1)
	f := new(big.Int).Set(frac)
	digit := new(big.Int)
	for first := true; reach.Cmp(unit) < 0; first = false {
		c.p.Tick(1 + unit.BitLen()>>6)
		f.Mul(f, bb)
		digit.QuoRem(f, unit, f)
		reach.Mul(reach, bb)
		if base <= 16 {
			b.WriteByte("0123456789ABCDEF"[digit.Int64()])
			continue
		}
		if !first {
			b.WriteByte(' ')
		}
		b.WriteString(padZeros(digit.String(), len(strconv.Itoa(base-1))))
	}
}

// String returns d in decimal, without a zero before the point.
func (d bcNum) String() string {
	if d.sign() == 0 {
		return "0"
	}
	s := new(big.Int).Abs(d.v).String()
	if d.scale > 0 {
		if len(s) < d.scale {
			s = strings.Repeat("0", d.scale-len(s)) + s
		}
		s = s[:len(s)-d.scale] + "." + s[len(s)-d.scale:]
	}
	if d.sign() < 0 {
		return "-" + s
	}
	return s
}

// toInt returns the integer part of d, and whether it fits.
func (d bcNum) toInt() (int, bool) {
	v := d.rescale(0).v
	return int(v.Int64()), v.IsInt64()
}
