package awk

import "math"

// arithFunc returns the function of an arithmetic operator.
func (c *compiler) arithFunc(op kind) func(a, b float64) float64 {
	in, line := c.in, c.line
	switch op {
	case tPlus:
		return func(a, b float64) float64 { return a + b }
	case tMinus:
		return func(a, b float64) float64 { return a - b }
	case tMul:
		return func(a, b float64) float64 { return a * b }
	case tDiv:
		return func(a, b float64) float64 {
			if b == 0 {
				in.fatal(line, "division by zero attempted")
			}
			return a / b
		}
	case tMod:
		return func(a, b float64) float64 {
			if b == 0 {
				in.fatal(line, "division by zero attempted in `%%'")
			}
			return modulo(a, b)
		}
	case tPow:
		return power
	}
	return func(_, b float64) float64 { return b }
}

// modulo returns the remainder, with the sign of a.
func modulo(a, b float64) float64 {
	if x, y := int64(a), int64(b); float64(x) == a && float64(y) == b && x > 0 {
		return float64(x % y)
	}
	return math.Mod(a, b)
}

// power returns a to the power of b; it is exact for small integers.
func power(a, b float64) float64 {
	if b == math.Trunc(b) && b >= 0 && b <= 64 {
		r := 1.0
		for n := int(b); n > 0; n >>= 1 {
			if n&1 == 1 {
				r *= a
			}
			a *= a
		}
		return r
	}
	if whole, half := math.Modf(b); half == 0.5 && whole <= 64 && a >= 0 {
		return power(a, whole) * math.Sqrt(a) // more accurate than math.Pow
	}
	if a < 0 && b != math.Trunc(b) {
		return math.Copysign(math.NaN(), -1)
	}
	return math.Pow(a, b)
}

// compileBinary compiles an arithmetic operator or a comparison.
func (c *compiler) compileBinary(e *binaryExpr) numFn {
	switch e.op {
	case tPlus, tMinus, tMul, tDiv, tMod, tPow:
	default:
		f := c.compileCompare(e)
		return func() float64 { return boolNum(f()) }
	}
	l, r := c.compileNum(e.l), c.compileNum(e.r)
	switch e.op {
	case tPlus:
		return func() float64 { a := l(); return a + r() }
	case tMinus:
		return func() float64 { a := l(); return a - r() }
	case tMul:
		return func() float64 { a := l(); return a * r() }
	}
	op := c.arithFunc(e.op)
	return func() float64 { a := l(); return op(a, r()) }
}

// compileUnary compiles a unary operator.
func (c *compiler) compileUnary(e *unaryExpr) numFn {
	if e.op == tNot {
		f := c.compileCond(e.e)
		return func() float64 { return boolNum(!f()) }
	}
	f := c.compileNum(e.e)
	if e.op == tMinus {
		return func() float64 { return -f() }
	}
	return f
}

// compileIncrement compiles ++ and --.
func (c *compiler) compileIncrement(e *incExpr) numFn {
	in := c.in
	delta, back := e.delta, 0.0
	if e.post {
		back = e.delta
	}
	ptr, after := c.compilePointer(e.l)
	if ptr == nil {
		modify := c.compileModify(e.l)
		return func() float64 {
			v := modify(func(old value) value { return numValue(in.numOf(&old) + delta) })
			return v.asNumber() - back
		}
	}
	return func() float64 {
		p := ptr()
		if p.k == number && after == nil {
			p.n += delta
			return p.n - back
		}
		n := in.numOf(p)
		in.charge(-int64(len(p.s)))
		*p = numValue(n + delta)
		if after != nil {
			after()
		}
		return n + delta - back
	}
}
