package jq

import "math"

// unaryNative returns a native that applies f to its input.
func unaryNative(f func(float64) float64) native {
	return func(m *machine, in Value, _ []Value) (Value, error) {
		x, ok := toFloat(in)
		if !ok {
			return nil, m.notNumber(in)
		}
		return f(x), nil
	}
}

// binaryNative returns a native that applies f to its two arguments.
func binaryNative(f func(x, y float64) float64) native {
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

// predicateNative returns a native that reports whether f is true for its input.
func predicateNative(f func(float64) bool) native {
	return func(m *machine, in Value, _ []Value) (Value, error) {
		x, ok := toFloat(in)
		if !ok {
			return nil, m.notNumber(in)
		}
		return f(x), nil
	}
}

// notNumber returns the error for a value that must be a number.
func (m *machine) notNumber(v Value) error {
	return failf("%s number required", m.kindAndText(v))
}

// mathTable has the functions of C's math library.
var mathTable = map[string]native{
	"floor/0": unaryNative(math.Floor), "ceil/0": unaryNative(math.Ceil), "round/0": unaryNative(math.Round), "trunc/0": unaryNative(math.Trunc),
	"rint/0": unaryNative(math.RoundToEven), "nearbyint/0": unaryNative(math.RoundToEven), "fabs/0": unaryNative(math.Abs),
	"sqrt/0": unaryNative(math.Sqrt), "cbrt/0": unaryNative(math.Cbrt),
	"exp/0": unaryNative(math.Exp), "exp2/0": unaryNative(math.Exp2), "exp10/0": unaryNative(exp10), "pow10/0": unaryNative(exp10), "expm1/0": unaryNative(math.Expm1),
	"log/0": unaryNative(math.Log), "log2/0": unaryNative(math.Log2), "log10/0": unaryNative(math.Log10), "log1p/0": unaryNative(math.Log1p),
	"sin/0": unaryNative(math.Sin), "cos/0": unaryNative(math.Cos), "tan/0": unaryNative(math.Tan),
	"asin/0": unaryNative(math.Asin), "acos/0": unaryNative(math.Acos), "atan/0": unaryNative(math.Atan),
	"sinh/0": unaryNative(math.Sinh), "cosh/0": unaryNative(math.Cosh), "tanh/0": unaryNative(math.Tanh),
	"asinh/0": unaryNative(math.Asinh), "acosh/0": unaryNative(math.Acosh), "atanh/0": unaryNative(math.Atanh),
	"gamma/0": unaryNative(lgamma), "lgamma/0": unaryNative(lgamma), "tgamma/0": unaryNative(math.Gamma),
	"erf/0": unaryNative(math.Erf), "erfc/0": unaryNative(math.Erfc),
	"j0/0": unaryNative(math.J0), "j1/0": unaryNative(math.J1), "y0/0": unaryNative(math.Y0), "y1/0": unaryNative(math.Y1),
	"logb/0": unaryNative(math.Logb), "significand/0": unaryNative(significand),

	"pow/2": binaryNative(math.Pow), "atan2/2": binaryNative(math.Atan2), "fmod/2": binaryNative(math.Mod), "hypot/2": binaryNative(math.Hypot),
	"fmin/2": binaryNative(fmin), "fmax/2": binaryNative(fmax), "fdim/2": binaryNative(math.Dim), "copysign/2": binaryNative(math.Copysign),
	"drem/2": binaryNative(math.Remainder), "remainder/2": binaryNative(math.Remainder),
	"nextafter/2": binaryNative(math.Nextafter), "nexttoward/2": binaryNative(math.Nextafter),
	"ldexp/2": binaryNative(ldexp), "scalb/2": binaryNative(ldexp), "scalbln/2": binaryNative(ldexp),
	"jn/2": binaryNative(func(n, x float64) float64 { return math.Jn(int(toInt64(n)), x) }),
	"yn/2": binaryNative(func(n, x float64) float64 { return math.Yn(int(toInt64(n)), x) }),

	"fma/3": fma, "frexp/0": frexp, "modf/0": modf, "lgamma_r/0": lgammaSign,

	"isnan/0": predicateNative(math.IsNaN), "isinfinite/0": predicateNative(func(x float64) bool { return math.IsInf(x, 0) }), "isnormal/0": predicateNative(isNormal),
	"isfinite/0": func(_ *machine, in Value, _ []Value) (Value, error) {
		x, ok := toFloat(in)
		return ok && !math.IsInf(x, 0), nil
	},
	"infinite/0": constantNative(math.Inf(1)), "nan/0": constantNative(math.NaN()),
}

// exp10 returns 10 to the power of x; it is exact for integers.
func exp10(x float64) float64 {
	if x == math.Trunc(x) && math.Abs(x) < 400 {
		return math.Pow10(int(x))
	}
	return math.Pow(10, x)
}

// lgamma returns the logarithm of the absolute value of Γ(x).
func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// significand returns the significand of x, between 1 and 2.
func significand(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	frac, _ := math.Frexp(x)
	return 2 * frac
}

// ldexp returns x times 2 to the power of n.
func ldexp(x, n float64) float64 {
	return math.Ldexp(x, int(max(-5000, min(5000, toInt64(n)))))
}

// fmin returns the lesser number; nan counts as missing.
func fmin(x, y float64) float64 {
	switch {
	case math.IsNaN(x):
		return y
	case math.IsNaN(y):
		return x
	}
	return math.Min(x, y)
}

// fmax returns the greater number; nan counts as missing.
func fmax(x, y float64) float64 { return -fmin(-x, -y) }

// isNormal reports whether x is a normal floating-point number.
func isNormal(x float64) bool {
	return x != 0 && !math.IsNaN(x) && !math.IsInf(x, 0) && math.Abs(x) >= 0x1p-1022
}

// fma implements fma/3.
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

// frexp implements frexp/0.
func frexp(m *machine, in Value, _ []Value) (Value, error) {
	x, ok := toFloat(in)
	if !ok {
		return nil, m.notNumber(in)
	}
	frac, exp := math.Frexp(x)
	return NewArray(frac, float64(exp)), nil
}

// modf implements modf/0.
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

// lgammaSign implements lgamma_r/0.
func lgammaSign(m *machine, in Value, _ []Value) (Value, error) {
	x, ok := toFloat(in)
	if !ok {
		return nil, m.notNumber(in)
	}
	v, sign := math.Lgamma(x)
	return NewArray(v, float64(sign)), nil
}
