package data

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var odNames = strings.Fields("nul soh stx etx eot enq ack bel bs ht nl vt ff cr so si dle dc1 dc2 dc3 dc4 nak syn etb can em sub esc fs gs rs us sp")

// odCharName returns the name of a character.
func odCharName(c byte) string {
	switch {
	case int(c) < len(odNames):
		return odNames[c]
	case c == 0x7f:
		return "del"
	}
	return string(rune(c))
}

// formatOdChar returns a character, its C escape or its octal value.
func formatOdChar(c byte) string {
	if i := strings.IndexByte("\x00\a\b\t\n\v\f\r", c); i >= 0 {
		return `\` + "0abtnvfr"[i:i+1]
	}
	if c < ' ' || c > '~' {
		return fmt.Sprintf("%03o", c)
	}
	return string(rune(c))
}

// formatOdFloat returns the shortest text of a float, in the style of %g, that parses to the same value.
func formatOdFloat(v uint64, size int) string {
	f, bits, low, high := math.Float64frombits(v), 64, 15, 17
	if size == 4 {
		f, bits, low, high = float64(math.Float32frombits(uint32(v))), 32, 6, 9
	}
	switch {
	case math.IsNaN(f) && math.Signbit(f):
		return "-nan"
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	}
	if a := math.Abs(f); a < 0x1p-1022 || size == 4 && a < 0x1p-126 {
		low = 1
	}
	for p := low; ; p++ {
		s := strconv.FormatFloat(f, 'g', p, bits)
		if g, err := strconv.ParseFloat(s, bits); p == high || err == nil && g == f {
			return s
		}
	}
}
