package jq

import "math"

// one and both make natives of functions of numbers.
func one(f func(float64) float64) native {
	return func(m *machine, in Value, _ []Value) (Value, error) {
		x, ok := toFloat(in)
		if !ok {
			return nil, m.notNumber(in)
		}
		return f(x), nil
	}
}

func both(f func(x, y float64) float64) native {
	return func(m *machine, _ Value, args []Value) (Value, error) {
		x, ok := toFloat(args[0])
		if !ok {
			return nil, m.notNumber(args[0])
		}
		y, ok := toFloat(args[1])
		if !ok {
			return nil, m.notNumber(args[1])
		}
		return f(x, y), nil
	}
}

func test(f func(float64) bool) native {
	return func(m *machine, in Value, _ []Value) (Value, error) {
		x, ok := toFloat(in)
		if !ok {
			return nil, m.notNumber(in)
		}
		return f(x), nil
	}
}

func (m *machine) notNumber(v Value) error {
	return failf("%s number required", m.kindAndText(v))
}

// mathTable holds the functions of C's math library.
var mathTable = map[string]native{
	"floor/0": one(math.Floor), "ceil/0": one(math.Ceil), "round/0": one(math.Round), "trunc/0": one(math.Trunc),
	"rint/0": one(math.RoundToEven), "nearbyint/0": one(math.RoundToEven), "fabs/0": one(math.Abs),
	"sqrt/0": one(math.Sqrt), "cbrt/0": one(math.Cbrt),
	"exp/0": one(math.Exp), "exp2/0": one(math.Exp2), "exp10/0": one(exp10), "pow10/0": one(exp10), "expm1/0": one(math.Expm1),
	"log/0": one(math.Log), "log2/0": one(math.Log2), "log10/0": one(math.Log10), "log1p/0": one(math.Log1p),
	"sin/0": one(math.Sin), "cos/0": one(math.Cos), "tan/0": one(math.Tan),
	"asin/0": one(math.Asin), "acos/0": one(math.Acos), "atan/0": one(math.Atan),
	"sinh/0": one(math.Sinh), "cosh/0": one(math.Cosh), "tanh/0": one(math.Tanh),
	"asinh/0": one(math.Asinh), "acosh/0": one(math.Acosh), "atanh/0": one(math.Atanh),
	"gamma/0": one(lgamma), "lgamma/0": one(lgamma), "tgamma/0": one(math.Gamma),
	"erf/0": one(math.Erf), "erfc/0": one(math.Erfc),
	"j0/0": one(math.J0), "j1/0": one(math.J1), "y0/0": one(math.Y0), "y1/0": one(math.Y1),
	"logb/0": one(math.Logb), "significand/0": one(significand),

	"pow/2": both(math.Pow), "atan2/2": both(math.Atan2), "fmod/2": both(math.Mod), "hypot/2": both(math.Hypot),
	"fmin/2": both(fmin), "fmax/2": both(fmax), "fdim/2": both(math.Dim), "copysign/2": both(math.Copysign),
	"drem/2": both(math.Remainder), "remainder/2": both(math.Remainder),
	"nextafter/2": both(math.Nextafter), "nexttoward/2": both(math.Nextafter),
	"ldexp/2": both(ldexp), "scalb/2": both(ldexp), "scalbln/2": both(ldexp),
	"jn/2": both(func(n, x float64) float64 { return math.Jn(int(toInt64(n)), x) }),
	"yn/2": both(func(n, x float64) float64 { return math.Yn(int(toInt64(n)), x) }),

	"fma/3": fma, "frexp/0": frexp, "modf/0": modf, "lgamma_r/0": lgammaSign,

	"isnan/0": test(math.IsNaN), "isinfinite/0": test(func(x float64) bool { return math.IsInf(x, 0) }), "isnormal/0": test(isNormal),
	"isfinite/0": func(_ *machine, in Value, _ []Value) (Value, error) {
		x, ok := toFloat(in)
		return ok && !math.IsInf(x, 0), nil
	},
	"infinite/0": constantly(math.Inf(1)), "nan/0": constantly(math.NaN()),
}

func exp10(x float64) float64 {
	if x == math.Trunc(x) && math.Abs(x) < 400 {
		return math.Pow10(int(x))
	}
	return math.Pow(10, x)
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

func significand(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	frac, _ := math.Frexp(x)
	return 2 * frac
}

func ldexp(x, n float64) float64 {
	return math.Ldexp(x, int(max(-5000, min(5000, toInt64(n)))))
}

func fmin(x, y float64) float64 {
	switch {
	case math.IsNaN(x):
		return y
	case math.IsNaN(y):
		return x
	}
	return math.Min(x, y)
}

func fmax(x, y float64) float64 { return -fmin(-x, -y) }

func isNormal(x float64) bool {
	return x != 0 && !math.IsNaN(x) && !math.IsInf(x, 0) && math.Abs(x) >= 0x1p-1022
}

func fma(m *machine, _ Value, args []Value) (Value, error) {
	var f [3]float64
	for i, v := range args {
		x, ok := toFloat(v)
		if !ok {
			return nil, m.notNumber(v)
		}
		f[i] = x
	}
	return math.FMA(f[0], f[1], f[2]), nil
}

func frexp(m *machine, in Value, _ []Value) (Value, error) {
	x, ok := toFloat(in)
	if !ok {
		return nil, m.notNumber(in)
	}
	frac, exp := math.Frexp(x)
	return NewArray(frac, float64(exp)), nil
}

func modf(m *machine, in Value, _ []Value) (Value, error) {
	x, ok := toFloat(in)
	if !ok {
		return nil, m.notNumber(in)
	}
	if math.IsInf(x, 0) {
		return NewArray(math.Copysign(0, x), x), nil
	}
	whole, frac := math.Modf(x)
	return NewArray(math.Copysign(frac, x), whole), nil
}

func lgammaSign(m *machine, in Value, _ []Value) (Value, error) {
	x, ok := toFloat(in)
	if !ok {
		return nil, m.notNumber(in)
	}
	v, sign := math.Lgamma(x)
	return NewArray(v, float64(sign)), nil
}
