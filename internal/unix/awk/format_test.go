package awk

import (
	"math"
	"strconv"
	"testing"
)

// TestFormatDigits: a large precision only adds zeros.
func TestFormatDigits(t *testing.T) {
	for _, n := range []float64{0, 1, 0.1, 123456.789, math.MaxFloat64, math.SmallestNonzeroFloat64, 1 - math.SmallestNonzeroFloat64, math.Nextafter(1e-300, 1)} {
		for _, verb := range []byte{'e', 'f', 'x'} {
			for _, prec := range []int{-1, 0, 6, 1100, 1101, 2000} {
				if got, want := formatDigits(n, verb, prec), strconv.FormatFloat(n, verb, prec, 64); got != want {
					t.Errorf("%v %c %d: %s, want %s", n, verb, prec, got, want)
				}
			}
		}
	}
}
