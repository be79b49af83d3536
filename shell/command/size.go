package command

import (
	"math"
	"strconv"
	"strings"
)

// sizeFault says why a size can't be read.
type sizeFault int

const (
	sizeFine sizeFault = iota
	sizeBad
	sizeHuge // the value is then the largest there is
)

// multipliers are what suffixes of sizes stand for, as powers; K is 1.
var multipliers = map[byte]int{'k': 1, 'K': 1, 'm': 2, 'M': 2, 'g': 3, 'G': 3, 't': 4, 'T': 4, 'P': 5, 'E': 6, 'Z': 7, 'Y': 8, 'R': 9, 'Q': 10}

// parseSize reads a decimal number with a suffix of those given: b is 512,
// c one byte, w two, K 1024; after the letters of powers B makes them powers
// of 1000 when the suffixes hold a 0. A suffix alone counts once.
func parseSize(s, suffixes string) (int64, sizeFault) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if len(s) > 1 && s[0] == '+' {
		s = s[1:]
	}
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, fault := int64(1), sizeFine
	switch {
	case end > 0:
		v, err := strconv.ParseInt(s[:end], 10, 64)
		if err != nil {
			fault = sizeHuge
		}
		n = v
	case s == "" || !strings.Contains(suffixes, s[:1]):
		return 0, sizeBad
	}
	unit, ok := suffixValue(s[end:], suffixes)
	switch {
	case !ok:
		return 0, sizeBad
	case fault == sizeHuge || unit < 0 && n > 0 || unit > 0 && n > math.MaxInt64/unit:
		return math.MaxInt64, sizeHuge
	case unit < 0:
		return 0, sizeFine
	}
	return n * unit, sizeFine
}

// suffixValue returns what a suffix multiplies by, -1 for more than fits.
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

// humanSize writes a size as ls -h and du -h do: at most three digits and a
// letter, rounded up.
func humanSize(n int64, base int64) string {
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

// inUnits returns n in units, rounded up.
func inUnits(n, unit int64) int64 {
	return n/unit + b2i(n%unit != 0)
}

// unitSuffix returns what -B UNIT puts behind each number: the unit, where it
// was given without a count.
func unitSuffix(unit string) string {
	if unit == "" || unit[0] >= '0' && unit[0] <= '9' {
		return ""
	}
	if unit == "k" {
		return "K"
	}
	return unit
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
