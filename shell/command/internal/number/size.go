// Package number parses, rounds and prints sizes and numbers as the GNU tools do.
package number

import (
	"math"
	"strconv"
	"strings"
)

// Fault is the result of parsing a size.
type Fault int

const (
	Valid Fault = iota
	Invalid
	TooLarge // the value is math.MaxInt64
)

// multipliers maps suffixes of sizes to powers of 1024 or 1000.
var multipliers = map[byte]int{'k': 1, 'K': 1, 'm': 2, 'M': 2, 'g': 3, 'G': 3, 't': 4, 'T': 4, 'P': 5, 'E': 6, 'Z': 7, 'Y': 8, 'R': 9, 'Q': 10}

// ParseSize parses a decimal number with one of the given suffixes: b is 512, c 1, w 2, B and K are
// 1024, M 1024² and so on. If suffixes contains 0, B after a letter means powers of 1000. A suffix
// without a number means one unit.
func ParseSize(s, suffixes string) (int64, Fault) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if len(s) > 1 && s[0] == '+' {
		s = s[1:]
	}
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, fault := int64(1), Valid
	switch {
	case end > 0:
		v, err := strconv.ParseInt(s[:end], 10, 64)
		if err != nil {
			fault = TooLarge
		}
		n = v
	case s == "" || !strings.Contains(suffixes, s[:1]):
		return 0, Invalid
	}
	unit, ok := suffixValue(s[end:], suffixes)
	switch {
	case !ok:
		return 0, Invalid
	case fault == TooLarge || unit < 0 && n > 0 || unit > 0 && n > math.MaxInt64/unit:
		return math.MaxInt64, TooLarge
	case unit < 0:
		return 0, Valid
	}
	return n * unit, Valid
}

// suffixValue returns the factor of a suffix, or -1 if it overflows.
func suffixValue(s, suffixes string) (int64, bool) {
	if s == "" {
		return 1, true
	}
	if s[0] == '0' || !strings.Contains(suffixes, s[:1]) {
		return 0, false
	}
	switch s {
	case "b":
		return 512, true
	case "c":
		return 1, true
	case "w":
		return 2, true
	case "B":
		return 1024, true
	}
	base := int64(1024)
	switch tail := s[1:]; {
	case tail == "":
	case strings.Contains(suffixes, "0") && (tail == "B" || tail == "D"):
		base = 1000
	case strings.Contains(suffixes, "0") && tail == "iB":
	default:
		return 0, false
	}
	power, ok := multipliers[s[0]]
	if !ok {
		return 0, false
	}
	v := int64(1)
	for range power {
		if v > math.MaxInt64/base {
			return -1, true
		}
		v *= base
	}
	return v, true
}

// FormatHuman formats a size like ls -h and du -h: at most three digits and a letter, rounded up. base
// is 1024 or 1000.
func FormatHuman(n int64, base int64) string {
	if n < base {
		return strconv.FormatInt(n, 10)
	}
	letters := "KMGTPE"
	if base == 1000 {
		letters = "kMGTPE"
	}
	unit, i := base, 0
	for i < len(letters)-1 && n/base >= unit {
		unit *= base
		i++
	}
	for {
		whole, rest := n/unit, n%unit
		if whole < 10 {
			tenths := whole*10 + (rest*10+unit-1)/unit
			if tenths < 100 {
				return strconv.FormatInt(tenths/10, 10) + "." + strconv.FormatInt(tenths%10, 10) + letters[i:i+1]
			}
			whole, rest = 10, 0
		}
		if rest > 0 {
			whole++
		}
		if whole < base || i == len(letters)-1 {
			return strconv.FormatInt(whole, 10) + letters[i:i+1]
		}
		n, unit = unit*base, unit*base
		i++
	}
}

// DivideUp returns n divided by unit, rounded up.
func DivideUp(n, unit int64) int64 {
	return n/unit + FromBool(n%unit != 0)
}

// UnitSuffix returns the suffix that -B UNIT adds to each number: the unit, if it was given without a
// count.
func UnitSuffix(unit string) string {
	if unit == "" || unit[0] >= '0' && unit[0] <= '9' {
		return ""
	}
	if unit == "k" {
		return "K"
	}
	return unit
}

// FromBool returns 1 for true and 0 for false.
func FromBool(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Pad pads s with blanks on the left to a width, or on the right if width is negative.
func Pad(s string, width int) string {
	switch {
	case width > 0:
		return strings.Repeat(" ", max(0, width-len(s))) + s
	case width < 0:
		return s + strings.Repeat(" ", max(0, -width-len(s)))
	}
	return s
}
